//! Adds the map entries up to cumulative counters per cgroup, descendants included.
//! In: all map entries of one moment. Out: [`KernelStalls`]. Pure, except that it remembers what
//! removed cgroups had counted: the counters of their ancestors must never run backwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use isobar_ebpf::{ANY, BUCKETS, Cpu, Group, LEVELS, Memory, NODE, Open, Pair, SHORTAGE, SLOTS};

use super::pairs::aggressions;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::stall::{
    CauseStall, CpuStall, GroupStall, KernelStalls, Lost, MemoryCause, MemoryStall,
};
use isobar_core::model::units::Nanos;

/// By cgroup; of each, the CPUs on which it has an entry, by number.
pub(super) type Groups = BTreeMap<u64, Vec<(usize, Group)>>;

/// Waits of a cgroup's own tasks.
pub(super) fn n_waits(cpus: &[(usize, Group)]) -> u64 {
    cpus.iter().map(|(_, group)| group.n_waits).sum()
}

/// All maps at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Maps {
    /// By CPU number.
    pub cpus: Vec<Cpu>,
    /// CPUs that are offline.
    pub offline: BTreeSet<usize>,
    pub groups: Groups,
    /// Time that the victim waited while the aggressor ran, ns, since the maps were last read.
    pub matrix: Vec<(Pair, u64)>,
    /// By cgroup; [`NODE`] for the node.
    pub memory: BTreeMap<u64, Memory>,
    /// `CLOCK_MONOTONIC`, on which memory stalls are timed.
    pub now: u64,
    /// The cpu controller is on cgroup v2, so cgroups have unions.
    pub has_unions: bool,
}

/// The counters that are added up towards the root: a cgroup's own, or with its descendants'.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Share {
    /// Per CPU: the part of the union that belongs to every ancestor too.
    fast: Vec<u64>,
    /// Per CPU: run time, without the part that `fast` contains.
    run: Vec<u64>,
    wait: u64,
    /// By the number of levels from the cgroup up to the quota; 0 also holds quotas below it.
    throttled: [u64; LEVELS],
    n_waits: u64,
    io: u64,
    n_io: u64,
    histogram: Vec<u64>,
    time: [u64; SLOTS],
    count: [u64; SLOTS],
}

impl Share {
    fn add(&mut self, other: &Self) {
        add_grown(&mut self.fast, &other.fast);
        add_grown(&mut self.run, &other.run);
        add_grown(&mut self.histogram, &other.histogram);
        add_each(&mut self.time, &other.time);
        add_each(&mut self.count, &other.count);
        add_each(&mut self.throttled, &other.throttled);
        self.wait += other.wait;
        self.n_waits += other.n_waits;
        self.io += other.io;
        self.n_io += other.n_io;
    }

    /// The same counters for the parent: every quota is one level nearer.
    fn raise(&mut self) {
        let below = self.throttled[0];
        self.throttled.rotate_left(1);
        self.throttled[LEVELS - 1] = 0;
        self.throttled[0] += below;
    }
}

fn add_each(sum: &mut [u64], more: &[u64]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.wrapping_add(*more);
    }
}

/// As [`add_each`]; the sum is as long as the longer of both.
fn add_grown(sum: &mut Vec<u64>, more: &[u64]) {
    sum.resize(sum.len().max(more.len()), 0);
    add_each(sum, more);
}

/// The tree as far as it is known, and what removed cgroups had counted.
#[derive(Debug, Clone, Default)]
pub(super) struct CounterTree {
    parents: BTreeMap<u64, u64>,
    /// By the nearest ancestor that still exists.
    of_removed: BTreeMap<u64, Share>,
    /// As last told. What has not changed is told as the same, which costs a reader nothing.
    last: BTreeMap<CgroupId, Arc<GroupStall>>,
    /// Moments that were added up; [`aggressions`] rounds by it.
    n_folds: u64,
}

impl CounterTree {
    /// A parent is older than its child, and the kernel's ids only grow: what says otherwise is not
    /// believed, so no circle is.
    pub(super) fn set_parent(&mut self, child: u64, parent: u64) {
        if parent != 0 && parent < child {
            self.parents.insert(child, parent);
        }
    }

    /// Passes what removed cgroups had counted to their parents. Children first, or their counts
    /// would stay with a parent that is gone and never reach the root.
    pub(super) fn remove_all(&mut self, cgroups: &BTreeSet<u64>, maps: &Maps) {
        cgroups.iter().rev().for_each(|cgroup| self.remove(*cgroup, maps));
    }

    fn remove(&mut self, cgroup: u64, maps: &Maps) {
        let mut share = self.of_removed.remove(&cgroup).unwrap_or_default();
        if let Some(cpus) = maps.groups.get(&cgroup) {
            share.add(&own_share(cgroup, cpus, maps, newest(&maps.cpus)));
        }
        if let Some(memory) = maps.memory.get(&cgroup) {
            add_each(&mut share.time, &memory.time);
            add_each(&mut share.count, &memory.count);
        }
        if let Some(parent) = self.parents.remove(&cgroup) {
            share.raise();
            self.of_removed.entry(parent).or_default().add(&share);
        }
    }

    /// Cgroups that keep what removed ones had counted. One of them may itself be gone
    /// without ever having been listed.
    pub(super) fn heirs(&self) -> impl Iterator<Item = u64> {
        self.of_removed.keys().copied()
    }

    /// Keeps only the memory counters of removed cgroups.
    pub(super) fn forget_waits(&mut self) {
        for share in self.of_removed.values_mut() {
            let Share { time, count, .. } = *share;
            *share = Share { time, count, ..Share::default() };
        }
    }

    /// The cgroup of the CPU's current task, and its ancestors, in falling order; none if it is idle.
    fn running(&self, cpu: &Cpu) -> Vec<u64> {
        let current = (cpu.idle == 0).then_some(cpu.current);
        std::iter::successors(current, |at| self.parents.get(at).copied()).collect()
    }

    /// Adds up the maps of one moment. Reports only cgroups that `exists`.
    pub(super) fn fold(&mut self, maps: &Maps, exists: impl Fn(u64) -> bool) -> KernelStalls {
        for (id, cpus) in &maps.groups {
            for (_, group) in cpus {
                self.set_parent(*id, group.parent);
            }
        }
        let clock = newest(&maps.cpus);
        let n_cpus = maps.cpus.iter().rposition(|cpu| cpu.switches != 0).map_or(0, |last| last + 1);
        let running: Vec<_> = maps.cpus[..n_cpus].iter().map(|cpu| self.running(cpu)).collect();
        let group = |id: u64, sum: &Share| {
            let own = maps.groups.get(&id).map_or(&[][..], |cpus| cpus);
            let cpus = maps.has_unions.then(|| unions(id, own, sum, maps, clock, &running));
            let memory = maps.memory.get(&id).map(|memory| memory_unions(memory, maps.now));
            let stall = group_stall(sum, cpus, memory);
            let last = self.last.get(&CgroupId(id)).filter(|last| ***last == stall);
            (CgroupId(id), last.map_or_else(|| Arc::new(stall), Arc::clone))
        };
        let sums = self.sums(maps, clock);
        let known = sums.iter().filter(|(id, _)| exists(**id));
        let groups: BTreeMap<_, _> = known.map(|(id, sum)| group(*id, sum)).collect();
        self.last.clone_from(&groups);
        let matrix = aggressions(maps.matrix.clone(), self.n_folds);
        self.n_folds += 1;
        let cpus = maps.cpus.iter().take(n_cpus).enumerate();
        let of_node = maps.memory.get(&NODE).map(|all| node_memory(all, maps.now));
        KernelStalls {
            clock: Nanos(clock),
            cpus: cpus.map(|(n, cpu)| cpu_stall(cpu, clock, !maps.offline.contains(&n))).collect(),
            memory: of_node.unwrap_or_default(),
            groups,
            matrix,
            lost: lost(&maps.cpus),
            ..KernelStalls::default()
        }
    }

    /// Each cgroup's counters with those of its descendants, removed ones included: from the children
    /// towards the root, so that each is added once however deep a user nests.
    fn sums(&self, maps: &Maps, clock: u64) -> BTreeMap<u64, Share> {
        let mut left = self.of_removed.clone();
        for (id, cpus) in &maps.groups {
            left.entry(*id).or_default().add(&own_share(*id, cpus, maps, clock));
        }
        for (id, memory) in maps.memory.iter().filter(|(id, _)| **id != NODE) {
            let share = left.entry(*id).or_default();
            add_each(&mut share.time, &memory.time);
            add_each(&mut share.count, &memory.count);
        }
        let mut sums = BTreeMap::new();
        while let Some((id, mut share)) = left.pop_last() {
            if let Some(parent) = self.parents.get(&id) {
                let throttled = share.throttled;
                share.raise();
                left.entry(*parent).or_default().add(&share);
                share.throttled = throttled;
            }
            sums.insert(id, share);
        }
        sums
    }
}

/// A cgroup's union and weight on each CPU, including what the kernel side has not added yet: a task
/// that still waits, a task that still runs. `running`: see [`CounterTree::running`], of each CPU.
fn unions(
    id: u64,
    groups: &[(usize, Group)],
    sum: &Share,
    maps: &Maps,
    clock: u64,
    running: &[Vec<u64>],
) -> Vec<CpuStall> {
    let at = |values: &[u64], cpu: usize| values.get(cpu).copied().unwrap_or(0);
    let cpus = maps.cpus.iter().zip(running).enumerate();
    cpus.map(|(number, (cpu, running))| {
        // Without an entry no task ever waited at this level; tasks below may have.
        let entry = groups.binary_search_by_key(&number, |(cpu, _)| *cpu);
        let group = entry.map(|at| groups[at].1).unwrap_or_default();
        let (mut slow, mut both) = (group.slow, group.both);
        if group.waiting != 0 && group.last >= cpu.uncontended_at {
            let open = clock.saturating_sub(group.last);
            slow += open;
            if running.binary_search_by(|above| id.cmp(above)).is_ok() {
                both += open;
            }
        }
        let union = slow + at(&sum.fast, number);
        CpuStall {
            contention: Nanos(union),
            nonidle: Nanos((union + at(&sum.run, number)).saturating_sub(both)),
            switches: 0,
        }
    })
    .collect()
}

/// A CPU's counters of what was lost, everything else 0.
pub(super) fn only_losses(cpu: &Cpu) -> Cpu {
    Cpu {
        stale_stamps: cpu.stale_stamps,
        lost_groups: cpu.lost_groups,
        lost_pairs: cpu.lost_pairs,
        lost_pair_time: cpu.lost_pair_time,
        lost_io: cpu.lost_io,
        lost_stalls: cpu.lost_stalls,
        lost_events: cpu.lost_events,
        too_deep: cpu.too_deep,
        ..Cpu::default()
    }
}

/// By no more does one CPU's clock differ from another's.
const CLOCKS_APART: i64 = Nanos::SECOND.0.cast_signed();

/// The newest clock of all CPUs: "now" for intervals that have not ended yet.
fn newest(cpus: &[Cpu]) -> u64 {
    cpus.iter().map(|cpu| cpu.last_switch).max().unwrap_or(0)
}

fn own_share(id: u64, groups: &[(usize, Group)], maps: &Maps, clock: u64) -> Share {
    let n_cpus = groups.last().map_or(0, |(last, _)| last + 1);
    let mut share = Share {
        fast: vec![0; n_cpus],
        run: vec![0; n_cpus],
        histogram: vec![0; BUCKETS],
        ..Share::default()
    };
    for (number, group) in groups {
        let mut run = group.run;
        if let Some(cpu) = maps.cpus.get(*number) {
            if cpu.pending_group == id {
                run += cpu.pending_run;
            }
            if cpu.idle == 0 && cpu.current == id {
                run += clock.saturating_sub(cpu.last_switch);
            }
        }
        share.fast[*number] = group.fast;
        share.run[*number] = run.saturating_sub(group.fast_both);
        share.wait += group.wait;
        share.n_waits += group.n_waits;
        share.io += group.io;
        share.n_io += group.n_io;
        add_each(&mut share.throttled, &group.throttled);
        add_each(&mut share.histogram, &group.histogram.map(u64::from));
    }
    share
}

fn cpu_stall(cpu: &Cpu, clock: u64, is_online: bool) -> CpuStall {
    let mut stall = CpuStall {
        contention: Nanos(cpu.contention),
        nonidle: Nanos(cpu.nonidle),
        switches: cpu.switches,
    };
    if cpu.waiters != 0 {
        stall.contention.0 += clock.saturating_sub(cpu.last);
    }
    // `rq.nr_iowait` keeps its value when a CPU goes offline: tasks that fell asleep there may wake
    // up elsewhere, and no switch follows that would end the interval.
    let waits_for_io = cpu.iowait != 0 && is_online;
    if cpu.switches != 0 && (cpu.idle == 0 || waits_for_io) {
        stall.nonidle.0 += clock.saturating_sub(cpu.last_switch);
    }
    stall
}

fn group_stall(
    sum: &Share,
    cpus: Option<Vec<CpuStall>>,
    unions: Option<MemoryStall>,
) -> GroupStall {
    let mut memory = unions.unwrap_or_default();
    for (cause, (time, count)) in MemoryCause::ALL.iter().zip(sum.time.iter().zip(sum.count)) {
        if *time != 0 || count != 0 {
            let stall = memory.causes.entry(*cause).or_default();
            (stall.time, stall.count) = (Nanos(*time), count);
        }
    }
    GroupStall {
        cpus: cpus.unwrap_or_default(),
        wait: Nanos(sum.wait),
        throttled_own: Nanos(sum.throttled[0]),
        throttled_ancestor: Nanos(sum.throttled[1..].iter().sum()),
        n_waits: sum.n_waits,
        histogram: sum.histogram.clone(),
        io_wait: Nanos(sum.io),
        n_io_waits: sum.n_io,
        memory,
    }
}

/// The union's length until now; see [`Open`]. Its two counters may be read, and changed, one after the
/// other, so the sum itself tells: each interval without an end makes it negative by the time since boot.
fn length(union: Open, now: u64) -> Nanos {
    let (mut sum, is_open) = (union.sum.cast_signed(), union.open.cast_signed() > 0);
    if sum <= -CLOCKS_APART || sum < 0 && is_open {
        sum = sum.wrapping_add_unsigned(now);
    }
    // The next interval began before the end of the last was added.
    if sum <= -CLOCKS_APART {
        sum = sum.wrapping_add_unsigned(now);
    }
    Nanos(u64::try_from(sum).unwrap_or(0))
}

fn memory_unions(memory: &Memory, now: u64) -> MemoryStall {
    let causes = MemoryCause::ALL.iter().zip(memory.unions).filter_map(|(cause, union)| {
        let length = length(union, now);
        (length.0 != 0).then_some((*cause, CauseStall { union: length, ..CauseStall::default() }))
    });
    MemoryStall {
        any: length(memory.unions[ANY], now),
        shortage: length(memory.unions[SHORTAGE], now),
        causes: causes.collect(),
    }
}

/// The node's entry has the time of every task, so nothing is added up.
fn node_memory(memory: &Memory, now: u64) -> MemoryStall {
    let sum = Share { time: memory.time, count: memory.count, ..Share::default() };
    group_stall(&sum, None, Some(memory_unions(memory, now))).memory
}

fn lost(cpus: &[Cpu]) -> Lost {
    let sum = |field: fn(&Cpu) -> u64| cpus.iter().map(field).sum();
    Lost {
        cgroups: sum(|cpu| cpu.lost_groups),
        pairs: sum(|cpu| cpu.lost_pairs),
        pair_time: Nanos(sum(|cpu| cpu.lost_pair_time)),
        stalls: sum(|cpu| cpu.lost_stalls),
        io_waits: sum(|cpu| cpu.lost_io),
        events: sum(|cpu| cpu.lost_events),
        recursions: 0,
        stale_stamps: sum(|cpu| cpu.stale_stamps),
        too_deep: sum(|cpu| cpu.too_deep),
    }
}

#[cfg(test)]
mod tests;
