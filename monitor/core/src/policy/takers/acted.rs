//! Parties that isobar acted on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::anew::n_oom_kills;
use crate::model::cgroup::CgroupId;
use crate::model::decision::{Action, InForce, Phase};
use crate::model::sample::Sample;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;

/// For so long after its end a party has no credit for what it held.
const REMEMBERED: Nanos = Nanos(600 * Nanos::SECOND.0);

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
        Phase::Ended { at } => now.since(at) <= REMEMBERED && is(&entry.action),
        Phase::Marked | Phase::Squeezed => false,
    })
}

/// Marked parties of which the kernel has killed processes, and when: as if isobar had ended them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Killed(BTreeMap<CgroupId, Nanos>);

impl Killed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn update(&mut self, before: Option<&Sample>, sample: &Sample) {
        let now = sample.at.boot;
        self.0.retain(|_, at| now.since(*at) <= REMEMBERED);
        let Some(before) = before else { return };
        let is_mark = |entry: &InForce| entry.phase == Phase::Marked;
        let marked = acted_on(before, is_mark).into_iter().chain(acted_on(sample, is_mark));
        let kills = |sample: &Sample, id: &CgroupId| n_oom_kills(sample.cgroups.get(id)?);
        let was_killed = |id: &CgroupId| {
            kills(before, id).zip(kills(sample, id)).is_some_and(|(was, is)| was < is)
        };
        self.0.extend(marked.filter(was_killed).map(|id| (id, now)));
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = CgroupId> {
        self.0.keys().copied()
    }
}

/// What a victim held of one of these was too much: all that it takes again counts, if it did not pay
/// for another party.
pub(super) fn is_of_taker(action: &Action, of: &[Resource]) -> bool {
    !action.target.is_payer && of.contains(&action.reason.threshold.resource())
}
