//! What the policy remembers of relief, and when it forgets it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::cooling::Cooling;
use super::effects::Effects;
use super::endings::Endings;
use super::kept::{self, Kept, Tried};
use super::kernel_kills::KernelKills;
use super::pending::{Pending, held, is_mostly_freed};
use super::restarts::Restarts;
use super::steps::{Able, Kind};
use super::target::present;
use super::{Counts, Question, squeeze, warning};
use crate::model::cgroup::CgroupId;
use crate::model::decision::{
    self, Action, Hold, InForce, Met, OutcomeResult, Phase, StepKind, StepReason, Target, Trigger,
};
use crate::model::is_default;
use crate::model::sample::Sample;
use crate::model::threshold::Resource;
use crate::model::units::{Bytes, Nanos};

/// What the policy remembers of relief: its own judgements. What is in force stands in the sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReliefStanding {
    last_id: u64,
    /// Entries of the ledger up to this id are known.
    known_to: u64,
    pub(super) pending: Option<Pending>,
    /// One that was only observed to its end, while something else is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) aside: Option<Pending>,
    /// Since that shortage began.
    tried: Tried,
    /// The cgroups that were squeezed, by uid.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    squeezed: BTreeMap<String, CgroupId>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) kept: Kept,
    /// Since when a threshold has not been met, of those on which something was tried.
    calm: BTreeMap<String, Nanos>,
    /// Since when a threshold was not measured, of those that marks are about.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) unmeasured: BTreeMap<String, Nanos>,
    /// Squeezes and marks that are not waited for, by action: when each was ordered, and how many bytes of
    /// memory were lost in a second then.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    slowed: BTreeMap<u64, (Nanos, Bytes)>,
    /// Marks that were ordered lately, by action.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    marks: BTreeMap<u64, Mark>,
    /// Evictions within the budget's window: when, and the victim's uid.
    pub(super) victims: Vec<(Nanos, String)>,
    /// Of these, who took what was short, by uid, and the threshold: they count until that is over.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) takers: BTreeMap<String, String>,
    /// Of these, what was short when each was ended: where that presses, they alone count.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) ended_for: BTreeSet<(Nanos, String, Resource)>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) cooling: Cooling,
    /// Reasons for holding back of which the operator was told.
    held_back: BTreeSet<HeldBack>,
    /// Since when no threshold has been met.
    calm_since: Option<Nanos>,
    /// What each victim held that was ended lately for want of memory, by uid.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    emptied: BTreeMap<String, Bytes>,
    /// Actions that have not helped by their deadline, and when that was seen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    given_up: BTreeMap<u64, Nanos>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) effects: Effects,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) kernel_kills: KernelKills,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) endings: Endings,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) restarts: Restarts,
}

/// A mark that was ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    at: Nanos,
    uid: String,
    has_failed: bool,
}

/// A mark that failed is tried again after so long.
const RETRIED: Nanos = Nanos(10 * Nanos::SECOND.0);
/// What was ordered is in the ledger after so long, or it failed.
const ORDERED: Nanos = Nanos(2 * Nanos::SECOND.0);
/// A step of another agent whose deadline passed longer ago is not waited for: the candidate that
/// was first then is not the one that is first now.
const STALE: Nanos = Nanos(5 * Nanos::SECOND.0);
/// A squeeze that was given up may show in the ledger for so long after that: the actuator was busy.
const LATE: Nanos = Nanos(60 * Nanos::SECOND.0);
/// Reasons for holding back that the operator should know, each told once a shortage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum HeldBack {
    BudgetSpent,
    NoCandidate,
    NothingHelps,
    NoCause,
}

impl ReliefStanding {
    /// What remains where other steps are enforced from now on: not what was only observed. What
    /// was enforced stands in the ledger, and is taken up from there.
    #[must_use]
    pub fn without_observed(self) -> Self {
        let Self { last_id, pending, given_up, effects, kernel_kills, endings, restarts, .. } =
            self;
        let pending = pending.filter(|pending| pending.action.is_enforced);
        let new = Self::default();
        Self { last_id, pending, given_up, effects, kernel_kills, endings, restarts, ..new }
    }

    /// Takes up what the ledger tells and is not known, as of an agent that ended before this one
    /// began: its victims count, its steps were tried, and the last one whose deadline has not long
    /// passed is pending.
    pub(super) fn adopt(&mut self, question: &Question<'_>) {
        let sample = question.sample;
        let now = sample.at.boot;
        for entry @ InForce { action, since, held, phase, .. } in &sample.in_force {
            if action.id <= self.known_to || !action.is_enforced {
                continue;
            }
            self.effects.adopt(entry, now);
            let uid = &action.target.uid;
            let resource = action.reason.threshold.resource();
            if kept::is_tried(entry, now, question.relief.cool_down) {
                self.try_on(&action.target, &action.reason.threshold, action.step);
            }
            if action.step.is_local_end() {
                self.restarts.end(&action.target, sample);
            }
            if action.step.is_final() && !self.is_victim(uid) {
                self.add_victim(*since, uid, Some(resource));
                self.empty(action, *held);
            }
            match phase {
                Phase::Ended { at } => self.cooling.begin(action, *at),
                // Nothing is waited for, as when it was ordered.
                Phase::Squeezed if squeeze::growth_against(question, action).is_some() => {}
                Phase::Ending | Phase::Squeezed if now.since(action.deadline) <= STALE => {
                    // What the target did before that step is not known.
                    let pending =
                        Pending { harm: None, ..Pending::new(action.clone(), *held, question) };
                    let own = self.pending.take().filter(|own| !own.is_adopted);
                    self.pending = own.or(Some(Pending { is_adopted: true, ..pending }));
                }
                Phase::Ending | Phase::Squeezed | Phase::Marked => {}
            }
        }
        let ids = sample.in_force.iter().map(|entry| entry.action.id);
        self.last_id = ids.fold(self.last_id, u64::max);
        self.known_to = self.last_id;
    }

    /// Takes note of pods that end. A victim of the kubelet's counts against the budget as one of
    /// isobar's own: they are the same one, if isobar had it evicted.
    pub(super) fn hear_endings(&mut self, question: &Question<'_>) {
        let mut met = question.met.iter().map(|met| met.threshold.resource());
        let likely = met.next();
        for (uid, told) in self.endings.hear(question) {
            if !self.is_victim(&uid) {
                self.add_victim(question.sample.at.boot, &uid, told.or(likely));
            }
        }
    }

    /// A victim held so much when it was ended for want of memory.
    fn empty(&mut self, Action { target, reason, .. }: &Action, held: Option<Bytes>) {
        let held = held.filter(|_| reason.threshold.resource() == Resource::Memory);
        self.emptied.extend(held.map(|held| (target.uid.clone(), held)));
    }

    /// The action has not helped. A squeeze is taken back for that.
    pub(super) fn give_up(&mut self, action: u64, now: Nanos) {
        self.given_up.insert(action, now);
    }

    pub(super) fn is_given_up(&self, action: u64) -> bool {
        self.given_up.contains_key(&action)
    }

    /// For how long a threshold has not been met; `None` if it is met, or not measured.
    pub(super) fn calm_for(&self, name: &str, now: Nanos) -> Option<Nanos> {
        self.calm.get(name).map(|since| now.since(*since))
    }

    /// The highest id of an action so far.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// The id of the next action.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.known_to = self.last_id;
        self.last_id
    }

    /// Remembers an action that has just been decided.
    pub(super) fn remember(&mut self, question: &Question<'_>, action: &Action, counts: Counts) {
        let sample = question.sample;
        let growth = squeeze::growth_against(question, action);
        let held = held(&action.target, sample);
        // A pod that was started again counts again.
        if action.step.is_final() && counts != Counts::Already {
            let (uid, against) = (&action.target.uid, &action.reason.threshold);
            self.add_victim(sample.at.boot, uid, Some(against.resource()));
            if counts == Counts::UntilOver {
                self.takers.insert(uid.clone(), against.name());
            }
            self.empty(action, held);
        }
        if action.step.is_local_end() && action.is_enforced {
            self.restarts.end(&action.target, sample);
        }
        if action.step == StepKind::Mark {
            // Nothing is waited for: it has an effect only if memory runs out.
            let (at, uid) = (sample.at.boot, action.target.uid.clone());
            self.marks.insert(action.id, Mark { at, uid, has_failed: false });
            self.slowed.extend(growth.map(|growth| (action.id, (at, growth))));
            return;
        }
        self.try_on(&action.target, &action.reason.threshold, action.step);
        if action.step == StepKind::Squeeze && growth.is_some() {
            // Others are squeezed beside it, until memory lasts longer.
            self.slowed.extend(growth.map(|growth| (action.id, (sample.at.boot, growth))));
            return;
        }
        self.effects.note(action, question);
        self.pending = Some(Pending::new(action.clone(), held, question));
    }

    /// Whether a step is not to be tried on this one any more, or not yet again.
    pub(super) fn was_tried(&self, against: &Met, uid: &str, step: StepKind) -> bool {
        let entry = (against.threshold.name(), uid.to_owned(), step);
        self.kept.shuts_out(&self.tried, &entry, Kind::takes_no_refusal(against))
    }

    /// Whether it was ordered a moment ago to mark this one, and nothing says that it failed.
    pub(super) fn is_mark_ordered(&self, uid: &str, now: Nanos) -> bool {
        let is_new = |mark: &Mark| !mark.has_failed && now.since(mark.at) < ORDERED;
        self.marks.values().any(|mark| mark.uid == uid && is_new(mark))
    }

    /// Whether marking this one has failed lately.
    pub(super) fn has_mark_failed(&self, uid: &str) -> bool {
        self.marks.values().any(|mark| mark.uid == uid && mark.has_failed)
    }

    /// How fast memory was lost when this squeeze or mark began.
    pub(super) fn growth_before(&self, action: u64) -> Option<Bytes> {
        self.slowed.get(&action).map(|(_, growth)| *growth)
    }

    fn try_on(&mut self, target: &Target, against: &Trigger, step: StepKind) {
        if let Some(cgroup) = target.cgroup.filter(|_| step == StepKind::Squeeze) {
            self.squeezed.insert(target.uid.clone(), cgroup);
        }
        self.tried.insert((against.name(), target.uid.clone(), step));
    }

    /// Forgets what was tried on the target against this: its memory has come back.
    pub(super) fn try_again(&mut self, Action { target, reason, .. }: &Action) {
        let against = reason.threshold.name();
        self.tried.retain(|(name, uid, _)| *name != against || *uid != target.uid);
    }

    /// The gentlest step below `after` that can be tried and was not tried on the target against
    /// this threshold.
    pub(super) fn untried(
        &self,
        able: &Able<'_>,
        after: Option<StepKind>,
    ) -> Option<(StepKind, StepReason)> {
        let is_new = |step: &StepKind| !self.was_tried(able.reason, &able.target.uid, *step);
        able.next(after, is_new)
    }

    /// On whom anything was tried against this.
    pub(super) fn begun(&self, against: &str) -> BTreeSet<&str> {
        let its = self.tried.iter().filter(|(name, ..)| name == against);
        its.map(|(_, uid, _)| uid.as_str()).collect()
    }

    /// Tries nothing more on the target against this. Where its eviction was refused, that is not for
    /// ever, and the eviction does not count against the budget, but if some of a group's pods end.
    pub(super) fn leave_alone(&mut self, action: &Action, sample: &Sample) {
        let Action { id, target, reason, step, .. } = action;
        let (against, now) = (&reason.threshold, sample.at.boot);
        if *step != StepKind::Evict {
            return StepKind::ALL.into_iter().for_each(|step| self.try_on(target, against, step));
        }
        if sample.in_force.iter().all(|entry| entry.action.id != *id) {
            self.take_back(&target.uid);
        }
        self.kept.keep(against.name(), target.uid.clone(), now);
    }

    /// True if this target's work was ended before, and has not begun to hold memory again: nothing
    /// more is to be had of it.
    pub(super) fn is_spent(&self, target: &Target, sample: &Sample) -> bool {
        let Some(before) = self.emptied.get(&target.uid) else { return false };
        held(target, sample).is_some_and(|now| is_mostly_freed(before.0, now.0))
    }

    /// Drops what is too old to matter: what was tried against a shortage that has been over for
    /// as long as the cool-down, or on pods that are gone, and evictions that the budget no longer
    /// counts.
    pub(super) fn forget(&mut self, question: &Question<'_>) {
        let now = question.sample.at.boot;
        let in_force = || question.sample.squeezes().chain(question.sample.marks());
        let is_in_force = |id: &u64| in_force().any(|entry| entry.action.id == *id);
        self.given_up.retain(|id, since| is_in_force(id) || now.since(*since) < LATE);
        self.slowed.retain(|id, (at, _)| is_in_force(id) || now.since(*at) < ORDERED);
        for outcome in &question.sample.outcomes {
            if let Some(mark) = self.marks.get_mut(&outcome.action) {
                mark.has_failed |= outcome.result != OutcomeResult::Done;
            }
        }
        self.marks.retain(|_, mark| now.since(mark.at) < RETRIED);
        let cool_down = question.relief.cool_down;
        if question.met.is_empty() {
            let since = *self.calm_since.get_or_insert(now);
            if now.since(since) >= cool_down {
                self.held_back.clear();
            }
        } else {
            self.calm_since = None;
        }
        let met = question.met.iter().map(|met| met.threshold.name());
        // What was not measured is not known to be over.
        let met: BTreeSet<_> = met.chain(question.unmeasured.iter().map(Trigger::name)).collect();
        let pending = self.pending.as_ref().map(|pending| &pending.action);
        let pending =
            pending.map(|action| (action.reason.threshold.name(), action.target.uid.clone()));
        let squeezed = question.sample.squeezes().chain(question.sample.marks());
        let squeezed = squeezed.map(|entry| entry.action.reason.threshold.name());
        let tried = self.tried.iter().map(|(name, ..)| name.clone());
        let ended = self.takers.values().cloned();
        let acted_upon: BTreeSet<_> = tried.chain(squeezed).chain(ended).collect();
        self.calm.retain(|name, _| acted_upon.contains(name) && !met.contains(name));
        for name in acted_upon.difference(&met) {
            self.calm.entry(name.clone()).or_insert(now);
        }
        let over = self.calm.iter().filter(|(_, since)| now.since(**since) >= cool_down);
        let over: BTreeSet<_> = over.map(|(name, _)| name.clone()).collect();
        let is_over = |name: &str| over.contains(name);
        let window = question.relief.budget_window;
        self.forget_victims(|at| now.since(at) < window, is_over);
        let victims = &self.victims;
        self.emptied.retain(|uid, _| victims.iter().any(|(_, victim)| victim == uid));
        let uids = self.tried.iter().map(|(_, uid, _)| uid.clone()).collect();
        let there = present(&uids, question.snapshot);
        // A service that was started again is not squeezed any more.
        let is_anew = |uid: &str| {
            let then = self.squeezed.get(uid);
            then.is_some_and(|then| there.get(uid).is_some_and(|now| now != then))
        };
        self.tried.retain(|(name, uid, step)| {
            let is_pending = pending.as_ref().is_some_and(|(n, u)| n == name && u == uid);
            let is_undone = *step == StepKind::Squeeze && is_anew(uid);
            is_pending || (!is_over(name) && there.contains_key(uid) && !is_undone)
        });
        let tried = &self.tried;
        self.squeezed.retain(|uid, _| {
            tried.iter().any(|(_, other, step)| *step == StepKind::Squeeze && other == uid)
        });
        self.kept.ask_again(&self.tried, now);
    }

    /// Holds back for a reason that the operator is told, once.
    pub(super) fn hold_back(
        &mut self,
        what: HeldBack,
        hold: Hold,
        message: String,
        relief: &mut decision::Relief,
    ) {
        relief.held = Some(hold);
        if self.held_back.insert(what) {
            relief.events.push(warning("ReliefHeldBack", message));
        }
    }
}
