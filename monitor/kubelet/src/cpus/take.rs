//! Allocates CPUs of a free machine as the kubelet does for the reserved ones: the largest groups
//! that are needed whole, lowest first.
//! Source: kubelet `pkg/kubelet/cm/cpumanager/cpu_assignment.go`, `takeByTopologyNUMAPacked`.

use std::collections::{BTreeMap, BTreeSet};

use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::topology::{CpuPlace, Topology};

/// `n` CPUs of `topology`, or all if it has fewer.
pub fn take(topology: &Topology, n: usize) -> CpuSet {
    let mut taking = Taking { topology, free: topology.clone(), needed: n, taken: BTreeSet::new() };
    // The kubelet takes a socket or core for whole if it has the average number of CPUs.
    let average = |of| Some(topology.cpus.len() / n_groups(topology, of).max(1));
    let node = Level { of: |place| place.node, size: None };
    let socket = Level { of: |place| place.socket, size: average(|place| place.socket) };
    let core = Level { of: |place| place.core, size: average(|place| place.core) };
    // The larger first: a socket may have several NUMA nodes, or the reverse.
    let levels = match n_groups(topology, node.of) > n_groups(topology, socket.of) {
        true => [socket, node, core],
        false => [node, socket, core],
    };
    for depth in 1..=levels.len() {
        for group in taking.groups(&levels[..depth]) {
            taking.take_whole(levels[depth - 1], group);
        }
    }
    for core in taking.groups(&levels) {
        let threads = taking.members(levels[2], core);
        taking.take(threads.into_iter().take(taking.needed).collect());
    }
    CpuSet(taking.taken)
}

fn n_groups(topology: &Topology, of: fn(&CpuPlace) -> u32) -> usize {
    topology.cpus.values().map(of).collect::<BTreeSet<_>>().len()
}

/// A level of the topology.
#[derive(Clone, Copy)]
struct Level {
    /// The number of a CPU's group.
    of: fn(&CpuPlace) -> u32,
    /// CPUs of a whole group; `None` for all that the group has.
    size: Option<usize>,
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
    fn take_whole(&mut self, level: Level, group: u32) {
        let free = self.members(level, group);
        let all = self.topology.cpus.values().filter(|place| (level.of)(place) == group).count();
        if free.len() == level.size.unwrap_or(all) && all <= self.needed {
            self.take(free);
        }
    }

    fn take(&mut self, cpus: BTreeSet<u32>) {
        self.needed = self.needed.saturating_sub(cpus.len());
        self.free.cpus.retain(|cpu, _| !cpus.contains(cpu));
        self.taken.extend(cpus);
    }
}
