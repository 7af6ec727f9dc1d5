//! What is to be done about a shortage: one step at a time, on one victim at a time, until its
//! memory is back or the step's time is over.
//! In: what is met, who would go first, and what came of the step before. Out: at most one
//! `Action`, or the reason for doing nothing. Observing and enforcing are the same decision.

mod after;
mod choose;
mod effect;
mod grace;
mod kernel;
mod ladder;
mod squeeze;
mod standing;
mod target;
mod tell;
#[cfg(test)]
mod tests;

use self::choose::begin;
use self::effect::{Pending, Progress};
use self::ladder::{Able, Kind};
use self::standing::Proposal;
pub use self::standing::ReliefStanding;
pub use self::target::target_of;
use crate::model::decision::{
    Action, Effect, Event, Hold, Met, Observation, Ranking, Release, StepKind, Trigger,
};
use crate::model::sample::Sample;
use crate::model::settings::{Eviction, Relief};
use crate::model::units::Nanos;
use crate::policy::rank::Field;

/// What a decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// How to relieve.
    pub relief: &'a Relief,
    /// When to evict, and with how much grace.
    pub eviction: &'a Eviction,
    /// The tick.
    pub sample: &'a Sample,
    /// Of the time since the sample before, what nobody watched.
    pub unseen: Nanos,
    /// Everything that is met.
    pub met: &'a [Met],
    /// What would be met for all that is known: it was not measured.
    pub unmeasured: &'a [Trigger],
    /// What is to be relieved first; `None` if nothing is due.
    pub first: Option<Met>,
    /// What is due was not read anew since the tick before.
    pub is_stale: bool,
    /// Who would go first; `None` if nothing is due.
    pub ranking: Option<&'a Ranking>,
    /// Everybody, of whom the ranking is the head.
    pub field: Option<&'a Field<'a>>,
    /// Who makes others wait for it was measured before, and is not now.
    pub is_harm_paused: bool,
    /// What the eviction signals said.
    pub observations: &'a [Observation],
}

impl Question<'_> {
    /// False if this tick says nothing of the threshold of that name.
    fn is_measured(&self, name: &str) -> bool {
        self.unmeasured.iter().all(|trigger| trigger.name() != name)
    }

    /// True if the threshold of that name was looked at and is not met.
    fn is_calm(&self, name: &str) -> bool {
        self.is_measured(name) && self.met.iter().all(|met| met.threshold.name() != name)
    }
}

/// What was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What to do.
    pub action: Option<Action>,
    /// Why nothing.
    pub held: Option<Hold>,
    /// What people should know.
    pub events: Vec<Event>,
    /// Squeezes that are to be taken back.
    pub releases: Vec<Release>,
    /// What earlier actions have come to.
    pub effects: Vec<Effect>,
}

impl From<Hold> for Verdict {
    fn from(hold: Hold) -> Self {
        Self { held: Some(hold), ..Self::default() }
    }
}

/// Decides. Cannot fail.
pub fn decide(question: &Question<'_>, standing: &mut ReliefStanding) -> Verdict {
    let now = question.sample.at.boot;
    standing.enforce(question.relief);
    standing.forget(question, now);
    standing.kernel_kills.hear(question.sample);
    let effects = standing.watched.look(question);
    let mut events = Vec::new();
    let verdict = match standing.pending.take() {
        None => None,
        Some(mut pending) => {
            pending.hear(question.sample);
            pending.action.deadline = pending.action.deadline.plus(question.unseen);
            go_on(question, standing, pending, now, &mut events)
        }
    };
    let mut verdict = verdict.unwrap_or_else(|| anew(question, standing, now));
    verdict.events.splice(0..0, events);
    let releases = standing.squeezes.due(question);
    Verdict { releases, effects, ..verdict }
}

/// Nothing is pending.
fn anew(question: &Question<'_>, standing: &mut ReliefStanding, now: Nanos) -> Verdict {
    let Some(first) = question.first else {
        return if question.met.is_empty() { Verdict::default() } else { Hold::InGrace.into() };
    };
    if question.is_stale {
        return Hold::StaleReadings.into();
    }
    let until = standing.rests_until(question.relief, &first);
    if now < until {
        return Hold::CoolingDown { until }.into();
    }
    if let Some(until) = standing.kernel_kills.settle_until(question, &first) {
        return Hold::KernelKilled { until }.into();
    }
    begin(question, standing, first, now)
}

/// What is next of a step that was pending. Where an emergency would have somebody go at once and
/// nobody may, the step stays under way and is judged by what it comes to.
fn go_on(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    pending: Pending,
    now: Nanos,
    events: &mut Vec<Event>,
) -> Option<Verdict> {
    let Some(hurried) = hurry(question, standing, &pending, now) else {
        return follow(question, standing, pending, now, events);
    };
    if hurried.action.is_some() {
        return Some(hurried);
    }
    events.extend(hurried.events);
    let followed = follow(question, standing, pending, now, events)?;
    match followed.action {
        None => Some(Verdict { held: hurried.held, ..followed }),
        Some(_) => Some(followed),
    }
}

/// An emergency does not wait for a gentler step to run out of time: who is to go goes now.
fn hurry(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    pending: &Pending,
    now: Nanos,
) -> Option<Verdict> {
    let first = question.first?;
    let action = &pending.action;
    let is_at_it = matches!(action.step, StepKind::KillContainers | StepKind::ReleaseMemory);
    let is_emergency = Kind::of(&first.threshold, first.measured) == Kind::MemoryEmergency;
    if !is_emergency || is_at_it || pending.is_back(question.sample) {
        return None;
    }
    // What the kernel has just killed for gives back memory already.
    standing.kernel_kills.settle_until(question, &first).is_none().then_some(())?;
    if !action.step.is_final() {
        return Some(begin(question, standing, first, now));
    }
    // A victim is chosen already, for whatever reason: a second one would die for its memory.
    let able = Able::of(question, &action.target, None, &standing.squeezes);
    let against = first.threshold.name();
    let (step, why) = standing.untried(&able, &against, Kind::MemoryEmergency, None)?;
    let target = action.target.clone();
    let new = Proposal { step, why, target, reason: first, want: None, is_same: true };
    Some(standing.take(question, new, now))
}

/// What follows from a step that was pending; `None` if it is over and there is a new start.
fn follow(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    mut pending: Pending,
    now: Nanos,
    events: &mut Vec<Event>,
) -> Option<Verdict> {
    let id = pending.action.id;
    let reason = pending.action.reason.threshold;
    let is_due = question.met.iter().any(|met| met.threshold == reason && met.is_due);
    let why = match pending.progress(question, now) {
        Progress::Running => {
            let until = pending.action.deadline;
            standing.pending = Some(pending);
            return Some(Hold::Settling { action: id, until }.into());
        }
        // Nobody can say what it has come to, and nobody else is to suffer for that.
        Progress::Stuck(_) if !question.is_measured(&reason.name()) => {
            standing.squeezes.give_up(id);
            return None;
        }
        // What it was for is over, by it or without it.
        progress if progress == Progress::Worked || !is_due => {
            standing.cool_until = now.plus(question.relief.cool_down);
            return None;
        }
        // What was only observed never happened, so its failure says nothing about the next victim.
        _ if !pending.action.is_enforced && pending.is_last => {
            standing.pending = Some(pending);
            return Some(Hold::Observed { action: id }.into());
        }
        Progress::Stuck(why) => why,
        Progress::Worked => return None,
    };
    standing.squeezes.give_up(id);
    let action = &pending.action;
    let kind = Kind::of(&reason, action.reason.measured);
    // Somebody who may say no has said it, and there is time to ask the next.
    if pending.is_forbidden && !kind.is_pressing() {
        standing.leave_alone(&action.target, &reason);
        return None;
    }
    let is_same = action.step.is_final();
    let may_end = standing.may_end(question) || is_same;
    let next = {
        let able = Able::of(question, &action.target, action.want, &standing.squeezes);
        let able = Able { may_end, ..able };
        standing.untried(&able, &reason.name(), kind, Some(action.step))
    };
    match next {
        Some((step, _)) if action.is_enforced || !action.step.is_final() => {
            let (target, reason, want) = (action.target.clone(), action.reason, action.want);
            let new = Proposal { step, why, target, reason, want, is_same };
            Some(standing.take(question, new, now))
        }
        _ if action.is_enforced => {
            let message = format!(
                "no step has helped against {}: going on with the next candidate",
                action.target.full_name()
            );
            events.push(Event { reason: "ReliefFailed".into(), message, is_warning: true });
            None
        }
        _ => {
            pending.is_last = true;
            standing.pending = Some(pending);
            Some(Hold::Observed { action: id }.into())
        }
    }
}
