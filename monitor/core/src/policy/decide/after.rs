//! What becomes of the step that is pending: it goes on, is over, or the next one follows.
//! Rules: the table "Relief" in docs/policy.md. [`Event`] is its second column, [`after_pending`] its third.

use super::emergency::{emergency, hurry};
use super::pending::{Pending, Progress, is_other};
use super::standing::ReliefStanding;
use super::steps::{Able, Kind};
use super::{Counts, Proposal, Question, is_by_cause, is_gentle, protected, warning};
use crate::model::decision::{Hold, Met, Relief, StepKind, StepReason};
use crate::model::threshold::Resource;

/// What has become of the step that is pending.
#[derive(Debug)]
pub(super) enum Event {
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

pub(super) fn pending_event(
    question: &Question<'_>,
    standing: &ReliefStanding,
    pending: &Pending,
) -> Event {
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

/// The rows of the table in which a step is pending.
pub(super) fn after_pending(
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
