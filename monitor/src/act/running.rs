//! Steps whose end is awaited without waiting: looked at once a tick.

use std::path::Path;

use rustix::process::Signal;

use super::failure::Failure;
use super::process::Stat;
use super::scene::{Scene, Stage, told};
use super::size;
use crate::clock;
use crate::model::decision::{Outcome, OutcomeResult};
use crate::model::units::Nanos;

/// Who has not ended by then is not waited for any longer.
const LONGEST: Nanos = Nanos(120 * Nanos::SECOND.0);

/// A step whose end is awaited.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) action: u64,
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
    pub(super) fn new(action: u64, scene: Scene, due: Option<Nanos>, story: String) -> Self {
        Self { action, scene, began: clock::now().boot, due, story, n_told: 0 }
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
            self.story = match self.scene.kill(stage) {
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
    let is_within = |pid: u32| scene.held.iter().any(|held| held.pid == pid);
    let parent = |pid| Stat::of(proc, pid).map(|stat| stat.parent);
    let first: Vec<_> =
        scene.held.iter().filter(|held| !parent(held.pid).is_some_and(is_within)).collect();
    let asked = if first.is_empty() { scene.held.iter().collect() } else { first };
    for held in &asked {
        held.send(Signal::TERM).map_err(|why| {
            let path = scene.work().next().map(|group| group.path.clone()).unwrap_or_default();
            Failure::Signal { path, pid: held.pid, why }
        })?;
    }
    Ok(asked.len())
}
