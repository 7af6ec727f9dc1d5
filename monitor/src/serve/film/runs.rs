//! The course of a recording: its runs, read once from begin to end by a thread of its own. What it
//! keeps of each is what an agent keeps of its own time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::reel::Reel;
use crate::record::reader::ReadError;
use crate::serve::history::{Event, History, Room, Span};
use crate::serve::publish::{Publisher, channel};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use isobar_core::view::OomRecord;

/// Ticks of one boot of one node, in the order of the boot clock.
#[derive(Debug)]
pub(super) struct Run {
    facts: NodeFacts,
    pub(super) begin: Moment,
    end: Moment,
    n_ticks: u64,
    pub(super) history: History,
    /// Each with the moment of its tick, on the boot clock.
    kills: Vec<(Nanos, OomRecord)>,
}

impl Run {
    /// The kills of the ticks before this one, newest first.
    pub(super) fn kills_before(&self, boot: Nanos) -> impl Iterator<Item = OomRecord> {
        let before = self.kills.iter().rev().filter(move |(at, _)| *at < boot);
        before.map(|(_, kill)| kill.clone())
    }
}

/// How far the thread is.
#[derive(Debug, Default)]
pub(super) struct Course {
    runs: Vec<Run>,
    pub(super) is_whole: bool,
    /// Why it could not be read to its end.
    pub(super) problem: Option<String>,
}

pub(super) type Shared = Arc<Mutex<Course>>;

pub(super) fn lock(course: &Mutex<Course>) -> MutexGuard<'_, Course> {
    course.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Course {
    /// The run that a tick is of, if it was read so far.
    pub(super) fn run(&self, facts: &NodeFacts, at: Moment) -> Option<&Run> {
        let holds =
            |run: &&Run| run.facts == *facts && (run.begin.boot..=run.end.boot).contains(&at.boot);
        self.runs.iter().rev().find(holds)
    }

    pub(super) fn n_ticks(&self) -> u64 {
        self.runs.iter().map(|run| run.n_ticks).sum()
    }

    /// Everything that held and happened; what held when a run ended, held until then.
    pub(super) fn told(&self) -> (Vec<Span>, Vec<Event>) {
        let (mut spans, mut events) = (Vec::new(), Vec::new());
        for run in &self.runs {
            let (held, happened) = run.history.told();
            spans.extend(held.into_iter().map(|span| span.until(run.end)));
            events.extend(happened);
        }
        (spans, events)
    }
}

/// Reads all of it, until it is read or the server is gone.
pub(super) fn read(file: PathBuf, course: &Weak<Mutex<Course>>) {
    let problem = follow(file, course).err().map(|why| why.to_string());
    if let Some(course) = course.upgrade() {
        let mut course = lock(&course);
        (course.is_whole, course.problem) = (true, problem);
    }
}

fn follow(file: PathBuf, course: &Weak<Mutex<Course>>) -> Result<(), ReadError> {
    let mut reel = Reel::open_at(&file, Nanos(0))?;
    let mut publisher: Option<Publisher> = None;
    while reel.step(Nanos(u64::MAX))?.is_some() {
        let Some(step) = reel.take() else { continue };
        let at = step.snapshot.at;
        let Some(course) = course.upgrade() else { return Ok(()) };
        let mut course = lock(&course);
        let facts = reel.facts();
        let last = course.runs.last();
        let goes_on = last.is_some_and(|run| run.facts == facts && run.end.boot <= at.boot);
        let own = publisher.take().filter(|_| goes_on);
        let own = publisher.insert(own.unwrap_or_else(|| {
            Publisher::with_room(facts.clone(), at, channel().0, Room::OF_RECORDING)
        }));
        if !goes_on {
            let (facts, history) = (facts.clone(), own.history());
            let (n_ticks, kills) = (0, Vec::new());
            course.runs.push(Run { facts, begin: at, end: at, n_ticks, history, kills });
        }
        note(own, &reel, &step);
        if let Some(run) = course.runs.last_mut() {
            run.end = at;
            run.n_ticks += 1;
            let kills = own.named_kills(&step.snapshot);
            run.kills.extend(kills.into_iter().map(|kill| (at.boot, kill)));
        }
    }
    Ok(())
}

/// Puts the tick that was read last into the history of `own`.
pub(super) fn note(own: &mut Publisher, reel: &Reel, step: &Step) {
    if let Some(engine) = reel.engine()
        && let Some(sample) = &engine.standing().before
    {
        own.note(sample, engine.settings(), step);
    }
    own.record(step, None);
}
