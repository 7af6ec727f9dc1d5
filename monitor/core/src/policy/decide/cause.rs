//! Chooses the victim and the first step in the order `cause`: a candidate that took the memory that
//! is short, and another one only where a hard threshold of the kubelet demands it.
//! Rules: docs/policy.md, "Who pays for memory".

use super::choose::{EXAMINED, harm_floor, worth_it};
use super::joint::{joint, taken_by};
use super::oom::{is_marked, kernel_takes};
use super::payer::payer;
use super::reclaim::reclaim_first;
use super::standing::{HeldBack, ReliefStanding};
use super::steps::{Able, Kind, is_offered};
use super::target::target_of;
use super::{Counts, Proposal, Question, beyond_budget, first_of};
use crate::model::condition::ScopeName;
use crate::model::decision::{
    Candidate, Hold, InForce, Loss, Met, Relief, StepKind, Taker, Target,
};
use crate::model::sample::Sample;
use crate::model::threshold::{Amount, Resource, Signal};
use crate::policy::assess::pressure::is_emergency;
use crate::policy::explain;
use crate::policy::rank::{Field, Purpose};

/// Bytes: with less left, memory is short and not only foretold to be, where no hard threshold says.
const USUAL_LINE: u64 = 100 << 20;
/// So many parties outside pods are squeezed before another one pays.
const SQUEEZED: usize = 16;
/// That line is at most one part in so many of all memory.
const LARGEST_LINE: u64 = 10;

/// Chooses a victim and the first step, or says why there is none.
pub(super) fn choose(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    field: &Field<'_>,
    first: Met,
    relief: &mut Relief,
) {
    let Some(loss) = question.ranking.and_then(|ranking| ranking.loss.clone()) else {
        relief.held = Some(Hold::NotYetKnown);
        return;
    };
    let takers = field.takers(EXAMINED);
    let shortage = Shortage { question, field, first: &first, loss: &loss, takers: &takers };
    let chosen = match is_foretold(question, &first) {
        true => shortage.foretold(standing).map(Some),
        false => shortage.measured(standing),
    };
    match chosen {
        Ok(Some(new)) => relief.actions.push(new.begin(question, standing)),
        Err(hold) => relief.held = Some(hold),
        Ok(None) if beyond_budget(question, standing, &first, relief) => {}
        Ok(None) => shortage.hold_back(standing, relief),
    }
}

/// A mark on a taker as soon as memory is foretold to run out: before the forecast has lasted for
/// its grace. A mark slows nothing down and ends nothing.
pub(super) fn mark_early(question: &Question<'_>, standing: &ReliefStanding) -> Option<Proposal> {
    let (first, field) = (question.foretold.as_ref()?, question.field?);
    let loss = question.ranking?.loss.as_ref()?;
    Shortage { question, field, first, loss, takers: &[] }.mark(standing, |_| true)
}

/// Memory that is short or will be, and who took it.
struct Shortage<'a> {
    question: &'a Question<'a>,
    field: &'a Field<'a>,
    first: &'a Met,
    loss: &'a Loss,
    /// Candidates that took it.
    takers: &'a [Candidate],
}

impl Shortage<'_> {
    /// Each taker is marked, and slowed down only if that does not suffice. A forecast ends nothing.
    fn foretold(&self, standing: &ReliefStanding) -> Result<Proposal, Hold> {
        let Self { question, first, takers, .. } = *self;
        if let Some(mark) = self.mark(standing, |_| true) {
            return Ok(mark);
        }
        let is_slowed = || self.largest().is_some_and(|taker| is_slowed(question, taker, first));
        let is_marked = |taker: &Taker| is_marked(question, standing, &taker.uid);
        let is_covered = || self.largest().is_some_and(is_marked) && self.is_covered(standing);
        if is_covered() || is_slowed() {
            return Err(Hold::Marked);
        }
        let squeeze = |one: &Candidate| squeeze(question, standing, first, one);
        match self.largest() {
            Some(_) if !self.is_of_other() => takers.iter().find_map(squeeze).ok_or(Hold::Marked),
            _ => self
                .squeeze_other(standing, first)
                .ok_or(Hold::TakenByOther { taker: self.other() }),
        }
    }

    /// A squeeze of one that is no candidate, so that neither the kernel nor a hard threshold of the kubelet
    /// ends another one for it: it took half of the loss or more, or parties outside pods that grew alike did
    /// so together.
    fn squeeze_other(&self, standing: &ReliefStanding, reason: &Met) -> Option<Proposal> {
        let Self { question, field, loss, .. } = *self;
        let largest = self.largest().filter(|taker| !self.is_candidate(taker))?;
        let may_be_touched = largest.may_be_marked || field.may_be_slowed(&largest.uid);
        let alone = Some(largest).filter(|_| may_be_touched);
        let is_most = |all: &[&Taker]| {
            let taken = all.iter().map(|taker| taker.taken.0).fold(0, u64::saturating_add);
            taken >= loss.lost.0 / 2
        };
        let alone: Vec<&Taker> = alone.into_iter().collect();
        let alike: Vec<&Taker> = field.outside_alike().iter().collect();
        let all = [alone, alike].into_iter().find(|all| !all.is_empty() && is_most(all))?;
        // One that pays waits for no more of them.
        let most = if is_emergency(&reason.threshold, reason.measured) { 1 } else { SQUEEZED };
        all.into_iter()
            .take(most)
            .find_map(|taker| squeeze(question, standing, reason, &candidate_of(taker)))
    }

    /// Who took it is ended, and marked if it is no candidate. If neither can be done and a hard
    /// threshold demands it, another one pays.
    fn measured(&self, standing: &ReliefStanding) -> Result<Option<Proposal>, Hold> {
        let Self { question, field, first, .. } = *self;
        // In an emergency, too, in which exhaustion of the same memory comes first.
        let scope = |met: &Met| Purpose::of(&met.threshold).scope;
        let is_of_memory = |met: &Met| met.threshold.resource() == Resource::Memory;
        let is_demanded = |met: &&Met| {
            met.is_due && met.is_hard() && is_of_memory(met) && scope(met) == scope(first)
        };
        let hard = question.met.iter().find(is_demanded);
        let has_time = hard.is_some_and(|hard| hard.measured > line(question, scope(hard)) / 2)
            && !is_emergency(&first.threshold, first.measured);
        if has_time && self.largest().is_some_and(|taker| is_pod_unread(taker, question.sample)) {
            return Err(Hold::NotYetKnown);
        }
        let chosen = self
            .mark(standing, |taker| !self.is_candidate(taker))
            .or_else(|| reclaim_first(question, standing, field, first))
            .or_else(|| self.step(standing, &self.causes(standing), hard.is_some()))
            // Nothing more can be done to those who took it: if memory runs out, it is their turn.
            .or_else(|| self.mark(standing, |_| true));
        let is_covered = self.is_covered(standing);
        let hard = hard.filter(|_| !is_covered);
        let pressing = Some(first).filter(|met| !is_covered && met.presses_for_memory());
        let chosen = chosen.or_else(|| self.squeeze_other(standing, hard.or(pressing)?));
        match hard {
            // A slow leak has no name yet, and takes its time; a new pod will soon have one.
            Some(_)
                if chosen.is_none()
                    && (field.is_not_yet_known() || self.is_not_yet_named())
                    && has_time =>
            {
                Err(Hold::NotYetKnown)
            }
            Some(hard)
                if chosen.is_none() && standing.budget_again(question.relief, hard).is_none() =>
            {
                let new = payer(question, standing, field, first, hard)?;
                Ok(new.map(|mut new| {
                    new.target.is_payer = self.pays_for_others(&new.target);
                    new
                }))
            }
            _ => Ok(chosen),
        }
    }

    /// Of those whose growth counts: a pod that took what it requests is no cause.
    fn largest(&self) -> Option<&Taker> {
        self.loss.takers.iter().find(|taker| !self.field.took_what_was_promised(&taker.uid))
    }

    fn is_not_yet_named(&self) -> bool {
        self.largest().is_some_and(|taker| self.field.is_not_yet_named(&taker.uid))
    }

    /// Whether most of what counts was taken by a party that is no candidate, or by none; where harm
    /// counts, whether such a party does most of it.
    fn is_of_other(&self) -> bool {
        if let Some(is_of_outsider) = self.field.is_harm_of_outsider() {
            return is_of_outsider;
        }
        let is_other = |taker| !self.is_candidate(taker);
        self.is_of_none() || self.largest().is_some_and(is_other)
    }

    /// Whether more belongs to no party than the largest of those took whose growth counts.
    fn is_of_none(&self) -> bool {
        let counts = |taker: &&Taker| !self.field.took_what_was_promised(&taker.uid);
        let most = self.loss.takers.iter().filter(counts).map(|taker| taker.taken).max();
        self.loss.unattributed > most.unwrap_or_default()
    }

    /// Whether a victim that took nothing pays for what no party took, or one that is never ended: not for
    /// what a pod took that was promised it, because then it may be the victim that holds that.
    fn pays_for_others(&self, victim: &Target) -> bool {
        let takers = &self.loss.takers;
        let most = takers.iter().max_by_key(|taker| taker.taken);
        let is_out_of_reach = |taker: &Taker| {
            let is_service = taker.uid.starts_with('/') && !self.is_candidate(taker);
            let is_promised = self.field.took_what_was_promised(&taker.uid);
            // The end of a candidate that was passed over gives nothing back.
            is_service
                || !is_promised && (self.is_candidate(taker) || self.field.never_ends(&taker.uid))
        };
        let took = takers.iter().any(|taker| victim.uids().any(|uid| *uid == taker.uid));
        !took && (self.loss.is_of_no_cgroup() || most.is_none_or(is_out_of_reach))
    }

    fn is_candidate(&self, taker: &Taker) -> bool {
        self.takers.iter().any(|one| is_of(one, &taker.uid))
    }

    /// The party that took most and is no candidate; empty if most belongs to no party.
    fn other(&self) -> String {
        let named = self.largest().filter(|_| !self.is_of_none());
        named.map(Taker::full_name).unwrap_or_default()
    }

    /// Whether the kernel would take the largest taker, should memory run out.
    fn is_covered(&self, standing: &ReliefStanding) -> bool {
        let scope = Purpose::of(&self.first.threshold).scope;
        let takes = |taker| kernel_takes(self.question, standing, taker, scope);
        self.largest().is_some_and(takes)
    }

    /// Whether to spare this one would cost another party's life, where memory is all but gone: the kernel
    /// would take none of those who took it, and a mark does not change that.
    fn costs_another(&self, standing: &ReliefStanding, cause: &Candidate) -> bool {
        let Self { question, first, loss, .. } = *self;
        let scope = Purpose::of(&first.threshold).scope;
        let is_marked =
            |taker: &Taker| !taker.may_be_marked || is_marked(question, standing, &taker.uid);
        let takes = |taker| kernel_takes(question, standing, taker, scope);
        taken_by(cause).is_some()
            && loss.takers.iter().any(is_marked)
            && !loss.takers.iter().any(takes)
    }

    /// Takers that may be ended. Where a party that is no candidate took most, who uses what it
    /// requested is no cause beside it; and where the kernel would take that party, nor is who took
    /// less than half as much all along.
    fn causes(&self, standing: &ReliefStanding) -> Vec<Candidate> {
        if !self.is_of_other() {
            return self.takers.to_vec();
        }
        let least = if self.is_covered(standing) { self.field.lasting_outside() / 2 } else { 0 };
        self.field.takers_above_request(EXAMINED, least)
    }

    /// A step on one of `causes` whose end gives enough back. `is_demanded`: by a hard threshold.
    fn step(
        &self,
        standing: &ReliefStanding,
        causes: &[Candidate],
        is_demanded: bool,
    ) -> Option<Proposal> {
        let Self { question, first, takers, .. } = *self;
        let floor = harm_floor(question, &first.threshold, takers);
        let is_all_but_gone = is_demanded || Kind::of(first) == Kind::MemoryEmergency;
        let may_end = standing.budget_again(question.relief, first).is_none()
            || is_all_but_gone
                && causes.first().is_some_and(|cause| self.costs_another(standing, cause));
        let joint = joint(question, standing, first, causes);
        let list: Vec<_> = joint.iter().chain(worth_it(causes, floor)).collect();
        let chosen = first_of(question, standing, first, &list, may_end);
        chosen.map(|chosen| Proposal { counts: Counts::UntilOver, ..chosen })
    }

    /// A taker to mark, of those that are `due`.
    fn mark(&self, standing: &ReliefStanding, due: impl Fn(&Taker) -> bool) -> Option<Proposal> {
        let Self { question, first, loss, .. } = *self;
        let sample = question.sample;
        let can_mark = is_offered(StepKind::Mark, question.relief, sample)
            && !Purpose::of(&first.threshold).is_about_waiting;
        let is_known = |taker: &Taker| {
            standing.is_mark_ordered(&taker.uid, sample.at.boot)
                || standing.has_mark_failed(&taker.uid)
                || sample.marks().any(|InForce { action, .. }| {
                    let is_as_real =
                        action.is_enforced == question.relief.enforce.contains(&StepKind::Mark);
                    action.target.uid == taker.uid && is_as_real
                })
        };
        let mut all = loss.takers.iter().filter(|_| can_mark);
        let taker = all.find(|taker| taker.may_be_marked && due(taker) && !is_known(taker))?;
        let target = target_of(&candidate_of(taker), question);
        Some(Proposal::gentle(StepKind::Mark, target, first))
    }

    fn hold_back(&self, standing: &mut ReliefStanding, relief: &mut Relief) {
        let Self { question, first, loss, .. } = *self;
        let (what, hold, text) = match self.largest() {
            Some(_) if !self.is_of_other() => (
                HeldBack::NothingHelps,
                Hold::NothingHelps,
                format!("no step is left for those who took it; {} stays", first.threshold.name()),
            ),
            _ => {
                let outsiders = question.ranking.map(|ranking| &ranking.outsiders[..]);
                let outsider = outsiders.and_then(<[_]>::first).map(|one| one.path.0.to_string());
                let outsider = outsider.filter(|_| Purpose::of(&first.threshold).is_about_waiting);
                let taker = outsider.unwrap_or_else(|| self.other());
                let text = format!("no candidate is a cause: {}", explain::lost(loss));
                (HeldBack::NoCause, Hold::TakenByOther { taker }, text)
            }
        };
        standing.hold_back(what, hold, text, relief);
    }
}

/// Whether this taker is squeezed, and memory lasts longer since.
fn is_slowed(question: &Question<'_>, taker: &Taker, first: &Met) -> bool {
    question.sample.squeezes().any(|InForce { action, .. }| {
        let is_against = action.reason.threshold == first.threshold;
        is_against
            && first.measured > action.reason.measured
            && action.target.uids().any(|uid| *uid == taker.uid)
    })
}

/// A squeeze of a taker that is not squeezed: growth that is only foretold to be too much is slowed down
/// before anything is ended.
fn squeeze(
    question: &Question<'_>,
    standing: &ReliefStanding,
    first: &Met,
    taker: &Candidate,
) -> Option<Proposal> {
    if standing.was_tried(first, &taker.uid, StepKind::Squeeze) {
        return None;
    }
    let target = target_of(taker, question);
    let can = Able::of(question, &target, first, None).can(StepKind::Squeeze);
    can.then(|| Proposal::gentle(StepKind::Squeeze, target, first))
}

/// Whether it is not known just now what a pod holds, and so what its end would give back.
fn is_pod_unread(taker: &Taker, sample: &Sample) -> bool {
    let mut groups = sample.cgroups.values().filter(|_| !taker.uid.starts_with('/'));
    groups.any(|group| group.path == taker.path && group.memory.stat.is_none())
}

/// A party that may be no candidate, as a target is named.
fn candidate_of(taker: &Taker) -> Candidate {
    Candidate {
        name: taker.name.clone(),
        namespace: taker.namespace.clone(),
        uid: taker.uid.clone(),
        ..Candidate::default()
    }
}

/// True while memory is only foretold to run out: more is left than the hard threshold asks for.
pub(super) fn is_foretold(question: &Question<'_>, first: &Met) -> bool {
    let outlook = question.outlook(first);
    let left = outlook.and_then(|outlook| Some((outlook.scope, outlook.left?)));
    left.is_some_and(|(scope, left)| left.0 > line(question, scope))
}

/// The amount below which memory is short: the hard threshold of the scope's signal.
fn line(question: &Question<'_>, scope: ScopeName) -> u64 {
    let signal = match scope {
        ScopeName::System => Signal::MemoryAvailable,
        ScopeName::Kubepods => Signal::AllocatableMemoryAvailable,
    };
    let seen = question.observations.iter().find(|seen| seen.signal == signal);
    let capacity = seen.map_or(u64::MAX, |seen| seen.capacity);
    let all = question.eviction.thresholds.iter();
    let hard = all.filter(|threshold| threshold.is_hard() && threshold.signal == signal);
    let amount = |value: Amount| match (value, seen) {
        (Amount::Percentage(_), None) => 0,
        (value, _) => value.of(capacity),
    };
    let line = hard.map(|threshold| amount(threshold.value)).max().unwrap_or(USUAL_LINE);
    line.min(capacity / LARGEST_LINE)
}

fn is_of(candidate: &Candidate, uid: &str) -> bool {
    candidate.uids().any(|own| own == uid)
}
