//! Targets that the settings protect, which may be other ones than when they were chosen.

use std::collections::BTreeSet;

use super::pending::Pending;
use super::standing::ReliefStanding;
use super::{Question, is_gentle};
use crate::model::cgroup::CgroupId;
use crate::model::decision::Target;
use crate::model::sample::Sample;

/// Whether a cgroup of this target is protected now.
pub(super) fn is_protected(target: &Target, question: &Question<'_>) -> bool {
    target.cgroups().any(|(id, _)| question.protected.contains(&id))
}

/// Waits no longer for a squeeze or a reclaim of what is protected now, nor for what is only observed. For
/// an end it still does: the actuator follows it, and a second victim would die for the same memory.
pub(super) fn drop_protected(question: &Question<'_>, standing: &mut ReliefStanding) {
    let is_off = |step: &mut Pending| {
        let is_end = step.action.is_enforced && !is_gentle(step.action.step);
        !is_end && is_protected(&step.action.target, question)
    };
    let dropped = [standing.pending.take_if(is_off), standing.aside.take_if(is_off)];
    for step in dropped.into_iter().flatten() {
        standing.give_up(step.action.id, question.sample.at.boot);
    }
}

impl ReliefStanding {
    /// The cgroups of squeezes and marks in force and of steps that are waited for.
    pub(in crate::policy) fn touched(&self, sample: &Sample) -> BTreeSet<CgroupId> {
        let in_force = sample.in_force.iter().filter(|entry| entry.can_be_undone());
        let steps = self.pending.iter().chain(&self.aside).map(|step| &step.action);
        let actions = in_force.map(|entry| &entry.action).chain(steps);
        actions.flat_map(|action| action.target.cgroups()).map(|(id, _)| id).collect()
    }
}
