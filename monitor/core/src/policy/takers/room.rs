//! How much each party may still take before it meets its own limit.

use std::collections::BTreeMap;

use super::LEAST;
use super::figures::{held, swapped};
use crate::model::cgroup::{Cgroup, CgroupId, Limit};
use crate::model::pod::Place;
use crate::model::snapshot::{Scope, Snapshot};
use crate::policy::workload::above;

/// Parties that grow towards limits of their own: growth per second, and the room that is left.
#[derive(Debug, Clone, Default)]
pub struct Limited {
    pub node: Vec<(u64, u64)>,
    /// Those below kubepods.
    pub pods: Vec<(u64, u64)>,
}

/// How much more parties can hold.
pub(super) struct Rooms<'a> {
    snapshot: &'a Snapshot,
    /// By the cgroup above.
    containers: BTreeMap<CgroupId, Vec<&'a Scope>>,
    free_swap: u64,
}

impl<'a> Rooms<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut containers = BTreeMap::<_, Vec<_>>::new();
        for scope in snapshot.scopes.values() {
            if let (Place::Container { .. }, Some(parent)) = (&scope.place, scope.parent) {
                containers.entry(parent).or_default().push(scope);
            }
        }
        let free_swap = snapshot.node.memory.map_or(0, |memory| memory.swap_free.0);
        Self { snapshot, containers, free_swap }
    }

    /// Until a party meets a limit of its own: the nearest of its cgroup and of the cgroups above it
    /// that are no limit of all pods, or those of its containers if each has one, whichever comes
    /// first.
    pub(super) fn left(&self, id: CgroupId, scope: &Scope) -> Option<u64> {
        let Self { snapshot, containers, free_swap } = self;
        let left = |scope: &Scope| {
            let files = scope.files.as_ref()?;
            left_below(files, files.memory.max?, *free_swap)
        };
        let is_shared = |scope: &&Scope| matches!(scope.place, Place::Kubepods | Place::Qos { .. });
        let mut up = above(id, snapshot).filter_map(|id| snapshot.scopes.get(&id));
        let from_above = || {
            let found = up.find(|scope| is_shared(scope) || left(scope).is_some())?;
            (!is_shared(&found)).then(|| left(found)).flatten()
        };
        let own = left(scope).or_else(from_above);
        let containers = containers.get(&id).and_then(|all| of_containers(all, *free_swap));
        own.into_iter().chain(containers).min()
    }
}

/// Of containers with limits of their own, the sum; one without makes the pod unlimited.
///
/// At `memory.high` too: a container that exceeds it is put to sleep for longer the more it takes.
/// The kubelet sets it for containers (MemoryQoS); isobar's squeezes set it for pods, and do not
/// count here, or they would look as if nothing had to be squeezed.
fn of_containers(containers: &[&Scope], free_swap: u64) -> Option<u64> {
    let busy = containers
        .iter()
        .copied()
        .filter(|child| child.files.as_deref().and_then(held).is_none_or(|held| held.0 >= LEAST));
    let left = |scope: &Scope| {
        let files = scope.files.as_ref()?;
        let limits = [files.memory.max, files.memory.high].into_iter().flatten();
        limits.filter_map(|limit| left_below(files, limit, free_swap)).min()
    };
    busy.map(left)
        .try_fold((0u64, false), |(sum, _), left| Some((sum.saturating_add(left?), true)))
        .filter(|(_, any)| *any)
        .map(|(sum, _)| sum)
}

/// Page cache gives way, and swap does not count against the limit: what may still be swapped out
/// is room as well. With LimitedSwap the kubelet bounds that for each container.
fn left_below(files: &Cgroup, limit: Limit, free_swap: u64) -> Option<u64> {
    let Limit::At(limit) = limit else { return None };
    let used = files.memory.swap_current.map_or(0, |swap| swap.0);
    let swap = match files.memory.swap_max {
        Some(Limit::At(most)) => most.saturating_sub(used).min(free_swap),
        Some(Limit::Max) => free_swap,
        None => 0,
    };
    let in_memory = held(files)?.0.saturating_sub(swapped(files).0);
    Some(limit.saturating_sub(in_memory).saturating_add(swap))
}
