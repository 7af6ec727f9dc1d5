//! Several takers as one candidate: each holds too little for its end to end the shortage.

use super::pending::sum;
use super::standing::ReliefStanding;
use super::steps::Able;
use super::target::targets_of;
use super::{Question, WORTH};
use crate::model::cgroup::Cgroup;
use crate::model::decision::{Candidate, Key, KeyValue, Met, StepKind, Target};
use crate::model::units::scale;
use crate::policy::takers::{Counts, freed_by_end};

/// So many end at once at most.
const MOST: usize = 16;

/// The first causes as one candidate, as many as it takes until what they free lasts for a while against
/// what the others grow by; where the end of one has not ended the shortage, and that of the next would
/// not. Each is a pod on which the same step can be taken. `None` where as many do not suffice.
pub(super) fn joint(
    question: &Question<'_>,
    standing: &ReliefStanding,
    first: &Met,
    causes: &[Candidate],
) -> Option<Candidate> {
    let growth = question.growth(first)?.0;
    let lost = question.ranking?.loss.as_ref()?.lost.0.max(1);
    if standing.takers.is_empty() || !first.presses_for_memory() {
        return None;
    }
    let single: Vec<_> = causes.iter().filter(|one| one.members.is_empty()).collect();
    let targets = targets_of(&single, question.sample, question.snapshot).into_iter();
    let step =
        |target: &Target| Some(standing.untried(&Able::of(question, target, first, None), None)?.0);
    let mut all = single.into_iter().zip(targets).filter_map(|(one, target)| {
        let is_there = question.sample.pod(&one.uid).is_some();
        let is_spent = standing.is_spent(&target, question.sample);
        let step = step(&target).filter(|_| is_there && !is_spent)?;
        Some((one, step, frees(question, &target, step)?, taken_by(one)?))
    });
    let (mut chosen, mut freed, mut taken) = (Vec::new(), 0_u64, 0_u64);
    let (one, its_step, frees, took) = all.next()?;
    let mut next = Some((one, frees, took));
    let mut others = all.filter(|(_, step, ..)| *step == its_step);
    while let Some((candidate, frees, took)) = next {
        chosen.push(candidate);
        (freed, taken) = (freed.saturating_add(frees), taken.saturating_add(took));
        let by_others = scale(growth, lost.saturating_sub(taken), lost);
        if freed >= by_others.saturating_mul(WORTH) {
            return of_all(&chosen);
        }
        next = others
            .next()
            .filter(|_| chosen.len() < MOST)
            .map(|(one, _, frees, took)| (one, frees, took));
    }
    None
}

/// `None` where one suffices.
fn of_all(chosen: &[&Candidate]) -> Option<Candidate> {
    let [one, more @ ..] = chosen else { return None };
    let mut members: Vec<_> = chosen.iter().map(|candidate| candidate.uid.clone()).collect();
    members.sort_unstable();
    let is_of_one = more.iter().all(|other| other.namespace == one.namespace);
    (!more.is_empty()).then(|| Candidate {
        name: format!("{} and {} more", one.name, more.len()),
        namespace: if is_of_one { one.namespace.clone() } else { String::new() },
        // No pod's: what is remembered of one is not true of all.
        uid: format!("{}+{}", members[0], more.len()),
        members,
        ..(*one).clone()
    })
}

/// What this step on it gives back; `None` if nothing, or not known.
fn frees(question: &Question<'_>, target: &Target, step: StepKind) -> Option<u64> {
    let shared = |group: &Cgroup| match step {
        StepKind::Evict => group.memory.stat.map_or(0, |stat| stat.shmem.0),
        _ => 0,
    };
    let freed =
        |group: &Cgroup| Some(freed_by_end(group, Counts::Held)?.saturating_add(shared(group)));
    sum(target, question.sample, freed).filter(|freed| *freed > 0)
}

/// What it took of the memory that was lost; `None` if it is a candidate for another reason.
pub(super) fn taken_by(candidate: &Candidate) -> Option<u64> {
    let key = candidate.keys.iter().find(|key| key.key == Key::Taken)?;
    let KeyValue::Quantity(taken) = &key.value else { return None };
    Some(taken.to_u64())
}
