//! `isobar sysdump`: one archive with what a bug report needs, without names unless they are asked
//! for. A part that cannot be had is named in it, and does not fail the rest.

mod archive;
mod parts;

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow, bail};
use isobar::agent::RECORDING_DIR;
use isobar::clock;
use isobar::record::incident::redact::{Names, redact};
use isobar::record::incident::shelf::{Draft, Shelf};
use isobar::record::incident::words::clock as printed;
use isobar::record::incident::{Incident, State};
use isobar_core::view::API_VERSION;
use serde::Deserialize;
use serde_json::{Value, json};

use self::archive::Archive;
use super::elsewhere::document;
use super::exit::{Code, Misused, Refused};
use super::incidents::shelf_of;
use super::output::say;
use super::{ask, doctor, new_file, version};

/// Standard output, as a name of a file.
const OUT: &str = "-";
/// Incidents that are taken along by default.
const INCIDENTS: usize = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The archive to make, such as node.tar.zst, which must not exist; `-` is standard output.
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    /// Keep names of nodes, pods, services and cgroups, and the kernel's whole command line.
    #[arg(long)]
    no_redact: bool,
    /// Incidents to take along, the newest first.
    #[arg(long, value_name = "N", default_value_t = INCIDENTS)]
    incidents: usize,
    /// The recording directory, or the recording, of `isobar run --record`.
    #[arg(short = 'f', long, visible_alias = "file", value_name = "DIR|FILE", default_value = RECORDING_DIR, env = "ISOBAR_RECORD")]
    dir: PathBuf,
    #[command(flatten)]
    ask: ask::AgentArgs,
}

pub(crate) fn run(args: &Args, sampling: &[String]) -> Result<Code> {
    if args.ask.is_elsewhere() {
        let text = "a sysdump has files of this machine: run it on the node, without --node";
        bail!(Refused(text.into()));
    }
    if args.archive == Path::new(OUT) {
        let stdout = io::stdout();
        if stdout.is_terminal() {
            bail!(Misused("the archive is no text: `isobar sysdump - > node.tar.zst`".into()));
        }
        fill(stdout.as_fd().try_clone_to_owned()?.into(), args, sampling)?;
        return Ok(Code::Ok);
    }
    new_file::write(&args.archive, |file| fill(file.try_clone()?, args, sampling))?;
    say(args.archive.display());
    Ok(Code::Ok)
}

fn fill(file: File, args: &Args, sampling: &[String]) -> Result<()> {
    let mut archive = Archive::begin(file)?;
    archive.text("README.txt", &about(args))?;
    archive.json("version.json", &version::document())?;
    let mut diagnosis = doctor::document(&args.ask, sampling)?;
    let mut config = args.ask.settings();
    if !args.no_redact {
        parts::redact_diagnosis(&mut diagnosis);
        // An error quotes the file.
        let refused =
            |_| anyhow!("there is none, or it has errors: `isobar config check` tells them");
        let redacted = |settings| Names::default().of(&settings).map_err(Error::from);
        config = config.map_err(refused).and_then(redacted);
    }
    archive.json("doctor.json", &diagnosis)?;
    archive.had("config.json", config)?;
    for (name, found) in parts::kernel(args.no_redact) {
        match found {
            Ok(text) => archive.text(&format!("kernel/{name}"), &text)?,
            Err(why) => archive.lacks(&format!("kernel/{name}"), &why),
        }
    }
    let taken = incidents(args, &mut archive)?;
    archive.json("incidents.json", &taken)?;
    Ok(archive.end()?)
}

fn about(args: &Args) -> String {
    let names = match args.no_redact {
        true => {
            "Names of nodes, pods, services and cgroups are in it: look at it before you give it \
             away."
        }
        false => {
            "Names of nodes, pods, services and cgroups, labels, annotations and paths were \
             replaced, each incident by itself, and uids and container ids. Figures and the \
             kernel's version were not."
        }
    };
    let now = printed(clock::now().wall);
    format!(
        "Made by isobar {} at {now}.\n{names}\n\n\
         version.json    the version of isobar\n\
         doctor.json     what `isobar doctor` finds\n\
         config.json     the configuration in the form that isobar judges by\n\
         kernel/         what the kernel says of itself and of memory, pressure and cgroups\n\
         incidents.json  the last incidents; their ticks are in incidents/, for `isobar replay`\n\
         problems.txt    what could not be had\n",
        version::VERSION
    )
}

/// Adds the newest incidents. What is told of them.
fn incidents(args: &Args, archive: &mut Archive) -> Result<Value> {
    let shelf = Shelf::in_dir(shelf_of(&args.dir));
    // Before the directory is read: an incident that begins meanwhile is in it.
    let of_agent = of_agent(args);
    let mut all = match shelf.list() {
        Ok(all) => {
            note_others(&of_agent.unwrap_or_default(), &all, archive);
            all
        }
        Err(why) if args.no_redact => {
            archive.lacks("incidents", &why);
            Vec::new()
        }
        Err(_) => {
            archive.lacks("incidents", "they cannot be listed");
            Vec::new()
        }
    };
    all.reverse();
    let mut taken = Vec::new();
    let over = all.into_iter().filter(|one| one.state == State::Frozen);
    for incident in over.take(args.incidents) {
        let name = incident.name.clone();
        match ticks(&shelf, incident, args.no_redact) {
            Ok((told, mut file)) => {
                // A redacted name may come twice.
                let path = format!("incidents/{:02}-{}.isobar", taken.len() + 1, told.name);
                archive.file(&path, &mut file)?;
                taken.push(told);
            }
            Err(why) if args.no_redact => archive.lacks(&name, &why),
            Err(_) => archive.lacks("an incident", "its ticks cannot be read"),
        }
    }
    Ok(json!({ "apiVersion": API_VERSION, "kind": "IncidentList", "incidents": taken }))
}

/// Says how many of the agent's incidents are not among `known` ones.
fn note_others(of_agent: &[Incident], known: &[Incident], archive: &mut Archive) {
    let is_known = |one: &&Incident| known.iter().any(|known| known.name == one.name);
    let n = of_agent.iter().filter(|one| !is_known(one)).count();
    if n > 0 {
        let why = "of the agent that answers are not in this directory: its recording is another \
                   one, which -f names, and so is its configuration, perhaps (--config)";
        archive.lacks("incidents", &format!("{n} {why}"));
    }
}

/// The incidents of the agent that answers; `None` if none does.
fn of_agent(args: &Args) -> Option<Vec<Incident>> {
    #[derive(Deserialize)]
    struct All {
        incidents: Vec<Incident>,
    }
    let place = args.ask.asked()?;
    let All { incidents } = document(&place, "/api/v1/incidents", "incidents").ok()?;
    Some(incidents)
}

/// The ticks of an incident, or a redacted copy of them, and what is told of it then.
fn ticks(shelf: &Shelf, incident: Incident, is_whole: bool) -> Result<(Incident, File)> {
    let from = shelf.open(&incident.name)?;
    if is_whole {
        return Ok((incident, from));
    }
    let copy = Draft::in_memory()?;
    let told = redact(from, copy.file.try_clone()?, &copy.path)?;
    let mut file = copy.file;
    io::Seek::rewind(&mut file)?;
    Ok((told, file))
}
