//! Reads a recording, segment after segment: headers, samples, and decisions as they were written.
//! Lost ticks are reported in their place, and reading goes on at the next header.

mod moment;
mod passed;
mod recorded;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::index;
use super::lines::{Lines, Piece};
use super::segments::{existing, path_of};
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::recording::apply::{Misfit, State};
use isobar_core::recording::format::{FORMAT, Header, OLDEST, OPENING, Opening, Tick, VERSION};
use isobar_core::recording::{header, mark};
use isobar_core::room;

pub use self::moment::Marked;
use self::passed::Passed;
pub use self::recorded::Recorded;
use self::recorded::Sought;

/// The first bytes of a tick, as isobar writes it.
const TICK: &[u8] = b"{\"kind\":\"tick\",";
/// A decision takes some kilobytes.
const DECISION: usize = 1 << 20;
/// A longer line of another kind is passed over: none is known.
const OTHER: usize = 4 << 20;
/// Of a reason of damage so many characters are told.
const REASON: usize = 300;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {path}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{0} is empty: nothing was recorded")]
    Empty(PathBuf),
    #[error("{0} is no recording: `isobar run --record FILE` makes one")]
    NotARecording(PathBuf),
    #[error("{0} is no regular file: write what it gives to a file, and name that one")]
    NotRegular(PathBuf),
    #[error("the recording is unreadable: {0}")]
    Unreadable(String),
    #[error(
        "{path} has format version {version}, this isobar reads versions {OLDEST} to {VERSION}: replay \
         it with the isobar that recorded it, or move it away"
    )]
    OtherVersion { path: PathBuf, version: u32 },
}

impl ReadError {
    /// True unless reading itself failed.
    pub fn is_invalid_input(&self) -> bool {
        let Self::Io { source, .. } = self else { return true };
        matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The beginning of a chapter.
    Header(Box<Header>),
    Frame(Box<Recorded>),
    /// Ticks are missing here, for this reason.
    Lost(String),
    /// A message for the operator.
    Notice(String),
    /// A line of another kind, as it was written.
    Other(String),
}

/// A recording, from its first readable entry.
#[derive(Default)]
pub struct Recording {
    path: PathBuf,
    segments: VecDeque<PathBuf>,
    lines: Option<(PathBuf, Lines)>,
    /// `None` until a header is read, and after damage.
    state: Option<State>,
    /// When the last tick was.
    last: Option<Moment>,
    /// Ticks that were skipped for want of a header before them.
    n_skipped: u64,
    /// A segment was found to be of a recording.
    has_begun: bool,
    /// The segment is open, and nothing of it was read.
    is_fresh: bool,
    /// That a newer version wrote it was reported.
    has_told_version: bool,
    waiting: VecDeque<Entry>,
    /// The moment of the last chapter or mark of the last segment that has to be read.
    bound: Option<Moment>,
    sought: Sought,
    is_over: bool,
}

impl Recording {
    /// Opens `path` and, if they exist, `path.1`, `path.2` .. after it. An error if nothing in them
    /// is readable.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::of(path, segments_of(path).unwrap_or_else(|_| vec![path.into()]).into())
    }

    /// Only this file, whatever stands beside it.
    pub fn open_alone(path: &Path) -> Result<Self, ReadError> {
        Self::of(path, VecDeque::from([path.to_owned()]))
    }

    /// An open file, also one in memory.
    pub fn open_file(file: &File) -> Result<Self, ReadError> {
        Self::open_alone(&path_of(file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn of(path: &Path, segments: VecDeque<PathBuf>) -> Result<Self, ReadError> {
        let mut recording = Self::unread(path, segments);
        if !recording.next_segment()? {
            return Err(ReadError::Empty(told(path.into())));
        }
        recording.find_first()?;
        Ok(recording)
    }

    fn unread(path: &Path, segments: VecDeque<PathBuf>) -> Self {
        Self { path: told(path.into()), segments, is_fresh: true, ..Self::default() }
    }

    /// Reads on to the first header, and keeps what is to be told of the way there.
    fn find_first(&mut self) -> Result<(), ReadError> {
        let mut passed = Passed::default();
        while let Some(entry) = self.read()? {
            let is_header = matches!(entry, Entry::Header(_));
            passed.push(entry);
            if is_header {
                self.wait_for(passed);
                return Ok(());
            }
        }
        let lost = passed.0.into_iter().find_map(|entry| match entry {
            Entry::Lost(why) => Some(why),
            _ => None,
        });
        let why = lost.unwrap_or_else(|| format!("{} has no header", self.path.display()));
        Err(ReadError::Unreadable(why))
    }

    /// Has these entries read before the others.
    fn wait_for(&mut self, mut passed: Passed) {
        passed.0.append(&mut self.waiting);
        self.waiting = passed.0;
    }

    /// Opens the next segment that is not empty; false if there is none.
    fn next_segment(&mut self) -> Result<bool, ReadError> {
        self.lines = None;
        while let Some(path) = self.segments.pop_front() {
            let lines = match Lines::open(&path) {
                // Deleted, for want of room, since it was listed: the next header tells what is missing.
                Err(why) if why.kind() == io::ErrorKind::NotFound && !self.segments.is_empty() => {
                    continue;
                }
                lines => lines.map_err(|source| ReadError::Io { path: path.clone(), source })?,
            };
            if let Some(lines) = lines {
                (self.lines, self.is_fresh) = (Some((told(path), lines)), true);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read(&mut self) -> Result<Option<Entry>, ReadError> {
        loop {
            if let Some(entry) = self.waiting.pop_front() {
                return Ok(Some(entry));
            }
            let Some((path, lines)) = &mut self.lines else { return Ok(None) };
            let (path, is_plain) = (path.clone(), lines.is_plain());
            let piece = lines.next();
            let piece = piece.map_err(|source| ReadError::Io { path: path.clone(), source })?;
            // Within a recording a segment that is compressed may have lost its first header.
            let is_first = std::mem::take(&mut self.is_fresh) && (is_plain || !self.has_begun);
            match piece {
                Some(Piece::Line(line)) if is_first && !begins(&opening(&line)) => {
                    self.pass_over(path)?;
                }
                Some(Piece::Torn(_)) if is_first && is_plain => self.pass_over(path)?,
                Some(Piece::Line(line)) => self.take(&line, &path)?,
                Some(Piece::Torn(why)) => self.lose(&path, &why),
                None => {
                    self.tell_skipped();
                    self.next_segment()?;
                }
            }
        }
    }

    /// Goes on with the next segment after one that does not begin as a recording does.
    fn pass_over(&mut self, path: PathBuf) -> Result<(), ReadError> {
        let why = "it is no recording, or its beginning is damaged: it is passed over";
        self.tell_skipped();
        match (self.has_begun, self.segments.is_empty()) {
            (true, _) => self.lose(&path, why),
            (false, true) => return Err(ReadError::NotARecording(path)),
            (false, false) => {
                self.waiting.push_back(Entry::Notice(format!("{}: {why}", path.display())));
            }
        }
        self.next_segment().map(drop)
    }

    fn take(&mut self, line: &[u8], path: &Path) -> Result<(), ReadError> {
        self.has_begun = true;
        let opening = opening(line);
        let is_header = is_header(&opening);
        if is_header && !(OLDEST..=VERSION).contains(&opening.version) {
            return Err(ReadError::OtherVersion { path: path.into(), version: opening.version });
        }
        if begins(&opening) && self.is_past_bound() {
            self.lines = None;
            return Ok(());
        }
        let taken = match opening.kind.as_str() {
            _ if is_header => self.begin(line),
            "tick" if self.state.is_none() => {
                self.n_skipped += 1;
                Ok(())
            }
            "tick" => self.tick(line),
            // Only who begins at a mark needs it.
            mark::KIND => Ok(()),
            "" => Err(Misfit("it is no line of a recording".into())),
            _ if line.len() > OTHER => Ok(()),
            _ => {
                let text = String::from_utf8_lossy(line).into_owned();
                self.waiting.push_back(Entry::Other(text));
                Ok(())
            }
        };
        if let Err(Misfit(why)) = taken {
            self.lose(path, &format!("cannot apply a line: {why}"));
        }
        Ok(())
    }

    fn begin(&mut self, line: &[u8]) -> Result<(), Misfit> {
        self.tell_skipped();
        self.state = None;
        self.sought.until = Nanos(0);
        let (mut header, state) = header::read(line)?;
        // Of a segment that was thinned, the ticks between are gone.
        let before = header.standing.before.as_ref().map(|before| before.at);
        header.continues &= self.last.is_none() || self.last == before;
        self.tell_version(&header.isobar);
        self.state = Some(state);
        self.waiting.push_back(Entry::Header(Box::new(header)));
        Ok(())
    }

    /// True after a tick that is later than the bound by both clocks: not while the wall clock is wrong.
    fn is_past_bound(&self) -> bool {
        let Some((bound, last)) = self.bound.zip(self.last) else { return false };
        self.segments.is_empty() && last.boot > bound.boot && index::is_steady(bound, last)
    }

    fn tick(&mut self, line: &[u8]) -> Result<(), Misfit> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let tick: Tick<Option<Box<RawValue>>> = room::from_slice(line)?;
        let decision = state.apply(tick)?.ok_or_else(|| Misfit("no decision".into()))?;
        if decision.get().len() > DECISION {
            return Err(Misfit(format!("a decision of more than {} MiB", DECISION >> 20)));
        }
        let sample = state.sample()?;
        let before = self.last.replace(sample.at).unwrap_or_default();
        let recorded = self.sought.recorded(sample, decision.get().into(), before);
        self.waiting.push_back(Entry::Frame(Box::new(recorded)));
        Ok(())
    }

    /// Reports once that a newer isobar wrote this. Fields of older versions that this one no longer
    /// has are no news: nothing depends on them any more.
    fn tell_version(&mut self, wrote: &str) {
        const READS: &str = env!("CARGO_PKG_VERSION");
        let part = |part: &str| part.parse::<u64>().ok();
        let is_newer = wrote.split('.').map_while(part).gt(READS.split('.').map_while(part));
        if is_newer && !std::mem::replace(&mut self.has_told_version, true) {
            let wrote: String = wrote.chars().take(REASON).collect();
            let text = format!(
                "recorded by isobar {wrote}, read by isobar {READS}: fields that {READS} does not \
                 know are ignored"
            );
            self.waiting.push_back(Entry::Notice(text));
        }
    }

    fn tell_skipped(&mut self) {
        let n = std::mem::take(&mut self.n_skipped);
        if n > 0 {
            let text = format!(
                "{n} ticks after that are unreadable, because they are changes to the lost ones"
            );
            self.waiting.push_back(Entry::Lost(text));
        }
    }

    fn lose(&mut self, path: &Path, why: &str) {
        self.state = None;
        // A reason may quote the line.
        let why: String = why.chars().take(REASON).collect();
        self.waiting.push_back(Entry::Lost(format!("{}: {why}", path.display())));
    }
}

/// What identifies a line. As isobar writes it, it is told by its beginning: most lines are long.
fn opening(line: &[u8]) -> Opening {
    let of = |kind: &str| Opening { kind: kind.into(), ..Opening::default() };
    if line.starts_with(TICK) {
        return of("tick");
    }
    if line.starts_with(mark::OPENING.as_bytes()) {
        return of(mark::KIND);
    }
    let head = &line[..line.len().min(index::HEAD)];
    let version = index::field(head, "version").filter(|_| head.starts_with(OPENING.as_bytes()));
    match version {
        Some(version) => Opening { kind: "header".into(), format: FORMAT.into(), version },
        None => serde_json::from_slice(line).unwrap_or_default(),
    }
}

fn is_header(opening: &Opening) -> bool {
    opening.kind == "header" && opening.format == FORMAT
}

fn begins(opening: &Opening) -> bool {
    is_header(opening) || opening.kind == mark::KIND
}

/// An open file by the name that its reader knows.
fn told(path: PathBuf) -> PathBuf {
    match path.starts_with("/proc/self/fd") {
        true => fs::read_link(&path).unwrap_or(path),
        false => path,
    }
}

/// # Errors
/// For a pipe or a device, which can be read only once or has no end.
pub(super) fn is_regular(path: &Path) -> Result<(), ReadError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => Err(ReadError::NotRegular(path.into())),
        _ => Ok(()),
    }
}

/// The segments of a recording, oldest first; the file itself, if there is none.
fn segments_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let segments: Vec<_> = existing(path)?.into_iter().map(|(_, path)| path).collect();
    Ok(if segments.is_empty() { vec![path.into()] } else { segments })
}

impl Iterator for Recording {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let entry = self.read().transpose();
        self.is_over = !matches!(entry, Some(Ok(_)));
        entry
    }
}

#[cfg(test)]
mod tests;
