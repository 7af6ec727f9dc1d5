//! Chooses the victim and the first step in the orders `qos` and `kubelet`, and for all that is not
//! memory: the first candidate of the ranking that has a step left.

use std::collections::BTreeSet;

use super::standing::{HeldBack, ReliefStanding};
use super::{Question, beyond_budget, of_those};
use crate::model::decision::{Candidate, Hold, Key, KeyValue, Met, Order, Relief, Taker, Trigger};
use crate::model::threshold::Resource;
use crate::model::units::Nanos;
use crate::policy::explain;
use crate::policy::rank::{Contender, Field, Purpose};

/// Candidates that are examined: takers, those who pay for others, and after the recorded ones those
/// above the harm budget.
pub(super) const EXAMINED: usize = 64;

/// Chooses a victim and the first step, or says why there is none.
pub(super) fn choose(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    first: Met,
    relief: &mut Relief,
) {
    let name = first.threshold.name();
    let head = question.ranking.map(|ranking| &ranking.candidates[..]).unwrap_or_default();
    if head.is_empty() {
        let text = format!("no candidate may be chosen to relieve {name}");
        return standing.hold_back(HeldBack::NoCandidate, Hold::NobodyLeft, text, relief);
    }
    if question.is_harm_paused && goes_by_harm(question, &first.threshold) {
        relief.held = Some(Hold::HarmUnknown);
        return;
    }
    let is_unknown = question.field.is_some_and(Field::is_use_unknown);
    if is_unknown || is_use_outdated(question, standing, &first) {
        relief.held = Some(Hold::UseUnknown);
        return;
    }
    if question.field.is_some_and(Field::is_not_yet_known) {
        relief.held = Some(Hold::NotYetKnown);
        return;
    }
    let causes = question.field.filter(|field| field.is_of_causes());
    let takers = causes.map(|field| field.takers(EXAMINED));
    let head = takers.as_deref().unwrap_or(head);
    let floor = harm_floor(question, &first.threshold, head);
    if head.is_empty() {
        return without_cause(question, standing, (&first, floor), relief);
    }
    if let Some(new) = of_those(question, standing, &first, &worth_it(head, floor)) {
        return relief.actions.push(new.begin(question, standing));
    }
    if beyond_budget(question, standing, &first, relief) {
        return;
    }
    let more = match takers {
        Some(_) => Vec::new(),
        None => beyond(question, head, &standing.begun(&name), floor),
    };
    if let Some(new) = of_those(question, standing, &first, &worth_it(&more, floor)) {
        return relief.actions.push(new.begin(question, standing));
    }
    if head.iter().any(|candidate| is_harmless(candidate, floor)) {
        return without_cause(question, standing, (&first, floor), relief);
    }
    let n = head.len() + more.len();
    let text = match head.iter().chain(&more).all(frees_too_little) {
        true => format!("no candidate holds an eighth of what is missing; {name} stays"),
        false if n == 1 => format!("no step is left for the only candidate; {name} stays"),
        false => format!("no step is left for the first {n} candidates; {name} stays"),
    };
    standing.hold_back(HeldBack::NothingHelps, Hold::NothingHelps, text, relief);
}

/// No candidate is a cause: says which party is, as far as that is known.
fn without_cause(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    (first, floor): (&Met, Nanos),
    relief: &mut Relief,
) {
    let (most, hold) = if Purpose::of(&first.threshold).is_about_waiting {
        let outsider = question.ranking.and_then(|ranking| ranking.outsiders.first());
        let outsider = outsider.map(|one| (one.path.told().to_owned(), one.harm));
        // It uses no more than it requests, say, or little of a disk.
        let innocent = question.field.and_then(Field::most_harmful);
        let innocent = innocent.map(|(one, harm)| (one.full_name(), harm));
        let most = innocent.into_iter().chain(outsider).max_by_key(|(_, harm)| *harm);
        let Some((by, harm)) = most.filter(|(_, harm)| *harm >= floor) else {
            relief.held = Some(Hold::BelowHarmBudget);
            return;
        };
        (explain::harm(&by, harm), Hold::HarmedByOther { by })
    } else {
        let user = question.field.and_then(Field::largest_user);
        let taker = question.field.and_then(Field::largest_taker);
        let taker = taker.map(Taker::full_name).or_else(|| user.clone()).unwrap_or_default();
        let is_of_disk = matches!(first.threshold.resource(), Resource::Storage | Resource::Inodes);
        let most = match (taker.is_empty(), is_of_disk) {
            (false, _) if user.is_some() => format!("{taker} has most of it"),
            (false, _) => format!("{taker} took most"),
            (true, false) => "a program outside pods took most".into(),
            (true, true) => {
                "most is in no pod: a program outside pods took it, or it is in deleted \
                             files that a process still has open"
                    .into()
            }
        };
        (most, Hold::TakenByOther { taker })
    };
    let name = first.threshold.name();
    let text = format!("no candidate is a cause of {name}: {most}");
    standing.hold_back(HeldBack::NoCause, hold, text, relief);
}

/// Whether, in the order `cause`, what pods have on a disk was read before it ran short or before the
/// last victim was chosen.
fn is_use_outdated(question: &Question<'_>, standing: &ReliefStanding, first: &Met) -> bool {
    let is_disk = matches!(first.threshold.resource(), Resource::Storage | Resource::Inodes);
    let is_by_cause = question.ranking.is_some_and(|ranking| ranking.order == Order::Cause);
    let read = question.sample.pod_disks.as_ref().map(|disks| disks.at);
    let chosen = standing.last_victim();
    is_disk && is_by_cause && read < Some(first.since).max(chosen)
}

/// Those after the head of the ranking who do enough harm and on whom nothing was tried yet: a hog
/// that many harmless pods of a lower class stand before, and the next one if the first cannot end.
fn beyond(
    question: &Question<'_>,
    head: &[Candidate],
    begun: &BTreeSet<&str>,
    floor: Nanos,
) -> Vec<Candidate> {
    let Some(field) = question.field else { return Vec::new() };
    if question.ranking.is_some_and(|ranking| ranking.n_candidates <= head.len()) {
        return Vec::new();
    }
    let looked_at: BTreeSet<&str> = head.iter().map(|candidate| candidate.uid.as_str()).collect();
    let is_by_harm = by_harm(question).is_some();
    let does_enough = |contender: &Contender| {
        let harm = contender.harm.filter(|_| is_by_harm);
        harm.is_none_or(|harm| Nanos(harm.millis().saturating_mul(1_000_000)) >= floor)
    };
    let is_new = |uid: &str| !looked_at.contains(uid) && !begun.contains(uid);
    field.first(EXAMINED, |contender| does_enough(contender) && is_new(&contender.uid))
}

/// Those who do enough harm and, where that counts, are known to hold a real part of what is missing.
pub(super) fn worth_it(list: &[Candidate], floor: Nanos) -> Vec<&Candidate> {
    let is_worth_it = |one: &&Candidate| !is_harmless(one, floor) && !frees_too_little(one);
    list.iter().filter(is_worth_it).collect()
}

fn frees_too_little(candidate: &Candidate) -> bool {
    let mut keys = candidate.keys.iter();
    keys.any(|key| key.key == Key::FreesEnough && key.value != KeyValue::Bool(true))
}

fn is_harmless(candidate: &Candidate, floor: Nanos) -> bool {
    harm(candidate).is_some_and(|harm| harm < floor)
}

/// The least harm for which a candidate is chosen. For pressure, candidates that cause little
/// waiting are spared. What runs out does so whether tasks wait or not, as for the kubelet. Memory
/// pressure spares them only if some candidate is known to cause waiting; otherwise use decides.
pub(super) fn harm_floor(
    question: &Question<'_>,
    trigger: &Trigger,
    candidates: &[Candidate],
) -> Nanos {
    let is_memory = trigger.resource() == Resource::Memory;
    let does_harm = |contender: &Contender| contender.harm.is_some_and(|harm| harm.millis() > 0);
    let is_known = || {
        candidates.iter().filter_map(harm).any(|harm| harm > Nanos(0))
            || question.ranking.is_some_and(|ranking| !ranking.outsiders.is_empty())
            || by_harm(question).is_some_and(|field| !field.first(1, does_harm).is_empty())
    };
    match Purpose::of(trigger).is_about_waiting {
        true if !is_memory || is_known() => question.relief.harm_budget,
        _ => Nanos(0),
    }
}

/// True if a victim may be chosen by measured harm alone: CPU and disk. A pause in measuring makes
/// no victim of a pod that was harmless so far. For memory, use is a good enough guide.
fn goes_by_harm(question: &Question<'_>, trigger: &Trigger) -> bool {
    let is_by_harm = question.ranking.is_some_and(|ranking| ranking.order != Order::Kubelet);
    is_by_harm
        && question.relief.harm_budget > Nanos(0)
        && Purpose::of(trigger).is_about_waiting
        && trigger.resource() != Resource::Memory
}

/// All candidates, if harm is among the keys. The kubelet's order does not know it.
fn by_harm<'a>(question: &Question<'a>) -> Option<&'a Field<'a>> {
    let is_by_harm = question.ranking.is_some_and(|ranking| ranking.order != Order::Kubelet);
    question.field.filter(|_| is_by_harm)
}

/// For how long others wait because of it, per second; `None` if that is not known.
fn harm(candidate: &Candidate) -> Option<Nanos> {
    let harm = candidate.keys.iter().find(|key| key.key == Key::Harm)?;
    let KeyValue::Number(ms) = harm.value else { return None };
    Some(Nanos(u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000)))
}
