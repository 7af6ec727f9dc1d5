//! Where a moment is in a recording. The file is its own index: chapters and marks are zstd frames, which
//! are told by their first bytes, and each begins with the moment at which it begins, so a moment is
//! found by halves. Frames and their blocks tell their length (RFC 8878, 3.1), so that what lies between
//! is not decompressed.

mod find;
mod frames;

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use memchr::memmem;
use serde::de::DeserializeOwned;
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{self, DCtx, DParameter, ResetDirective};

pub(super) use self::find::find;
use self::find::open;
pub(super) use self::frames::frame_end;
use self::frames::{walked, window};
use super::lines::{MAGIC, WINDOW as LARGEST_WINDOW};
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
/// So much is searched for frames at once.
const WINDOW: usize = 64 << 10;
/// The first bytes of a frame may begin in one part and end in the next.
const OVERLAP: usize = MAGIC.len() - 1;
/// How far back a frame is looked for at first, and then twice as far: a chapter may have some hundred
/// bytes or some megabytes.
const BACK: u64 = 4 << 10;
/// What is compressed may contain the first bytes of a frame, too, about once in 4 GiB. A search ends
/// after so many that begin no frame: the chapter that is found is then earlier than it need be, and a
/// reader that begins there comes to the moment all the same.
const FOREIGN: u32 = 64;
/// In place of a moment: after all ticks.
pub(super) const END: Nanos = Nanos(u64::MAX);

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
    /// By the kernel's clock: in the chapter, ticks up to then stand before the moment, whatever the wall
    /// clock said of them.
    pub(super) until: Nanos,
    /// What was written after it is later by the wall clock, too.
    pub(super) is_last: bool,
}

/// Whether the wall clock went as the kernel's did from the one moment to the other.
pub(super) fn is_steady(from: Moment, to: Moment) -> bool {
    let [by_boot, by_wall] = [to.boot.since(from.boot), to.wall.since(from.wall)];
    to.boot >= from.boot && by_boot.0.abs_diff(by_wall.0) <= STEADY.0
}

/// When the first chapter began, of those since the moment `from`, whose node had this boot.
pub(super) fn first_of_boot(
    segments: &[PathBuf],
    boot_id: &str,
    from: Nanos,
) -> io::Result<Option<Moment>> {
    let Place { segment, file: mut found, mut chapter, .. } = find(segments, from, None)?;
    let mut heads = Heads::new()?;
    for path in segments.iter().skip(segment) {
        let file = match found.take() {
            Some(file) => Some(file),
            None => open(path)?.map(Arc::new),
        };
        let Some(file) = file else { continue };
        let mut next = Some(std::mem::take(&mut chapter));
        while let Some(at) = next {
            let text = heads.head(&file, at)?.unwrap_or_default();
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

/// Reads what frames begin with. One serves for all of a search: to begin anew, zstd takes longer than
/// to read the beginning of a frame.
pub(super) struct Heads(DCtx<'static>);

impl Heads {
    pub(super) fn new() -> io::Result<Self> {
        let none = || io::Error::from(io::ErrorKind::OutOfMemory);
        let mut context = DCtx::try_create().ok_or_else(none)?;
        context.set_parameter(DParameter::WindowLogMax(LARGEST_WINDOW)).map_err(failed)?;
        Ok(Self(context))
    }

    /// The last chapter before the byte `end` that begins before `wall`, or has a mark before it.
    fn within(&mut self, file: File, wall: Nanos, end: u64) -> io::Result<Place> {
        let end = file.metadata()?.len().min(end);
        let (mut mark, mut until) = (None, None);
        let chapter = match self.last_before(&file, wall, end)? {
            Some(last) => self.chapter_of(&file, last, wall, &mut mark)?,
            // All frames have to be looked at.
            None => {
                let begins = walked(&file, 0, end)?;
                let hit = self.in_any_order(&file, &begins, wall)?;
                until = hit.as_ref().map(|hit| hit.until);
                let begins = hit.map_or(&[][..], |hit| &begins[..=hit.frame]);
                self.chapter_in(&file, begins, END, &mut mark)?
            }
        };
        let (mark, begun) = (mark.filter(|_| chapter.is_some()), mark.or(chapter));
        let begun = begun.map(|frame| self.moment_at(&file, frame)).transpose()?.flatten();
        let until = until.or(begun.map(|at| at.boot)).unwrap_or_default();
        let (chapter, file) = (chapter.unwrap_or_default(), Some(file.into()));
        Ok(Place { chapter, mark, file, until, ..Place::default() })
    }

    /// The last frame that begins before `wall`, else the first one. `None` where frames may not be in the
    /// order of the wall clock: the first one is compared with the last that has a moment, and with each
    /// frame on the way.
    fn last_before(&mut self, file: &File, wall: Nanos, end: u64) -> io::Result<Option<u64>> {
        let (Some(first), Some(last)) = (self.moment_at(file, 0)?, self.last_frame(file, end)?)
        else {
            return Ok(None);
        };
        if !is_steady(first, last) {
            return Ok(None);
        }
        let (mut low, mut high) = (0, end);
        while low + 1 < high {
            let middle = low.midpoint(high);
            match self.next_frame(file, middle, high)? {
                Some((_, at)) if !is_steady(first, at) => return Ok(None),
                Some((frame, at)) if at.wall < wall => low = frame,
                _ => high = middle,
            }
        }
        Ok(Some(low))
    }

    /// The moment of the last frame that has one.
    fn last_frame(&mut self, file: &File, end: u64) -> io::Result<Option<Moment>> {
        let (mut from, mut left) = (end, FOREIGN);
        while from > 0 {
            let high = from;
            from = from.saturating_sub((WINDOW - OVERLAP) as u64);
            let window = window(file, from, high)?;
            for found in memmem::rfind_iter(&window, &MAGIC) {
                let moment = self.moment_at(file, from + found as u64)?;
                left -= 1;
                if moment.is_some() || left == 0 {
                    return Ok(moment);
                }
            }
        }
        Ok(None)
    }

    /// The chapter of the frame `last`, which is the `mark` if it begins with one.
    fn chapter_of(
        &mut self,
        file: &File,
        last: u64,
        wall: Nanos,
        mark: &mut Option<u64>,
    ) -> io::Result<Option<u64>> {
        if matches!(self.begun_at(file, last)?, Begun::At(at) if at.wall < wall) {
            return Ok(Some(last));
        }
        let (mut back, mut end) = (BACK, last + 1);
        loop {
            let from = last.saturating_sub(back);
            back = back.saturating_mul(2);
            let begin = match from {
                0 => Some(0),
                _ => self.next_frame(file, from, end)?.map(|(at, _)| at),
            };
            // What follows was looked at before.
            if let Some(begin) = begin.filter(|begin| *begin < end) {
                let begins = walked(file, begin, end)?;
                let until = begins.last().map(|last| frame_end(file, *last)).transpose()?.flatten();
                if until.is_none_or(|until| until < end) {
                    // The header of what follows may be in the part that is damaged.
                    *mark = None;
                }
                let found = self.chapter_in(file, &begins, wall, mark)?;
                if found.is_some() {
                    return Ok(found);
                }
                end = begin;
            }
            if from == 0 {
                return Ok(None);
            }
        }
    }

    /// Of these frames the last chapter that begins before `wall`, or has a `mark` before it.
    fn chapter_in(
        &mut self,
        file: &File,
        begins: &[u64],
        wall: Nanos,
        mark: &mut Option<u64>,
    ) -> io::Result<Option<u64>> {
        for &frame in begins.iter().rev() {
            match self.begun_at(file, frame)? {
                Begun::At(at) if mark.is_some() || at.wall < wall => return Ok(Some(frame)),
                Begun::Mark(at) if mark.is_none() && at.wall < wall => *mark = Some(frame),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The first frame from byte `from` on that begins with a moment, before the byte `end`; `None` too
    /// where the search was given up.
    pub(super) fn next_frame(
        &mut self,
        file: &File,
        mut from: u64,
        end: u64,
    ) -> io::Result<Option<(u64, Moment)>> {
        let mut left = FOREIGN;
        while from < end {
            let window = window(file, from, end)?;
            for found in memmem::find_iter(&window, &MAGIC) {
                let frame = from + found as u64;
                if let Some(at) = self.moment_at(file, frame)? {
                    return Ok(Some((frame, at)));
                }
                left -= 1;
                if left == 0 {
                    return Ok(None);
                }
            }
            if window.len() <= OVERLAP {
                return Ok(None);
            }
            from += (window.len() - OVERLAP) as u64;
        }
        Ok(None)
    }

    pub(super) fn moment_at(&mut self, file: &File, frame: u64) -> io::Result<Option<Moment>> {
        Ok(match self.begun_at(file, frame)? {
            Begun::At(at) | Begun::Mark(at) => Some(at),
            Begun::Unknown | Begun::Foreign => None,
        })
    }

    /// What the frame at byte `frame` begins with.
    pub(super) fn begun_at(&mut self, file: &File, frame: u64) -> io::Result<Begun> {
        let Some(start) = self.head(file, frame)? else { return Ok(Begun::Foreign) };
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

    /// The first bytes of the text in the frame at byte `from`; `None` if it is no frame.
    pub(super) fn head(&mut self, mut file: &File, from: u64) -> io::Result<Option<Vec<u8>>> {
        let mut magic = [0; MAGIC.len()];
        let n = file.read_at(&mut magic, from)?;
        if !MAGIC.starts_with(&magic[..n]) {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(from))?;
        self.0.reset(ResetDirective::SessionOnly).map_err(failed)?;
        let text = Decoder::with_context(BufReader::with_capacity(BUFFER, file), &mut self.0);
        let mut start = Vec::with_capacity(HEAD);
        // The file may be cut off where the agent was killed; the part before is readable.
        let _ = text.take(HEAD as u64).read_to_end(&mut start);
        Ok(Some(start))
    }
}

fn failed(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

/// The first field of this name in it.
pub(super) fn field<T: DeserializeOwned>(start: &[u8], name: &str) -> Option<T> {
    let text = String::from_utf8_lossy(start);
    let (_, rest) = text.split_once(&format!("\"{name}\":"))?;
    serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()
}

/// What the frame at the file's position begins with.
pub(super) fn begun(mut file: &File) -> io::Result<Begun> {
    let frame = file.stream_position()?;
    Heads::new()?.begun_at(file, frame)
}

#[cfg(test)]
mod tests;
