//! `isobar completion` and `isobar man`, generated from the definitions of the verbs.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::Cli;
use super::exit::Code;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    // Into memory first: the generator panics if its writer fails, as a closed pipe does.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "isobar", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Code::Ok)
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Write this page and one for each verb into a directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn man(args: &Man) -> Result<Code> {
    match &args.dir {
        Some(dir) => clap_mangen::generate_to(Cli::command(), dir)
            .with_context(|| format!("cannot write manual pages to {}", dir.display()))?,
        None => clap_mangen::Man::new(Cli::command()).render(&mut io::stdout())?,
    }
    Ok(Code::Ok)
}
