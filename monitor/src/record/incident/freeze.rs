//! Takes the span of an incident out of a recording: its ticks into a file of their own that begins
//! with the engine's standing at its first tick, and what they came to.

use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::account::Account;
use super::redact::Names;
use super::retention::Retention;
use super::room::Room;
use super::shelf::{Draft, Shelf, ShelfError};
use super::within::Within;
use super::{Incident, is_name};
use crate::record::journal::{Journal, JournalError, Start};
use crate::record::lines::CUT_OFF;
use crate::record::reader::{Entry, ReadError, Recorded, Recording, is_regular};
use crate::record::segments::Ring;
use isobar_core::model::decision::Decision;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::{Engine, Step};
use isobar_core::recording::format::Header;
use isobar_core::room;

/// An imported incident takes no more.
const IMPORTED: u64 = Retention::USUAL.one.0;

/// The kind of the line that tells of the incident.
pub const KIND: &str = "incident";

/// The last line of an incident's file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Line {
    /// [`KIND`].
    pub kind: String,
    pub incident: Incident,
}

/// Why a span cannot be taken out.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    #[error("the recording has no tick of these times")]
    Nothing,
    #[error("{0} has no incident in it: `isobar incidents export` writes such files")]
    NoIncident(String),
    #[error("the incident in {0} has no usable name")]
    Name(String),
    #[error(
        "an incident of more than {} MiB is not imported: read it where it is, with \
         `isobar replay FILE` or `isobar status -f FILE`",
        IMPORTED >> 20
    )]
    TooLarge,
    #[error("its names cannot be replaced: a value that is no name stands where names do")]
    Redact,
    #[error(
        "its names take more than {0} MiB, so that it cannot be redacted: export it without --redact, and \
         give it only to a reader who may see its names"
    )]
    ManyNames(usize),
    #[error("cannot list the segments")]
    Segments(#[source] io::Error),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] JournalError),
    #[error(transparent)]
    Shelf(#[from] ShelfError),
}

impl FreezeError {
    /// True if reading itself failed, which may work later: a disk answered late, or too many files were
    /// open at that time.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Segments(why) => why.kind() != io::ErrorKind::NotFound,
            Self::Read(why) => !why.is_invalid_input(),
            _ => false,
        }
    }
}

/// Freezes an incident that is over, or that its agent left open, into a draft of the shelf. Calls
/// `rest` between two ticks.
///
/// # Errors
/// If the recording cannot be read, has no tick of it, or the shelf cannot be written.
pub fn freeze(
    ring: &Ring,
    shelf: &Shelf,
    incident: Incident,
    draft: Draft,
    rest: impl FnMut(),
) -> Result<Incident, FreezeError> {
    keep(of_ring(ring, incident, Some(&draft), rest), shelf, draft)
}

/// What the recording of a running agent says of an incident that is not over. Between two ticks it
/// calls `rest`.
///
/// # Errors
/// If the recording cannot be read, or has no tick of it.
pub fn tell_so_far(
    ring: &Ring,
    incident: Incident,
    rest: impl FnMut(),
) -> Result<Incident, FreezeError> {
    let state = incident.state;
    Ok(Incident { state, ..of_ring(ring, incident, None, rest)? })
}

fn of_ring(
    ring: &Ring,
    incident: Incident,
    draft: Option<&Draft>,
    mut rest: impl FnMut(),
) -> Result<Incident, FreezeError> {
    // Those in memory last as long as this.
    let (segments, _held) = ring.segments().map_err(FreezeError::Segments)?;
    let within = Within::of(&incident);
    let (path, [begin, end]) = (Path::new("recording"), within.wall());
    let recording = Recording::of_segments_between(path, &segments, begin, end)?;
    let room = draft.map(|draft| Room::of(&incident, draft.most()));
    let entries = recording.inspect(|_| rest());
    Span { room, ..Span::new(within, draft) }.take(entries, incident)
}

fn keep(
    taken: Result<Incident, FreezeError>,
    shelf: &Shelf,
    draft: Draft,
) -> Result<Incident, FreezeError> {
    match taken {
        Ok(taken) => Ok(shelf.keep(taken, draft)?),
        Err(why) => {
            shelf.discard(&draft);
            Err(why)
        }
    }
}

/// Puts an incident from a file on the shelf, `now` on the wall clock. What it came to is made anew
/// from its ticks.
///
/// # Errors
/// If the file is no incident or too large, if one of its name is there, or if the shelf is full or
/// cannot be written.
pub fn import(file: &Path, shelf: &Shelf, now: Nanos) -> Result<Incident, FreezeError> {
    is_regular(file)?;
    if is_too_large(file) {
        return Err(FreezeError::TooLarge);
    }
    let incident = Incident { imported: Some(now), ..line_of(file)?.incident };
    if !is_name(&incident.name) {
        return Err(FreezeError::Name(file.display().to_string()));
    }
    if shelf.find(&incident.name).is_ok() {
        return Err(ShelfError::Exists(incident.name).into());
    }
    let draft = shelf.draft()?;
    let span = Span { most: Some(IMPORTED), ..Span::new(Within::EVERYTHING, Some(&draft)) };
    let taken = span.take(Recording::open_alone(file)?, incident);
    let has_room = |taken: Incident| {
        shelf.has_room(&taken, &draft)?;
        Ok(taken)
    };
    keep(taken.and_then(has_room), shelf, draft)
}

fn is_too_large(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.len() > IMPORTED)
}

/// Whether a file is an incident that can be imported.
pub fn is_incident(file: &Path) -> bool {
    !is_too_large(file) && line_of(file).is_ok()
}

/// The line that tells of the incident in a file.
///
/// # Errors
/// If the file is no recording, or has no such line.
pub(super) fn line_of(file: &Path) -> Result<Line, FreezeError> {
    let mut line = None;
    for entry in Recording::open_alone(file)? {
        if let Entry::Other(text) = entry? {
            line = room::from_slice::<Line>(text.as_bytes()).ok().filter(|line| line.kind == KIND);
        }
    }
    line.ok_or_else(|| FreezeError::NoIncident(file.display().to_string()))
}

/// What a recording says of the ticks of an incident, without a file of their own.
///
/// # Errors
/// If the recording cannot be read, or has no tick of it.
pub fn tell(recording: &Path, incident: Incident) -> Result<Incident, FreezeError> {
    let (within, state) = (Within::of(&incident), incident.state);
    let [begin, end] = within.wall();
    let recording = Recording::open_between(recording, begin, end)?;
    Ok(Incident { state, ..Span::new(within, None).take(recording, incident)? })
}

/// A span while it is read.
pub(super) struct Span<'a> {
    within: Within,
    draft: Option<&'a Draft>,
    journal: Option<Journal>,
    account: Account,
    /// Other names for what is read.
    names: Option<Names>,
    /// Bytes that may be written; `None` for any number.
    most: Option<u64>,
    /// Which ticks are written; `None` for all.
    room: Option<Room>,
    /// The last tick was not written.
    is_gap: bool,
}

impl<'a> Span<'a> {
    pub(super) fn new(within: Within, draft: Option<&'a Draft>) -> Self {
        let (journal, account, names, most, room, is_gap) = Default::default();
        Self { within, draft, journal, account, names, most, room, is_gap }
    }

    pub(super) fn redacted(self, names: Names) -> Self {
        Self { names: Some(names), ..self }
    }

    pub(super) fn take(
        mut self,
        recording: impl Iterator<Item = Result<Entry, ReadError>>,
        incident: Incident,
    ) -> Result<Incident, FreezeError> {
        self.account.begin = incident.begin;
        let mut run: Option<Run> = None;
        for entry in recording {
            match entry? {
                // An incident that its agent left open ends with that agent, unless the next goes on with it.
                Entry::Header(header)
                    if incident.end.is_none()
                        && header.standing.before.is_none()
                        && !self.account.is_empty()
                        && !incident.goes_on(&header.facts.boot_id, header.at) =>
                {
                    break;
                }
                Entry::Header(header)
                    if self.within.is_foreign(&header.facts.boot_id, &incident) =>
                {
                    run = None;
                }
                Entry::Header(header) => self.header(&mut run, *header)?,
                // The engine's standing is from before the loss; the next header has the right one.
                Entry::Lost(why) => {
                    // The agent goes on writing what it freezes from.
                    match why.ends_with(CUT_OFF) && incident.imported.is_none() {
                        true => tracing::debug!("{why}"),
                        false => tracing::warn!("{why}"),
                    }
                    run = None;
                }
                Entry::Notice(text) => tracing::warn!("{text}"),
                Entry::Other(_) => {}
                Entry::Frame(recorded) => {
                    let Some(run) = &mut run else { continue };
                    if self.within.is_over(recorded.sample.at, self.account.has_begun()) {
                        break;
                    }
                    self.frame(run, *recorded)?;
                }
            }
        }
        if self.account.is_empty() {
            return Err(FreezeError::Nothing);
        }
        // Of a file that lost its end, the last line tells when that was.
        self.account.goes_on_after(incident.end.unwrap_or(incident.to));
        let told = self.account.close(incident);
        if let Some(journal) = self.journal {
            journal.conclude(&Line { kind: KIND.into(), incident: told.clone() })?;
        }
        Ok(told)
    }

    fn header(&mut self, run: &mut Option<Run>, header: Header) -> Result<(), FreezeError> {
        // The kernel's release stays, also in a redacted copy: what is seen may be its fault.
        let kernel = header.facts.kernel.clone();
        let mut header = self.renamed(header)?;
        header.facts.kernel = kernel;
        let Header { at, continues, facts, settings, standing, .. } = header;
        // A configuration that is reloaded between two ticks leaves none out.
        let (engine, last) = match run.take().filter(|_| continues) {
            Some(run) => (run.engine.with_settings(settings.clone()), run.at),
            None => (Engine::new(settings.clone(), standing), at),
        };
        if let Some(journal) = self.journal.as_mut().filter(|_| !self.is_gap) {
            match continues {
                true => journal.reload(settings, engine.standing(), at)?,
                false => journal.resume(settings, engine.standing(), at)?,
            }
        }
        *run = Some(Run { engine, facts, at: last });
        Ok(())
    }

    fn frame(&mut self, run: &mut Run, recorded: Recorded) -> Result<(), FreezeError> {
        let Recorded { sample, decision, .. } = recorded;
        let sample = match &mut self.names {
            None => sample,
            Some(names) => names.sample(&sample)?,
        };
        let (at, is_within) = (sample.at, self.within.has(sample.at));
        let size = self.journal.as_ref().map_or(0, Journal::size);
        let is_kept = self.room.as_ref().is_none_or(|room| room.is_for(at.boot, size));
        let is_kept = is_kept && is_within;
        let was_gap = std::mem::replace(&mut self.is_gap, !is_kept);
        match (&mut self.journal, self.draft) {
            (Some(journal), _) if was_gap && is_kept => {
                journal.resume(run.engine.settings().clone(), run.engine.standing(), run.at)?;
            }
            (None, Some(draft)) if is_within => self.journal = Some(run.begin(draft)?),
            _ => {}
        }
        let step = run.engine.step(sample);
        let before = std::mem::replace(&mut run.at, at);
        let Some(sample) = run.engine.standing().before.as_ref().filter(|_| is_within) else {
            return Ok(());
        };
        // Ticks are missing here: they were lost, no agent ran, or the wall clock was wrong.
        self.account.goes_on_after(before);
        // The decision that was made, also by another version, where it can be read.
        let recorded = room::from_slice::<Decision>(decision.as_bytes());
        let decision = match (&mut self.names, recorded) {
            (_, Err(_)) => step.decision,
            (None, Ok(recorded)) => recorded,
            (Some(names), Ok(recorded)) => names.decision(&recorded, step.decision)?,
        };
        let step = Step { decision, ..step };
        self.account.tick(sample, &step);
        if self.is_gap {
            self.account.leave_last_out(before);
            return Ok(());
        }
        self.write(sample, &step.decision, &run.engine)
    }

    /// What was read, with other names if it is to have them.
    fn renamed<T: Serialize + DeserializeOwned>(&mut self, what: T) -> Result<T, FreezeError> {
        match &mut self.names {
            None => Ok(what),
            Some(names) => names.of(&what),
        }
    }

    fn write(
        &mut self,
        sample: &Sample,
        decision: &Decision,
        engine: &Engine,
    ) -> Result<(), FreezeError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.write(sample, decision, engine.standing())?;
        match self.most {
            Some(most) if journal.size() > most => Err(FreezeError::TooLarge),
            _ => Ok(()),
        }
    }
}

/// One run of an agent while it is replayed.
struct Run {
    engine: Engine,
    facts: NodeFacts,
    /// The last tick.
    at: Moment,
}

impl Run {
    fn begin(&self, draft: &Draft) -> Result<Journal, FreezeError> {
        let io = |source| ShelfError::Io { path: draft.path.clone(), source };
        let start = Start {
            facts: self.facts.clone(),
            settings: self.engine.settings().clone(),
            standing: self.engine.standing().clone(),
            at: self.at,
        };
        Ok(Journal::to_file(&draft.path, draft.file.try_clone().map_err(io)?, start)?)
    }
}
