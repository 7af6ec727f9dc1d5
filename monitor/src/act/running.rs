//! Steps whose end is awaited without waiting: looked at once a tick.

use std::path::Path;

use rustix::process::Signal;

use super::failure::Failure;
use super::process::Stat;
use super::scene::{Scene, Stage, told};
use super::size;
use crate::clock;
use crate::model::decision::{Action, Outcome, OutcomeResult, StepKind};
use crate::model::units::Nanos;

/// Who has not ended by then is not waited for any longer.
const LONGEST: Nanos = Nanos(120 * Nanos::SECOND.0);

/// A step whose end is awaited.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) action: u64,
    pub(super) step: StepKind,
    pub(super) scene: Scene,
    began: Nanos,
    /// When SIGKILL follows on SIGTERM; `None` once it has, or where it came first.
    due: Option<Nanos>,
    /// What was done so far, in words.
    story: String,
    /// Processes whose end was told.
    n_told: u64,
}

impl Running {
    pub(super) fn new(action: &Action, scene: Scene, due: Option<Nanos>, story: String) -> Self {
        let (action, step) = (action.id, action.step);
        Self { action, step, scene, began: clock::now().boot, due, story, n_told: 0 }
    }

    /// What a step has come to that was just taken.
    pub(super) fn first(&mut self, proc: &Path, left: &[u32], began: Nanos) -> Outcome {
        self.began = began;
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
        if left.is_empty() {
            let story = format!("{}; all has ended", self.story);
            return Some(self.outcome(Ok(story), &left, now));
        }
        let is_due = self.due.is_some_and(|due| now >= due);
        if self.due.is_none() {
            self.scene.end_newcomers(stage, &left);
        }
        if is_due {
            self.due = None;
            let who = told(stage.proc, &left);
            let killed = self.scene.kill(stage);
            let killed = killed.and_then(|how| self.scene.kill_new(stage).map(|()| how));
            self.story = match killed {
                Ok(how) => format!("{}; its time was over with {who}; then {how}", self.story),
                Err(failure) => return Some(self.outcome(Err(failure), &left, now)),
            };
        }
        if now.since(self.began) < LONGEST {
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
        let took = now.since(self.began);
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
