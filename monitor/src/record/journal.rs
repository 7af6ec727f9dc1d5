//! Writes a recording: one line for each tick, on disk before the next tick begins.
//! In: samples and decisions, and the engine's standing after each. A failure stops the recording,
//! not the agent: the caller logs it once, and [`Journal::capability`] shows it from then on.

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

/// Ticks between two headers: the most that damage to a file can cost. A header holds a whole sample
/// and takes as much space as about twenty ticks.
const CHAPTER: u64 = 600;
/// zstd level. Higher levels save little: what changes is mostly digits.
const LEVEL: i32 = 1;

/// Why a recording cannot begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{0} exists and is no recording: choose another file, or move it")]
    Foreign(PathBuf),
    #[error("a recording needs at least {} MiB and {} s", Bounds::LEAST_SIZE.0 >> 20, Bounds::LEAST_AGE.0 / 1_000_000_000)]
    TooSmall,
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
    before: Option<Parts>,
    /// Why recording stopped.
    stopped: Option<String>,
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

    /// Writes one tick; `standing` is the engine's after it. When this returns, the tick survives a
    /// kill of the agent; a power loss may lose more. After the first error recording has stopped,
    /// and this does nothing.
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

    /// Begins a chapter for new settings.
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

    /// The state of the recording, for `status`, `doctor` and the page.
    pub fn capability(&self) -> Capability {
        let (state, detail, remedy) = match &self.stopped {
            None => (CapabilityState::Attached, format!("to {}", self.path.display()), None),
            Some(why) => {
                let remedy =
                    "free disk space or repair the disk, then restart the agent".to_owned();
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
    /// Ends the zstd frame, so that a reader sees that nothing is missing.
    fn drop(&mut self) {
        if let Some(chapter) = self.chapter.take() {
            // Every line is in the file already; only the end mark may be missing.
            let _ = chapter.finish();
        }
    }
}

/// Writes a line and flushes it to the file.
fn put(chapter: &mut Chapter, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *chapter, line)?;
    chapter.write_all(b"\n")?;
    chapter.flush()
}
