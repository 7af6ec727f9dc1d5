//! A recording as a server shows it: any moment of it, by the code that shows the present.
//! A request names its moment (`at`), so no request changes what another one sees. A moment costs at
//! most the ticks of two chapters; one that is soon after the last is read on from there.

pub(super) mod answer;
pub(super) mod moment;
pub mod reel;
pub(super) mod refill;
mod runs;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::reel::Reel;
use super::publish::{Latest, Published, Sender, channel};
use crate::record::incident::shelf::Shelf;
use crate::record::reader::ReadError;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::sample::Moment;
use isobar_core::model::snapshot::{Blame, Snapshot};
use isobar_core::model::units::{Nanos, Percent};
use isobar_core::view::cpu_loss::{CpuLoss, losses};
use isobar_core::view::waiting::{Level, waiting_most, worst_share};

const END: Nanos = Nanos(u64::MAX);
/// From a moment to a later one, as many ticks as a chapter has are read on; to get further, the
/// recording is opened again.
const NEAR: Nanos = Nanos(300 * Nanos::SECOND.0);
/// What is told of the ticks before a moment: as much as a page that follows the present keeps.
const TRAIL: usize = 60;
const TRAIL_LASTS: Nanos = Nanos(60 * Nanos::SECOND.0);
const TRAIL_SCOPES: usize = 60;
const TRAIL_AGGRESSIONS: usize = 40;
/// How long a request waits for those before it: moments are read one at a time.
const TURN_WITHIN: Duration = Duration::from_secs(5);

/// One tick before a moment, cut to what a page sums up.
#[derive(Debug, Serialize)]
pub(super) struct Passed {
    tick: u64,
    at: Moment,
    interval: Nanos,
    aggressions: Vec<Blame>,
    /// The largest share of time in which a cgroup waited, of those that waited most.
    waits: BTreeMap<CgroupId, Percent>,
}

impl Passed {
    fn of(snapshot: &Snapshot) -> Self {
        let most = waiting_most(snapshot, Level::All, TRAIL_SCOPES);
        let losses = losses(snapshot).into_iter().take(TRAIL_AGGRESSIONS);
        let losses = losses.map(|CpuLoss { blame, loss }| Blame { loss, ..blame.clone() });
        Self {
            tick: snapshot.tick,
            at: snapshot.at,
            interval: snapshot.interval,
            aggressions: losses.collect(),
            waits: most.into_iter().map(|(id, scope)| (id, worst_share(scope))).collect(),
        }
    }
}

/// A tick, and those before it.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) published: Arc<Published>,
    pub(super) trail: Vec<Arc<Passed>>,
}

/// Which tick is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    /// The last one that is no later.
    pub(super) wall: Nanos,
    pub(super) then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Stay,
    /// The tick after it, if there is one.
    Next,
    /// The tick before it, if there is one.
    Previous,
}

/// Why a moment is not shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilmError {
    #[error("the recording begins later, at {0}")]
    Before(jiff::Timestamp),
    #[error("other moments are being read; try again in a second")]
    Busy,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("reading the recording has panicked")]
    Panicked,
}

pub struct Film {
    first: Moment,
    last: Moment,
    /// What requests without a moment are shown.
    opened: Nanos,
    course: runs::Shared,
    projector: Arc<Mutex<Projector>>,
    /// Holds the tick at which it was opened, as an agent's newest.
    to: Sender,
}

/// The reader, where the last request left it.
struct Projector {
    file: PathBuf,
    incidents: Option<Arc<Shelf>>,
    course: runs::Shared,
    reel: Option<Reel>,
    shown: Option<Shown>,
    /// The course of the tick that is shown was read when it was shown.
    is_settled: bool,
    trail: VecDeque<Arc<Passed>>,
}

impl Film {
    /// Opens a recording at a moment, by default at its first tick, and begins to read its course;
    /// `None` if it has no tick of that time or before it.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn open(
        file: &Path,
        at: Option<Nanos>,
        incidents: Option<Arc<Shelf>>,
    ) -> Result<Option<Arc<Self>>, ReadError> {
        let mut reel = Reel::open_at(file, Nanos(0))?;
        let Some(first) = reel.step(END)?.map(|step| step.snapshot.at) else { return Ok(None) };
        let course = runs::Shared::default();
        let mut projector = Projector {
            file: file.into(),
            incidents,
            course: Arc::clone(&course),
            reel: None,
            shown: None,
            is_settled: false,
            trail: VecDeque::new(),
        };
        let Some(last) = projector.seek(END)?.map(|shown| shown.published.at) else {
            return Ok(None);
        };
        // The end was found without what came a minute before it.
        projector.shown = None;
        let opened = at.unwrap_or(first.wall);
        let Some(shown) = projector.seek(opened)? else { return Ok(None) };
        let (to, _) = channel();
        to.send_replace(Some(shown.published));
        let (file, read) = (file.to_owned(), Arc::downgrade(&course));
        // Without a thread there is no course, and every moment is shown all the same.
        let spawned =
            thread::Builder::new().name("film".into()).spawn(move || runs::read(file, &read));
        if let Err(why) = spawned {
            let mut course = runs::lock(&course);
            course.problem = Some(format!("cannot start a thread: {why}"));
            course.is_whole = true;
        }
        let projector = Arc::new(Mutex::new(projector));
        Ok(Some(Arc::new(Self { first, last, opened, course, projector, to })))
    }

    pub(super) fn latest(&self) -> Latest {
        self.to.subscribe()
    }

    pub(super) async fn show(&self, asked: Asked) -> Result<Shown, FilmError> {
        let turn = timeout(TURN_WITHIN, Arc::clone(&self.projector).lock_owned());
        let mut projector = turn.await.map_err(|_| FilmError::Busy)?;
        let shown = spawn_blocking(move || projector.show(asked)).await;
        let shown = shown.map_err(|_| FilmError::Panicked)??;
        let first = || jiff::Timestamp::from_nanosecond(self.first.wall.0.into());
        shown.ok_or_else(|| FilmError::Before(first().unwrap_or_default()))
    }
}

impl Projector {
    fn show(&mut self, asked: Asked) -> Result<Option<Shown>, ReadError> {
        let found = self.find(asked);
        if found.is_err() {
            // The next request opens the recording anew.
            self.shown = None;
        }
        found
    }

    fn find(&mut self, Asked { wall, then }: Asked) -> Result<Option<Shown>, ReadError> {
        let Some(shown) = self.seek(wall)? else { return Ok(None) };
        let at = shown.published.at.wall;
        let other = match then {
            Then::Stay => None,
            Then::Next => self.read_on(END, 1)?,
            Then::Previous => self.seek(Nanos(at.0.saturating_sub(1)))?,
        };
        Ok(Some(other.unwrap_or(shown)))
    }

    /// The last tick that is no later than `wall`.
    fn seek(&mut self, wall: Nanos) -> Result<Option<Shown>, ReadError> {
        let is_near = |shown: &Shown| {
            let at = shown.published.at.wall;
            at <= wall && wall.since(at) <= NEAR
        };
        let is_here = self.shown.as_ref().is_some_and(is_near);
        if !is_here || (!self.is_settled && self.can_settle()) {
            self.reel = Some(Reel::open_at(&self.file, wall.since(TRAIL_LASTS))?);
            self.shown = None;
            self.trail.clear();
        }
        self.read_on(wall, usize::MAX)?;
        Ok(self.shown.clone())
    }

    /// The course was read meanwhile.
    fn can_settle(&self) -> bool {
        let facts = self.reel.as_ref().map(Reel::facts);
        let at = self.shown.as_ref().map(|shown| shown.published.at);
        let known = |(facts, at)| runs::lock(&self.course).run(&facts, at).is_some();
        facts.zip(at).is_some_and(known)
    }

    /// Reads `n` ticks at most that are no later than `wall`, and shows the last; `None` if there is
    /// none.
    fn read_on(&mut self, wall: Nanos, n: usize) -> Result<Option<Shown>, ReadError> {
        let Some(reel) = &mut self.reel else { return Ok(None) };
        let mut last = None;
        for _ in 0..n {
            let Some(step) = reel.step(wall)? else { break };
            last = Some(step.snapshot.at);
            self.trail.push_back(Arc::new(Passed::of(&step.snapshot)));
            self.trail.drain(..self.trail.len().saturating_sub(TRAIL));
        }
        let Some(at) = last else { return Ok(None) };
        self.trail.retain(|passed| at.wall.since(passed.at.wall) <= TRAIL_LASTS);
        let course = runs::lock(&self.course);
        let run = course.run(&reel.facts(), at);
        self.is_settled = run.is_some();
        let Some(published) = reel.published(run, self.incidents.as_ref()) else { return Ok(None) };
        drop(course);
        let trail = self.trail.iter().cloned().collect();
        self.shown = Some(Shown { published, trail });
        Ok(self.shown.clone())
    }
}
