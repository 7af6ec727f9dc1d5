//! Writes a recording: one line for each tick, in the kernel's hands before the next is written.
//! In: samples and decisions, and the engine's standing where a chapter begins. After the first
//! failure it writes nothing more.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use zstd::stream::write::Encoder;

use super::index;
use super::lines::LONGEST;
pub use super::segments::{Bounds, Ring, TooSmall};
use super::segments::{Segment, Segments};
use isobar_core::model::decision::Decision;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::settings::Settings;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Standing;
use isobar_core::recording::change;
use isobar_core::recording::format::{FORMAT, Header, VERSION};
use isobar_core::recording::mark::Base;
use isobar_core::recording::parts::Parts;

/// Ticks between two headers: the most that damage to a file can cost. A header holds a whole sample
/// and takes as much space as about twenty ticks.
const CHAPTER: u64 = 300;
/// Ticks between two marks: a moment is shown from the mark before it. A mark takes as much space as
/// one or two ticks.
const MARK: u64 = 15;
/// zstd level. Higher levels save little: what changes is mostly digits.
const LEVEL: i32 = 1;

/// Why a recording cannot begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{0} exists and is no recording: choose another file, or move it")]
    Foreign(PathBuf),
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    #[error("cannot record to {path}")]
    Io { path: PathBuf, source: io::Error },
}

/// The content of the first header.
#[derive(Debug, Clone, Default)]
pub struct Start {
    pub facts: NodeFacts,
    pub settings: Settings,
    pub standing: Standing,
    pub at: Moment,
}

type Chapter = Encoder<'static, Segment>;

pub struct Journal {
    path: PathBuf,
    segments: Segments,
    facts: NodeFacts,
    settings: Settings,
    chapter: Option<Chapter>,
    /// Ticks in this chapter.
    n_ticks: u64,
    /// Ticks since the header or the last mark; [`MARK`] once the clock was set back among them.
    n_unmarked: u64,
    before: Option<Parts>,
    /// What marks are changes to; `None` if the chapter begins without a sample.
    base: Option<Base>,
    /// A chapter or a mark is to be made of the next standing.
    is_due: bool,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Journal {
    /// Begins a recording at `path`, or continues the one that is there in a new segment. Never
    /// overwrites a file; after an error nothing was written.
    pub fn create(path: &Path, start: Start, bounds: Bounds) -> Result<Self, JournalError> {
        let bounds = bounds.checked()?;
        let io = |source| JournalError::Io { path: path.into(), source };
        let segments = Segments::open(path, &start.facts.boot_id, bounds).map_err(io)?;
        let segments = segments.map_err(JournalError::Foreign)?;
        Self::begin(path, segments, None, start)
    }

    /// Begins a recording in memory, of the last ten minutes, and of the files at `before`.
    pub fn in_memory(before: Option<&Path>, start: Start) -> Result<Self, JournalError> {
        let segments = Segments::in_memory(before, Bounds::IN_MEMORY);
        Self::begin(Path::new("memory"), segments, None, start)
    }

    /// Begins a recording of one segment in an empty file.
    pub fn to_file(path: &Path, file: File, start: Start) -> Result<Self, JournalError> {
        Self::begin(path, Segments::one(file), None, start)
    }

    /// Continues the recording at `path` with what is in memory so far, and from then on there;
    /// `standing` is the engine's after the last tick. After an error it goes on in memory.
    pub fn move_to(
        &mut self,
        path: &Path,
        standing: &Standing,
        at: Moment,
        bounds: Bounds,
    ) -> Result<(), JournalError> {
        let io = |source| JournalError::Io { path: path.into(), source };
        let Some(chapter) = self.chapter.take() else { return Ok(()) };
        let last = chapter.finish().map_err(io)?;
        let (facts, settings) = (self.facts.clone(), self.settings.clone());
        let start = Start { facts, settings, standing: standing.clone(), at };
        let moved = match Segments::open(path, &start.facts.boot_id, bounds).map_err(io) {
            Ok(Ok(segments)) => Self::begin(path, segments, Some(&self.segments), start),
            Ok(Err(foreign)) => Err(JournalError::Foreign(foreign)),
            Err(why) => Err(why),
        };
        match moved {
            Ok(moved) => *self = moved,
            Err(why) => {
                self.open_chapter(last, standing, at, true).map_err(|source| self.stop(source))?;
                return Err(why);
            }
        }
        Ok(())
    }

    fn begin(
        path: &Path,
        segments: Segments,
        after: Option<&Segments>,
        start: Start,
    ) -> Result<Self, JournalError> {
        let io = |source| JournalError::Io { path: path.into(), source };
        let mut journal = Self {
            path: path.into(),
            segments,
            facts: start.facts,
            settings: start.settings,
            chapter: None,
            n_ticks: 0,
            n_unmarked: 0,
            before: None,
            base: None,
            is_due: false,
        };
        let (next, at) = (journal.segments.next(), start.at);
        let open = |journal: &mut Self| {
            after
                .map_or(Ok(()), |other| journal.segments.copy(other))
                .and_then(|()| journal.segments.begin(None, at))
                .and_then(|new| journal.open_chapter(new, &start.standing, at, false))
                .inspect_err(|_| journal.segments.discard_from(next))
        };
        // On a full disk there may be room once old segments are gone.
        let again = |journal: &mut Self| {
            journal.segments.make_room();
            open(journal)
        };
        open(&mut journal).or_else(|_| again(&mut journal)).map_err(io)?;
        journal.segments.tell_damaged();
        Ok(journal)
    }

    /// Where it is.
    pub fn ring(&self) -> &Ring {
        self.segments.ring()
    }

    /// Since when it has every tick, by the time since the boot; `None` if it has lost none of this boot.
    pub fn whole_since(&self) -> Option<Nanos> {
        self.segments.whole_since()
    }

    /// True after an error: nothing more is written.
    pub fn has_stopped(&self) -> bool {
        self.chapter.is_none()
    }

    /// Bytes of the segment that is being written.
    pub(super) fn size(&self) -> u64 {
        self.chapter.as_ref().map_or(0, |chapter| chapter.get_ref().size)
    }

    /// True if the next tick should come with the engine's standing, so that a chapter can begin
    /// after it, or a mark be made.
    pub fn wants_standing(&self) -> bool {
        self.is_due
    }

    /// Writes one tick; `standing` is the engine's after it. When this returns, the tick survives a
    /// kill of the agent; a power loss may lose more.
    pub fn write(
        &mut self,
        sample: &Sample,
        decision: &Decision,
        standing: &Standing,
    ) -> Result<(), JournalError> {
        self.put(sample.clone(), decision, Some(standing))
    }

    /// The same for a caller that has the standing only when [`Journal::wants_standing`] asked for
    /// it: a copy of it is expensive.
    pub fn put(
        &mut self,
        sample: Sample,
        decision: &Decision,
        standing: Option<&Standing>,
    ) -> Result<(), JournalError> {
        let Some(mut chapter) = self.chapter.take() else { return Ok(()) };
        self.segments.make_room();
        let at = sample.at;
        // The index finds what a clock that was set back passes again by the frame after it.
        let is_set_back = |before: &Parts| at.wall.plus(Nanos::SECOND) < before.rest.at.wall;
        let ends_frame = self.before.as_ref().is_some_and(is_set_back);
        let now = Parts::from(sample);
        let result = (|| {
            let line = change::line(self.before.as_ref(), &now, decision)?;
            put(&mut chapter, &line)?;
            if let Some(base) = &mut self.base {
                base.note(self.before.as_ref(), &now);
            }
            self.before = Some(now);
            self.n_ticks += 1;
            self.n_unmarked = if ends_frame { MARK } else { self.n_unmarked + 1 };
            let is_full = self.segments.is_full(chapter.get_ref(), at);
            // The first chapter of a run begins with nothing; marks would have to hold everything.
            self.is_due = self.n_unmarked >= MARK;
            let ends = is_full || self.n_ticks >= CHAPTER || self.base.is_none() && self.is_due;
            self.is_due |= ends;
            let Some(standing) = standing.filter(|_| self.is_due) else {
                self.chapter = Some(chapter);
                return Ok(());
            };
            let segment = chapter.finish()?;
            match ends {
                true => self.follow(segment, standing, at, true),
                false => self.mark(segment, standing),
            }
        })();
        result.map_err(|source| self.stop(source))
    }

    /// Begins a chapter for new settings.
    pub fn reload(
        &mut self,
        settings: Settings,
        standing: &Standing,
        at: Moment,
    ) -> Result<(), JournalError> {
        self.settings = settings;
        self.next_chapter(standing, at, true)
    }

    /// Begins a chapter after ticks that were not written.
    pub fn resume(
        &mut self,
        settings: Settings,
        standing: &Standing,
        at: Moment,
    ) -> Result<(), JournalError> {
        self.settings = settings;
        self.next_chapter(standing, at, false)
    }

    fn next_chapter(
        &mut self,
        standing: &Standing,
        at: Moment,
        continues: bool,
    ) -> Result<(), JournalError> {
        let Some(chapter) = self.chapter.take() else { return Ok(()) };
        let segment = chapter.finish();
        let result = segment.and_then(|last| self.follow(last, standing, at, continues));
        result.map_err(|source| self.stop(source))
    }

    /// Begins a chapter behind what `last` has, in a segment of its own if that is full.
    fn follow(
        &mut self,
        last: Segment,
        standing: &Standing,
        at: Moment,
        continues: bool,
    ) -> io::Result<()> {
        let next = match self.segments.is_full(&last, at) {
            true => self.segments.begin(Some(last), at)?,
            false => last,
        };
        self.open_chapter(next, standing, at, continues)
    }

    /// Writes a line that is no tick, in a frame of its own, and ends the recording. Readers that do
    /// not know its kind pass over it.
    pub fn conclude(mut self, line: &impl serde::Serialize) -> Result<(), JournalError> {
        let Some(chapter) = self.chapter.take() else { return Ok(()) };
        let result = (|| {
            let mut last = frame(chapter.finish()?)?;
            put(&mut last, line)?;
            last.finish().map(|_| ())
        })();
        result.map_err(|source| self.stop(source))
    }

    fn open_chapter(
        &mut self,
        segment: Segment,
        standing: &Standing,
        at: Moment,
        continues: bool,
    ) -> io::Result<()> {
        let mut chapter = frame(segment)?;
        let header = Header {
            kind: "header".into(),
            format: FORMAT.into(),
            version: VERSION,
            isobar: env!("CARGO_PKG_VERSION").into(),
            at,
            continues,
            facts: self.facts.clone(),
            settings: self.settings.clone(),
            standing: standing.clone(),
        };
        begin(&mut chapter, &header)?;
        let Standing { before, averages, .. } = header.standing;
        self.before = before.map(Parts::from);
        self.base = self.before.clone().map(|before| Base::new(before, averages));
        (self.n_ticks, self.n_unmarked, self.is_due) = (0, 0, false);
        self.chapter = Some(chapter);
        Ok(())
    }

    /// Goes on in a frame that begins with a mark.
    fn mark(&mut self, segment: Segment, standing: &Standing) -> io::Result<()> {
        let mut chapter = frame(segment)?;
        if let Some((base, now)) = self.base.as_ref().zip(self.before.as_ref()) {
            begin(&mut chapter, &base.mark(now, &standing.averages)?)?;
        }
        (self.n_unmarked, self.is_due) = (0, false);
        self.chapter = Some(chapter);
        Ok(())
    }

    fn stop(&mut self, source: io::Error) -> JournalError {
        self.chapter = None;
        (self.before, self.base) = (None, None);
        JournalError::Io { path: self.path.clone(), source }
    }
}

impl Drop for Journal {
    /// Ends the zstd frame, so that a reader sees that nothing is missing.
    fn drop(&mut self) {
        if let Some(chapter) = self.chapter.take() {
            // Every line is in the file already; only the end mark may be missing.
            let _ = chapter.finish();
        }
    }
}

fn frame(segment: Segment) -> io::Result<Chapter> {
    let mut chapter = Encoder::new(segment, LEVEL)?;
    chapter.include_checksum(true)?;
    Ok(chapter)
}

/// Writes the first line of a frame. What identifies it is a block of its own, which the index reads.
fn begin(chapter: &mut Chapter, line: &impl serde::Serialize) -> io::Result<()> {
    let text = text(line)?;
    let (head, rest) = text.split_at(text.len().min(index::HEAD));
    chapter.write_all(head)?;
    chapter.flush()?;
    chapter.write_all(rest)?;
    chapter.flush()
}

/// Writes a line and flushes it to the file.
fn put(chapter: &mut Chapter, line: &impl serde::Serialize) -> io::Result<()> {
    chapter.write_all(&text(line)?)?;
    chapter.flush()
}

/// A line as it is written. One that no reader would take is an error while there is still a way out.
fn text(line: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    if text.len() as u64 >= LONGEST {
        let (n, most) = (text.len() >> 20, LONGEST >> 20);
        let why = format!("the sample takes {n} MiB as text, and a recording takes {most}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(text)
}
