//! The thread that writes the recording. A file that cannot be written is replaced by memory, and
//! tried again every minute.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::freezer::Freezer;
use super::{Entry, Order, Record, Report, off, taken};
use crate::agent::log::chain;
use crate::record::incident::shelf::Shelf;
use crate::record::incident::watch::{Seen, Turn, Watch};
use crate::record::journal::{Bounds, Journal, JournalError, Ring, Start};
use crate::state;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Standing;

/// The recording in a directory, its incidents, and the lock that keeps other agents out.
const FILE: &str = "recording";
const INCIDENTS: &str = "incidents";
const LOCK: &str = "lock";
/// From one attempt to write files to the next.
const AGAIN: Nanos = Nanos(60 * Nanos::SECOND.0);

/// Where files are to be written.
struct Target {
    path: PathBuf,
    bounds: Bounds,
    shelf: PathBuf,
    /// Held as long as the agent lives.
    _lock: Option<File>,
}

impl Target {
    /// A directory takes a recording, incidents and a lock; any other path is the recording itself.
    fn open(path: &Path, bounds: Bounds, is_dir: bool) -> Result<Self, JournalError> {
        if !is_dir {
            let mut shelf = path.as_os_str().to_owned();
            shelf.push(".");
            shelf.push(INCIDENTS);
            return Ok(Self { path: path.into(), bounds, shelf: shelf.into(), _lock: None });
        }
        let io = |source| JournalError::Io { path: path.into(), source };
        state::make(path).map_err(io)?;
        let lock = state::lock(&path.join(LOCK)).map_err(|why| io(taken(why)))?;
        let (file, shelf) = (path.join(FILE), path.join(INCIDENTS));
        Ok(Self { path: file, bounds, shelf, _lock: Some(lock) })
    }
}

pub(super) struct Writer {
    target: Option<Target>,
    /// Without a standing: what every new recording begins with.
    start: Start,
    journal: Option<Journal>,
    /// Why the files of `target` are not written; then the journal is in memory.
    trouble: Option<String>,
    /// When files are tried again.
    again: Nanos,
    has_asked: bool,
    watch: Watch,
    shelf: Arc<Shelf>,
    freezer: Option<Freezer>,
    reports: Sender<Report>,
}

impl Writer {
    /// `None` if nothing is to be recorded.
    pub(super) fn open(
        record: Record,
        start: Start,
        reports: Sender<Report>,
    ) -> Result<Option<Self>, JournalError> {
        let (target, is_asked_for) = match record {
            Record::Off => return Ok(None),
            Record::WherePossible(dir, bounds) => (Target::open(&dir, bounds, true), false),
            Record::To(path, bounds) => {
                let is_dir = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
                (Target::open(&path, bounds, is_dir), true)
            }
        };
        let opened = target.and_then(|target| {
            let journal = Journal::create(&target.path, start.clone(), target.bounds)?;
            Ok((target, journal))
        });
        let (target, journal, trouble) = match opened {
            Ok((target, journal)) => (Some(target), Some(journal), None),
            Err(why) if is_asked_for => return Err(why),
            Err(why) => {
                let in_memory = Journal::in_memory(start.clone());
                (None, in_memory.ok(), Some(chain(&why)))
            }
        };
        let shelf =
            target.as_ref().map_or_else(Shelf::in_memory, |to| Shelf::Dir(to.shelf.clone()));
        let watch = Watch::new(start.facts.name.clone());
        let (again, has_asked, freezer) = Default::default();
        let shelf = Arc::new(shelf);
        let start = Start { standing: Standing::default(), ..start };
        Ok(Some(Self {
            target,
            start,
            journal,
            trouble,
            again,
            has_asked,
            watch,
            shelf,
            freezer,
            reports,
        }))
    }

    pub(super) fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    pub(super) fn ring(&self) -> Option<&Ring> {
        self.journal.as_ref().map(Journal::ring)
    }

    pub(super) fn freeze_with(&mut self, freezer: Freezer) {
        self.freezer = Some(freezer);
    }

    pub(super) fn take(&mut self, order: Order) {
        match order {
            Order::Tick(entry) => self.tick(*entry),
            Order::Chapter { settings, standing, at, continues } => {
                self.start.settings = *settings.clone();
                let Some(journal) = &mut self.journal else { return };
                let written = match continues {
                    true => journal.reload(*settings, &standing, at),
                    false => journal.resume(*settings, &standing, at),
                };
                match written {
                    Ok(()) => self.report(),
                    Err(why) => self.fail(&why, at),
                }
            }
        }
    }

    fn tick(&mut self, Entry { sample, decision, standing, kills, limits }: Entry) {
        let at = sample.at;
        self.has_asked &= standing.is_none();
        let seen = Seen { sample: &sample, decision: &decision, kills: &kills, limits: &limits };
        let turn = self.watch.tick(seen);
        let is_missing = self.journal.is_none() || self.trouble.is_some() && self.target.is_some();
        if is_missing && at.boot >= self.again {
            match &standing {
                Some(standing) => {
                    self.reopen(standing, at);
                    return self.turn(turn);
                }
                None => self.ask(),
            }
        }
        if let Some(journal) = &mut self.journal {
            let written = journal.put(sample, &decision, standing.as_ref());
            let wants_standing = journal.wants_standing();
            match written {
                Ok(()) if wants_standing => self.ask(),
                Ok(()) => {}
                Err(why) => self.fail(&why, at),
            }
        }
        self.turn(turn);
    }

    fn turn(&self, turn: Option<Turn>) {
        match (turn, &self.freezer) {
            (Some(Turn::Open(incident)), Some(freezer)) => freezer.note(*incident),
            (Some(Turn::Over(incident)), Some(freezer)) => freezer.freeze(*incident),
            (None, _) | (_, None) => {}
        }
    }

    /// Asks for the engine's standing, once.
    fn ask(&mut self) {
        if !std::mem::replace(&mut self.has_asked, true) {
            // A tick that has gone hears nothing, and needs nothing.
            let _ = self.reports.send(Report::WantsStanding);
        }
    }

    /// Goes on after a failure: in files if that works again, else in memory.
    fn reopen(&mut self, standing: &Standing, at: Moment) {
        let start = Start { standing: standing.clone(), at, ..self.start.clone() };
        let in_files =
            self.target.as_ref().map(|to| Journal::create(&to.path, start.clone(), to.bounds));
        match in_files {
            Some(Ok(journal)) => {
                self.journal = Some(journal);
                self.trouble = None;
                tracing::info!("recording goes on");
            }
            failed => {
                self.again = at.boot.plus(AGAIN);
                if let Some(Err(why)) = failed {
                    self.trouble = Some(chain(&why));
                }
                if self.journal.is_none() {
                    self.journal = Journal::in_memory(start).ok();
                }
            }
        }
        self.ring_changed();
        self.report();
    }

    fn fail(&mut self, why: &JournalError, at: Moment) {
        let why = chain(why);
        tracing::warn!("recording has stopped, and is tried again every minute: {why}");
        self.trouble = Some(why);
        self.journal = None;
        self.again = at.boot;
        self.ring_changed();
        self.report();
        self.ask();
    }

    fn ring_changed(&self) {
        if let Some(freezer) = &self.freezer {
            freezer.read_from(self.ring().cloned());
        }
        // A tick that has gone hears nothing, and needs nothing.
        let _ = self.reports.send(Report::To(self.ring().cloned()));
    }

    fn report(&self) {
        // A tick that has gone hears nothing, and needs nothing.
        let _ = self.reports.send(Report::Is(self.capability()));
    }

    /// The state of the recording.
    pub(super) fn capability(&self) -> Capability {
        let (trouble, target) = (self.trouble.as_deref(), self.target.as_ref());
        match (trouble, target, &self.journal) {
            (None, Some(target), Some(_)) => Capability {
                name: "recording".into(),
                state: CapabilityState::Attached,
                detail: format!("to {}", target.path.display()),
                remedy: None,
            },
            (trouble, _, Some(_)) => {
                off(format!("in memory, the last ten minutes: {}", trouble.unwrap_or("no disk")))
            }
            (trouble, _, None) => off(format!("stopped: {}", trouble.unwrap_or("no memory"))),
        }
    }
}
