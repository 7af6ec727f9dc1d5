//! Steps whose end is awaited without waiting: looked at once a tick.

use std::path::Path;

use rustix::process::Signal;

use super::failure::Failure;
use super::process::Stat;
use super::scene::{Scene, Stage, told};
use super::size;
use crate::clock;
use isobar_core::model::decision::{Action, Outcome, OutcomeResult, StepKind};
use isobar_core::model::units::Nanos;
use isobar_core::model::unsampled::unsampled;

/// Who has not ended by then is not waited for any longer.
const LONGEST: Nanos = Nanos(120 * Nanos::SECOND.0);

/// A step whose end is awaited.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) action: u64,
    pub(super) step: StepKind,
    pub(super) scene: Scene,
    time: Time,
    /// How long after SIGTERM comes SIGKILL; `None` once it has, or where it came first.
    grace: Option<Nanos>,
    /// What was done so far, in words.
    story: String,
    /// Processes whose end was told.
    n_told: u64,
}

/// The time of one step, by the boot clock, which runs on while the node is suspended.
#[derive(Debug)]
struct Time {
    began: Nanos,
    /// When it was last looked at.
    looked: Nanos,
    /// What nobody watched: the node was suspended, or the agent got no CPU for long. Whoever was
    /// asked to end could do nothing then.
    unseen: Nanos,
}

impl Time {
    fn new(began: Nanos) -> Self {
        Self { began, looked: began, unseen: Nanos(0) }
    }

    /// How much of it was watched until `now`, when it is looked at again.
    fn watched(&mut self, now: Nanos) -> Nanos {
        self.unseen = self.unseen.plus(unsampled(now.since(self.looked)));
        self.looked = now;
        now.since(self.began).since(self.unseen)
    }
}

impl Running {
    /// A step that `began` then.
    pub(super) fn new(action: &Action, scene: Scene, began: Nanos, story: String) -> Self {
        let (action, step, time) = (action.id, action.step, Time::new(began));
        Self { action, step, scene, time, grace: None, story, n_told: 0 }
    }

    /// The same, where SIGKILL follows after `grace`.
    pub(super) fn after(self, grace: Nanos) -> Self {
        Self { grace: Some(grace), ..self }
    }

    /// What a step has come to that was just taken.
    pub(super) fn first(&mut self, proc: &Path, left: &[u32]) -> Outcome {
        let story = match left {
            [] => self.story.clone(),
            left => format!("{}; {}", self.story, told(proc, left)),
        };
        self.outcome(Ok(story), left, clock::now().boot)
    }

    /// Looks again; what has come of it, if it is over.
    pub(super) fn look(&mut self, stage: Stage<'_>) -> Option<Outcome> {
        let left = self.scene.left();
        self.scene.measure();
        let now = clock::now().boot;
        let watched = self.time.watched(now);
        if left.is_empty() {
            let story = format!("{}; all has ended", self.story);
            return Some(self.outcome(Ok(story), &left, now));
        }
        let is_due = self.grace.is_some_and(|grace| watched >= grace);
        if self.grace.is_none() {
            self.scene.end_newcomers(stage, &left);
        }
        if is_due {
            self.grace = None;
            let who = told(stage.proc, &left);
            let killed = self.scene.kill(stage);
            let killed = killed.and_then(|how| self.scene.kill_new(stage).map(|()| how));
            self.story = match killed {
                Ok(how) => format!("{}; its time was over with {who}; then {how}", self.story),
                Err(failure) => return Some(self.outcome(Err(failure), &left, now)),
            };
        }
        if watched < LONGEST {
            return None;
        }
        let lasting = Failure::Told(format!("{}; {}", self.story, told(stage.proc, &left)));
        Some(self.outcome(Err(lasting), &left, now))
    }

    /// Leaves those who are left alone; what had come of it by then.
    pub(super) fn call_off(mut self) -> Outcome {
        let left = self.scene.left();
        let name = self.step.name();
        let why = format!("{}; nothing follows, for {name} is no longer enforced", self.story);
        let outcome = self.outcome(Ok(why), &left, clock::now().boot);
        let result = OutcomeResult::Refused;
        Outcome { result, ..outcome }
    }

    fn outcome(&mut self, story: Result<String, Failure>, left: &[u32], now: Nanos) -> Outcome {
        let n_ended = self.scene.n_before.saturating_sub(left.len() as u64);
        let ended = n_ended.saturating_sub(self.n_told);
        self.n_told = n_ended.max(self.n_told);
        // Half of a victim's memory says nothing about what all of it will be.
        let freed = self.scene.freed().filter(|_| left.is_empty());
        let came = freed.map(|freed| format!("; {} came back", size(freed))).unwrap_or_default();
        let (result, detail) = match story {
            Ok(story) => (OutcomeResult::Done, format!("{story}{came}")),
            Err(failure) => (OutcomeResult::Failed, failure.to_string()),
        };
        let took = now.since(self.time.began);
        Outcome { action: self.action, result, detail, took, freed, ended: Some(ended) }
    }
}

/// Asks the work of a scene to end: its first processes, whose parents are somewhere else, or all
/// where nobody is first. How many were asked.
pub(super) fn ask(proc: &Path, scene: &Scene) -> Result<usize, Failure> {
    if let Some(unseen) = &scene.unseen {
        return Err(unseen.clone());
    }
    let known = scene.held.iter().filter_map(|held| Some((held, Stat::of(proc, held.pid)?)));
    let known: Vec<_> = known.filter(|(_, stat)| !stat.is_kernel_thread).collect();
    let is_first = |stat: &Stat| !known.iter().any(|(held, _)| held.pid == stat.parent);
    let first: Vec<_> =
        known.iter().filter(|(_, stat)| is_first(stat)).map(|(held, _)| *held).collect();
    let asked = match first.is_empty() {
        true => known.iter().map(|(held, _)| *held).collect(),
        false => first,
    };
    for held in &asked {
        held.send(Signal::TERM).map_err(|why| {
            let path = scene.work().next().map(|group| group.path.clone()).unwrap_or_default();
            Failure::Signal { path, pid: held.pid, why }
        })?;
    }
    Ok(asked.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_is_prolonged_by_what_nobody_watched_of_it() {
        #[rustfmt::skip]
        let table: [(&[u64], u64); 5] = [
            // looks, watched until the last, in milliseconds since it began
            (&[100, 200],                200),
            (&[5_000, 10_000],           10_000),
            (&[5_001],                   1_000),
            // A suspended node, and what was watched before and after.
            (&[2_000, 3_602_000, 3_602_100], 3_100),
            (&[10_000, 10_100, 30_000],  2_100),
        ];
        for (looks, want) in table {
            let ms = |n: u64| Nanos(n * 1_000_000);
            let began = ms(50_000);
            let mut time = Time::new(began);
            let each = looks.iter().map(|at| time.watched(began.plus(ms(*at))));
            assert_eq!(each.last(), Some(ms(want)), "{looks:?}");
        }
    }
}
