//! Decides what is done about a shortage: one step at a time, on one victim at a time, until the
//! victim's memory is back or the step's deadline has passed.
//! In: what is met, the ranking, and what is in force. Out: a [`Relief`]: at most one action, or
//! the reason for none. Observing and enforcing take the same decision.
//! Rules: the table "Relief" in docs/policy.md; its rows in which a step is pending are in `after`.

mod after;
mod beside;
mod budget;
mod cause;
mod choose;
mod cooling;
mod effects;
mod emergency;
mod endings;
mod joint;
mod kept;
mod kernel_kills;
mod kubelet_message;
mod oom;
mod payer;
mod pending;
mod protected;
mod question;
mod reclaim;
mod restarts;
mod squeeze;
mod standing;
mod steps;
mod target;
#[cfg(test)]
mod tests;

use self::after::{after_pending, pending_event};
pub(super) use self::beside::{decide_beside, leaves_room, makes_way};
use self::choose::choose;
use self::emergency::hurried;
pub use self::question::Question;
use self::standing::HeldBack;
pub use self::standing::ReliefStanding;
use self::steps::Able;
pub(crate) use self::target::targets_of;
use crate::model::decision::{
    Action, Candidate, Event, Hold, Met, Relief, StepKind, StepReason, Target, Trigger,
};
use crate::model::sample::Sample;
use crate::model::settings::Eviction;
use crate::model::threshold::Resource;
use crate::model::units::{Bytes, Nanos};
use crate::policy::explain::message;
use crate::policy::rank::Field;

/// A hard threshold's grace, and the shortest that any pod gets.
const LEAST_GRACE: i64 = 1;
/// A victim gives enough if it holds what is lost in so many seconds.
const WORTH: u64 = 10;

/// Decides. Cannot fail.
pub fn decide(question: &Question<'_>, standing: &mut ReliefStanding) -> Relief {
    standing.adopt(question);
    standing.forget(question);
    standing.kernel_kills.hear(question);
    standing.hear_endings(question);
    standing.restarts.hear(question.sample);
    let mut relief = Relief { effects: standing.effects.look(question), ..Relief::default() };
    standing.pending.iter_mut().chain(&mut standing.aside).for_each(|step| step.hear(question));
    protected::drop_protected(question, standing);
    pending::resume_aside(question, standing);
    if let Some(pending) = standing.pending.take() {
        let event = pending_event(question, standing, &pending);
        after_pending(question, standing, pending, event, &mut relief);
    }
    if standing.pending.is_none() && relief.actions.is_empty() {
        without_pending(question, standing, &mut relief);
    }
    standing.note_unmeasured(question);
    relief.releases = squeeze::releases(question, standing);
    relief
}

/// Whether the step that is pending is only observed.
pub(super) fn is_observing(standing: &ReliefStanding) -> bool {
    standing.pending.as_ref().is_some_and(|pending| !pending.action.is_enforced)
}

/// The rows of the table in which no step is pending.
fn without_pending(question: &Question<'_>, standing: &mut ReliefStanding, relief: &mut Relief) {
    match due(question, standing) {
        Ok(first) => begin(question, standing, first, relief),
        Err(held) => match cause::mark_early(question, standing) {
            Some(mark) => relief.actions.push(mark.begin(question, standing)),
            None => relief.held = held,
        },
    }
}

/// The first threshold that is due; else what it waits for, if one is met.
fn due(question: &Question<'_>, standing: &ReliefStanding) -> Result<Met, Option<Hold>> {
    let now = question.sample.at.boot;
    let Some(first) = question.first else {
        return Err((!question.met.is_empty()).then_some(Hold::InGrace));
    };
    if question.is_stale {
        return Err(Some(match first.threshold {
            Trigger::Eviction(_) => Hold::StaleReadings,
            Trigger::Pressure(_) => Hold::Easing,
        }));
    }
    // What the last step gave back is not seen yet.
    let until = standing.cooling.until(question.relief, &first);
    if let Some(until) = until.filter(|until| now < *until) {
        return Err(Some(Hold::CoolingDown { until }));
    }
    if let Some(until) = standing.kernel_kills.settle_until(question, &first) {
        return Err(Some(Hold::KernelKilled { until }));
    }
    if let Some((pod, until)) = standing.endings.awaited(question, &first) {
        return Err(Some(Hold::Ending { pod, until }));
    }
    match endings::clean_up(question, &first) {
        Some(until) => Err(Some(Hold::CleaningUp { until })),
        None => Ok(first),
    }
}

fn is_by_cause(question: &Question<'_>) -> bool {
    question.field.is_some_and(Field::is_by_cause)
}

fn is_gentle(step: StepKind) -> bool {
    matches!(step, StepKind::Reclaim | StepKind::Squeeze)
}

/// Chooses a victim and its first step: for memory in the order `cause` among those who took it.
fn begin(question: &Question<'_>, standing: &mut ReliefStanding, first: Met, relief: &mut Relief) {
    if let Some(new) = hurried(question, standing, &first) {
        return relief.actions.push(new.begin(question, standing));
    }
    match question.field.filter(|field| field.is_by_cause()) {
        Some(field) => cause::choose(question, standing, field, first, relief),
        None => choose(question, standing, first, relief),
    }
}

/// Holds back if the eviction budget is spent.
fn beyond_budget(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    first: &Met,
    relief: &mut Relief,
) -> bool {
    let Some(until) = standing.budget_again(question.relief, first) else { return false };
    let text = format!(
        "{} evictions within the budget's window are done; nothing more before it has room",
        question.relief.budget
    );
    let hold = Hold::BudgetSpent { until };
    standing.hold_back(HeldBack::BudgetSpent, hold, text, relief);
    true
}

/// The first candidate of `list` that has a step left, and that step, within the budget.
fn of_those(
    question: &Question<'_>,
    standing: &ReliefStanding,
    first: &Met,
    list: &[&Candidate],
) -> Option<Proposal> {
    let may_end = standing.budget_again(question.relief, first).is_none();
    first_of(question, standing, first, list, may_end)
}

fn first_of(
    question: &Question<'_>,
    standing: &ReliefStanding,
    first: &Met,
    list: &[&Candidate],
    may_end: bool,
) -> Option<Proposal> {
    let want = wanted(first);
    let is_spent = |target: &Target| standing.is_spent(target, question.sample);
    let targets = targets_of(list, question.sample, question.snapshot).into_iter();
    targets.filter(|target| !is_spent(target)).find_map(|target| {
        let able = Able::of(question, &target, first, want);
        let able = Able { may_end, ..able };
        let (step, why) = standing.untried(&able, None)?;
        let want = able.amount(step);
        Some(Proposal { step, why, target, reason: *first, want, counts: Counts::Always })
    })
}

/// How much memory is missing until the threshold is no longer met.
fn wanted(met: &Met) -> Option<Bytes> {
    let Trigger::Eviction(threshold) = met.threshold else { return None };
    met.missing.filter(|_| threshold.signal.resource() == Resource::Memory).map(Bytes)
}

/// A step before it is written down as an action.
struct Proposal {
    step: StepKind,
    why: StepReason,
    target: Target,
    reason: Met,
    want: Option<Bytes>,
    counts: Counts,
}

/// How a step that ends work counts against the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// For the budget's window.
    Always,
    /// Until its shortage is over: it ends who took what is short.
    UntilOver,
    /// No more: the step before it has ended the same work already, it is the same eviction.
    Already,
}

impl Proposal {
    /// A step that ends no work.
    fn gentle(step: StepKind, target: Target, reason: &Met) -> Self {
        let (why, reason, counts) = (StepReason::Gentlest, *reason, Counts::Always);
        Self { step, why, target, reason, want: None, counts }
    }

    /// Makes the action, and has it remembered.
    fn begin(self, question: &Question<'_>, standing: &mut ReliefStanding) -> Action {
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
    match reason.threshold.is_forecast() {
        true => Nanos(reason.measured).max(Nanos::SECOND),
        false => Nanos(u64::MAX),
    }
}

/// The grace: a second where there is no time, else the smaller of what is configured and what the
/// pod asks for, and never less than a second. A group is given what the most patient of its pods
/// asks for: they end together.
///
/// Source: kubelet `pkg/kubelet/eviction/eviction_manager.go`, `synchronize`, and
/// `pkg/kubelet/pod_workers.go`, `calculateEffectiveGracePeriod`.
fn grace(trigger: &Trigger, eviction: &Eviction, target: &Target, sample: &Sample) -> Nanos {
    let most = i64::from(eviction.max_pod_grace);
    let asked = |uid: &String| {
        let own = sample.pod(uid).and_then(|pod| pod.termination_grace);
        own.map_or(most, |own| own.min(most))
    };
    let longest = target.uids().map(asked).max().unwrap_or(most);
    let seconds = if trigger.grace() == Nanos(0) { LEAST_GRACE } else { longest.max(LEAST_GRACE) };
    let seconds = u64::try_from(seconds).expect("at least a second");
    Nanos(seconds.saturating_mul(Nanos::SECOND.0))
}

fn warning(reason: &str, message: String) -> Event {
    Event { reason: reason.into(), message, is_warning: true }
}
