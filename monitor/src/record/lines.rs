//! The lines of one segment, compressed or plain. Damage is reported and not fatal: reading goes on
//! at the next zstd frame.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use serde::de::IgnoredAny;
use zstd::stream::read::Decoder;

use super::index::Heads;

/// The first bytes of a zstd frame (RFC 8878, 3.1.1).
pub(super) const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// No recorded line is longer. The longest are those that hold a whole sample: some 3.5 KB for a
/// cgroup, and 75 bytes more for each CPU of one that ever waited. 5,000 cgroups of which all waited
/// on 96 CPUs take 51 MiB; so do 2,048, as many as the kernel side has room for, on 256 CPUs.
pub(super) const LONGEST: u64 = 64 << 20;
/// What a frame may ask a reader to remember, as a power of two: levels up to 19 ask for no more.
pub(super) const WINDOW: u32 = 23;

pub(super) enum Piece {
    /// A line without its newline.
    Line(Vec<u8>),
    /// Lines are missing here, for this reason.
    Torn(String),
}

type Frame = BufReader<Decoder<'static, BufReader<Arc<File>>>>;

enum Input {
    /// Before a frame or the end.
    Between(BufReader<Arc<File>>),
    /// Inside a frame that begins at this byte.
    Frame(u64, Box<Frame>),
    Plain(BufReader<Arc<File>>),
    Done,
}

pub(super) struct Lines {
    input: Input,
    /// What is read: its position is that of the input.
    file: Arc<File>,
}

impl Lines {
    /// `None` if the file is empty.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        Self::here(File::open(path)?.into())
    }

    /// The same from this byte of an open file, where a frame begins or the file does.
    pub(super) fn at(file: Arc<File>, begin: u64) -> io::Result<Option<Self>> {
        (&*file).seek(SeekFrom::Start(begin))?;
        Self::here(file)
    }

    fn here(file: Arc<File>) -> io::Result<Option<Self>> {
        let begin = (&*file).stream_position().unwrap_or_default();
        let mut from = BufReader::new(Arc::clone(&file));
        let start = from.fill_buf()?;
        if start.is_empty() {
            return Ok(None);
        }
        let n = start.len().min(MAGIC.len());
        // Behind a beginning that is damaged there may be frames that are not.
        let is_damaged = || start[0] != b'{' && has_frame(&file, begin).unwrap_or(false);
        let is_frame = start[..n] == MAGIC[..n] || is_damaged();
        let input = if is_frame { Input::Between(from) } else { Input::Plain(from) };
        Ok(Some(Self { input, file }))
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self.input, Input::Plain(_))
    }

    /// The next piece; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let piece = match std::mem::replace(&mut self.input, Input::Done) {
                Input::Done => return Ok(None),
                Input::Between(file) => self.enter(file)?,
                Input::Frame(from, frame) => self.within(from, frame)?,
                Input::Plain(file) => self.plain(file)?,
            };
            if piece.is_some() {
                return Ok(piece);
            }
        }
    }

    /// Enters the frame that begins here.
    fn enter(&mut self, mut file: BufReader<Arc<File>>) -> io::Result<Option<Piece>> {
        // A pipe has no position: damage in it cannot be skipped.
        let from = file.stream_position().unwrap_or_default();
        let start = file.fill_buf()?;
        if start.is_empty() {
            return Ok(None);
        }
        let n = start.len().min(MAGIC.len());
        if start[..n] != MAGIC[..n] {
            return self.seek_frame(file, from, "bytes that are no zstd frame");
        }
        let text = BufReader::new(decoder(file)?.single_frame());
        self.input = Input::Frame(from, Box::new(text));
        Ok(None)
    }

    fn within(&mut self, from: u64, mut frame: Box<Frame>) -> io::Result<Option<Piece>> {
        let mut line = Vec::new();
        match read_line(&mut *frame, &mut line) {
            Ok(0) => {
                self.input = Input::Between(frame.into_inner().finish());
                Ok(None)
            }
            Ok(_) => {
                let piece = whole(line);
                self.input = Input::Frame(from, frame);
                Ok(Some(piece))
            }
            Err(error) => {
                let mut file = frame.into_inner().finish();
                if error.kind() == io::ErrorKind::UnexpectedEof && file.fill_buf()?.is_empty() {
                    return Ok(Some(cut_off()));
                }
                self.seek_frame(file, from + 1, &format!("a damaged frame ({error})"))
            }
        }
    }

    fn plain(&mut self, mut file: BufReader<Arc<File>>) -> io::Result<Option<Piece>> {
        let mut line = Vec::new();
        match read_line(&mut file, &mut line) {
            Ok(0) => Ok(None),
            Ok(_) => {
                self.input = Input::Plain(file);
                Ok(Some(whole(line)))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Ok(Some(Piece::Torn(error.to_string())))
            }
            Err(error) => Err(error),
        }
    }

    /// Searches the next frame from byte `from` on.
    fn seek_frame(
        &mut self,
        mut file: BufReader<Arc<File>>,
        from: u64,
        what: &str,
    ) -> io::Result<Option<Piece>> {
        if file.seek(SeekFrom::Start(from)).is_err() {
            return Ok(Some(Piece::Torn(what.into())));
        }
        let mut seen = [0; MAGIC.len()];
        let mut at = from;
        for byte in file.by_ref().bytes() {
            seen.rotate_left(1);
            seen[MAGIC.len() - 1] = byte?;
            at += 1;
            if at - from >= MAGIC.len() as u64 && seen == MAGIC {
                file.seek(SeekFrom::Start(at - MAGIC.len() as u64))?;
                self.input = Input::Between(file);
                return Ok(Some(Piece::Torn(format!("{what} at byte {from}"))));
            }
        }
        Ok(Some(Piece::Torn(format!("{what} at byte {from}, and no frame after it"))))
    }
}

/// Whether a frame of a recording is found behind this byte, no farther than where the next chapter begins.
fn has_frame(mut file: &File, begin: u64) -> io::Result<bool> {
    let (end, read) = (file.metadata()?.len(), file.stream_position()?);
    let end = end.min(begin.saturating_add(LONGEST));
    let found = Heads::new()?.next_frame(file, begin + 1, end)?;
    file.seek(SeekFrom::Start(read))?;
    Ok(found.is_some())
}

pub(super) fn decoder<R: BufRead>(from: R) -> io::Result<Decoder<'static, R>> {
    let mut decoder = Decoder::with_buffer(from)?;
    decoder.window_log_max(WINDOW)?;
    Ok(decoder)
}

/// Reads one line; on an error `line` keeps what was read.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let n = from.by_ref().take(LONGEST).read_until(b'\n', line)?;
    if n as u64 == LONGEST {
        let text = format!("a line of more than {} MiB", LONGEST >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(n)
}

/// A line, or the reason why it is not a whole one.
fn whole(mut line: Vec<u8>) -> Piece {
    if line.last() == Some(&b'\n') {
        line.pop();
        return Piece::Line(line);
    }
    if serde_json::from_slice::<IgnoredAny>(&line).is_ok() {
        return Piece::Line(line);
    }
    cut_off()
}

/// The end that a killed agent leaves. Whether a tick is missing is unknown: a cut inside a block
/// hides its content.
pub(super) const CUT_OFF: &str =
    "it ends in the middle: the agent still writes, or was killed and one tick may be lost";

fn cut_off() -> Piece {
    Piece::Torn(CUT_OFF.into())
}
