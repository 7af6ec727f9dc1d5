//! Evictions, stops and kills that are under way: they are looked at between orders, and never waited for.

use std::path::Path;

use super::Actuator;
use crate::act::error::ActError;
use crate::act::evict::{Answer, Evictions, Refusal};
use crate::act::target::{Node, OpenTarget, describe};
use crate::clock;
use isobar_core::model::decision::{Action, Outcome, OutcomeResult, StepKind};
use isobar_core::model::units::Nanos;
use isobar_core::model::unsampled::unsampled;

/// Processes of one victim of which pidfds are kept, at most.
pub(super) const HELD: usize = 512;
/// Processes that have not ended so long after they were killed are given up.
const LONGEST: Nanos = Nanos(120 * Nanos::SECOND.0);
/// What starts later after a kill was not being forked when it came: its service was started again.
const FORKED: Nanos = Nanos::SECOND;

/// How long a step is followed at most: what is asked to end has its grace before it is killed.
pub(super) fn longest(action: &Action) -> Nanos {
    match action.step {
        StepKind::KillContainers => LONGEST,
        _ => LONGEST.plus(action.grace.unwrap_or_default()),
    }
}

impl Actuator {
    /// What the API server answered about evictions. One that was refused has ended nothing; one that was
    /// refused in part counts, and is followed.
    pub(super) fn hear_answers(&mut self) -> Vec<Outcome> {
        let answers = self.evictions.as_mut().map(Evictions::answers).unwrap_or_default();
        let mut refused = Vec::new();
        for Answer { action, result } in answers {
            let is_its = |ending: &Ending| ending.action == action;
            let Some(i) = self.endings.iter().position(is_its) else { continue };
            match result {
                Ok(story) => self.endings[i].is_answered(story),
                Err(Refusal::Partly(why)) => {
                    let ending = &mut self.endings[i];
                    ending.is_answered(why.clone());
                    refused.push(ending.refused(Refusal::Partly(why)));
                }
                Err(refusal) => {
                    refused.push(self.endings.swap_remove(i).refused(refusal));
                    self.ledger.remove(action);
                }
            }
        }
        refused
    }
}

/// An eviction, a stop or a kill whose victim has not ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) action: u64,
    pub(super) step: StepKind,
    pub(super) target: OpenTarget,
    time: Time,
    /// How long after SIGTERM comes SIGKILL; `None` once it has, where it came first, and where the
    /// kubelet ends the victim.
    grace: Option<Nanos>,
    /// When it was killed, of the time that was watched.
    killed: Nanos,
    /// How long it is followed at most, of the time that was watched.
    longest: Nanos,
    /// What was done so far, in words.
    story: String,
    /// The API server has not said yet whether it evicts the victim, which may have no process to end.
    is_asked: bool,
    /// Processes whose end was reported.
    n_reported: u64,
}

/// The time of one step, by the boot clock, which runs on while the node is suspended.
#[derive(Debug)]
struct Time {
    began: Nanos,
    /// When it was last looked at.
    looked: Nanos,
    /// The part in which the agent saw nothing: the node was suspended, or the agent got no CPU. A
    /// victim that was asked to end could do nothing then.
    unseen: Nanos,
}

impl Time {
    fn new(began: Nanos) -> Self {
        Self { began, looked: began, unseen: Nanos(0) }
    }

    /// How much of it the agent has seen until `now`.
    fn watched(&mut self, now: Nanos) -> Nanos {
        self.unseen = self.unseen.plus(unsampled(now.since(self.looked)));
        self.looked = now;
        now.since(self.began).since(self.unseen)
    }
}

impl Ending {
    pub(super) fn new(
        action: &Action,
        target: OpenTarget,
        began: Nanos,
        grace: Option<Nanos>,
        story: String,
    ) -> Self {
        let (killed, longest, n_reported) = (Nanos(0), longest(action), 0);
        let (action, step, time) = (action.id, action.step, Time::new(began));
        let is_asked = step == StepKind::Evict;
        Self { action, step, target, time, grace, killed, longest, story, is_asked, n_reported }
    }

    /// What the step has come to right after it was taken, and whether it is over.
    pub(super) fn first(&mut self, proc: &Path) -> (Outcome, bool) {
        let left = self.target.left();
        let story = match &left[..] {
            [] => self.story.clone(),
            left => format!("{}; {}", self.story, describe(proc, left)),
        };
        (self.outcome(Ok(story), &left, clock::now().boot), self.is_over(&left))
    }

    /// A pod whose containers wait to be started again has no process to end: its end is that the
    /// kubelet removes its cgroup.
    fn is_over(&self, left: &[u32]) -> bool {
        let is_idle = self.target.n_work() == 0;
        let has_ended = left.is_empty() && !self.target.may_be_more;
        !self.is_asked && has_ended && (!is_idle || self.target.is_gone())
    }

    /// Looks again; the outcome, if it is over.
    pub(super) fn look(&mut self, node: Node<'_>) -> Option<Outcome> {
        let left = self.target.left();
        self.target.measure();
        let now = clock::now().boot;
        let watched = self.time.watched(now);
        if self.is_over(&left) {
            let end = match self.target.n_work() {
                0 => "its cgroup is gone",
                _ => "all processes have ended",
            };
            let story = format!("{}; {end}", self.story);
            return Some(self.outcome(Ok(story), &left, now));
        }
        let is_due = self.grace.is_some_and(|grace| watched >= grace);
        let is_killed = self.grace.is_none() && self.step != StepKind::Evict;
        if is_killed
            && watched.since(self.killed) <= FORKED
            && self.target.end_newcomers(node, &left)
        {
            self.story += "; processes that were being forked were ended after it";
        }
        if is_due {
            (self.grace, self.killed) = (None, watched);
            let who = describe(node.proc, &left);
            let how = match self.target.kill(node) {
                Ok(how) => {
                    self.target.catch();
                    how
                }
                Err(failure) => return Some(self.outcome(Err(failure), &left, now)),
            };
            self.story = format!("{}; the grace period ended with {who}; then {how}", self.story);
        }
        if watched < self.longest {
            return None;
        }
        let lasting = ActError::Other(format!("{}; {}", self.story, describe(node.proc, &left)));
        Some(self.outcome(Err(lasting), &left, now))
    }

    /// Lets no SIGKILL follow; the outcome by then.
    pub(super) fn call_off(mut self) -> Outcome {
        let left = self.target.left();
        let name = self.step.name();
        let why = format!("{}; no SIGKILL follows: {name} is no longer enforced", self.story);
        let outcome = self.outcome(Ok(why), &left, clock::now().boot);
        let result = OutcomeResult::Refused;
        Outcome { result, ..outcome }
    }

    /// The API server evicts the victim.
    fn is_answered(&mut self, story: String) {
        (self.story, self.is_asked) = (story, false);
    }

    /// The API server does not evict the victim, or not all of it.
    fn refused(&mut self, why: Refusal) -> Outcome {
        let left = self.target.left();
        let (result, detail) = match why {
            Refusal::Forbidden(why) | Refusal::Partly(why) => (OutcomeResult::Refused, why),
            Refusal::Failed(why) => (OutcomeResult::Failed, why),
        };
        let outcome = self.outcome(Ok(String::new()), &left, clock::now().boot);
        Outcome { result, detail, ..outcome }
    }

    fn outcome(&mut self, story: Result<String, ActError>, left: &[u32], now: Nanos) -> Outcome {
        let n_ended = self.target.n_before.saturating_sub(left.len() as u64);
        let ended = n_ended.saturating_sub(self.n_reported);
        self.n_reported = n_ended.max(self.n_reported);
        // A part of a victim's memory says nothing about what all of it will be.
        let freed = self.target.freed().filter(|_| left.is_empty());
        let came = freed.map(|freed| format!("; {} came back", freed)).unwrap_or_default();
        let (result, detail) = match story {
            Ok(story) => (OutcomeResult::Done, format!("{story}{came}")),
            Err(failure) => (OutcomeResult::Failed, failure.to_string()),
        };
        let (took, ended) = (now.since(self.time.began), Some(ended));
        Outcome { action: self.action, result, detail, took, freed, ended, never_begun: false }
    }
}

/// What was not done, behind what was.
pub(super) fn but(failed: Option<ActError>) -> String {
    failed.map(|why| format!(", but {why}")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
