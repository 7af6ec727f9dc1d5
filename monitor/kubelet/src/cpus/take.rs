//! Allocates CPUs of a free machine as the kubelet does for the reserved ones: the largest groups
//! that are needed whole, lowest first.
//! Source: kubelet `pkg/kubelet/cm/cpumanager/cpu_assignment.go`, `takeByTopologyNUMAPacked`.

use std::collections::{BTreeMap, BTreeSet};

use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::topology::{CpuPlace, Topology};

/// `n` CPUs of `topology`, or all if it has fewer.
#[must_use]
pub fn take(topology: &Topology, n: usize) -> CpuSet {
    let mut taking = Taking { topology, free: topology.clone(), needed: n, taken: BTreeSet::new() };
    let (nodes, sockets) = (Level { of: |place| place.node }, Level { of: |place| place.socket });
    // The larger of the two comes first: a socket may have several NUMA nodes, or the reverse.
    let by_sockets = nodes.count(topology) > sockets.count(topology);
    let (wide, narrow) = if by_sockets { (sockets, nodes) } else { (nodes, sockets) };
    let levels = [wide, narrow, Level { of: |place| place.core }];
    let per_core = topology.cpus.len() / levels[2].count(topology).max(1);
    let per_socket = topology.cpus.len() / sockets.count(topology).max(1);
    for depth in 1..=levels.len() {
        let level = levels[depth - 1];
        // The kubelet takes a core or socket for whole if it has the average number of CPUs.
        let is_socket = (depth == 1) == by_sockets && depth < levels.len();
        let size = match depth {
            3 => Some(per_core),
            _ if is_socket => Some(per_socket),
            _ => None,
        };
        for group in taking.groups(&levels[..depth]) {
            taking.take_whole(level, group, size);
        }
    }
    for core in taking.groups(&levels) {
        let threads = taking.members(levels[2], core);
        taking.take(threads.into_iter().take(taking.needed).collect());
    }
    CpuSet(taking.taken)
}

/// A level of the topology: the number of a CPU's core, socket or NUMA node.
#[derive(Clone, Copy)]
struct Level {
    of: fn(&CpuPlace) -> u32,
}

impl Level {
    fn count(self, topology: &Topology) -> usize {
        topology.cpus.values().map(self.of).collect::<BTreeSet<_>>().len()
    }
}

struct Taking<'a> {
    topology: &'a Topology,
    free: Topology,
    needed: usize,
    taken: BTreeSet<u32>,
}

impl Taking<'_> {
    /// The groups of the last level that have free CPUs: at each level those with the fewest free
    /// CPUs first, then the lowest.
    fn groups(&self, levels: &[Level]) -> Vec<u32> {
        let mut sizes = vec![BTreeMap::<u32, usize>::new(); levels.len()];
        for place in self.free.cpus.values() {
            for (sizes, level) in sizes.iter_mut().zip(levels) {
                *sizes.entry((level.of)(place)).or_default() += 1;
            }
        }
        let key = |place: &CpuPlace| -> Vec<(usize, u32)> {
            let levels = sizes.iter().zip(levels);
            levels.map(|(sizes, level)| (sizes[&(level.of)(place)], (level.of)(place))).collect()
        };
        let ordered: BTreeSet<_> = self.free.cpus.values().map(key).collect();
        let mut seen = BTreeSet::new();
        let last = ordered.into_iter().filter_map(|key| key.last().map(|(_, group)| *group));
        last.filter(|group| seen.insert(*group)).collect()
    }

    fn members(&self, level: Level, group: u32) -> BTreeSet<u32> {
        let members = self.free.cpus.iter().filter(|(_, place)| (level.of)(place) == group);
        members.map(|(cpu, _)| *cpu).collect()
    }

    /// Takes the group if all of it is free and needed.
    fn take_whole(&mut self, level: Level, group: u32, size: Option<usize>) {
        let free = self.members(level, group);
        let all = self.topology.cpus.values().filter(|place| (level.of)(place) == group).count();
        if free.len() == size.unwrap_or(all) && all <= self.needed {
            self.take(free);
        }
    }

    fn take(&mut self, cpus: BTreeSet<u32>) {
        self.needed = self.needed.saturating_sub(cpus.len());
        self.free.cpus.retain(|cpu, _| !cpus.contains(cpu));
        self.taken.extend(cpus);
    }
}
