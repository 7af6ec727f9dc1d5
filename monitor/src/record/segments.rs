//! The files of one recording: `FILE`, `FILE.1`, `FILE.2` .. in the order of time, bounded by bytes
//! and by age.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use zstd::stream::read::Decoder;

use super::lines::MAGIC;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::{Bytes, Nanos};
use isobar_core::recording::format::OPENING;

/// How much is kept: the oldest segments beyond either are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// All segments together.
    pub size: Bytes,
    /// From the first tick that is kept, by the wall clock.
    pub age: Nanos,
}

impl Default for Bounds {
    /// What a node of 500 cgroups fills in a day, at most, and a day.
    fn default() -> Self {
        Self { size: Bytes(512 << 20), age: Nanos(24 * 3_600 * Nanos::SECOND.0) }
    }
}

impl Bounds {
    /// Below this, a recording would be little more than headers.
    pub const LEAST_SIZE: Bytes = Bytes(1 << 20);
    /// Below this, as well.
    pub const LEAST_AGE: Nanos = Nanos(60 * Nanos::SECOND.0);
    /// What is removed at a time is a segment: an eighth of what may be kept.
    const SEGMENTS: u64 = 8;

    /// After how many bytes the next segment begins.
    pub(super) fn segment_size(self) -> u64 {
        self.size.0 / Self::SEGMENTS
    }

    /// After how long the next segment begins.
    pub(super) fn segment_age(self) -> Nanos {
        Nanos(self.age.0 / Self::SEGMENTS)
    }
}

/// A segment that is complete.
#[derive(Debug, Clone, Copy)]
struct Old {
    size: u64,
    /// By the wall clock; 0 if its first line was lost.
    begun: Nanos,
}

/// The segments of one recording, the newest open for writing.
#[derive(Debug)]
pub(super) struct Segments {
    path: PathBuf,
    bounds: Bounds,
    old: BTreeMap<u64, Old>,
    next: u64,
}

/// A file that knows how much was written to it.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    pub(super) n: u64,
    pub(super) size: u64,
    pub(super) begun: Moment,
}

impl Write for Segment {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.size += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The segments of the recording at `path` that exist, oldest first.
pub(super) fn existing(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let Some(name) = path.file_name() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let file = entry?.file_name();
        if let Some(n) = number(&file, name) {
            all.push((n, segment(path, n)));
        }
    }
    all.sort();
    Ok(all)
}

/// `FILE` is 0, `FILE.7` is 7; `None` for any other name.
fn number(file: &OsStr, name: &OsStr) -> Option<u64> {
    if file == name {
        return Some(0);
    }
    let rest = file.as_encoded_bytes().strip_prefix(name.as_encoded_bytes())?;
    let digits = std::str::from_utf8(rest.strip_prefix(b".")?).ok()?;
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    is_plain.then(|| digits.parse().ok()).flatten()
}

fn segment(path: &Path, n: u64) -> PathBuf {
    if n == 0 {
        return path.into();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

impl Segments {
    /// Goes on after the segments that exist. The path of the first that is no recording, if one
    /// is there: nothing of that name is touched then.
    pub(super) fn open(path: &Path, bounds: Bounds) -> io::Result<Result<Self, PathBuf>> {
        let mut old = BTreeMap::new();
        let mut next = 0;
        for (n, file) in existing(path)? {
            let metadata = fs::metadata(&file)?;
            let begun = if metadata.is_file() { begun(&file)? } else { None };
            let Some(begun) = begun else { return Ok(Err(file)) };
            old.insert(n, Old { size: metadata.len(), begun });
            next = n.saturating_add(1);
        }
        Ok(Ok(Self { path: path.into(), bounds, old, next }))
    }

    /// Begins a segment after `before`, and removes what is then too much or too old.
    pub(super) fn begin(&mut self, before: Option<Segment>, at: Moment) -> io::Result<Segment> {
        if let Some(Segment { n, size, begun, .. }) = before {
            self.old.insert(n, Old { size, begun: begun.wall });
        }
        let n = self.next;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            // Names, labels and annotations of pods are not for everybody.
            .mode(0o600)
            .open(segment(&self.path, n))?;
        self.next = n.saturating_add(1);
        self.prune(at)?;
        Ok(Segment { file, n, size: 0, begun: at })
    }

    fn prune(&mut self, now: Moment) -> io::Result<()> {
        let room = self.bounds.size.0 - self.bounds.segment_size();
        let oldest = Nanos(now.wall.0.saturating_sub(self.bounds.age.0));
        while let Some((n, old)) = self.old.first_key_value() {
            let total: u64 = self.old.values().map(|old| old.size).sum();
            if total <= room && old.begun >= oldest {
                break;
            }
            let n = *n;
            match fs::remove_file(segment(&self.path, n)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.old.remove(&n),
            };
        }
        Ok(())
    }

    /// True if the segment has had its share and the next should begin.
    pub(super) fn is_full(&self, segment: &Segment, now: Moment) -> bool {
        segment.size >= self.bounds.segment_size()
            || now.boot.since(segment.begun.boot) >= self.bounds.segment_age()
    }

    /// Removes what was begun and holds nothing.
    pub(super) fn discard(&self, n: u64) {
        // It could not be written to either; there is nothing more to do about it.
        let _ = fs::remove_file(segment(&self.path, n));
    }
}

/// When a segment began, told from its first bytes; 0 if it is empty or cut off that early.
/// `None` if it is no recording.
fn begun(path: &Path) -> io::Result<Option<Nanos>> {
    const ENOUGH: u64 = 512;
    let mut magic = Vec::new();
    File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    if !MAGIC.starts_with(&magic) {
        return Ok(None);
    }
    let mut start = Vec::new();
    // Cut off where the agent was killed: what came before the cut is read all the same.
    let _ = Decoder::new(File::open(path)?)?.take(ENOUGH).read_to_end(&mut start);
    let opening = OPENING.as_bytes();
    if start.len() < opening.len() {
        return Ok(opening.starts_with(&start).then_some(Nanos(0)));
    }
    if !start.starts_with(opening) {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&start);
    let at = text.split_once("\"at\":").and_then(|(_, rest)| {
        serde_json::Deserializer::from_str(rest).into_iter::<Moment>().next()?.ok()
    });
    Ok(Some(at.map_or(Nanos(0), |at| at.wall)))
}
