//! What is remembered of the relief so far, and what is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::after::Watched;
use super::effect::{Pending, held, is_rest, is_unread_at};
use super::kernel::KernelKills;
use super::ladder::{Able, Kind};
use super::squeeze::Squeezes;
use super::target::present;
use super::{Question, Verdict, grace, tell};
use crate::model::decision::{Action, Event, Hold, Met, StepKind, StepReason, Target, Trigger};
use crate::model::sample::Sample;
use crate::model::settings::Relief;
use crate::model::threshold::PressureSignal;
use crate::model::units::{Bytes, Nanos};
use crate::policy::explain::message;

/// What is remembered of the relief so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReliefStanding {
    /// Actions so far.
    n_actions: u64,
    pub(super) pending: Option<Pending>,
    /// Steps that were tried against what, on whom, since that shortage began.
    tried: BTreeSet<(String, String, StepKind)>,
    /// Since when something that was acted upon has not been met.
    calm: BTreeMap<String, Nanos>,
    /// Whose work was ended and when, as far back as the budget looks.
    pub(super) victims: Vec<(Nanos, String)>,
    /// Nothing is done before.
    pub(super) cool_until: Nanos,
    /// Reasons for doing nothing that were told.
    held_back: BTreeSet<Told>,
    /// Since when nothing has been met.
    calm_since: Option<Nanos>,
    /// What each held whose work was ended lately.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    emptied: BTreeMap<String, Bytes>,
    #[serde(skip_serializing_if = "Squeezes::is_empty")]
    pub(super) squeezes: Squeezes,
    #[serde(skip_serializing_if = "Watched::is_empty")]
    pub(super) watched: Watched,
    #[serde(skip_serializing_if = "KernelKills::is_empty")]
    pub(super) kernel_kills: KernelKills,
    /// Steps that were really taken at the last tick.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    enforced: BTreeSet<StepKind>,
}

/// A step whose time was over for longer when somebody came to go on with it is not gone on with.
const STALE: Nanos = Nanos(5 * Nanos::SECOND.0);
/// How long after a victim's memory is back a figure that is no average shows what is left: the
/// next readings are there.
const READ_ANEW: Nanos = Nanos(2 * Nanos::SECOND.0);
/// And in an emergency, in which ticks come faster.
const EMERGENCY_REST: Nanos = Nanos::SECOND;

/// Reasons for doing nothing that want attention, each told once for each shortage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Told {
    BudgetSpent,
    NobodyLeft,
    NothingHelps,
}

/// A step before it is written down as an action.
pub(super) struct Proposal {
    pub(super) step: StepKind,
    pub(super) why: StepReason,
    pub(super) target: Target,
    pub(super) reason: Met,
    pub(super) want: Option<Bytes>,
    /// The step before it has ended the same work already: it is the same eviction.
    pub(super) is_same: bool,
}

impl ReliefStanding {
    /// The actions of squeezes that it takes to be in force.
    #[must_use]
    pub fn squeezed(&self) -> BTreeSet<u64> {
        self.squeezes.actions()
    }

    /// Learns which squeezes are: whoever ended in good order has taken all of its own back. What
    /// is not in force can show no effect, and is as good as not tried unless it had shown none.
    pub fn learn_squeezed(&mut self, in_force: &BTreeSet<u64>) {
        for (against, uid) in self.squeezes.keep(in_force) {
            self.tried.remove(&(against, uid, StepKind::Squeeze));
        }
        let is_undone = |Action { id, step, is_enforced, .. }: &Action| {
            *step == StepKind::Squeeze && *is_enforced && !in_force.contains(id)
        };
        if let Some(undone) = self.pending.take_if(|pending| is_undone(&pending.action)) {
            let Action { target, reason, step, .. } = undone.action;
            self.tried.remove(&(reason.threshold.name(), target.uid, step));
        }
    }

    /// What still holds of it for one who goes on with it `now`, and whose `own` standing it takes
    /// the place of. Who was chosen long ago is not who would be chosen now, and no action may have
    /// the number of another.
    #[must_use]
    pub fn gone_on_with(mut self, own: &Self, now: Nanos) -> Self {
        self.n_actions = self.n_actions.max(own.n_actions);
        let is_stale = |pending: &Pending| now.since(pending.action.deadline) > STALE;
        if let Some(pending) = self.pending.take_if(|pending| is_stale(pending)) {
            self.squeezes.give_up(pending.action.id);
        }
        self
    }

    /// Writes a step down, and remembers it.
    pub(super) fn take(&mut self, question: &Question<'_>, new: Proposal, now: Nanos) -> Verdict {
        let Proposal { step, why, target, reason, want, is_same } = new;
        let kind = Kind::of(&reason.threshold, reason.measured);
        let able = Able::of(question, &target, want, &self.squeezes);
        let next = self.untried(&able, &reason.threshold.name(), kind, Some(step));
        let escalates_to = next.map(|(step, _)| step);
        let grace = step
            .is_final()
            .then(|| grace::of(&reason.threshold, question.eviction, &target, question.sample));
        let seen = question.observations;
        let shortage = step
            .is_final()
            .then(|| tell::shortage(&reason, &target, seen, question.sample))
            .flatten();
        let given = question.relief.deadlines.get(&step).copied().unwrap_or(Nanos::SECOND);
        let given = given.plus(grace.unwrap_or_default());
        self.n_actions += 1;
        let action = Action {
            id: self.n_actions,
            step,
            message: shortage.as_ref().map(message::message).unwrap_or_default(),
            annotations: shortage.as_ref().map(message::annotations).unwrap_or_default(),
            deadline: now.plus(given.min(time_left(&reason))),
            target,
            reason,
            why,
            want,
            grace,
            escalates_to,
            is_enforced: question.relief.enforce.contains(&step),
        };
        // A pod that was started again counts again.
        if step.is_final() && !is_same {
            self.victims.push((now, action.target.uid.clone()));
            let held = held(&action.target, question.sample);
            self.emptied.extend(held.map(|held| (action.target.uid.clone(), held)));
        }
        self.try_on(&action.target, &action.reason.threshold, step);
        self.squeezes.note(&action, now);
        self.watched.note(&action, question.sample);
        self.pending = Some(Pending::new(action.clone(), question.sample));
        Verdict { action: Some(action), ..Verdict::default() }
    }

    fn try_on(&mut self, target: &Target, against: &Trigger, step: StepKind) {
        self.tried.insert((against.name(), target.uid.clone(), step));
    }

    /// The gentlest step below `after` that can be tried and was not tried on it against this.
    pub(super) fn untried(
        &self,
        able: &Able<'_>,
        against: &str,
        kind: Kind,
        after: Option<StepKind>,
    ) -> Option<(StepKind, StepReason)> {
        let mut next = able.next(kind, after);
        while let Some((step, _)) = next
            && self.tried.contains(&(against.to_owned(), able.target.uid.clone(), step))
        {
            next = able.next(kind, Some(step));
        }
        next
    }

    /// On whom anything was tried against this.
    pub(super) fn begun(&self, against: &str) -> BTreeSet<&str> {
        let its = self.tried.iter().filter(|(name, ..)| name == against);
        its.map(|(_, uid, _)| uid.as_str()).collect()
    }

    /// Tries nothing more on it against this.
    pub(super) fn leave_alone(&mut self, target: &Target, against: &Trigger) {
        StepKind::ALL.into_iter().for_each(|step| self.try_on(target, against, step));
    }

    /// Until when nothing new is begun against this, after a victim's memory has come back.
    pub(super) fn rests_until(&self, relief: &Relief, first: &Met) -> Nanos {
        let rest = match Kind::of(&first.threshold, first.measured) {
            Kind::MemoryEmergency => EMERGENCY_REST,
            _ if first.threshold.is_average() => relief.cool_down,
            _ => READ_ANEW,
        };
        self.cool_until.since(relief.cool_down.since(rest.min(relief.cool_down)))
    }

    /// True if this target's work was ended before, and has not begun to hold memory again: nothing
    /// more is to be had of it.
    pub(super) fn is_spent(&self, target: &Target, sample: &Sample) -> bool {
        let Some(before) = self.emptied.get(&target.uid) else { return false };
        held(target, sample).is_some_and(|now| is_rest(*before, now))
    }

    /// True if the budget has room for one more eviction.
    pub(super) fn may_end(&self, question: &Question<'_>) -> bool {
        self.budget_again(question.relief).is_none()
    }

    /// When the budget has room again; `None` if it has.
    pub(super) fn budget_again(&self, relief: &Relief) -> Option<Nanos> {
        let spent = usize::try_from(relief.budget).is_ok_and(|most| self.victims.len() >= most);
        let (oldest, _) = self.victims.first()?;
        spent.then(|| oldest.plus(relief.budget_window))
    }

    /// Steps that were only recorded so far and are taken from now on were never tried: what was
    /// recorded of them stands in nobody's way.
    pub(super) fn enforce(&mut self, relief: &Relief) {
        let new: BTreeSet<_> = relief.enforce.difference(&self.enforced).copied().collect();
        let was_observing = !self.enforced.iter().any(|step| step.is_final());
        self.enforced.clone_from(&relief.enforce);
        if new.is_empty() {
            return;
        }
        // Nobody's work was really ended.
        if was_observing && new.iter().any(|step| step.is_final()) {
            self.victims.clear();
        }
        self.tried.retain(|(.., step)| !new.contains(step));
        let is_new =
            |pending: &Pending| !pending.action.is_enforced && new.contains(&pending.action.step);
        let Some(pending) = self.pending.take_if(|pending| is_new(pending)) else { return };
        self.squeezes.give_up(pending.action.id);
        self.victims.retain(|(_, uid)| *uid != pending.action.target.uid);
    }

    /// Drops what is too old to matter: what was tried against a shortage that has been over for
    /// as long as the cool-down, or on pods that are gone, and evictions that the budget no longer
    /// counts.
    pub(super) fn forget(&mut self, question: &Question<'_>, now: Nanos) {
        let window = question.relief.budget_window;
        self.victims.retain(|(moment, _)| now.since(*moment) < window);
        let victims = &self.victims;
        self.emptied.retain(|uid, _| victims.iter().any(|(_, victim)| victim == uid));
        let cool_down = question.relief.cool_down;
        if question.met.is_empty() {
            let since = *self.calm_since.get_or_insert(now);
            if now.since(since) >= cool_down {
                self.held_back.clear();
            }
        } else {
            self.calm_since = None;
        }
        if self.tried.is_empty() {
            return;
        }
        let met = question.met.iter().map(|met| met.threshold.name());
        // What was not measured is not known to be over.
        let met: BTreeSet<_> = met.chain(question.unmeasured.iter().map(Trigger::name)).collect();
        let pending = self.pending.as_ref().map(|pending| &pending.action);
        let pending = pending.map(|action| (action.reason.threshold.name(), &action.target.uid));
        let acted_upon: BTreeSet<_> = self.tried.iter().map(|(name, ..)| name.clone()).collect();
        self.calm.retain(|name, _| acted_upon.contains(name) && !met.contains(name));
        for name in acted_upon.difference(&met) {
            self.calm.entry(name.clone()).or_insert(now);
        }
        let uids = self.tried.iter().map(|(_, uid, _)| uid.clone()).collect();
        let there = present(&uids, question.sample);
        let is_unread = |uid: &str| is_unread_at(uid, question.sample);
        let calm = &self.calm;
        self.tried.retain(|(name, uid, _)| {
            let is_over = calm.get(name).is_some_and(|since| now.since(*since) >= cool_down);
            let is_pending = pending.as_ref().is_some_and(|(n, u)| n == name && *u == uid);
            is_pending || (!is_over && (there.contains(uid) || is_unread(uid)))
        });
    }

    /// Does nothing for a reason that people should hear of, once.
    pub(super) fn tell(&mut self, what: Told, hold: Hold, message: String) -> Verdict {
        let mut verdict = Verdict::from(hold);
        if self.held_back.insert(what) {
            let event = Event { reason: "ReliefHeldBack".into(), message, is_warning: true };
            verdict.events.push(event);
        }
        verdict
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
