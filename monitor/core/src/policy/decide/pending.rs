//! Whether a step has helped: what the next samples show, not what the actuator reports. One that was
//! only observed to its end is put aside while something else is short: it happens no more, and keeps
//! its own shortage alone from a second victim.

use serde::{Deserialize, Serialize};

use super::target::cgroups_of;
use super::{Question, ReliefStanding};
use crate::model::cgroup::Cgroup;
use crate::model::decision::{Action, Met, OutcomeResult, StepKind, StepReason, Target};
use crate::model::sample::Sample;
use crate::model::threshold::Resource;
use crate::model::units::Bytes;
use crate::policy::rank::Purpose;
use crate::policy::takers::swapped;

/// A victim's memory is back when this part of it or less is left.
const LEFT: u64 = 8;

/// A step that was decided and has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pending {
    pub(super) action: Action,
    /// What the target held when it was decided.
    pub(super) held: Option<Bytes>,
    /// Who took it said that it could not be done.
    pub(super) is_refused: bool,
    /// The actuator refused it: a disruption budget forbids it, or it is not enforced any more.
    #[serde(default)]
    pub(super) is_forbidden: bool,
    /// It was begun by an agent before this one, as the ledger says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_adopted: bool,
    /// Its time is over and it stays: nothing more is to be tried on this target.
    pub(super) is_last: bool,
}

/// How far a step has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It still has time.
    Running,
    /// The shortage is over, or the victim's memory is back.
    Worked,
    /// The next step is due.
    Stuck(StepReason),
}

impl Pending {
    pub(super) fn new(action: Action, held: Option<Bytes>) -> Self {
        Self {
            action,
            held,
            is_refused: false,
            is_forbidden: false,
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
        let is_about_memory =
            self.action.step.is_final() || self.action.step == StepKind::ReleaseMemory;
        let has_worked = if is_about_memory { self.is_back(sample) } else { !may_be_met };
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

    /// True if the victim is gone, or most of its memory is back. Of an empty one the page cache counts
    /// as back, because it can be dropped; where memory is short, what outlives its processes does not.
    pub(super) fn is_back(&self, sample: &Sample) -> bool {
        let target = &self.action.target;
        if is_gone(target, sample) {
            return true;
        }
        let is_empty = is_empty(target, sample);
        let (Some(before), Some(now)) = (self.held, held(target, sample)) else {
            return is_empty;
        };
        let left = self.outliving(sample).unwrap_or_default();
        is_mostly_freed(before, now) || is_empty && is_mostly_freed(before, left)
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
        (is_short && left > 0 && is_empty(target, sample)).then_some(Bytes(left))
    }
}

/// Whether something else is short than what this action is about: another resource, or another disk.
/// The end of a victim gives memory back to the node and below the limit of all pods alike.
pub(super) fn is_other(first: &Met, action: &Action) -> bool {
    let [now, then] = [first, &action.reason].map(|met| Purpose::of(&met.threshold));
    match now.resource() {
        Resource::Memory => then.resource() != Resource::Memory,
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
    let aside = standing.aside.take().filter(is_due);
    let waits =
        |aside: &Pending| question.first.is_some_and(|first| is_other(&first, &aside.action));
    if standing.pending.is_some() || aside.as_ref().is_some_and(waits) {
        standing.aside = aside;
    } else {
        standing.pending = aside;
    }
}

/// True if an eighth or less is left of what was held before.
pub(super) fn is_mostly_freed(before: Bytes, now: Bytes) -> bool {
    now.0 <= before.0 / LEFT
}

/// True if none of the target's cgroups is there.
pub(super) fn is_gone(target: &Target, sample: &Sample) -> bool {
    cgroups_of(target, sample).next().is_none()
}

/// True if no task is left in the target's cgroups.
pub(super) fn is_empty(target: &Target, sample: &Sample) -> bool {
    cgroups_of(target, sample).all(|(_, group)| group.pids_current == Some(0))
}

/// What the target's cgroups hold; `None` where memory is not accounted, or one could not be read.
pub(super) fn held(target: &Target, sample: &Sample) -> Option<Bytes> {
    sum(target, sample, |group| group.memory.current.map(|held| held.0)).map(Bytes)
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
