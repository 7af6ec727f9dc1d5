//! A recording as a server shows it: any moment of it, by the code that shows the present. It is one
//! that was opened, or the agent's own, which goes on.
//! A request names its moment (`at`), so no request changes what another one sees. A moment costs at
//! most the ticks of two chapters; one that is soon after the last is read on from there.

pub(super) mod answer;
mod booth;
pub(super) mod desk;
pub(super) mod moment;
pub mod past;
pub(super) mod projector;
pub(super) mod rank;
pub mod reel;
pub(super) mod refill;
pub(super) mod runs;
pub(super) mod study;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use serde::Serialize;

use self::booth::Booth;
use self::projector::{Around, END, Footage};
use self::reel::Reel;
use super::document::BRIEF_AGGRESSIONS;
use super::listen::Client;
use super::publish::{Latest, Published, Sender, channel};
use super::turns::{Turn, Turns};
use crate::clock::pace::Pace;
use crate::lock::lock;
use crate::record::incident::shelf::Shelf;
use crate::record::journal::Ring;
use crate::record::reader::ReadError;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::sample::Moment;
use isobar_core::model::snapshot::{Blame, Snapshot};
use isobar_core::model::units::{Nanos, Percent};
use isobar_core::view::cpu_loss::weighed;
use isobar_core::view::waiting::{Level, waiting_most, worst_share};

const TRAIL_SCOPES: usize = 60;

/// One tick before a moment, cut to what a page sums up.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
        let mut aggressions = weighed(snapshot);
        aggressions.truncate(BRIEF_AGGRESSIONS);
        Self {
            tick: snapshot.tick,
            at: snapshot.at,
            interval: snapshot.interval,
            aggressions,
            waits: most.into_iter().map(|(id, scope)| (id, worst_share(scope))).collect(),
        }
    }
}

/// A tick, and those before it.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) published: Arc<Published>,
    pub(super) trail: Vec<Arc<Passed>>,
    /// It is what an agent has published last.
    pub(super) is_newest: bool,
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
    #[error("another question about the recording is being answered; try again in a second")]
    Computing,
    #[error("nothing is recorded: the agent was started with --no-record, or cannot write at all")]
    NotRecorded,
    #[error("no tick is recorded yet")]
    Empty,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot read the recording: {0}")]
    Segments(io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("reading the recording has panicked")]
    Panicked,
    #[error("the reader has gone")]
    Gone,
}

pub struct Film {
    source: Source,
    booth: Booth,
    moments: Turns,
    questions: Turns,
    pace: fn() -> Pace,
}

enum Source {
    Opened(Opened),
    /// What an agent publishes. What it records is asked for with each moment: it may begin later, or
    /// go on in another place.
    Agent(Latest),
}

/// A recording that is there as a whole.
struct Opened {
    first: Moment,
    last: Moment,
    /// What requests without a moment are shown.
    at: Nanos,
    footage: Footage,
    course: runs::Shared,
    /// Holds the tick at which it was opened, as an agent's newest.
    to: Sender,
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
        let around = Around::Course(Arc::clone(&course));
        let footage = Footage { ring: Ring::Files(file.into()), incidents, around };
        let show = |wall| -> Result<_, ReadError> {
            // Each for itself: the end was found without what came a minute before it.
            let mut reel = Reel::open_at(file, wall)?;
            reel.run_to(wall)?;
            Ok(reel.published(None, footage.incidents.as_ref()))
        };
        let Some(last) = show(END)?.map(|published| published.at) else { return Ok(None) };
        let at = at.unwrap_or(first.wall);
        let Some(published) = show(at)? else { return Ok(None) };
        let (to, _) = channel();
        to.send_replace(Some(published));
        let (file, read) = (file.to_owned(), Arc::downgrade(&course));
        // Without a thread there is no course, and every moment is shown all the same.
        let spawned =
            thread::Builder::new().name("course".into()).spawn(move || runs::read(file, &read));
        if let Err(why) = spawned {
            let mut course = lock(&course);
            course.problem = Some(format!("cannot start a thread: {why}"));
            course.is_whole = true;
        }
        let source = Source::Opened(Opened { first, last, at, footage, course, to });
        Ok(Some(Arc::new(Self::of(source, Pace::full))))
    }

    /// What an agent has recorded, for as long as it publishes.
    pub(super) fn of_agent(latest: Latest) -> Self {
        Self::of(Source::Agent(latest), Pace::behind_the_tick)
    }

    fn of(source: Source, pace: fn() -> Pace) -> Self {
        let (moments, questions) = Default::default();
        Self { source, booth: Booth::new(pace), moments, questions, pace }
    }

    /// Where a recording was opened, and its last tick; `None` of an agent.
    pub(super) fn opened(&self) -> Option<(Nanos, Moment)> {
        match &self.source {
            Source::Opened(opened) => Some((opened.at, opened.last)),
            Source::Agent(_) => None,
        }
    }

    pub(super) fn latest(&self) -> Latest {
        match &self.source {
            Source::Opened(opened) => opened.to.subscribe(),
            Source::Agent(latest) => latest.clone(),
        }
    }

    /// What moments are made from.
    fn footage(&self) -> Result<Footage, FilmError> {
        let latest = match &self.source {
            Source::Opened(opened) => return Ok(opened.footage.clone()),
            Source::Agent(latest) => latest.borrow().clone(),
        };
        let Some(newest) = latest else { return Err(FilmError::Empty) };
        let Some(ring) = newest.lasting.recording.clone() else {
            return Err(FilmError::NotRecorded);
        };
        let incidents = newest.lasting.incidents.clone();
        Ok(Footage { ring, incidents, around: Around::Agent(newest) })
    }

    pub(super) async fn show(&self, asked: Asked, client: &Client) -> Result<Shown, FilmError> {
        let turn = self.moments.take(client, Some(asked)).await.ok_or(FilmError::Busy)?;
        // Not before: those that wait hold no view.
        let of = self.footage()?;
        if let Some(shown) = self.booth.show(asked, &of, turn).await? {
            return Ok(shown);
        }
        let begin = self.begin(&of, None).await?.ok_or(FilmError::Empty)?;
        let begin = jiff::Timestamp::from_nanosecond(begin.wall.0.into());
        Err(FilmError::Before(begin.unwrap_or_default()))
    }

    /// The first tick.
    async fn begin(&self, of: &Footage, turn: Option<Turn>) -> Result<Option<Moment>, FilmError> {
        match &self.source {
            Source::Opened(opened) => Ok(Some(opened.first)),
            Source::Agent(_) => self.booth.begin(of, turn).await,
        }
    }
}
