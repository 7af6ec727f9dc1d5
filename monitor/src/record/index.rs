//! Where a moment is in a recording. The file is its own index: zstd frames and their blocks tell
//! their length (RFC 8878, 3.1), so chapters and marks are found without decompressing what lies
//! between, and each begins with the moment at which it begins.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::lines::{MAGIC, decoder};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::recording::{format, mark};

/// The fields that identify a header or a mark stand within so many bytes. The journal ends the first
/// block of a frame there, so that no more is decompressed.
pub(super) const HEAD: usize = 512;
/// A segment in which the wall clock went no more than that faster or slower than the kernel's was
/// written in the order of both.
const STEADY: Nanos = Nanos::SECOND;
/// Holds the first block of a frame.
const BUFFER: usize = 2 << 10;

/// What a frame begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    /// A header, or a mark in the chapter of the header before it.
    At(Moment),
    Mark(Moment),
    /// Its first line is a header that is cut off.
    Unknown,
    /// It is no recording.
    Foreign,
}

/// Where to begin to read.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// The segment, by its place in the list.
    pub(super) segment: usize,
    /// The segment itself: its path may name a thinned one by now. `None` if there is none.
    pub(super) file: Option<Arc<File>>,
    /// The byte in it where the chapter begins. 0 if frames cannot be told apart.
    pub(super) chapter: u64,
    /// The byte where the last mark in the chapter begins that is before the moment.
    pub(super) mark: Option<u64>,
}

/// The chapter that holds the moment `wall`: the last that begins before it, else the first. A chapter
/// begins with the moment of the tick before its own first. Of those before the place `end`, if there
/// is one.
pub(super) fn find(segments: &[PathBuf], wall: Nanos, end: Option<&Place>) -> io::Result<Place> {
    let (n, end) = match end {
        None => (segments.len(), u64::MAX),
        Some(Place { segment, chapter: 0, .. }) => (*segment, u64::MAX),
        Some(Place { segment, chapter, .. }) => (segment + 1, *chapter),
    };
    let mut found = None;
    for (segment, path) in segments.iter().enumerate().take(n).rev() {
        let Some(file) = open(path)? else { continue };
        let begun = begun(&file)?;
        found = Some((segment, file));
        if matches!(begun, Begun::At(at) if at.wall < wall) {
            break;
        }
    }
    let Some((segment, file)) = found else { return Ok(Place::default()) };
    let end = if segment + 1 == n { end } else { u64::MAX };
    Ok(Place { segment, ..within(file, wall, end)? })
}

/// `None` if it was deleted, for want of room, since it was listed.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// When the first chapter began, of those since the moment `from`, whose node had this boot.
pub(super) fn first_of_boot(
    segments: &[PathBuf],
    boot_id: &str,
    from: Nanos,
) -> io::Result<Option<Moment>> {
    let Place { segment, file: mut found, mut chapter, .. } = find(segments, from, None)?;
    for path in segments.iter().skip(segment) {
        let file = match found.take() {
            Some(file) => Some(file),
            None => open(path)?.map(Arc::new),
        };
        let Some(file) = file else { continue };
        let mut next = Some(std::mem::take(&mut chapter));
        while let Some(at) = next {
            (&*file).seek(SeekFrom::Start(at))?;
            let text = head(&file)?.unwrap_or_default();
            if text.starts_with(format::OPENING.as_bytes())
                && let Some(facts) = field::<NodeFacts>(&text, "facts")
                && facts.boot_id == boot_id
            {
                return Ok(field(&text, "at"));
            }
            next = frame_end(&file, at)?.filter(|_| !text.is_empty());
        }
    }
    Ok(None)
}

/// The last chapter before the byte `end` that begins before `wall`, or has a mark before it.
fn within(file: File, wall: Nanos, end: u64) -> io::Result<Place> {
    let end = file.metadata()?.len().min(end);
    let mut begins = vec![0];
    while let Some(at) = begins.last().map(|at| frame_end(&file, *at)).transpose()?.flatten() {
        // A frame that is still being written has no end yet.
        if at >= end {
            break;
        }
        begins.push(at);
    }
    let n = n_before(&file, &begins, wall)?;
    let mut mark = None;
    for chapter in begins.into_iter().take(n).rev() {
        (&file).seek(SeekFrom::Start(chapter))?;
        match begun(&file)? {
            Begun::At(at) if mark.is_some() || at.wall < wall => {
                return Ok(Place { chapter, mark, file: Some(file.into()), ..Place::default() });
            }
            Begun::Mark(at) if mark.is_none() && at.wall < wall => mark = Some(chapter),
            _ => {}
        }
    }
    Ok(Place { file: Some(file.into()), ..Place::default() })
}

/// How many frames begin before `wall`; all where they may be in another order.
fn n_before(mut file: &File, begins: &[u64], wall: Nanos) -> io::Result<usize> {
    let all = begins.len();
    let mut at = |n: usize| {
        file.seek(SeekFrom::Start(begins[n]))?;
        io::Result::Ok(match begun(file)? {
            Begun::At(at) | Begun::Mark(at) => Some(at),
            Begun::Unknown | Begun::Foreign => None,
        })
    };
    let (Some(first), Some(last)) = (at(0)?, at(all - 1)?) else { return Ok(all) };
    let [by_boot, by_wall] = [last.boot.since(first.boot), last.wall.since(first.wall)];
    if last.boot < first.boot || by_boot.0.abs_diff(by_wall.0) > STEADY.0 {
        return Ok(all);
    }
    let (mut low, mut high) = (0, all);
    while low < high {
        let middle = low.midpoint(high);
        match at(middle)? {
            Some(at) if at.wall < wall => low = middle + 1,
            Some(_) => high = middle,
            None => return Ok(all),
        }
    }
    Ok(low)
}

/// Where the frame ends that begins at byte `from`; `None` if it does not end, or is none.
pub(super) fn frame_end(file: &File, from: u64) -> io::Result<Option<u64>> {
    match walk(file, from) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        other => other,
    }
}

fn walk(file: &File, from: u64) -> io::Result<Option<u64>> {
    let mut head = [0; 5];
    file.read_exact_at(&mut head, from)?;
    if head[..4] != MAGIC {
        return Ok(None);
    }
    let descriptor = head[4];
    let is_single = descriptor & 0x20 != 0;
    let has_checksum = descriptor & 0x04 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 0x03)];
    let content = match descriptor >> 6 {
        0 => u64::from(is_single),
        more => 1 << more,
    };
    let mut at = from + 5 + u64::from(!is_single) + dictionary + content;
    loop {
        let mut block = [0; 4];
        file.read_exact_at(&mut block[..3], at)?;
        let block = u32::from_le_bytes(block);
        let is_run = (block >> 1) & 0x03 == 1;
        at += 3 + if is_run { 1 } else { u64::from(block >> 3) };
        if block & 1 == 1 {
            return Ok(Some(at + if has_checksum { 4 } else { 0 }));
        }
    }
}

/// The first bytes of the text in the frame at the file's position; `None` if it is no frame.
fn head(mut file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut magic = Vec::new();
    let from = file.stream_position()?;
    file.take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    if !MAGIC.starts_with(&magic) {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(from))?;
    let mut start = Vec::new();
    let text = decoder(BufReader::with_capacity(BUFFER, file))?;
    // The file may be cut off where the agent was killed; the part before is readable.
    let _ = text.take(HEAD as u64).read_to_end(&mut start);
    Ok(Some(start))
}

/// The first field of this name in it.
pub(super) fn field<T: DeserializeOwned>(start: &[u8], name: &str) -> Option<T> {
    let text = String::from_utf8_lossy(start);
    let (_, rest) = text.split_once(&format!("\"{name}\":"))?;
    serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()
}

/// What the frame at the file's position begins with.
pub(super) fn begun(file: &File) -> io::Result<Begun> {
    let Some(start) = head(file)? else { return Ok(Begun::Foreign) };
    let opening = format::OPENING.as_bytes();
    if start.len() < opening.len() {
        return Ok(if opening.starts_with(&start) { Begun::Unknown } else { Begun::Foreign });
    }
    let is_mark = start.starts_with(mark::OPENING.as_bytes());
    Ok(match (start.starts_with(opening), is_mark, field(&start, "at")) {
        (true, _, Some(at)) => Begun::At(at),
        (true, _, None) => Begun::Unknown,
        (_, true, Some(at)) => Begun::Mark(at),
        _ => Begun::Foreign,
    })
}
