//! Which cgroups are parties, and how much each may still take before it meets its own limit.

use std::collections::{BTreeMap, BTreeSet};

use super::LEAST;
use super::figures::held;
use crate::model::cgroup::{CgroupId, Limit};
use crate::model::pod::Place;
use crate::model::snapshot::{Scope, Snapshot};
use crate::policy::workload::{Workloads, above};

/// The cgroup of each party.
pub(super) fn parties<'a>(
    snapshot: &'a Snapshot,
    workloads: &Workloads<'_>,
) -> BTreeMap<CgroupId, &'a Scope> {
    let parents: BTreeSet<CgroupId> =
        snapshot.scopes.values().filter_map(|scope| scope.parent).collect();
    let is_party = |(id, scope): &(&CgroupId, &Scope)| match &scope.place {
        Place::Pod { .. } => true,
        _ if workloads.has(**id) => true,
        _ if above(**id, snapshot).any(|id| workloads.has(id)) => false,
        // CRI-O's monitor and a container belong to their pod.
        Place::Container { .. } | Place::Kubepods | Place::Qos { .. } => false,
        Place::Other if is_in_pod(**id, snapshot) => false,
        _ => !parents.contains(id),
    };
    snapshot.scopes.iter().filter(is_party).map(|(id, scope)| (*id, scope)).collect()
}

fn is_in_pod(id: CgroupId, snapshot: &Snapshot) -> bool {
    let is_pod = |scope: &Scope| matches!(scope.place, Place::Pod { .. });
    above(id, snapshot).filter_map(|id| snapshot.scopes.get(&id)).any(is_pod)
}

/// How much more a party can hold below its own limit: the nearest of its cgroup, of the cgroups
/// above it that are no limit of all pods, and of its containers if each has one.
pub(super) fn room(id: CgroupId, scope: &Scope, snapshot: &Snapshot) -> Option<u64> {
    let left = |scope: &Scope| {
        let files = scope.files.as_ref()?;
        // Page cache gives way; swap does not count against the limit.
        let swap = files.memory.swap_current.map_or(0, |swap| swap.0);
        match files.memory.max? {
            Limit::At(max) => Some(max.saturating_sub(held(files)?.0.saturating_sub(swap))),
            Limit::Max => None,
        }
    };
    if let Some(own) = left(scope) {
        return Some(own);
    }
    let is_shared = |scope: &&Scope| matches!(scope.place, Place::Kubepods | Place::Qos { .. });
    let mut up = above(id, snapshot).filter_map(|id| snapshot.scopes.get(&id));
    if let Some(above) = up.find(|scope| is_shared(scope) || left(scope).is_some())
        && !is_shared(&above)
    {
        return left(above);
    }
    // Of containers with limits of their own, the sum; one without makes the pod unlimited.
    let containers = snapshot
        .scopes
        .values()
        .filter(|child| child.parent == Some(id) && matches!(child.place, Place::Container { .. }));
    let busy = containers
        .filter(|child| child.files.as_ref().and_then(held).is_none_or(|held| held >= LEAST));
    busy.map(left)
        .try_fold((0u64, false), |(sum, _), left| Some((sum.saturating_add(left?), true)))
        .filter(|(_, any)| *any)
        .map(|(sum, _)| sum)
}
