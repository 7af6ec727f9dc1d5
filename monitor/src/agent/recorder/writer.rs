//! The thread that writes the recording. A file that cannot be written is replaced by memory, and
//! tried again every minute.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::freezer::Freezer;
use super::{Entry, Order, Record, Report, failing, taken};
use crate::causes::chain;
use crate::record::incident::Incident;
use crate::record::incident::shelf::Shelf;
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
/// How long the first tick waits for a disk to answer.
const ANSWERS: Duration = Duration::from_secs(5);
/// The same of a later attempt: ticks wait meanwhile, as many as there is room for.
const SOON: Duration = Duration::from_secs(1);

/// Where the operator wants files: a directory takes a recording, incidents and a lock; any other path
/// is the recording itself, with a directory of incidents beside it that has the lock.
#[derive(Clone)]
struct Place {
    path: PathBuf,
    bounds: Bounds,
    is_dir: bool,
}

/// Where files are written.
pub(super) struct Target {
    path: PathBuf,
    shelf: PathBuf,
    /// Held as long as the agent lives.
    _lock: Option<File>,
}

impl Place {
    fn hangs(&self) -> JournalError {
        let source = io::Error::new(io::ErrorKind::TimedOut, "the disk does not answer");
        JournalError::Io { path: self.path.clone(), source }
    }
}

impl Target {
    fn open(Place { path, is_dir, .. }: &Place) -> Result<Self, JournalError> {
        let io = |source| JournalError::Io { path: path.clone(), source };
        if *is_dir || path.is_dir() {
            let lock = state::lock(&path.join(LOCK)).map_err(|why| io(taken(why)))?;
            let (file, shelf) = (path.join(FILE), path.join(INCIDENTS));
            return Ok(Self { path: file, shelf, _lock: Some(lock) });
        }
        let mut shelf = path.as_os_str().to_owned();
        shelf.push(".");
        shelf.push(INCIDENTS);
        let shelf = PathBuf::from(shelf);
        let is_made =
            path.parent().is_none_or(|above| above.as_os_str().is_empty() || above.is_dir());
        let lock = match is_made.then(|| state::lock(&shelf.join(LOCK))) {
            Some(Ok(lock)) => Some(lock),
            Some(Err(why)) if why.kind() == io::ErrorKind::WouldBlock => {
                return Err(io(taken(why)));
            }
            // The ticks may be written all the same; what keeps them from it is told by that.
            Some(Err(_)) | None => None,
        };
        Ok(Self { path: path.clone(), shelf, _lock: lock })
    }
}

/// An attempt to use files, by a thread of its own: no system call on a disk that hangs ends. There is one at
/// a time, so that none finds the lock of another.
#[derive(Default)]
pub(super) struct Attempt(Option<Receiver<Opened>>);

/// What comes of an attempt: where files are written, and the incidents that are kept there.
type Opened = Result<(Target, Vec<Incident>), JournalError>;

impl Attempt {
    fn begin(place: &Place) -> Self {
        let place = place.clone();
        Self::of(move || {
            let target = Target::open(&place)?;
            let kept = Shelf::in_dir(target.shelf.clone()).list().unwrap_or_default();
            Ok((target, kept))
        })
    }

    pub(super) fn of(work: impl FnOnce() -> Opened + Send + 'static) -> Self {
        let (done, answer) = channel();
        // Without a thread the sender goes, and the receiver sees that.
        let _ = thread::Builder::new().name("disk".into()).spawn(move || done.send(work()));
        Self(Some(answer))
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// What came of it, within the time; `None` while it goes on.
    pub(super) fn answer(&mut self, time: Duration) -> Option<Opened> {
        let answer = self.0.as_ref()?.recv_timeout(time);
        if !matches!(answer, Err(RecvTimeoutError::Timeout)) {
            self.0 = None;
        }
        answer.ok()
    }
}

pub(super) struct Writer {
    /// Where files belong.
    place: Place,
    /// `None` while that cannot be used.
    target: Option<Target>,
    /// To use it.
    attempt: Attempt,
    /// Without a standing: what every new recording begins with.
    start: Start,
    journal: Option<Journal>,
    /// Why there are no files; then the journal is in memory.
    trouble: Option<String>,
    /// When files are tried again.
    again: Nanos,
    has_asked: bool,
    /// As it was reported.
    whole_since: Option<Nanos>,
    shelf: Arc<Shelf>,
    freezer: Option<Freezer>,
    reports: Sender<Report>,
}

impl Writer {
    /// With the incidents that are kept, the oldest first; `None` if nothing is to be recorded.
    pub(super) fn open(
        record: Record,
        start: Start,
        reports: Sender<Report>,
    ) -> Result<Option<(Self, Vec<Incident>)>, JournalError> {
        let (place, is_asked_for) = match record {
            Record::Off => return Ok(None),
            Record::WherePossible(path, bounds) => (Place { path, bounds, is_dir: true }, false),
            Record::To(path, bounds) => {
                let is_dir = path.as_os_str().as_encoded_bytes().ends_with(b"/");
                (Place { path, bounds, is_dir }, true)
            }
        };
        let mut attempt = Attempt::begin(&place);
        let opened = attempt.answer(ANSWERS).unwrap_or_else(|| Err(place.hangs()));
        let opened = opened.and_then(|(target, kept)| {
            let journal = Journal::create(&target.path, start.clone(), place.bounds)?;
            Ok((target, kept, journal))
        });
        let (target, kept, journal, trouble) = match opened {
            Ok((target, kept, journal)) => (Some(target), kept, Some(journal), None),
            Err(why) if is_asked_for && !attempt.is_under_way() => return Err(why),
            Err(why) => {
                let in_memory = Journal::in_memory(None, start.clone());
                (None, Vec::new(), in_memory.ok(), Some(chain(&why)))
            }
        };
        let shelf =
            target.as_ref().map_or_else(Shelf::in_memory, |to| Shelf::in_dir(to.shelf.clone()));
        let again = start.at.boot.plus(AGAIN);
        let (has_asked, whole_since, freezer) = Default::default();
        let shelf = Arc::new(shelf);
        let start = Start { standing: Standing::default(), ..start };
        let writer = Self {
            place,
            target,
            attempt,
            start,
            journal,
            trouble,
            again,
            has_asked,
            whole_since,
            shelf,
            freezer,
            reports,
        };
        Ok(Some((writer, kept)))
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
            Order::Turn(turn) => {
                if let Some(freezer) = &mut self.freezer {
                    freezer.take(turn);
                }
            }
            Order::Chapter { settings, standing, at, continues } => {
                self.has_asked = false;
                self.start.settings = *settings.clone();
                let written = self.journal.as_mut().map(|journal| match continues {
                    true => journal.reload(*settings, &standing, at),
                    false => journal.resume(*settings, &standing, at),
                });
                match written {
                    Some(Ok(())) => self.report(),
                    Some(Err(why)) => self.fail(&why, at),
                    None => {}
                }
                self.retry(Some(&standing), at);
            }
        }
    }

    fn tick(&mut self, Entry { sample, decision, standing }: Entry) {
        let at = sample.at;
        self.has_asked &= standing.is_none();
        if let Some(freezer) = &mut self.freezer {
            freezer.flush();
        }
        if let Some(journal) = &mut self.journal {
            let written = journal.put(sample, &decision, standing.as_ref());
            let wants_standing = journal.wants_standing();
            let whole_since = journal.whole_since();
            if std::mem::replace(&mut self.whole_since, whole_since) != whole_since {
                // A tick that has gone hears nothing, and needs nothing.
                let _ = self.reports.send(Report::WholeSince(whole_since));
            }
            match written {
                Ok(()) if wants_standing => self.ask(),
                Ok(()) => {}
                Err(why) => self.fail(&why, at),
            }
        }
        self.retry(standing.as_ref(), at);
    }

    /// Tries files again, if they failed and it is time; asks for the standing that this takes.
    fn retry(&mut self, standing: Option<&Standing>, at: Moment) {
        let has_files = self.journal.is_some() && self.trouble.is_none();
        if has_files || at.boot < self.again || self.target.is_none() && !self.has_answered(at) {
            return;
        }
        match standing {
            Some(standing) => self.reopen(standing, at),
            None => self.ask(),
        }
    }

    /// Whether the files can be used; if not, why is told, and they are tried again later.
    fn has_answered(&mut self, at: Moment) -> bool {
        let time = match self.attempt.is_under_way() {
            true => Duration::ZERO,
            false => {
                self.attempt = Attempt::begin(&self.place);
                SOON
            }
        };
        let why = match self.attempt.answer(time) {
            Some(Ok((target, _))) => {
                self.target = Some(target);
                return true;
            }
            Some(Err(why)) => why,
            None => self.place.hangs(),
        };
        if !self.attempt.is_under_way() {
            self.again = at.boot.plus(AGAIN);
        }
        let trouble = Some(chain(&why));
        if std::mem::replace(&mut self.trouble, trouble.clone()) != trouble {
            self.report();
        }
        // What is recorded meanwhile begins with a standing.
        self.journal.is_none()
    }

    /// Asks for the engine's standing, once.
    fn ask(&mut self) {
        if !std::mem::replace(&mut self.has_asked, true) {
            // A tick that has gone hears nothing, and needs nothing.
            let _ = self.reports.send(Report::WantsStanding);
        }
    }

    /// Goes on after a failure: in files if that works again, else in memory. `standing` is the
    /// engine's after the last tick.
    fn reopen(&mut self, standing: &Standing, at: Moment) {
        match self.in_files(standing, at) {
            Ok(dir) => {
                self.trouble = None;
                tracing::info!("recording goes on in {}", self.place.path.display());
                if let Some(freezer) = &mut self.freezer {
                    freezer.settle(dir);
                }
            }
            Err(why) => {
                self.again = at.boot.plus(AGAIN);
                self.trouble = Some(chain(&why));
                if self.journal.as_ref().is_none_or(Journal::has_stopped) {
                    let before = self.target.as_ref().map(|target| target.path.as_path());
                    self.journal = Journal::in_memory(before, self.start_at(standing, at)).ok();
                }
            }
        }
        self.ring_changed();
        self.report();
    }

    /// Where incidents are kept then.
    fn in_files(&mut self, standing: &Standing, at: Moment) -> Result<PathBuf, JournalError> {
        let (start, bounds) = (self.start_at(standing, at), self.place.bounds);
        let Some(Target { path, shelf, .. }) = &self.target else { return Err(self.place.hangs()) };
        match &mut self.journal {
            Some(in_memory) => in_memory.move_to(path, standing, at, bounds)?,
            None => self.journal = Some(Journal::create(path, start, bounds)?),
        }
        Ok(shelf.clone())
    }

    fn start_at(&self, standing: &Standing, at: Moment) -> Start {
        Start { standing: standing.clone(), at, ..self.start.clone() }
    }

    pub(super) fn fail(&mut self, why: &JournalError, at: Moment) {
        let why = chain(why);
        tracing::warn!("recording has stopped, and is tried again every minute: {why}");
        self.trouble = Some(why);
        self.journal = None;
        self.again = at.boot;
        self.ring_changed();
        self.report();
        self.ask();
    }

    fn ring_changed(&mut self) {
        let ring = self.ring().cloned();
        if let Some(freezer) = &mut self.freezer {
            freezer.read_from(ring);
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
            (None, Some(target), Some(_)) => {
                let detail = format!("to {}", target.path.display());
                Capability::new("recording", CapabilityState::Attached, detail)
            }
            (trouble, _, Some(_)) => {
                failing(format!("in memory, ten minutes at most: {}", trouble.unwrap_or("no disk")))
            }
            (trouble, _, None) => failing(format!("stopped: {}", trouble.unwrap_or("no memory"))),
        }
    }
}
