//! Where a moment is in a recording. The file is its own index: zstd frames and their blocks tell
//! their length (RFC 8878, 3.1), so chapters are found without decompressing what lies between, and
//! each begins with the moment at which it begins.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use zstd::stream::read::Decoder;

use super::lines::MAGIC;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::recording::format::OPENING;

/// The fields that identify a header stand within so many bytes.
const HEAD: u64 = 512;
/// Small: what is between the headers of blocks is not read.
const BUFFER: usize = 4 << 10;

/// When a frame begins to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    At(Moment),
    /// Its first line is a header that is cut off.
    Unknown,
    /// It is no recording.
    Foreign,
}

/// The segment, by its place in the list, and the byte in it where the chapter begins that holds the
/// moment `wall`: the last that begins before it, else the first. A chapter begins with the moment of
/// the tick before its own first. 0 if frames cannot be told apart.
pub(super) fn find(segments: &[PathBuf], wall: Nanos) -> io::Result<(usize, u64)> {
    let mut n = 0;
    for (i, path) in segments.iter().enumerate() {
        if matches!(begun(File::open(path)?)?, Begun::At(at) if at.wall < wall) {
            n = i;
        }
    }
    let Some(path) = segments.get(n) else { return Ok((0, 0)) };
    Ok((n, chapter(path, wall)?))
}

/// The byte where the last chapter begins that begins before `wall`.
fn chapter(path: &Path, wall: Nanos) -> io::Result<u64> {
    let mut file = BufReader::with_capacity(BUFFER, File::open(path)?);
    let mut begins = Vec::new();
    let mut at = 0;
    while let Some(end) = frame_end(&mut file, at)? {
        begins.push(at);
        at = end;
    }
    // A frame that is still being written has no end yet.
    begins.push(at);
    for begin in begins.into_iter().rev() {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(begin))?;
        if matches!(begun(file)?, Begun::At(at) if at.wall < wall) {
            return Ok(begin);
        }
    }
    Ok(0)
}

/// Where the frame ends that begins at byte `from`; `None` if it does not end, or is none.
fn frame_end(file: &mut BufReader<File>, from: u64) -> io::Result<Option<u64>> {
    match walk(file, from) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        other => other,
    }
}

fn walk(file: &mut BufReader<File>, from: u64) -> io::Result<Option<u64>> {
    let mut head = [0; 5];
    file.read_exact(&mut head)?;
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
    skip(file, at - from - 5)?;
    loop {
        let mut block = [0; 4];
        file.read_exact(&mut block[..3])?;
        let block = u32::from_le_bytes(block);
        let is_run = (block >> 1) & 0x03 == 1;
        let length = if is_run { 1 } else { u64::from(block >> 3) };
        skip(file, length)?;
        at += 3 + length;
        if block & 1 == 1 {
            break;
        }
    }
    if has_checksum {
        skip(file, 4)?;
        at += 4;
    }
    // Beyond the end of the file nothing is read, and nothing is refused.
    Ok((!file.fill_buf()?.is_empty()).then_some(at))
}

fn skip(file: &mut BufReader<File>, n: u64) -> io::Result<()> {
    file.seek_relative(i64::try_from(n).map_err(io::Error::other)?)
}

/// What the frame at the file's position begins with.
pub(super) fn begun(mut file: File) -> io::Result<Begun> {
    let mut magic = Vec::new();
    let from = file.stream_position()?;
    (&mut file).take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    if !MAGIC.starts_with(&magic) {
        return Ok(Begun::Foreign);
    }
    file.seek(SeekFrom::Start(from))?;
    let mut start = Vec::new();
    // The file may be cut off where the agent was killed; the part before is readable.
    let _ = Decoder::new(file)?.take(HEAD).read_to_end(&mut start);
    let opening = OPENING.as_bytes();
    if start.len() < opening.len() {
        return Ok(if opening.starts_with(&start) { Begun::Unknown } else { Begun::Foreign });
    }
    if !start.starts_with(opening) {
        return Ok(Begun::Foreign);
    }
    let text = String::from_utf8_lossy(&start);
    let at = text.split_once("\"at\":").and_then(|(_, rest)| {
        serde_json::Deserializer::from_str(rest).into_iter::<Moment>().next()?.ok()
    });
    Ok(at.map_or(Begun::Unknown, Begun::At))
}
