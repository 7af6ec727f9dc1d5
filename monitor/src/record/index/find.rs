//! In which segment, and at which of its frames, a moment is. The wall clock may have been set in between.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::frames::walked;
use super::{END, Heads, Place, is_steady};
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// Ticks after the last frame that has a moment were written within so long.
const TAIL: Nanos = Nanos(60 * Nanos::SECOND.0);

/// What a segment has of a moment.
struct Seen {
    begun: Option<Moment>,
    /// The last that it has before the moment, by the wall clock.
    before: Option<Nanos>,
    /// It was being written at the moment.
    holds: bool,
    is_steady: bool,
}

/// The frame, of some, in which a moment is.
pub(super) struct Hit {
    pub(super) frame: usize,
    before: Nanos,
    holds: bool,
    /// See [`Place`].
    pub(super) until: Nanos,
}

/// The chapter that holds the moment `wall`: of those that were written at that time the last, else the
/// one whose end is next before it, else the first. A chapter begins with the moment of the tick before
/// its own first. Of those before the place `end`, if there is one.
pub(in crate::record) fn find(
    segments: &[PathBuf],
    wall: Nanos,
    end: Option<&Place>,
) -> io::Result<Place> {
    let (n, end) = match end {
        None => (segments.len(), u64::MAX),
        Some(Place { segment, chapter: 0, .. }) => (*segment, u64::MAX),
        Some(Place { segment, chapter, .. }) => (segment + 1, *chapter),
    };
    let end = |segment| if segment + 1 == n { end } else { u64::MAX };
    let (mut heads, mut next, mut is_last) = (Heads::new()?, None, true);
    let mut found: Option<(Option<Nanos>, usize, File, bool)> = None;
    for (segment, path) in segments.iter().enumerate().take(n).rev() {
        let Some(file) = open(path)? else { continue };
        let Seen { begun, before, holds, is_steady } =
            heads.seen(&file, wall, end(segment), next)?;
        is_last &= is_steady;
        if found.as_ref().is_none_or(|(other, ..)| other.is_none() || before > *other) {
            found = Some((before, segment, file, is_last));
        }
        if holds {
            break;
        }
        is_last &= before.is_none();
        next = begun;
    }
    let Some((_, segment, file, is_last)) = found else { return Ok(Place::default()) };
    Ok(Place { segment, is_last, ..heads.within(file, wall, end(segment))? })
}

/// `None` if it was deleted, for want of room, since it was listed.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

impl Heads {
    /// What a segment has of the moment `wall`, if the one after it begins at `next`.
    fn seen(
        &mut self,
        file: &File,
        wall: Nanos,
        end: u64,
        next: Option<Moment>,
    ) -> io::Result<Seen> {
        let end = file.metadata()?.len().min(end);
        let begun = self.moment_at(file, 0)?;
        let last = match begun.zip(next) {
            Some((begun, next)) if is_steady(begun, next) => Some(next),
            _ => self.last_frame(file, end)?,
        };
        let ends = begun.zip(last).filter(|(first, last)| is_steady(*first, *last));
        if let Some((first, last)) = ends {
            let before = (first.wall < wall).then_some(last.wall.min(wall));
            let holds = before.is_some() && (wall == END || wall <= last.wall.plus(TAIL));
            return Ok(Seen { begun, before, holds, is_steady: true });
        }
        let hit = self.in_any_order(file, &walked(file, 0, end)?, wall)?;
        let (before, holds) =
            (hit.as_ref().map(|hit| hit.before), hit.is_some_and(|hit| hit.holds));
        Ok(Seen { begun, before, holds, is_steady: false })
    }

    /// Of these frames, between which the wall clock may have been set, the last that was written at the
    /// moment `wall`, else the one that begins next before it.
    pub(super) fn in_any_order(
        &mut self,
        file: &File,
        begins: &[u64],
        wall: Nanos,
    ) -> io::Result<Option<Hit>> {
        let (mut next, mut nearest): (Option<Moment>, Option<Hit>) = (None, None);
        for (frame, &byte) in begins.iter().enumerate().rev() {
            let Some(at) = self.moment_at(file, byte)? else { continue };
            let lasts = next.map_or(TAIL, |next| next.boot.since(at.boot));
            // The clock was set within the frame, and then went as at the next.
            let set = next.filter(|next| !is_steady(at, *next) && wall <= next.wall);
            let set = set.map(|next| (next.boot, next.wall.since(wall)));
            if let Some((boot, rest)) = set.filter(|(_, rest)| *rest < lasts) {
                return Ok(Some(Hit { frame, before: wall, holds: true, until: boot.since(rest) }));
            }
            let is_before = at.wall < wall;
            let holds = is_before && (wall == END || wall <= at.wall.plus(lasts));
            if holds || is_before && nearest.as_ref().is_none_or(|other| other.before < at.wall) {
                let before = if holds { wall } else { at.wall };
                nearest = Some(Hit { frame, before, holds, until: at.boot });
            }
            if holds {
                break;
            }
            next = Some(at);
        }
        Ok(nearest)
    }
}
