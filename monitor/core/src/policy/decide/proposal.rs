//! A step that was chosen, with all that its action says.

use super::kubelet_message;
use super::question::Question;
use super::standing::ReliefStanding;
use super::steps::Able;
use crate::model::decision::{Action, Met, StepKind, StepReason, Target, Trigger};
use crate::model::sample::Sample;
use crate::model::settings::Eviction;
use crate::model::threshold::PressureSignal;
use crate::model::units::{Bytes, Nanos};
use crate::policy::explain::message;

/// A hard threshold's grace, and the shortest that any pod gets.
const LEAST_GRACE: i64 = 1;

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
            .then(|| grace(&reason.threshold, question.eviction, &target, question.sample));
        let seen = question.observations;
        let shortage = step
            .is_final()
            .then(|| kubelet_message::shortage(&reason, &target, seen, question.sample))
            .flatten();
        let restart =
            step.is_local_end().then(|| standing.restarts.expected(step, &target, question.sample));
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

/// The grace: a second where there is no time, else the smaller of what is configured and what the
/// pod asks for, and never less than a second. A group is given what the most patient of its pods
/// asks for: they end together.
///
/// Source: kubelet `pkg/kubelet/eviction/eviction_manager.go`, `synchronize`, and
/// `pkg/kubelet/pod_workers.go`, `calculateEffectiveGracePeriod`.
pub(super) fn grace(
    trigger: &Trigger,
    eviction: &Eviction,
    target: &Target,
    sample: &Sample,
) -> Nanos {
    let is_hard = match trigger {
        Trigger::Eviction(threshold) => threshold.is_hard(),
        Trigger::Pressure(threshold) => threshold.grace.0 == 0,
    };
    let most = i64::from(eviction.max_pod_grace);
    let asked = |uid: &String| {
        let own = sample.pod(uid).and_then(|pod| pod.termination_grace);
        own.map_or(most, |own| own.min(most))
    };
    let longest = target.uids().map(asked).max().unwrap_or(most);
    let seconds = if is_hard { LEAST_GRACE } else { longest.max(LEAST_GRACE) };
    let seconds = u64::try_from(seconds).expect("at least a second");
    Nanos(seconds.saturating_mul(Nanos::SECOND.0))
}
