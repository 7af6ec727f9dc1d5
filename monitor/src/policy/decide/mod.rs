//! What is to be done about a shortage: one step at a time, on one victim at a time, until its
//! memory is back or the step's time is over.
//! In: what is met, who would go first, and what came of the step before. Out: at most one
//! `Action`, or the reason for doing nothing. Observing and enforcing are the same decision.

mod effect;
mod grace;
mod ladder;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use self::effect::{Pending, Progress};
use self::ladder::{Able, Kind};
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::decision::{
    Action, Candidate, Event, Hold, Key, KeyValue, Met, Observation, Ranking, StepKind, StepReason,
    Target, Trigger,
};
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::settings::{Eviction, Relief};
use crate::model::units::{Bytes, Nanos};
use crate::policy::explain::message;

/// What is remembered of the relief so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReliefStanding {
    /// Actions so far.
    n_actions: u64,
    pending: Option<Pending>,
    /// Steps that were tried on whom, since the shortage began.
    tried: BTreeSet<(String, StepKind)>,
    /// When work was ended, as far back as the budget looks.
    ended: Vec<Nanos>,
    /// Nothing is done before.
    cool_until: Nanos,
    /// Since when nothing has been met.
    calm_since: Option<Nanos>,
    /// The last reason for doing nothing that was told.
    told: Option<Told>,
}

/// Reasons for doing nothing that want attention, each told once for each shortage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Told {
    BudgetSpent,
    NobodyLeft,
    NothingHelps,
}

/// What a decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// How to relieve.
    pub relief: &'a Relief,
    /// When to evict, and with how much grace.
    pub eviction: &'a Eviction,
    /// The tick.
    pub sample: &'a Sample,
    /// Everything that is met.
    pub met: &'a [Met],
    /// What is to be relieved first; `None` if nothing is due.
    pub first: Option<Met>,
    /// What is due was not read anew since the tick before.
    pub is_stale: bool,
    /// Who would go first; `None` if nothing is due.
    pub ranking: Option<&'a Ranking>,
    /// What the eviction signals said.
    pub observations: &'a [Observation],
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
}

impl From<Hold> for Verdict {
    fn from(hold: Hold) -> Self {
        Self { held: Some(hold), ..Self::default() }
    }
}

/// Decides. Cannot fail.
pub fn decide(question: &Question<'_>, standing: &mut ReliefStanding) -> Verdict {
    let now = question.sample.at.boot;
    standing.forget(question, now);
    if let Some(mut pending) = standing.pending.take() {
        pending.hear(question.sample);
        if let Some(verdict) = follow(question, standing, pending, now) {
            return verdict;
        }
    }
    let Some(first) = question.first else {
        return if question.met.is_empty() { Verdict::default() } else { Hold::InGrace.into() };
    };
    if question.is_stale {
        return Hold::StaleReadings.into();
    }
    if now < standing.cool_until {
        return Hold::CoolingDown { until: standing.cool_until }.into();
    }
    if let Some(until) = standing.budget_again(question.relief) {
        let text = format!(
            "{} evictions within the budget's window are done; nothing more before it has room",
            question.relief.budget
        );
        return standing.tell(Told::BudgetSpent, Hold::BudgetSpent { until }, text);
    }
    begin(question, standing, first, now)
}

/// What follows from a step that was pending; `None` if it is over and there is a new start.
fn follow(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    mut pending: Pending,
    now: Nanos,
) -> Option<Verdict> {
    let id = pending.action.id;
    let why = match pending.progress(question.sample, question.met, now) {
        Progress::Worked => {
            standing.cool_until = now.plus(question.relief.cool_down);
            return None;
        }
        Progress::Running => {
            let until = pending.action.deadline;
            standing.pending = Some(pending);
            return Some(Hold::Settling { action: id, until }.into());
        }
        // Over its time, and nothing is short any more.
        Progress::Stuck(_) if question.first.is_none() => return None,
        // What was only observed never happened, so its failure says nothing about the next victim.
        Progress::Stuck(_) if !pending.action.is_enforced && pending.is_last => {
            standing.pending = Some(pending);
            return Some(Hold::Observed { action: id }.into());
        }
        Progress::Stuck(why) => why,
    };
    let action = &pending.action;
    let kind = Kind::of(&action.reason.threshold, action.reason.measured);
    let able = Able {
        relief: question.relief,
        sample: question.sample,
        target: &action.target,
        want: action.want,
    };
    match able.next(kind, Some(action.step)) {
        Some((step, _)) if action.is_enforced || !action.step.is_final() => {
            let (target, reason, want) = (action.target.clone(), action.reason, action.want);
            let new = Proposal { step, why, target, reason, want };
            Some(standing.take(question, new, now))
        }
        _ if action.is_enforced => {
            let text = format!(
                "no step has helped against {}: going on with the next candidate",
                action.target.name
            );
            standing.calm_since = None;
            let hold = Hold::NothingHelps;
            let event = Event { reason: "ReliefFailed".into(), message: text, is_warning: true };
            Some(Verdict { held: Some(hold), events: vec![event], action: None })
        }
        _ => {
            pending.is_last = true;
            standing.pending = Some(pending);
            Some(Hold::Observed { action: id }.into())
        }
    }
}

/// A step before it is written down as an action.
struct Proposal {
    step: StepKind,
    why: StepReason,
    target: Target,
    reason: Met,
    want: Option<Bytes>,
}

/// Chooses a victim and the first step.
fn begin(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    first: Met,
    now: Nanos,
) -> Verdict {
    let kind = Kind::of(&first.threshold, first.measured);
    let want = wanted(&first);
    let candidates = question.ranking.map(|ranking| &ranking.candidates[..]).unwrap_or_default();
    if candidates.is_empty() {
        let text = format!("nobody may be chosen to relieve {}", first.threshold.name());
        return standing.tell(Told::NobodyLeft, Hold::NobodyLeft, text);
    }
    let mut is_harmless = false;
    for candidate in candidates {
        if is_below_harm_budget(&first.threshold, candidate, question.relief) {
            is_harmless = true;
            continue;
        }
        let target = target_of(candidate, question.sample);
        let able = Able { relief: question.relief, sample: question.sample, target: &target, want };
        let mut next = able.next(kind, None);
        while let Some((step, _)) = next
            && standing.tried.contains(&(target.uid.clone(), step))
        {
            next = able.next(kind, Some(step));
        }
        if let Some((step, why)) = next {
            let reason = first;
            return standing.take(question, Proposal { step, why, target, reason, want }, now);
        }
    }
    if is_harmless {
        return Hold::BelowHarmBudget.into();
    }
    let text = format!("every step was tried on everybody; {} stays", first.threshold.name());
    standing.tell(Told::NothingHelps, Hold::NothingHelps, text)
}

/// Work that waits is no reason to end the work of somebody who makes hardly anybody wait. What
/// runs out does so whoever waits, as for the kubelet.
fn is_below_harm_budget(trigger: &Trigger, candidate: &Candidate, relief: &Relief) -> bool {
    let Trigger::Pressure(_) = trigger else { return false };
    let harm = candidate.keys.iter().find(|key| key.key == Key::Harm);
    match harm.map(|key| &key.value) {
        Some(KeyValue::Number(ms)) => {
            let harm = u64::try_from(*ms).unwrap_or(0).saturating_mul(1_000_000);
            harm < relief.harm_budget.0
        }
        _ => false,
    }
}

/// How much is missing until the threshold is no longer met, where it is an amount.
fn wanted(met: &Met) -> Option<Bytes> {
    let Trigger::Eviction(_) = met.threshold else { return None };
    met.missing.map(Bytes)
}

fn target_of(candidate: &Candidate, sample: &Sample) -> Target {
    let found: Option<(CgroupId, CgroupPath)> = sample.cgroups.iter().find_map(|(id, group)| {
        let is_it =
            matches!(Place::of(&group.path), Place::Pod { uid, .. } if uid == candidate.uid);
        is_it.then(|| (*id, group.path.clone()))
    });
    let (cgroup, path) = found.unzip();
    Target {
        name: candidate.name.clone(),
        namespace: candidate.namespace.clone(),
        uid: candidate.uid.clone(),
        members: candidate.members.clone(),
        cgroup: if candidate.members.is_empty() { cgroup } else { None },
        path,
    }
}

impl ReliefStanding {
    /// Writes a step down, and remembers it.
    fn take(&mut self, question: &Question<'_>, new: Proposal, now: Nanos) -> Verdict {
        let Proposal { step, why, target, reason, want } = new;
        let kind = Kind::of(&reason.threshold, reason.measured);
        let able = Able { relief: question.relief, sample: question.sample, target: &target, want };
        let escalates_to = able.next(kind, Some(step)).map(|(step, _)| step);
        let grace = step
            .is_final()
            .then(|| grace::of(&reason.threshold, question.eviction, &target, question.sample));
        let seen = question.observations;
        let shortage = step
            .is_final()
            .then(|| tell::shortage(&reason, &target, seen, question.sample))
            .flatten();
        let given = question.relief.deadlines.get(&step).copied().unwrap_or(Nanos::SECOND);
        self.n_actions += 1;
        let action = Action {
            id: self.n_actions,
            step,
            message: shortage.as_ref().map(message::message).unwrap_or_default(),
            annotations: shortage.as_ref().map(message::annotations).unwrap_or_default(),
            deadline: now.plus(given).plus(grace.unwrap_or_default()),
            target,
            reason,
            why,
            want,
            grace,
            escalates_to,
            is_enforced: question.relief.enforce.contains(&step),
        };
        self.tried.insert((action.target.uid.clone(), step));
        if step.is_final() && !self.has_ended(&action.target) {
            self.ended.push(now);
        }
        self.pending = Some(Pending::new(action.clone(), question.sample));
        Verdict { action: Some(action), ..Verdict::default() }
    }

    /// True if an eviction of this target is counted already: the steps after it are the same one.
    fn has_ended(&self, target: &Target) -> bool {
        let tried = |step: &StepKind| self.tried.contains(&(target.uid.clone(), *step));
        StepKind::ALL.iter().filter(|step| step.is_final()).filter(|step| tried(step)).count() > 1
    }

    /// When the budget has room again; `None` if it has.
    fn budget_again(&self, relief: &Relief) -> Option<Nanos> {
        let spent = usize::try_from(relief.budget).is_ok_and(|most| self.ended.len() >= most);
        let oldest = self.ended.first()?;
        spent.then(|| oldest.plus(relief.budget_window))
    }

    /// Drops what is too old to matter: a shortage that is over for as long as the cool-down, and
    /// evictions that the budget no longer counts.
    fn forget(&mut self, question: &Question<'_>, now: Nanos) {
        let window = question.relief.budget_window;
        self.ended.retain(|moment| now.since(*moment) < window);
        if !question.met.is_empty() {
            self.calm_since = None;
            return;
        }
        let since = *self.calm_since.get_or_insert(now);
        if now.since(since) >= question.relief.cool_down && self.pending.is_none() {
            self.tried.clear();
            self.told = None;
        }
    }

    /// Does nothing for a reason that people should hear of, once.
    fn tell(&mut self, what: Told, hold: Hold, message: String) -> Verdict {
        let mut verdict = Verdict::from(hold);
        if self.told.replace(what) != Some(what) {
            let event = Event { reason: "ReliefHeldBack".into(), message, is_warning: true };
            verdict.events.push(event);
        }
        verdict
    }
}
