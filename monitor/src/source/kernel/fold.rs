//! Folds what the maps hold into plain cumulative counters per cgroup with its descendants.
//! In: raw map entries of one moment. Out: [`KernelStalls`]. Pure, but for the ledger of what
//! cgroups that are gone have left to those above them: counters must never run backwards.

use std::collections::BTreeMap;

use isobar_ebpf::{ANY, BUCKETS, Cpu, Group, LEVELS, Memory, NODE, Open, Pair, SHORTAGE, SLOTS};

use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::stall::{
    Aggression, CauseStall, CpuStall, GroupStall, KernelStalls, Lost, MemoryCause, MemoryStall,
};
use isobar_core::model::units::Nanos;

/// All maps at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Maps {
    /// By CPU number.
    pub cpus: Vec<Cpu>,
    /// By cgroup, then by CPU number.
    pub groups: Vec<(u64, Vec<Group>)>,
    /// Who waited while whom ran.
    pub matrix: Vec<(Pair, u64)>,
    /// By scope.
    pub memory: Vec<(u64, Memory)>,
    /// `CLOCK_MONOTONIC`, on which memory stalls are timed.
    pub now: u64,
    /// The groups are run queues' groups, so that they have unions.
    pub has_unions: bool,
}

/// What is added up towards the root: a cgroup's own share, or that of all below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Share {
    /// Per CPU: the part of the union that belongs to every ancestor.
    fast: Vec<u64>,
    /// Per CPU: run time, less what `fast` holds of it.
    run: Vec<u64>,
    wait: u64,
    /// By how many levels up the quota lies; 0 is at the scope itself or below.
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
        add_each(&mut self.fast, &other.fast);
        add_each(&mut self.run, &other.run);
        add_each(&mut self.histogram, &other.histogram);
        add_each(&mut self.time, &other.time);
        add_each(&mut self.count, &other.count);
        add_each(&mut self.throttled, &other.throttled);
        self.wait += other.wait;
        self.n_waits += other.n_waits;
        self.io += other.io;
        self.n_io += other.n_io;
    }

    /// The same as seen from one level up: every quota lies one level nearer.
    fn raise(&mut self) {
        let below = self.throttled[0];
        self.throttled.rotate_left(1);
        self.throttled[LEVELS - 1] = 0;
        self.throttled[0] += below;
    }
}

/// Adds position by position; the sum is as long as the longer.
fn add_each(sum: &mut (impl AsMut<[u64]> + Grow), more: &[u64]) {
    sum.grow(more.len());
    for (sum, more) in sum.as_mut().iter_mut().zip(more) {
        *sum = sum.wrapping_add(*more);
    }
}

/// A vector grows to hold another's positions; an array is already as long.
trait Grow {
    fn grow(&mut self, n: usize);
}

impl Grow for Vec<u64> {
    fn grow(&mut self, n: usize) {
        if self.len() < n {
            self.resize(n, 0);
        }
    }
}

impl<const N: usize> Grow for [u64; N] {
    fn grow(&mut self, _: usize) {}
}

/// What outlives a cgroup: its parent's claim to what it counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    parents: BTreeMap<u64, u64>,
    left_behind: BTreeMap<u64, Share>,
}

impl Ledger {
    /// Learns who lies above whom.
    pub(super) fn learn(&mut self, child: u64, parent: u64) {
        if parent != 0 && child != parent {
            self.parents.insert(child, parent);
        }
    }

    /// A cgroup is gone: what it and its own dead had counted stays with the one above.
    /// Returns false if it was not known.
    pub(super) fn bury(&mut self, cgroup: u64, maps: &Maps) -> bool {
        let mut share = self.left_behind.remove(&cgroup).unwrap_or_default();
        let mut known = false;
        if let Some((id, cpus)) = maps.groups.iter().find(|(id, _)| *id == cgroup) {
            share.add(&own_share(*id, cpus, maps, newest(&maps.cpus)));
            known = true;
        }
        if let Some((_, memory)) = maps.memory.iter().find(|(id, _)| *id == cgroup) {
            add_each(&mut share.time, &memory.time);
            add_each(&mut share.count, &memory.count);
            known = true;
        }
        if let Some(parent) = self.parents.remove(&cgroup) {
            share.raise();
            self.left_behind.entry(parent).or_default().add(&share);
        }
        known
    }

    /// What the dead had waited for a CPU is counted no more.
    pub(super) fn forget_waits(&mut self) {
        for share in self.left_behind.values_mut() {
            let Share { time, count, .. } = std::mem::take(share);
            *share = Share { time, count, ..Share::default() };
        }
    }

    /// The cgroup and those above it, itself first. Bounded: damaged parents cannot go round.
    fn upwards(&self, from: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(from), |at| self.parents.get(at).copied()).take(32)
    }

    /// Folds one moment's maps. Only cgroups that `exists` says are there are reported.
    pub(super) fn fold(&mut self, maps: &Maps, exists: impl Fn(u64) -> bool) -> KernelStalls {
        for (id, cpus) in &maps.groups {
            for group in cpus {
                self.learn(*id, group.parent);
            }
        }
        let clock = newest(&maps.cpus);
        let n_cpus = maps.cpus.iter().rposition(|cpu| cpu.switches != 0).map_or(0, |last| last + 1);
        let sums = self.sums(maps, clock);
        let own: BTreeMap<u64, &Vec<Group>> = maps.groups.iter().map(|(id, g)| (*id, g)).collect();
        let memory: BTreeMap<u64, &Memory> = maps.memory.iter().map(|(id, m)| (*id, m)).collect();

        let mut groups = BTreeMap::new();
        for (id, sum) in &sums {
            if !exists(*id) {
                continue;
            }
            let own = own.get(id).map_or(&[][..], |cpus| cpus);
            let cpus = maps.has_unions.then(|| self.unions(*id, own, sum, maps, clock, n_cpus));
            let memory = memory.get(id).map(|memory| memory_unions(memory, maps.now));
            groups.insert(CgroupId(*id), group_stall(sum, cpus, memory));
        }
        let mut matrix: Vec<_> = maps.matrix.iter().map(aggression).collect();
        // The map has them in the order of a hash; in their own, a recording tells one tick from
        // the next by what changed.
        matrix.sort_unstable();
        KernelStalls {
            clock: Nanos(clock),
            cpus: maps.cpus.iter().take(n_cpus).map(|cpu| cpu_stall(cpu, clock)).collect(),
            memory: memory.get(&NODE).map(|all| node_memory(all, maps.now)).unwrap_or_default(),
            groups,
            matrix,
            lost: lost(&maps.cpus),
            ..KernelStalls::default()
        }
    }

    /// Each cgroup's share with all below it, the dead included.
    fn sums(&self, maps: &Maps, clock: u64) -> BTreeMap<u64, Share> {
        let mut sums: BTreeMap<u64, Share> = BTreeMap::new();
        let mut give = |from: u64, mut share: Share| {
            for at in self.upwards(from) {
                sums.entry(at).or_default().add(&share);
                share.raise();
            }
        };
        for (id, cpus) in &maps.groups {
            give(*id, own_share(*id, cpus, maps, clock));
        }
        for (id, memory) in maps.memory.iter().filter(|(id, _)| *id != NODE) {
            give(*id, Share { time: memory.time, count: memory.count, ..Share::default() });
        }
        for (id, share) in &self.left_behind {
            give(*id, share.clone());
        }
        sums
    }

    /// A cgroup's union and weight on each CPU, with what has not been written down yet: a waiter
    /// that still waits, a task that still runs.
    fn unions(
        &self,
        id: u64,
        groups: &[Group],
        sum: &Share,
        maps: &Maps,
        clock: u64,
        n_cpus: usize,
    ) -> Vec<CpuStall> {
        let at = |values: &[u64], cpu: usize| values.get(cpu).copied().unwrap_or(0);
        let cpus = maps.cpus.iter().take(n_cpus).enumerate();
        cpus.map(|(number, cpu)| {
            // No entry of its own: nobody ever waited at this level, some may have below.
            let group = groups.get(number).copied().unwrap_or_default();
            let (mut slow, mut both) = (group.slow, group.both);
            if group.waiting != 0 && group.last >= cpu.nobody {
                let open = clock.saturating_sub(group.last);
                slow += open;
                if cpu.idle == 0 && self.upwards(cpu.current).any(|above| above == id) {
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
}

/// The pairs to drop when the matrix fills up: those that waited least, so that half is free again.
/// A new pair that finds no room would be lost, however long it waits.
pub(super) fn least(matrix: &[(Pair, u64)], room: usize) -> Vec<Pair> {
    if matrix.len() * 4 < room * 3 {
        return Vec::new();
    }
    let mut by_time: Vec<(u64, Pair)> = matrix.iter().map(|(pair, time)| (*time, *pair)).collect();
    by_time.sort_unstable();
    by_time.truncate(matrix.len().saturating_sub(room / 2));
    by_time.into_iter().map(|(_, pair)| pair).collect()
}

/// What a CPU could not count, and nothing that it did.
pub(super) fn losses(cpu: &Cpu) -> Cpu {
    Cpu {
        stale_stamps: cpu.stale_stamps,
        lost_groups: cpu.lost_groups,
        lost_pairs: cpu.lost_pairs,
        lost_io: cpu.lost_io,
        lost_stalls: cpu.lost_stalls,
        lost_events: cpu.lost_events,
        too_deep: cpu.too_deep,
        ..Cpu::default()
    }
}

/// The newest clock of all CPUs: "now" for what has not ended yet.
fn newest(cpus: &[Cpu]) -> u64 {
    cpus.iter().map(|cpu| cpu.last_switch).max().unwrap_or(0)
}

fn own_share(id: u64, groups: &[Group], maps: &Maps, clock: u64) -> Share {
    let sum = |field: fn(&Group) -> u64| groups.iter().map(field).sum();
    let run = groups.iter().zip(&maps.cpus).map(|(group, cpu)| {
        let mut run = group.run;
        if cpu.pending_group == id {
            run += cpu.pending_run;
        }
        if cpu.idle == 0 && cpu.current == id {
            run += clock.saturating_sub(cpu.last_switch);
        }
        run.saturating_sub(group.fast_both)
    });
    let mut histogram = vec![0; BUCKETS];
    let mut throttled = [0; LEVELS];
    for group in groups {
        add_each(&mut throttled, &group.throttled);
        for (sum, n) in histogram.iter_mut().zip(group.histogram) {
            *sum += u64::from(n);
        }
    }
    Share {
        fast: groups.iter().map(|group| group.fast).collect(),
        run: run.collect(),
        wait: sum(|group| group.wait),
        throttled,
        n_waits: sum(|group| group.n_waits),
        io: sum(|group| group.io),
        n_io: sum(|group| group.n_io),
        histogram,
        ..Share::default()
    }
}

fn cpu_stall(cpu: &Cpu, clock: u64) -> CpuStall {
    let mut stall = CpuStall {
        contention: Nanos(cpu.contention),
        nonidle: Nanos(cpu.nonidle),
        switches: cpu.switches,
    };
    if cpu.waiters != 0 {
        stall.contention.0 += clock.saturating_sub(cpu.last);
    }
    if cpu.switches != 0 && (cpu.idle == 0 || cpu.iowait != 0) {
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

/// A union's length so far; see `isobar_ebpf::Open`.
fn length(union: Open, now: u64) -> Nanos {
    let open = if union.open == 0 { 0 } else { now };
    Nanos(union.sum.wrapping_add(open))
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

/// The node's entry counts every task's time itself.
fn node_memory(memory: &Memory, now: u64) -> MemoryStall {
    let sum = Share { time: memory.time, count: memory.count, ..Share::default() };
    group_stall(&sum, None, Some(memory_unions(memory, now))).memory
}

fn aggression((pair, time): &(Pair, u64)) -> Aggression {
    Aggression {
        victim: CgroupId(pair.victim),
        aggressor: CgroupId(pair.aggressor),
        time: Nanos(*time),
    }
}

fn lost(cpus: &[Cpu]) -> Lost {
    let sum = |field: fn(&Cpu) -> u64| cpus.iter().map(field).sum();
    Lost {
        cgroups: sum(|cpu| cpu.lost_groups),
        pairs: sum(|cpu| cpu.lost_pairs),
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
