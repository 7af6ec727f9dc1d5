//! `isobar man`: the manual pages, from the definitions of the verbs and the tables here.

mod sections;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, Result};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use super::Cli;
use super::exit::{Code, Misused};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The verb whose page is printed, such as status, or config check [default: the page of isobar].
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
    /// Write this page and one for each verb into a directory.
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    if let Some(dir) = &args.dir {
        let failed = || format!("cannot write manual pages to {}", dir.display());
        write_all(&command, &[], dir).with_context(failed)?;
        return Ok(Code::Ok);
    }
    let mut found = &command;
    for verb in &args.verb {
        let unknown = || Misused(format!("no page for {verb:?}; see `isobar --help`"));
        found = found.find_subcommand(verb).ok_or_else(unknown)?;
    }
    let path: Vec<_> = args.verb.iter().map(String::as_str).collect();
    io::stdout().write_all(&page(found, &path)?)?;
    Ok(Code::Ok)
}

/// The page of a verb, named by `path`, and those of the verbs below it.
fn write_all(command: &Command, path: &[&str], dir: &Path) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_all(verb, &[path, &[verb.get_name()]].concat(), dir)?;
    }
    let file = dir.join(Man::new(command.clone()).get_filename());
    fs::write(file, page(command, path)?)
}

fn page(command: &Command, path: &[&str]) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).manual("isobar");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    sections::write(&mut page, command, path)?;
    Ok(page)
}
