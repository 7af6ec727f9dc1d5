//! `isobar incidents`: what was kept of what went wrong.

mod elsewhere;
mod page;
mod print;

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, bail};
use clap::Subcommand;
use isobar::agent::RECORDING_DIR;
use isobar::clock;
use isobar::record::incident::freeze::{import, is_incident, tell};
use isobar::record::incident::redact::redact;
use isobar::record::incident::shelf::{Draft, Shelf, ShelfError};
use isobar::record::incident::{Incident, State};
use isobar::record::reader::Recording;
use isobar_core::view::API_VERSION;
use serde_json::json;

use super::at::IN_DIR;
use super::exit::{Code, Refused, text_of};
use super::input::{FileArg, is_recording};
use super::new_file;
use super::output::{Format, say};
use super::terminal::width;
use elsewhere::Elsewhere;

/// The incidents in a recording directory, and beside a recording that is a file.
const SHELF: &str = "incidents";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording directory, or the recording, of `isobar run --record` [default:
    /// /var/lib/isobar/recording].
    #[arg(long, global = true, value_name = "DIR|FILE", env = "ISOBAR_RECORD")]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List incidents, newest first.
    Ls {
        #[command(flatten)]
        elsewhere: Elsewhere,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Show what an incident came to.
    Show {
        /// Its name, or the beginning of it; `latest` is the newest.
        name: String,
        #[command(flatten)]
        elsewhere: Elsewhere,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Write an incident to one file, which `isobar replay` and `isobar status -f` read, or to a page.
    Export {
        /// Its name, or the beginning of it; `latest` is the newest.
        name: String,
        #[command(flatten)]
        elsewhere: Elsewhere,
        /// The file, - for standard output [default: NAME.isobar, redacted incident.isobar].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace names of nodes, pods, services and cgroups, labels, annotations and paths.
        #[arg(long)]
        redact: bool,
        /// Write a page for a browser, which needs neither isobar nor a network [default: NAME.html,
        /// redacted incident.html].
        #[arg(long)]
        html: bool,
    },
    /// Keep an incident that was exported elsewhere.
    Import {
        #[command(flatten)]
        file: FileArg,
    },
    /// Remove incidents.
    Rm {
        /// Their names, or the beginnings of them; `latest` is the newest.
        #[arg(required = true)]
        names: Vec<String>,
        /// The recording as other verbs take it, in place of --dir.
        #[arg(id = "recording", short = 'f', long = "file", value_name = "DIR|FILE")]
        file: Option<PathBuf>,
    },
}

impl Verb {
    /// The recording, where it is not named by --dir.
    fn file(&self) -> Option<&Path> {
        match self {
            Self::Ls { elsewhere, .. }
            | Self::Show { elsewhere, .. }
            | Self::Export { elsewhere, .. } => elsewhere.file.as_deref(),
            Self::Rm { file, .. } => file.as_deref(),
            Self::Import { .. } => None,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Code> {
    let named = args.verb.file().or(args.dir.as_deref());
    let dir = named.unwrap_or(Path::new(RECORDING_DIR));
    let shelf = Shelf::in_dir(shelf_of(dir));
    if let Some(named) = named.filter(|_| !matches!(args.verb, Verb::Import { .. })) {
        is_of_recording(named)?;
    }
    match &args.verb {
        Verb::Ls { elsewhere, output } => {
            let all = match elsewhere.place()? {
                // An hour of ticks takes seconds to read: what the agent has told is enough here.
                None => {
                    let all = shelf.list()?.into_iter();
                    all.map(|one| if one.ticks > 0 { one } else { told(&shelf, one, dir) })
                        .collect()
                }
                Some(place) => elsewhere::list(&place)?,
            };
            list(all, *output)?;
        }
        Verb::Show { name, elsewhere, output } => {
            let incident = match elsewhere.place()? {
                None => so_far(find(&shelf, name)?, dir),
                Some(place) => elsewhere::one(&place, &pick(elsewhere::list(&place)?, name)?.name)?,
            };
            show(&incident, *output)?;
        }
        Verb::Export { name, elsewhere, output, redact, html } => {
            let (incident, ticks) = match elsewhere.place()? {
                None => {
                    let incident = over(find(&shelf, name)?)?;
                    let ticks = shelf.open(&incident.name)?;
                    (incident, ticks)
                }
                Some(place) => {
                    let name = over(pick(elsewhere::list(&place)?, name)?)?.name;
                    (elsewhere::one(&place, &name)?, elsewhere::file(&place, &name)?)
                }
            };
            match html {
                true => export_page(ticks, incident, output.as_deref(), *redact)?,
                false => export(ticks, &incident, output.as_deref(), *redact)?,
            }
        }
        Verb::Import { file } => {
            let kept = import(file.path(), &shelf, clock::now().wall)?;
            writeln!(io::stdout(), "{}", kept.name)?;
        }
        Verb::Rm { names, .. } => {
            remove(&shelf, names)?;
        }
    }
    Ok(Code::Ok)
}

/// Where there is nothing, nothing was looked at.
fn is_of_recording(path: &Path) -> Result<()> {
    let shown = path.display();
    if !path.try_exists().unwrap_or(true) {
        bail!(Refused(format!(
            "{shown} does not exist: name the directory or the file that `isobar run --record` has"
        )));
    }
    if path.is_file() && !shelf_of(path).exists() && is_incident(path) {
        bail!(Refused(format!(
            "{shown} is the file of an incident, not a recording with incidents: \
             `isobar status -f {shown}` shows it, `isobar incidents import {shown}` keeps it"
        )));
    }
    if !shelf_of(path).exists() && !is_recording(path) {
        bail!(Refused(format!("{shown} is no recording")));
    }
    Ok(())
}

/// Removes all that it can; one that cannot be removed keeps no other.
fn remove(shelf: &Shelf, names: &[String]) -> Result<()> {
    let all = shelf.list()?;
    let one = |name: &String| match shelf.remove(name) {
        Err(ShelfError::Unknown(_)) => Ok(shelf.remove(&pick(all.clone(), name)?.name)?),
        removed => Ok(removed?),
    };
    let mut failed: Vec<Error> = names.iter().filter_map(|name| one(name).err()).collect();
    let last = failed.pop();
    failed.iter().for_each(|why| say(text_of(why)));
    last.map_or(Ok(()), Err)
}

pub(super) fn shelf_of(recording: &Path) -> PathBuf {
    if recording.is_file() {
        let mut shelf = recording.as_os_str().to_owned();
        shelf.push(format!(".{SHELF}"));
        return shelf.into();
    }
    recording.join(SHELF)
}

fn list(mut all: Vec<Incident>, output: Format) -> Result<()> {
    all.reverse();
    let document = json!({ "apiVersion": API_VERSION, "kind": "IncidentList", "incidents": all });
    output.print(&document, |out| Ok(print::list(out, &all, width())?))
}

/// What is known of an incident whose document does not tell of its ticks.
fn told(shelf: &Shelf, incident: Incident, recording: &Path) -> Incident {
    so_far(shelf.find(&incident.name).unwrap_or(incident), recording)
}

/// What the ticks of an open incident say so far; without them, what is known.
fn so_far(incident: Incident, recording: &Path) -> Incident {
    if incident.state != State::Open {
        return incident;
    }
    let file = if recording.is_file() { recording.into() } else { recording.join(IN_DIR) };
    tell(&file, incident.clone()).unwrap_or(incident)
}

fn show(incident: &Incident, output: Format) -> Result<()> {
    let document = json!({ "apiVersion": API_VERSION, "kind": "Incident", "incident": incident });
    output.print(&document, |out| Ok(print::one(out, incident, width())?))
}

fn find(shelf: &Shelf, name: &str) -> Result<Incident> {
    Ok(shelf.find(&pick(shelf.list()?, name)?.name)?)
}

/// By name, or by the beginning of only one name; `all` are oldest first.
fn pick(mut all: Vec<Incident>, name: &str) -> Result<Incident> {
    if name == "latest" {
        return all.pop().ok_or_else(|| Refused("there are no incidents".into()).into());
    }
    if let Some(exact) = all.iter().find(|one| one.name == name) {
        return Ok(exact.clone());
    }
    let mut begun = all.iter().filter(|one| !name.is_empty() && one.name.starts_with(name));
    match (begun.next(), begun.next()) {
        (Some(only), None) => Ok(only.clone()),
        (Some(_), Some(_)) => {
            bail!(Refused(format!("more than one incident begins with {name:?}")))
        }
        (None, _) => Err(ShelfError::Unknown(name.into()).into()),
    }
}

/// An incident that has a file of its own.
fn over(incident: Incident) -> Result<Incident> {
    if incident.state == State::Open {
        bail!(Refused(format!("{} is not over: export it once it is", incident.name)));
    }
    Ok(incident)
}

/// The page of an incident; of a redacted copy if it is given away.
fn export_page(
    from: File,
    incident: Incident,
    output: Option<&Path>,
    is_redacted: bool,
) -> Result<()> {
    let (incident, ticks) = match is_redacted {
        false => (incident, from),
        true => {
            let copy = Draft::in_memory()?;
            (redact(from, copy.file.try_clone()?, &copy.path)?, copy.file)
        }
    };
    let text = page::page(&incident, Recording::open_file(&ticks)?)?;
    if output == Some(Path::new("-")) {
        io::stdout().lock().write_all(text.as_bytes())?;
        return Ok(());
    }
    let usual =
        if is_redacted { "incident.html".into() } else { format!("{}.html", incident.name) };
    let to = output.map_or_else(|| PathBuf::from(usual), Path::to_owned);
    new_file::write(&to, |mut file| Ok(file.write_all(text.as_bytes())?))?;
    say(to.display());
    Ok(())
}

fn export(
    mut from: File,
    incident: &Incident,
    output: Option<&Path>,
    is_redacted: bool,
) -> Result<()> {
    if output == Some(Path::new("-")) {
        if is_redacted {
            bail!(Refused("a redacted incident goes to a file: name it with -o FILE".into()));
        }
        let mut out = io::stdout().lock();
        if out.is_terminal() {
            bail!(Refused(
                "an incident is no text: redirect it, or name a file with -o FILE".into()
            ));
        }
        io::copy(&mut from, &mut out)?;
        return Ok(());
    }
    let usual =
        if is_redacted { "incident.isobar".into() } else { format!("{}.isobar", incident.name) };
    let to = output.map_or_else(|| PathBuf::from(usual), Path::to_owned);
    new_file::write(&to, |mut file| {
        match is_redacted {
            true => drop(redact(from, file.try_clone()?, &to)?),
            false => drop(io::copy(&mut from, &mut file)?),
        }
        Ok(())
    })?;
    say(to.display());
    Ok(())
}
