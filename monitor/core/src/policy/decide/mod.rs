//! Decides what is done about a shortage: one step at a time, on one victim at a time, until the
//! victim's memory is back or the step's deadline has passed.
//! In: what is met, the ranking, and what is in force. Out: a [`Relief`]: at most one action, or
//! the reason for none. Observing and enforcing take the same decision.
//! Rules: the table "Relief" in docs/policy.md. [`Event`] is its second column; its third is
//! [`after_pending`] and [`without_pending`].

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
mod pending;
mod proposal;
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

pub(super) use self::beside::{decide_beside, leaves_room, makes_way};
use self::choose::choose;
use self::emergency::{emergency, hurried, hurry};
use self::pending::{Pending, Progress, is_other};
use self::proposal::{Counts, Proposal};
pub use self::question::Question;
use self::standing::HeldBack;
pub use self::standing::ReliefStanding;
use self::steps::{Able, Kind};
pub(crate) use self::target::targets_of;
use crate::model::decision::{
    Candidate, Event as Told, Hold, Met, Relief, StepKind, StepReason, Target, Trigger,
};
use crate::model::threshold::Resource;
use crate::model::units::Bytes;
use crate::policy::rank::Field;

/// A victim gives enough if it holds what is lost in so many seconds.
const WORTH: u64 = 10;

/// What has become of the step that is pending.
#[derive(Debug)]
enum Event {
    /// The deadline has not passed.
    Running,
    /// Memory runs out before a gentler step could show an effect, or memory or pids are short beside a
    /// step against want of something else.
    Emergency(Met),
    /// The step has helped, or its threshold is no longer due.
    Over,
    /// The deadline has passed, and the figures that would show an effect are not measured.
    Unmeasured,
    /// A disruption budget forbids the step, and there is time to ask for another candidate.
    Forbidden,
    /// The step has failed or has not helped, and was only observed to the end of the ladder.
    Observed,
    /// The step has failed or has not helped.
    Stuck(StepReason),
}

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

fn pending_event(question: &Question<'_>, standing: &ReliefStanding, pending: &Pending) -> Event {
    if let Some(first) = emergency(question, standing, pending) {
        return Event::Emergency(first);
    }
    pending_progress(question, pending)
}

fn pending_progress(question: &Question<'_>, pending: &Pending) -> Event {
    let reason = &pending.action.reason;
    let is_due = question.met.iter().any(|met| met.threshold == reason.threshold && met.is_due);
    let is_pressing = Kind::takes_no_refusal(reason);
    match pending.progress(question) {
        Progress::Running => Event::Running,
        Progress::Stuck(_) if !question.is_measured(&reason.threshold.name()) => Event::Unmeasured,
        Progress::Worked => Event::Over,
        Progress::Stuck(_) if !is_due => Event::Over,
        Progress::Stuck(_) if !pending.action.is_enforced && pending.is_last => Event::Observed,
        Progress::Stuck(_) if pending.is_forbidden && !is_pressing => Event::Forbidden,
        Progress::Stuck(why) => Event::Stuck(why),
    }
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

/// The rows of the table in which a step is pending.
fn after_pending(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    mut pending: Pending,
    event: Event,
    relief: &mut Relief,
) {
    let now = question.sample.at.boot;
    let action = &pending.action;
    match event {
        Event::Emergency(first) => {
            hurry(question, standing, &pending, first, relief);
            if relief.actions.is_empty() {
                // No candidate can be ended: the step stays, judged by what it comes to.
                let held = relief.held.take();
                let event = pending_progress(question, &pending);
                after_pending(question, standing, pending, event, relief);
                let held = held.or(relief.held.take());
                relief.held = held.filter(|_| relief.actions.is_empty());
            } else if standing.pending.is_none() {
                // A mark or a squeeze is not waited for: the step before it still is.
                standing.pending = Some(pending);
            } else if is_other(&first, action)
                || standing
                    .pending
                    .as_ref()
                    .is_some_and(|new| new.action.target.uid != action.target.uid)
            {
                // What was put aside before waits for something else still.
                standing.aside.get_or_insert(pending);
            }
        }
        Event::Over => {
            let was_nothing = standing.take_back_unbegun(&pending, question.sample);
            if !was_nothing {
                standing.cooling.begin(action, now);
            }
            // What is started again may be ended again.
            let resource = action.reason.threshold.resource();
            let comes_back = matches!(resource, Resource::Memory | Resource::Pids);
            let is_back =
                || comes_back && action.step.is_final() && pending.is_back(question.sample);
            // So may cache be taken back that is read anew.
            if action.step == StepKind::Reclaim || was_nothing || is_back() {
                standing.try_again(action);
            }
        }
        Event::Unmeasured => {
            standing.take_back_unbegun(&pending, question.sample);
            standing.give_up(action.id, now);
        }
        Event::Forbidden => {
            standing.give_up(action.id, now);
            standing.leave_alone(action, question.sample);
        }
        // The taker is determined anew: it need not be the pod whose cache was taken back.
        Event::Stuck(_) if is_gentle(action.step) && is_by_cause(question) => {
            standing.give_up(action.id, now);
        }
        Event::Stuck(why) => {
            standing.give_up(action.id, now);
            match next_step(question, standing, &pending, why) {
                Some(new) => {
                    relief.actions.push(new.begin(question, standing));
                    if let Some(again) = standing.pending.as_mut().filter(|_| pending.is_unbegun) {
                        again.n_unbegun = pending.n_unbegun + 1;
                    }
                }
                None if action.is_enforced => {
                    standing.take_back_unbegun(&pending, question.sample);
                    let name = action.target.full_name();
                    let what = match pending.outliving(question.sample) {
                        Some(left) => {
                            format!("{name} has ended, and {left} of its shared memory outlive it")
                        }
                        None if pending.is_unbegun => {
                            format!("the actuator began no step on {name} in time")
                        }
                        None => format!("no step on {name} has helped"),
                    };
                    let text = format!("{what}; continuing with the next candidate");
                    relief.events.push(warning("ReliefFailed", text));
                }
                None => {
                    pending.is_last = true;
                    relief.held = Some(Hold::Observed { action: action.id });
                    standing.pending = Some(pending);
                }
            }
        }
        // It happens no more, and keeps no other shortage from being looked at.
        Event::Observed
            if question.first.is_some_and(|first| {
                let is_not_of = |aside: &Pending| is_other(&first, &aside.action);
                is_other(&first, action) && standing.aside.as_ref().is_none_or(is_not_of)
            }) =>
        {
            standing.aside = Some(pending);
        }
        Event::Observed => {
            relief.held = Some(Hold::Observed { action: action.id });
            standing.pending = Some(pending);
        }
        Event::Running => {
            relief.held = Some(Hold::Settling { action: action.id, until: action.deadline });
            standing.pending = Some(pending);
        }
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

/// The next step down the ladder for the same victim, if the settings do not protect it by now. What was
/// only observed never happened, so after a step that would have ended work nothing can follow.
fn next_step(
    question: &Question<'_>,
    standing: &ReliefStanding,
    pending: &Pending,
    why: StepReason,
) -> Option<Proposal> {
    let action = &pending.action;
    let is_same = action.step.is_final();
    if is_same && !action.is_enforced || protected::is_protected(&action.target, question) {
        return None;
    }
    let able = Able::of(question, &action.target, &action.reason, action.want);
    let may_end = is_same || standing.budget_again(question.relief, &action.reason).is_none();
    let able = Able { may_end, ..able };
    let step = match pending.is_repeated() && able.can(action.step) {
        true => action.step,
        // What was not killed has no memory to give back.
        false if pending.is_unbegun && action.step == StepKind::KillContainers => return None,
        false => standing.untried(&able, Some(action.step))?.0,
    };
    let (target, reason, want) = (action.target.clone(), action.reason, action.want);
    let counts = if is_same { Counts::Already } else { Counts::Always };
    Some(Proposal { step, why, target, reason, want, counts })
}

fn warning(reason: &str, message: String) -> Told {
    Told { reason: reason.into(), message, is_warning: true }
}
