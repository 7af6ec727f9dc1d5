//! The course of a recording: its runs, read once from begin to end by a thread of its own. What it
//! keeps of each is what an agent keeps of its own time; of many runs it keeps the last.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use serde::Serialize;

use super::reel::Reel;
use crate::lock::lock;
use crate::record::reader::ReadError;
use crate::serve::history::{History, Pause, Room, Whole};
use crate::serve::publish::{Publisher, channel};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use isobar_core::view::{OOM_KILLS_KEPT, OomRecord};

/// Runs that are kept: each costs what the history of an agent does.
const RUNS: usize = 16;
/// OOM kills that are kept of a run.
const KILLS: usize = 512;

/// What is known of the boot that a tick is of.
pub(in crate::serve) struct Known {
    pub(in crate::serve) history: History,
    /// When the agent started that the tick is of; `None` if another one made it.
    pub(in crate::serve) started: Option<Moment>,
    /// Before the tick, newest first.
    pub(in crate::serve) kills: Vec<OomRecord>,
}

/// Ticks of one boot of one node, in the order of the boot clock.
#[derive(Debug)]
pub(super) struct Run {
    facts: NodeFacts,
    begin: Moment,
    end: Moment,
    history: History,
    /// Each with the moment of its tick, on the boot clock.
    kills: VecDeque<(Nanos, OomRecord)>,
}

impl Run {
    fn known(&self, boot: Nanos) -> Known {
        let before = self.kills.iter().rev().filter(|(at, _)| *at < boot).take(OOM_KILLS_KEPT);
        let kills = before.map(|(_, kill)| kill.clone()).collect();
        Known { history: self.history.clone(), started: None, kills }
    }
}

/// What there was no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct LeftOut {
    /// Of one boot of one node, with everything that is told of it.
    runs: u64,
    oom_kills: u64,
}

/// How far the thread is.
#[derive(Debug, Default)]
pub(super) struct Course {
    runs: VecDeque<Run>,
    pub(super) n_ticks: u64,
    pub(super) left_out: LeftOut,
    pub(super) is_whole: bool,
    /// Why it could not be read to its end.
    pub(super) problem: Option<String>,
}

pub(super) type Shared = Arc<Mutex<Course>>;

impl Course {
    /// What is known of the boot that a tick is of, if it was read so far.
    pub(super) fn known(&self, facts: &NodeFacts, at: Moment) -> Option<Known> {
        let holds =
            |run: &&Run| run.facts == *facts && (run.begin.boot..=run.end.boot).contains(&at.boot);
        Some(self.runs.iter().rev().find(holds)?.known(at.boot))
    }

    /// Adds a run that begins with this tick.
    fn begin(&mut self, facts: NodeFacts, at: Moment, history: History) {
        self.runs.push_back(Run { facts, begin: at, end: at, history, kills: VecDeque::new() });
        if self.runs.len() > RUNS {
            self.runs.pop_front();
            self.left_out.runs += 1;
        }
    }

    /// Adds a tick to the last run.
    fn tick(&mut self, at: Moment, kills: Vec<OomRecord>) {
        self.n_ticks += 1;
        let Some(run) = self.runs.back_mut() else { return };
        run.end = at;
        run.kills.extend(kills.into_iter().map(|kill| (at.boot, kill)));
        let over = run.kills.len().saturating_sub(KILLS);
        run.kills.drain(..over);
        self.left_out.oom_kills += over as u64;
    }

    /// What held when a run ended, held until then.
    pub(super) fn told(&self) -> Whole {
        let (mut all, mut last) = (Whole::default(), None);
        for run in &self.runs {
            let Whole { spans, events, pauses, known_since } = run.history.told();
            all.spans.extend(spans.into_iter().map(|span| span.until(run.end)));
            all.events.extend(events);
            let before = last.replace(run.end).map(|begin| Pause { begin, end: run.begin });
            all.pauses.extend(before.into_iter().chain(pauses));
            // A run that had no room for its begin hides what was before it, too.
            if all.known_since.is_none() || known_since > Some(run.begin) {
                all.known_since = known_since;
            }
        }
        all
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
        let Some(mut step) = reel.take() else { continue };
        let at = step.snapshot.at;
        let Some(course) = course.upgrade() else { return Ok(()) };
        let mut course = lock(&course);
        let facts = reel.facts();
        let last = course.runs.back();
        let goes_on = last.is_some_and(|run| run.facts == facts && run.end.boot <= at.boot);
        let own = publisher.take().filter(|_| goes_on);
        let own = publisher.insert(own.unwrap_or_else(|| {
            Publisher::with_room(facts.clone(), at, channel().0, Room::OF_RECORDING)
        }));
        if !goes_on {
            course.begin(facts.clone(), at, own.history());
        }
        note(own, &reel, &mut step);
        course.tick(at, step.oom_kills);
    }
    Ok(())
}

/// Puts the tick that was read last into the history of `own`.
pub(super) fn note(own: &mut Publisher, reel: &Reel, step: &mut Step) {
    if let Some(engine) = reel.engine()
        && let Some(sample) = &engine.standing().before
    {
        own.note(sample, engine.settings(), step);
    }
    own.record(step, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::decision::Event as Change;

    #[test]
    fn course_keeps_the_last_of_many() {
        let at =
            |second: u64| Moment { boot: Nanos(second * Nanos::SECOND.0), ..Moment::default() };
        let facts = |n: u64| NodeFacts { boot_id: n.to_string(), ..NodeFacts::default() };
        let mut course = Course::default();
        let n = RUNS as u64 + 3;
        for run in 0..n {
            let own = Publisher::new(facts(run), at(0), channel().0);
            course.begin(facts(run), at(1), own.history());
            for second in 1..=KILLS as u64 + 2 {
                course.tick(at(second), vec![OomRecord::default()]);
            }
        }
        assert_eq!(course.n_ticks, n * (KILLS as u64 + 2));
        assert_eq!(course.left_out, LeftOut { runs: 3, oom_kills: n * 2 });
        assert!(course.known(&facts(2), at(9)).is_none(), "the first three are gone");
        let known = course.known(&facts(3), at(9)).unwrap();
        assert_eq!(known.kills.len(), 6, "seconds 3 to 8");
    }

    #[test]
    fn told_says_from_when_on_it_is_all() {
        let at = |run: u64, second: u64| Moment {
            boot: Nanos(second * Nanos::SECOND.0),
            wall: Nanos((run * 10_000 + second) * Nanos::SECOND.0),
        };
        let after = |run, second| {
            let Moment { boot, wall } = at(run, second);
            Moment { boot: boot.plus(Nanos(1)), wall: wall.plus(Nanos(1)) }
        };
        let mut course = Course::default();
        assert_eq!(course.told().known_since, None);
        #[rustfmt::skip]
        let table = [
            // run, its ticks, each with an event; from when on all are told
            (1, 3,     at(1, 1)),
            (2, 3,     at(1, 1)),
            (3, 2_050, after(3, 2)), // it keeps 2,048
            (4, 3,     after(3, 2)),
        ];
        for (run, ticks, want) in table {
            let facts = NodeFacts { boot_id: run.to_string(), ..NodeFacts::default() };
            let room = Room::OF_RECORDING;
            let mut own = Publisher::with_room(facts.clone(), at(run, 1), channel().0, room);
            course.begin(facts, at(run, 1), own.history());
            for tick in 1..=ticks {
                let mut step = Step::default();
                let change =
                    Change { reason: "R".into(), message: String::new(), is_warning: false };
                (step.snapshot.at, step.snapshot.tick) = (at(run, tick), tick);
                (step.decision.at, step.decision.tick) = (at(run, tick), tick);
                step.decision.relief.events = vec![change];
                own.record(&mut step, None);
                course.tick(at(run, tick), Vec::new());
            }
            assert_eq!(course.told().known_since, Some(want), "run {run}");
        }
    }
}
