//! Several takers as one candidate: each holds too little for its end to end the shortage.

use super::pending::sum;
use super::standing::ReliefStanding;
use super::steps::Kind;
use super::target::targets_of;
use super::{Question, WORTH};
use crate::model::cgroup::Cgroup;
use crate::model::decision::{Candidate, Key, KeyValue, Met};
use crate::model::units::scale;
use crate::policy::takers::{Counts, freed_by_end};

/// The first causes as one candidate, as many as it takes until what they free lasts for a while against
/// what the others grow by; where the end of one has not ended the shortage, and that of the next would
/// not.
pub(super) fn joint(
    question: &Question<'_>,
    standing: &ReliefStanding,
    first: &Met,
    causes: &[Candidate],
) -> Option<Candidate> {
    let growth = question.growth(first)?.0;
    let lost = question.ranking?.loss.as_ref()?.lost.0;
    if standing.takers.is_empty() || !Kind::of(first).is_pressing() {
        return None;
    }
    let all: Vec<_> = causes.iter().collect();
    let targets = targets_of(&all, question.sample, question.snapshot).into_iter();
    let living = all.into_iter().zip(targets);
    let living = living.filter(|(_, target)| !standing.is_spent(target, question.sample));
    let (mut members, mut freed, mut taken) = (Vec::new(), 0_u64, 0_u64);
    let mut chosen = Vec::new();
    for (candidate, target) in living {
        let freed_by = |group: &Cgroup| freed_by_end(group, Counts::Held);
        freed = freed.saturating_add(sum(&target, question.sample, freed_by).unwrap_or_default());
        taken = taken.saturating_add(taken_by(candidate));
        members.extend(candidate.uids().cloned());
        chosen.push(candidate);
        let by_others = scale(growth, lost.saturating_sub(taken), lost.max(1));
        if freed >= by_others.saturating_mul(WORTH) {
            break;
        }
    }
    let [one, more @ ..] = &chosen[..] else { return None };
    members.sort_unstable();
    let is_of_one = more.iter().all(|other| other.namespace == one.namespace);
    (!more.is_empty()).then(|| Candidate {
        name: format!("{} and {} more", one.name, more.len()),
        namespace: if is_of_one { one.namespace.clone() } else { String::new() },
        members,
        ..(*one).clone()
    })
}

fn taken_by(candidate: &Candidate) -> u64 {
    let taken = candidate.keys.iter().find(|key| key.key == Key::Taken).map(|key| &key.value);
    let Some(KeyValue::Quantity(taken)) = taken else { return 0 };
    taken.to_u64()
}
