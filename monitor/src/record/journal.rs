//! Writes a recording: a line a tick, on disk before the next tick begins.
//! In: frames, and what the judge remembers after each. A failure stops the recording, not the
//! agent: the caller says so once, and [`Journal::capability`] from then on.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use zstd::stream::write::Encoder;

pub use super::segments::Bounds;
use super::segments::{Segment, Segments};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::decision::Decision;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::settings::Settings;
use isobar_core::policy::engine::Standing;
use isobar_core::recording::change;
use isobar_core::recording::format::{FORMAT, Header, VERSION};
use isobar_core::recording::parts::Parts;

/// Ticks from header to header: how much damage to a file can cost. A header holds a whole sample,
/// as much as some twenty ticks.
const CHAPTER: u64 = 600;
/// More would make the file hardly smaller: what changes is mostly digits.
const LEVEL: i32 = 1;

/// Why there is no recording, or no more.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Something else has a name that a segment would have.
    #[error("{0} exists and is no recording: name another file, or move it away")]
    Foreign(PathBuf),
    /// Not enough to hold a recording.
    #[error("a recording needs at least {} MiB and {} s", Bounds::LEAST_SIZE.0 >> 20, Bounds::LEAST_AGE.0 / 1_000_000_000)]
    TooSmall,
    /// The disk is full, a directory is missing, not permitted.
    #[error("cannot record to {path}")]
    Io {
        /// The recording.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// What a recording begins with.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The node.
    pub facts: NodeFacts,
    /// By which ticks are judged.
    pub settings: Settings,
    /// What the judge remembers.
    pub standing: Standing,
    /// Now.
    pub at: Moment,
}

type Chapter = Encoder<'static, Segment>;

/// Writes one recording.
pub struct Journal {
    path: PathBuf,
    segments: Segments,
    facts: NodeFacts,
    settings: Settings,
    chapter: Option<Chapter>,
    /// Ticks of this chapter.
    n_ticks: u64,
    before: Option<Parts>,
    /// Why it stopped.
    stopped: Option<String>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Journal {
    /// Begins a recording at `path`, or goes on with the one that is there in a new segment.
    /// Nothing that exists is overwritten.
    ///
    /// # Errors
    /// [`JournalError`]; nothing was written then.
    pub fn create(path: &Path, start: Start, bounds: Bounds) -> Result<Self, JournalError> {
        if bounds.size < Bounds::LEAST_SIZE || bounds.age < Bounds::LEAST_AGE {
            return Err(JournalError::TooSmall);
        }
        let io = |source| JournalError::Io { path: path.into(), source };
        let segments = Segments::open(path, bounds).map_err(io)?.map_err(JournalError::Foreign)?;
        let mut journal = Self {
            path: path.into(),
            segments,
            facts: start.facts,
            settings: start.settings,
            chapter: None,
            n_ticks: 0,
            before: None,
            stopped: None,
        };
        let begun = journal.segments.begin(None, start.at).map_err(io)?;
        let n = begun.n;
        if let Err(source) = journal.open_chapter(begun, &start.standing, start.at, false) {
            journal.segments.discard(n);
            return Err(io(source));
        }
        Ok(journal)
    }

    /// Writes one tick; `standing` is what the judge remembers after it. It is in the file when
    /// this returns, as far as a killed agent is concerned; a node that loses power may lose more.
    /// Does nothing once recording has stopped.
    ///
    /// # Errors
    /// Why recording stops here. Told once.
    pub fn write(
        &mut self,
        sample: &Sample,
        decision: &Decision,
        standing: &Standing,
    ) -> Result<(), JournalError> {
        let Some(mut chapter) = self.chapter.take() else { return Ok(()) };
        let at = sample.at;
        let now = Parts::from(sample.clone());
        let result = (|| {
            let line = change::line(self.before.as_ref(), &now, decision)?;
            put(&mut chapter, &line)?;
            self.before = Some(now);
            self.n_ticks += 1;
            let is_full = self.segments.is_full(chapter.get_ref(), at);
            if !is_full && self.n_ticks < CHAPTER {
                self.chapter = Some(chapter);
                return Ok(());
            }
            let segment = chapter.finish()?;
            let next = if is_full { self.segments.begin(Some(segment), at)? } else { segment };
            self.open_chapter(next, standing, at, true)
        })();
        result.map_err(|source| self.stop(source))
    }

    /// Goes by other settings from the next frame on: a chapter of its own, with what the judge
    /// remembers now.
    ///
    /// # Errors
    /// As [`Journal::write`].
    pub fn reload(
        &mut self,
        settings: Settings,
        standing: &Standing,
        at: Moment,
    ) -> Result<(), JournalError> {
        self.settings = settings;
        let Some(chapter) = self.chapter.take() else { return Ok(()) };
        let segment = chapter.finish();
        let result = segment.and_then(|next| self.open_chapter(next, standing, at, true));
        result.map_err(|source| self.stop(source))
    }

    /// What an operator sees of it.
    #[must_use]
    pub fn capability(&self) -> Capability {
        let (state, detail, remedy) = match &self.stopped {
            None => (CapabilityState::Attached, format!("to {}", self.path.display()), None),
            Some(why) => {
                let remedy = "make room or mend the disk, then restart the agent".to_owned();
                (CapabilityState::Off, format!("stopped: {why}"), Some(remedy))
            }
        };
        Capability { name: "recording".into(), state, detail, remedy }
    }

    fn open_chapter(
        &mut self,
        segment: Segment,
        standing: &Standing,
        at: Moment,
        continues: bool,
    ) -> io::Result<()> {
        let mut chapter = Encoder::new(segment, LEVEL)?;
        chapter.include_checksum(true)?;
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
        put(&mut chapter, &header)?;
        self.before = header.standing.before.map(Parts::from);
        self.n_ticks = 0;
        self.chapter = Some(chapter);
        Ok(())
    }

    fn stop(&mut self, source: io::Error) -> JournalError {
        self.stopped = Some(format!("cannot write to {}: {source}", self.path.display()));
        self.chapter = None;
        self.before = None;
        JournalError::Io { path: self.path.clone(), source }
    }
}

impl Drop for Journal {
    /// Closes the frame, so that a reader sees that nothing is missing.
    fn drop(&mut self) {
        if let Some(chapter) = self.chapter.take() {
            // Every line is in the file already; only the mark of the end may be missing.
            let _ = chapter.finish();
        }
    }
}

/// Writes a line and hands everything down to the file.
fn put(chapter: &mut Chapter, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *chapter, line)?;
    chapter.write_all(b"\n")?;
    chapter.flush()
}
