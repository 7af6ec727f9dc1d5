//! How much each party may still take before it meets its own limit.

use std::collections::BTreeMap;

use super::figures::{held, swapped};
use super::{LEAST, OF_LARGEST};
use crate::model::cgroup::{Cgroup, CgroupId, Limit};
use crate::model::pod::Place;
use crate::model::sample::Sample;
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
    /// By the cgroup above, each container and how much it has grown since the sample before.
    containers: BTreeMap<CgroupId, Vec<(&'a Scope, u64)>>,
    free_swap: u64,
}

impl<'a> Rooms<'a> {
    pub(super) fn of(before: Option<&Sample>, snapshot: &'a Snapshot) -> Self {
        let mut containers = BTreeMap::<_, Vec<_>>::new();
        for (id, scope) in &snapshot.scopes {
            if let (Place::Container { .. }, Some(parent)) = (&scope.place, scope.parent) {
                let then = before.and_then(|before| held(before.cgroups.get(id)?));
                let now = scope.files.as_deref().and_then(held);
                let grown = now.zip(then).map_or(0, |(now, then)| now.0.saturating_sub(then.0));
                containers.entry(parent).or_default().push((scope, grown));
            }
        }
        let free_swap = snapshot.node.memory.map_or(0, |memory| memory.swap_free.0);
        Self { snapshot, containers, free_swap }
    }

    /// Until a party meets a limit of its own: the nearest of its cgroup and of the cgroups above it
    /// that are no limit of all pods, or those of its containers that grow if each has one, whichever
    /// comes first.
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

/// Of containers with limits of their own, the sum; one without makes the pod unlimited. Those count
/// that grow at least a quarter as fast as the fastest: what an idle one may take, that one never gets.
///
/// At `memory.high` too: a container that exceeds it is put to sleep for longer the more it takes.
/// The kubelet sets it for containers (MemoryQoS); isobar's squeezes set it for pods, and do not
/// count here, or they would look as if nothing had to be squeezed.
fn of_containers(containers: &[(&Scope, u64)], free_swap: u64) -> Option<u64> {
    let fastest = containers.iter().map(|(_, grown)| *grown).max()?;
    let growing = containers.iter().filter(|(_, grown)| *grown >= fastest / OF_LARGEST);
    let busy = growing
        .map(|(child, _)| *child)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::cgroup::{CgroupPath, MemoryStat};
    use crate::model::snapshot::Averages;
    use crate::model::units::Bytes;

    const MIB: u64 = 1 << 20;

    /// A pod with two containers: the limit of each, and what it holds, in MiB.
    fn sample(containers: [(Option<u64>, u64); 2]) -> Sample {
        const POD: &str = "/kubepods/burstable/podp";
        let group = |path: String, parent, max: Option<u64>, held| {
            let mut group = Cgroup { path: CgroupPath(path.into()), parent, ..Cgroup::default() };
            group.memory.max = Some(max.map_or(Limit::Max, |max| Limit::At(max * MIB)));
            let anon = Bytes(held * MIB);
            group.memory.stat = Some(MemoryStat { anon, ..MemoryStat::default() });
            Arc::new(group)
        };
        let [a, b] = ["a", "b"].map(|name| format!("{POD}/{}", name.repeat(64)));
        let [(a_max, a_held), (b_max, b_held)] = containers;
        let pod = Some(CgroupId(1));
        let cgroups = [
            (CgroupId(1), group(POD.into(), None, None, a_held + b_held)),
            (CgroupId(2), group(a, pod, a_max, a_held)),
            (CgroupId(3), group(b, pod, b_max, b_held)),
        ];
        Sample { cgroups: cgroups.into(), ..Sample::default() }
    }

    #[test]
    fn left_is_the_room_of_containers_that_grow() {
        #[rustfmt::skip]
        let table = [
            // MiB that two containers held before, that they hold; limit of the first and the second; room
            ([1_900, 60],  [1_925, 60],  Some(2_000), Some(1_000), Some(75)),
            ([1_900, 60],  [1_925, 62],  Some(2_000), Some(1_000), Some(75)), // next to nothing
            ([1_900, 60],  [1_925, 85],  Some(2_000), Some(1_000), Some(990)),
            ([1_900, 60],  [1_925, 60],  Some(2_000), None,        Some(75)),
            ([1_900, 60],  [1_925, 60],  None,        Some(1_000), None),
            ([1_925, 60],  [1_925, 60],  Some(2_000), Some(1_000), Some(1_015)), // none grows
        ];
        for (then, now, a, b, want) in table {
            let both = |[one, other]: [u64; 2]| sample([(a, one), (b, other)]);
            let (before, now) = (both(then), both(now));
            let snapshot = Snapshot::between(None, &now, &mut Averages::new(1));
            let (pod, all) = (CgroupId(1), Rooms::of(Some(&before), &snapshot));
            let got = all.left(pod, &snapshot.scopes[&pod]).map(|bytes| bytes / MIB);
            assert_eq!(got, want, "{then:?} {a:?} {b:?}");
        }
    }
}
