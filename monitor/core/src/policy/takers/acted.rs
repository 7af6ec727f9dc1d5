//! Parties that isobar acted on.

use std::collections::BTreeSet;

use super::ALONG;
use crate::model::cgroup::CgroupId;
use crate::model::decision::{Action, InForce, Phase};
use crate::model::sample::Sample;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;

/// The cgroups of targets of such actions that isobar really took.
pub(super) fn acted_on(sample: &Sample, is: impl Fn(&InForce) -> bool) -> BTreeSet<CgroupId> {
    let entries = sample.in_force.iter().filter(|entry| entry.action.is_enforced && is(entry));
    entries.flat_map(|entry| entry.action.target.cgroups()).map(|(id, _)| id).collect()
}

/// Victims of such actions, now and of the last ten minutes.
pub(super) fn ended_by_isobar(
    sample: &Sample,
    now: Nanos,
    is: impl Fn(&Action) -> bool,
) -> BTreeSet<CgroupId> {
    acted_on(sample, |entry| match entry.phase {
        Phase::Ending => is(&entry.action),
        Phase::Ended { at } => now.since(at) <= ALONG.plus(ALONG) && is(&entry.action),
        Phase::Marked | Phase::Squeezed => false,
    })
}

/// What a victim held of one of these was too much: all that it takes again counts, if it did not pay
/// for another party.
pub(super) fn is_of_taker(action: &Action, of: &[Resource]) -> bool {
    !action.target.is_payer && of.contains(&action.reason.threshold.resource())
}
