//! Shows one moment after another, each from where the last one left the recording.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::reel::Reel;
use super::runs::{self, Known};
use super::{Asked, FilmError, Passed, Shown, Then};
use crate::clock::pace::Pace;
use crate::lock::lock;
use crate::record::incident::shelf::Shelf;
use crate::record::journal::Ring;
use crate::serve::publish::Published;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

pub(super) const END: Nanos = Nanos(u64::MAX);
/// From a moment to a later one, as many ticks as a chapter has are read on; to get further, the
/// recording is opened again.
const NEAR: Nanos = Nanos(300 * Nanos::SECOND.0);
/// What is told of the ticks before a moment: as much as a page that follows the present keeps.
const TRAIL: usize = 60;
const TRAIL_LASTS: Nanos = Nanos(60 * Nanos::SECOND.0);

/// What a moment is made from.
#[derive(Clone)]
pub(in crate::serve) struct Footage {
    pub(in crate::serve) ring: Ring,
    pub(super) incidents: Option<Arc<Shelf>>,
    pub(super) around: Around,
}

/// Who knows what was before and after a moment.
#[derive(Clone)]
pub(super) enum Around {
    /// What was read so far of the whole recording.
    Course(runs::Shared),
    /// The agent whose recording it is.
    Agent(Arc<Published>),
}

impl Around {
    fn known(&self, facts: &NodeFacts, at: Moment) -> Option<Known> {
        match self {
            Self::Course(course) => lock(course).known(facts, at),
            Self::Agent(newest) => newest.known(facts, at),
        }
    }

    /// Whether there may be more to know of a moment later.
    fn grows(&self) -> bool {
        matches!(self, Self::Course(_))
    }
}

/// The reader, where the last request left it.
pub(super) struct Projector {
    pace: Pace,
    reel: Option<Reel>,
    shown: Option<Shown>,
    /// What was around the tick that is shown was known when it was shown.
    is_settled: bool,
    /// There was no further tick when it was looked for.
    is_at_end: bool,
    trail: VecDeque<Arc<Passed>>,
    /// The first tick, with the segment that has it.
    first: Option<(PathBuf, Moment)>,
}

impl Projector {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            reel: None,
            shown: None,
            is_settled: false,
            is_at_end: false,
            trail: VecDeque::new(),
            first: None,
        }
    }

    /// The first tick.
    pub(super) fn begin(&mut self, of: &Footage) -> Result<Option<Moment>, FilmError> {
        // In memory a segment's path says nothing of what is in it.
        let is_kept = matches!(of.ring, Ring::Files(_));
        let (segments, _held): (_, Vec<File>) = of.ring.segments().map_err(FilmError::Segments)?;
        let oldest = segments.into_iter().next();
        if let Some((path, at)) = &self.first
            && oldest.as_ref() == Some(path)
        {
            return Ok(Some(*at));
        }
        let first = Reel::open_ring(&of.ring, Nanos(0))?.step(END)?.map(|step| step.snapshot.at);
        self.first = oldest.zip(first).filter(|_| is_kept);
        Ok(first)
    }

    /// The tick that is asked for, unless `is_off` says that it is not waited for any more; `None` if
    /// the recording begins later.
    pub(super) fn show(
        &mut self,
        asked: Asked,
        of: &Footage,
        is_off: impl Fn() -> bool,
    ) -> Result<Option<Shown>, FilmError> {
        self.pace.begin();
        let found = self.find(asked, of, &is_off);
        if found.is_err() {
            // The next request opens the recording anew.
            self.shown = None;
        }
        found
    }

    fn find(
        &mut self,
        Asked { wall, then }: Asked,
        of: &Footage,
        is_off: &impl Fn() -> bool,
    ) -> Result<Option<Shown>, FilmError> {
        let Some(shown) = self.seek(wall, of, is_off)? else { return Ok(None) };
        let at = shown.published.at.wall;
        let other = match then {
            Then::Stay => None,
            Then::Next => self.next(at, of, is_off)?,
            Then::Previous => self.seek(Nanos(at.0.saturating_sub(1)), of, is_off)?,
        };
        Ok(Some(other.unwrap_or(shown)))
    }

    fn next(
        &mut self,
        at: Nanos,
        of: &Footage,
        is_off: &impl Fn() -> bool,
    ) -> Result<Option<Shown>, FilmError> {
        let was_at_end = self.is_at_end;
        let next = self.read_on(END, 1, of, is_off)?;
        if next.is_some() || !was_at_end {
            return Ok(next);
        }
        // What was written since is found from the beginning of the chapter.
        self.shown = None;
        self.seek(at, of, is_off)?;
        self.read_on(END, 1, of, is_off)
    }

    /// The last tick that is no later than `wall`.
    fn seek(
        &mut self,
        wall: Nanos,
        of: &Footage,
        is_off: &impl Fn() -> bool,
    ) -> Result<Option<Shown>, FilmError> {
        let is_near = |shown: &Shown| {
            let at = shown.published.at.wall;
            at == wall || (at <= wall && wall.since(at) <= NEAR && !self.is_at_end)
        };
        let is_here = self.shown.as_ref().is_some_and(is_near);
        if !is_here || (!self.is_settled && self.can_settle(of)) {
            self.reel = Some(Reel::open_ring(&of.ring, wall.since(TRAIL_LASTS))?);
            self.shown = None;
            self.is_at_end = false;
            self.trail.clear();
        }
        self.read_on(wall, usize::MAX, of, is_off)?;
        Ok(self.shown.clone())
    }

    /// What is around the tick that is shown was read meanwhile.
    fn can_settle(&self, of: &Footage) -> bool {
        let facts = self.reel.as_ref().map(Reel::facts);
        let at = self.shown.as_ref().map(|shown| shown.published.at);
        let known = |(facts, at)| of.around.known(&facts, at).is_some();
        of.around.grows() && facts.zip(at).is_some_and(known)
    }

    /// Reads `n` ticks at most that are no later than `wall`, and shows the last; `None` if there is
    /// none.
    fn read_on(
        &mut self,
        wall: Nanos,
        n: usize,
        of: &Footage,
        is_off: &impl Fn() -> bool,
    ) -> Result<Option<Shown>, FilmError> {
        let Some(reel) = &mut self.reel else { return Ok(None) };
        let mut last = None;
        for _ in 0..n {
            let Some(step) = reel.step(wall)? else {
                self.is_at_end = !reel.has_more();
                break;
            };
            last = Some(step.snapshot.at);
            self.trail.push_back(Arc::new(Passed::of(&step.snapshot)));
            self.trail.drain(..self.trail.len().saturating_sub(TRAIL));
            self.pace.between();
            if is_off() {
                return Err(FilmError::Gone);
            }
        }
        let Some(at) = last else { return Ok(None) };
        self.trail.retain(|passed| at.wall.since(passed.at.wall) <= TRAIL_LASTS);
        let known = of.around.known(&reel.facts(), at);
        self.is_settled = known.is_some();
        let Some(published) = reel.published(known, of.incidents.as_ref()) else {
            return Ok(None);
        };
        let trail = self.trail.iter().cloned().collect();
        self.shown = Some(Shown { published, trail, is_newest: false });
        Ok(self.shown.clone())
    }
}
