//! Who took nothing and pays all the same, because the kubelet's own hard threshold demands it.

use super::choose::EXAMINED;
use super::pending::sum;
use super::standing::ReliefStanding;
use super::steps::Kind;
use super::target::target_of;
use super::{Proposal, Question, WORTH, of_those};
use crate::model::cgroup::Cgroup;
use crate::model::decision::{Candidate, Hold, Met};
use crate::model::units::Nanos;
use crate::policy::rank::{Contender, Field, REAL_PART};
use crate::policy::takers::{Counts, freed_by_end};

/// So long after a candidate that paid for others the next one may.
const ONE_BY_ONE: Nanos = Nanos(10 * Nanos::SECOND.0);

/// A candidate in the kubelet's order, one by one, and only if its end ends the shortage for a while.
/// `Err`: the next may pay later.
pub(super) fn payer(
    question: &Question<'_>,
    standing: &ReliefStanding,
    field: &Field<'_>,
    first: &Met,
    hard: &Met,
) -> Result<Option<Proposal>, Hold> {
    let growth = question.growth(hard).unwrap_or_default();
    let least = hard.missing.unwrap_or(0).saturating_add(growth.0.saturating_mul(WORTH));
    let pays = |one: &Contender| one.frees.is_some_and(|frees| frees >= least);
    // Too little was lost to name a cause: before one that grew nothing goes who took most of it.
    let grew = field.first(EXAMINED, |one| pays(one) && field.took_most(one, least / REAL_PART));
    // A kill gives back no shared memory, and there may be no time for an eviction.
    let is_kill = Kind::of(first) == Kind::MemoryEmergency;
    let gives = |one: &&Candidate| {
        let target = target_of(one, question);
        let freed = |group: &Cgroup| freed_by_end(group, Counts::Held);
        !is_kill || sum(&target, question.sample, freed).is_some_and(|freed| freed >= least)
    };
    let of = |list: Vec<Candidate>| {
        of_those(question, standing, first, &list.iter().filter(gives).collect::<Vec<_>>())
    };
    let new = of(grew).or_else(|| of(field.first(EXAMINED, pays)));
    match standing.last_victim().map(|last| last.plus(ONE_BY_ONE)) {
        Some(until) if new.is_some() && question.sample.at.boot < until => {
            Err(Hold::CoolingDown { until })
        }
        _ => Ok(new),
    }
}
