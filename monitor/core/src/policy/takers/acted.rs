//! Parties that isobar acted on.

use std::collections::BTreeSet;

use super::ALONG;
use crate::model::cgroup::CgroupId;
use crate::model::decision::{InForce, Phase};
use crate::model::sample::Sample;
use crate::model::units::Nanos;

/// The cgroups of targets of such actions that isobar really took.
pub(super) fn acted_on(sample: &Sample, is: impl Fn(&InForce) -> bool) -> BTreeSet<CgroupId> {
    let entries = sample.in_force.iter().filter(|entry| entry.action.is_enforced && is(entry));
    entries.flat_map(|entry| entry.action.target.cgroups()).map(|(id, _)| id).collect()
}

/// Victims, now and of the last ten minutes: those that took what was short, or those that paid for
/// others. What a taker held was too much, so all that it takes again counts.
pub(super) fn ended_by_isobar(sample: &Sample, now: Nanos, is_payer: bool) -> BTreeSet<CgroupId> {
    acted_on(sample, |entry| match entry.phase {
        _ if entry.action.target.is_payer != is_payer => false,
        Phase::Ending => true,
        Phase::Ended { at } => now.since(at) <= ALONG.plus(ALONG),
        Phase::Marked | Phase::Squeezed => false,
    })
}
