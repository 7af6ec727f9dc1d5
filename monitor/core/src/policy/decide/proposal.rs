//! A step that was chosen, with all that its action says.

use super::grace;
use super::kubelet_message;
use super::question::Question;
use super::standing::ReliefStanding;
use super::steps::Able;
use crate::model::decision::{Action, Met, StepKind, StepReason, Target, Trigger};
use crate::model::threshold::PressureSignal;
use crate::model::units::{Bytes, Nanos};
use crate::policy::explain::message;

/// A step before it is written down as an action.
pub(super) struct Proposal {
    pub(super) step: StepKind,
    pub(super) why: StepReason,
    pub(super) target: Target,
    pub(super) reason: Met,
    pub(super) want: Option<Bytes>,
    pub(super) counts: Counts,
}

/// How a step that ends work counts against the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// For the budget's window.
    Always,
    /// Until its shortage is over: it ends who took what is short.
    UntilOver,
    /// No more: the step before it has ended the same work already, it is the same eviction.
    Already,
}

impl Proposal {
    /// A step that ends no work.
    pub(super) fn gentle(step: StepKind, target: Target, reason: &Met) -> Self {
        let (why, reason, counts) = (StepReason::Gentlest, *reason, Counts::Always);
        Self { step, why, target, reason, want: None, counts }
    }

    /// Makes the action, and has it remembered.
    pub(super) fn begin(self, question: &Question<'_>, standing: &mut ReliefStanding) -> Action {
        let Self { step, why, target, reason, want, counts } = self;
        if step == StepKind::Evict {
            standing.kept.asked(&reason.threshold.name(), &target.uid);
        }
        let able = Able::of(question, &target, &reason, want);
        let escalates_to = standing.untried(&able, Some(step)).map(|(step, _)| step);
        let grace = step
            .is_final()
            .then(|| grace::of(&reason.threshold, question.eviction, &target, question.sample));
        let seen = question.observations;
        let shortage = step
            .is_final()
            .then(|| kubelet_message::shortage(&reason, &target, seen, question.sample))
            .flatten();
        let restart =
            step.is_local_end().then(|| standing.restarts.expected(&target, question.sample));
        let given = question.relief.deadlines.get(&step).copied().unwrap_or(Nanos::SECOND);
        let given = given.plus(grace.unwrap_or_default());
        let action = Action {
            id: standing.next_id(),
            step,
            message: shortage.as_ref().map(message::message).unwrap_or_default(),
            annotations: shortage.as_ref().map(message::annotations).unwrap_or_default(),
            deadline: question.sample.at.boot.plus(given.min(time_left(&reason))),
            target,
            reason,
            why,
            want,
            grace,
            escalates_to,
            is_enforced: question.relief.enforce.contains(&step),
            restart: restart.flatten(),
            deletion: question.relief.deletion_by(step),
        };
        standing.remember(question, &action, counts);
        action
    }
}

/// A step against memory that ends has no longer than that memory lasts, but a second.
fn time_left(reason: &Met) -> Nanos {
    match reason.threshold {
        Trigger::Pressure(threshold) if matches!(threshold.on, PressureSignal::Exhaustion(_)) => {
            Nanos(reason.measured).max(Nanos::SECOND)
        }
        _ => Nanos(u64::MAX),
    }
}
