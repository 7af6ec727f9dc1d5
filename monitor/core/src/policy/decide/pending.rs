//! Whether a step has helped: what the next samples show, not what the actuator reports. One that was
//! only observed to its end is put aside while something else is short: it happens no more, and keeps
//! its own shortage alone from a second victim.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::target::cgroups_of;
use super::{Question, ReliefStanding};
use crate::model::cgroup::Cgroup;
use crate::model::decision::{Action, Met, OutcomeResult, StepKind, StepReason, Target};
use crate::model::is_default;
use crate::model::pod::{LARGER_THAN_SANDBOX, Place};
use crate::model::sample::Sample;
use crate::model::threshold::Resource;
use crate::model::units::{Bytes, Nanos};
use crate::policy::rank::Purpose;
use crate::policy::takers::swapped;

/// No sandbox has more: it is `pause`, or CRI-O's `conmon`.
const TASKS_OF_SANDBOX: u64 = 2;

/// A victim's memory is back when this part of it or less is left.
const LEFT: u64 = 8;

/// A squeeze has served when others wait for this part of what they did, or less.
const LESS: u64 = 2;

/// A step that the actuator does not begin is ordered again so often. Then the next candidate has its turn.
const ORDERED_AGAIN: u32 = 10;

/// A step that was decided and has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pending {
    pub(super) action: Action,
    /// What the target held when it was decided.
    pub(super) held: Option<Bytes>,
    /// How many threads it had then, where pids were short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) threads: Option<u64>,
    /// For how long others waited because of it then, where that is what it is squeezed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) harm: Option<Nanos>,
    /// Who took it said that it could not be done.
    pub(super) is_refused: bool,
    /// The actuator refused it: a disruption budget forbids it, or it is not enforced any more.
    #[serde(default)]
    pub(super) is_forbidden: bool,
    /// The actuator did not begin it: it is no attempt, and is ordered again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_unbegun: bool,
    /// How often it was ordered before and not begun.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) n_unbegun: u32,
    /// It was begun by an agent before this one, as the ledger says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_adopted: bool,
    /// Its time is over and it stays: nothing more is to be tried on this target.
    pub(super) is_last: bool,
}

/// For how long others waited lately because of the target of a squeeze; `None` where it is not for that,
/// or not measured.
pub(super) fn harm(action: &Action, question: &Question<'_>) -> Option<Nanos> {
    let resource = action.reason.threshold.resource();
    let harm = question.harm.in_reach(resource, &action.target);
    harm.filter(|_| action.step == StepKind::Squeeze)
}

/// How far a step has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It still has time.
    Running,
    /// The shortage is over, what the victim held is back, or others wait less because of it.
    Worked,
    /// The next step is due.
    Stuck(StepReason),
}

impl Pending {
    pub(super) fn new(action: Action, held: Option<Bytes>, question: &Question<'_>) -> Self {
        let resource = action.reason.threshold.resource();
        let threads = threads(&action.target, question.sample);
        Self {
            threads: threads.filter(|_| resource == Resource::Pids),
            harm: harm(&action, question),
            action,
            held,
            is_refused: false,
            is_forbidden: false,
            is_unbegun: false,
            n_unbegun: 0,
            is_adopted: false,
            is_last: false,
        }
    }

    /// Takes note of what the actuator reports. Time in which the agent saw nothing does not count.
    pub(super) fn hear(&mut self, question: &Question<'_>) {
        let outcomes = question.sample.outcomes.iter();
        for outcome in outcomes.filter(|outcome| outcome.action == self.action.id) {
            self.is_refused |= outcome.result != OutcomeResult::Done;
            self.is_forbidden |= outcome.result == OutcomeResult::Refused;
            let is_late = outcome.never_begun && outcome.result == OutcomeResult::Failed;
            self.is_unbegun |= is_late && self.action.is_enforced;
        }
        self.action.deadline = self.action.deadline.plus(question.unseen);
    }

    pub(super) fn progress(&self, question: &Question<'_>) -> Progress {
        let Question { sample, met, .. } = question;
        let now = sample.at.boot;
        let reason = &self.action.reason.threshold;
        let may_be_met =
            met.iter().any(|met| met.threshold == *reason) || !question.is_measured(&reason.name());
        // Of the dead, too, only what they held counts: pressure's average is slow to fall.
        let is_about_end =
            self.action.step.is_final() || self.action.step == StepKind::ReleaseMemory;
        let has_worked = match is_about_end {
            true => self.is_back(sample),
            false => {
                let has_less = self.harms_less(question) || self.has_eased(question);
                !may_be_met || has_less || is_gone(&self.action.target, sample)
            }
        };
        // A pod that is evicted gives its volumes in memory back later, with its directory.
        let is_vain = self.action.step.is_local_end() && self.outliving(sample).is_some();
        let is_late = is_vain || now >= self.action.deadline;
        match (has_worked, self.is_refused) {
            (true, _) => Progress::Worked,
            (false, true) => Progress::Stuck(StepReason::Failed),
            (false, false) if is_late => Progress::Stuck(StepReason::NoEffect),
            (false, false) => Progress::Running,
        }
    }

    /// Whether the same step is due again. An agent that crashed may have entered a kill in its ledger and
    /// not done it.
    pub(super) fn is_repeated(&self) -> bool {
        match self.is_unbegun {
            true => self.n_unbegun < ORDERED_AGAIN,
            false => self.is_adopted && self.action.step == StepKind::KillContainers,
        }
    }

    /// True if it makes others wait much less than before: that is what it is squeezed for. A CPU or a
    /// disk may be wanted by others as much as before, and tasks of the target itself wait for it.
    fn harms_less(&self, question: &Question<'_>) -> bool {
        let ends = self.harm.zip(harm(&self.action, question));
        ends.is_some_and(|(before, now)| now.0 <= before.0 / LESS)
    }

    /// True if only the average is above the threshold still, and the last interval is not.
    fn has_eased(&self, question: &Question<'_>) -> bool {
        let reason = &self.action.reason.threshold;
        let is_first = question.first.is_some_and(|first| first.threshold == *reason);
        is_first && question.is_stale && matches!(reason.resource(), Resource::Cpu | Resource::Io)
    }

    /// True if the victim is gone, or most of what is short is back. Of an empty one the page cache counts
    /// as back, because it can be dropped; where memory is short, what outlives its processes does not.
    /// Files stay while a process is left that may write to them.
    pub(super) fn is_back(&self, sample: &Sample) -> bool {
        let target = &self.action.target;
        if is_gone(target, sample) {
            return true;
        }
        let is_empty = self.is_empty(sample);
        match self.action.reason.threshold.resource() {
            Resource::Memory => {
                let (Some(before), Some(now)) = (self.held, held(target, sample)) else {
                    return is_empty;
                };
                let left = self.outliving(sample).unwrap_or_default();
                is_mostly_freed(before.0, now.0) || is_empty && is_mostly_freed(before.0, left.0)
            }
            Resource::Pids => {
                let ends = self.threads.zip(threads(target, sample));
                is_empty || ends.is_some_and(|(before, now)| is_mostly_freed(before, now))
            }
            _ => is_empty,
        }
    }

    /// Shared memory and tmpfs of an empty victim, where memory is short: the end of its processes
    /// gives none of it back.
    pub(super) fn outliving(&self, sample: &Sample) -> Option<Bytes> {
        let target = &self.action.target;
        let is_short = self.action.reason.threshold.resource() == Resource::Memory;
        let each = cgroups_of(target, sample).map(|(_, group)| {
            let shared = group.memory.stat.map_or(0, |stat| stat.shmem.0);
            shared.saturating_add(swapped(group).0)
        });
        let left = each.fold(0, u64::saturating_add);
        (is_short && left > 0 && self.is_empty(sample)).then_some(Bytes(left))
    }

    /// True if the step has left no task. An eviction is over when the sandbox has gone, too: until then
    /// the API server may refuse it, and the pod's volumes are there.
    fn is_empty(&self, sample: &Sample) -> bool {
        match self.action.step {
            StepKind::Evict => has_no_task(&self.action.target, sample),
            _ => is_empty(&self.action.target, sample),
        }
    }
}

/// Whether something else is short than what this action is about: another resource, or another disk.
/// The end of a victim gives memory back to the node and below the limit of all pods alike.
pub(super) fn is_other(first: &Met, action: &Action) -> bool {
    let [now, then] = [first, &action.reason].map(|met| Purpose::of(&met.threshold));
    match now.resource {
        Resource::Memory => then.resource != Resource::Memory,
        _ => now != then,
    }
}

/// Goes on with the step that was put aside, if its shortage is due still and no other comes first.
pub(super) fn resume_aside(question: &Question<'_>, standing: &mut ReliefStanding) {
    let is_due = |aside: &Pending| {
        let threshold = &aside.action.reason.threshold;
        let mut met = question.met.iter();
        met.any(|met| met.threshold == *threshold && met.is_due)
            || !question.is_measured(&threshold.name())
    };
    let mut aside = standing.aside.take();
    if let Some(over) = aside.take_if(|aside| !is_due(aside)) {
        standing.take_back_unbegun(&over, question.sample);
    }
    let waits =
        |aside: &Pending| question.first.is_some_and(|first| is_other(&first, &aside.action));
    if standing.pending.is_some() || aside.as_ref().is_some_and(waits) {
        standing.aside = aside;
    } else {
        standing.pending = aside;
    }
}

/// True if an eighth or less is left of what was there before.
pub(super) fn is_mostly_freed(before: u64, now: u64) -> bool {
    now <= before / LEFT
}

/// True if none of the target's cgroups is there.
pub(super) fn is_gone(target: &Target, sample: &Sample) -> bool {
    cgroups_of(target, sample).next().is_none()
}

fn has_no_task(target: &Target, sample: &Sample) -> bool {
    cgroups_of(target, sample).all(|(_, group)| group.pids_current == Some(0))
}

/// True if no task is left in the target's cgroups but those of pods' sandboxes, which stay until the
/// kubelet takes the pod down.
pub(super) fn is_empty(target: &Target, sample: &Sample) -> bool {
    cgroups_of(target, sample).all(|(_, group)| {
        let n_tasks = group.pids_current;
        n_tasks == Some(0) || n_tasks.is_some() && n_tasks == n_of_sandbox(target, group, sample)
    })
}

/// Tasks in what looks like the sandbox of a pod: small, and none of its containers, which the API names.
/// Where it names none, a small container looks the same.
fn n_of_sandbox(target: &Target, pod: &Cgroup, sample: &Sample) -> Option<u64> {
    if target.containers.is_empty() {
        return None;
    }
    let places = sample.places();
    let is_sandbox = |group: &&Arc<Cgroup>| {
        let above = group.path.0.rsplit_once('/').map(|(above, _)| above);
        let is_small = group.memory.current.is_some_and(|held| held < LARGER_THAN_SANDBOX)
            && group.pids_current <= Some(TASKS_OF_SANDBOX);
        above == Some(&*pod.path.0)
            && is_small
            && matches!(places.place(&group.path), Place::Container { id, .. }
                if !target.containers.iter().any(|named| **named == *id))
    };
    let sandboxes = sample.cgroups.values().filter(is_sandbox);
    sandboxes.map(|group| group.pids_current).sum()
}

/// What the target's cgroups hold; `None` where memory is not accounted, or one could not be read.
pub(super) fn held(target: &Target, sample: &Sample) -> Option<Bytes> {
    sum(target, sample, |group| group.memory.current.map(|held| held.0)).map(Bytes)
}

/// How many threads the target's cgroups have, under the same conditions.
fn threads(target: &Target, sample: &Sample) -> Option<u64> {
    sum(target, sample, |group| group.pids_current)
}

/// The sum over the target's cgroups; `None` if one does not tell, or none is there.
pub(super) fn sum(
    target: &Target,
    sample: &Sample,
    of: impl Fn(&Cgroup) -> Option<u64>,
) -> Option<u64> {
    let mut each = cgroups_of(target, sample).map(|(_, group)| of(group));
    let first = each.next()??;
    each.try_fold(first, |sum, one| Some(sum.saturating_add(one?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::{CgroupId, CgroupPath};

    #[test]
    fn is_empty_leaves_sandboxes_out() {
        const POD: &str = "/kubepods/burstable/podu";
        let (sandbox, app) = ("5a".repeat(32), "c0".repeat(32));
        #[rustfmt::skip]
        let table = [
            // tasks of the pod; id, tasks and MiB of what is in it; is it empty
            (Some(0), vec![],                                        true),
            (Some(1), vec![],                                        false),
            (None,    vec![(&sandbox, 1, 1)],                        false),
            (Some(1), vec![(&sandbox, 1, 1)],                        true),
            (Some(1), vec![(&sandbox, 1, 1), (&app, 0, 300)],        true),  // its page cache
            (Some(2), vec![(&sandbox, 1, 1), (&app, 1, 1)],          false), // a container by the API
            (Some(2), vec![(&sandbox, 1, 1)],                        false), // one in the pod's own cgroup
            (Some(3), vec![(&sandbox, 3, 1)],                        false), // no sandbox has so many
            (Some(1), vec![(&sandbox, 1, 16)],                       false), // nor so much memory
        ];
        for (tasks, below, want) in table {
            let group = |path: String, tasks, mib: u64| {
                let mut group = Cgroup { path: CgroupPath(path.into()), ..Cgroup::default() };
                group.pids_current = tasks;
                group.memory.current = Some(Bytes(mib << 20));
                Arc::new(group)
            };
            let pod = (CgroupId(1), group(POD.into(), tasks, 300));
            let below = below.iter().zip(2..).map(|((id, tasks, mib), at)| {
                (CgroupId(at), group(format!("{POD}/{id}"), Some(*tasks), *mib))
            });
            let cgroups = below.chain([pod]).collect();
            let sample = Sample { cgroups, ..Sample::default() };
            let target = Target { cgroup: Some(CgroupId(1)), ..Target::default() };
            let named = Target { containers: vec![app.clone()], ..target.clone() };
            assert_eq!(is_empty(&named, &sample), want, "{:?}", sample.cgroups);
            assert_eq!(is_empty(&target, &sample), tasks == Some(0), "{:?}", sample.cgroups);
        }
    }
}
