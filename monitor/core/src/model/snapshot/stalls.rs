//! Waits and stalls of one scope in one interval, from its eBPF counters.

use std::iter::repeat;

use super::averages::{Meter, Meters};
use super::counters::Counters;
use super::delta::Deltas;
use super::{CpuWait, MemoryCauseWait, MemoryWait, Scope, Waited};
use crate::model::stall::{CpuStall, GroupStall, MemoryStall};
use crate::model::units::{MilliCpu, Nanos, Percent};

/// Fills in what was measured in both samples. `request` is the CPU time that the scope requests.
pub(super) fn fill(
    scope: &mut Scope,
    before: Counters<'_>,
    after: Counters<'_>,
    request: Option<MilliCpu>,
    deltas: &mut Deltas<'_>,
    meters: &mut Meters,
) {
    if let Some((before, after)) = before.cpus.zip(after.cpus) {
        let (mean, per_cpu) = contention(before, after, deltas);
        let contended = deltas.stretch(mean);
        scope.contention = Some(Meter::add(&mut meters.contention, contended));
        scope.contention_per_cpu = per_cpu;
        scope.below_request = request.zip(scope.cpu_usage).map(|(request, used)| {
            let below = if used < request { contended } else { contended.calm() };
            Meter::add(&mut meters.below_request, below)
        });
    }
    let tells_causes = before.split && after.split;
    let has_io = before.has_io && after.has_io;
    if let Some((before, after)) = before.waits.zip(after.waits) {
        let cpu = CpuWait {
            wait: deltas.waited(before.wait, after.wait),
            n_waits: deltas.count(before.n_waits, after.n_waits),
            ..CpuWait::default()
        };
        let cpu = if tells_causes { split_by_cause(cpu, before, after, deltas) } else { cpu };
        scope.cpu = Some(cpu);
        if has_io {
            scope.io_wait = Some(deltas.waited(before.io_wait, after.io_wait));
        }
    }
    if let Some((before, after)) = before.memory.zip(after.memory) {
        let shortage = deltas.union(before.shortage, after.shortage);
        scope.shortage = Some(Meter::add(&mut meters.shortage, deltas.stretch(shortage)));
        scope.memory = Some(memory_wait(before, after, deltas));
    }
}

/// The mean of all CPUs' contention, weighted by non-idle time, and each CPU's own share:
/// `sum(union * nonidle) / sum(nonidle)`, `collect_percpu_times` in kernel/sched/psi.c.
///
/// PSI weights intervals of at most two seconds; the agent's are of one. Shorter intervals lose
/// less of a cgroup whose tasks change CPUs.
fn contention(
    before: &[CpuStall],
    after: &[CpuStall],
    deltas: &mut Deltas<'_>,
) -> (Nanos, Vec<Percent>) {
    let (mut weighted, mut weight) = (0_u128, 0_u128);
    let mut per_cpu = Vec::with_capacity(after.len());
    let before = before.iter().copied().chain(repeat(CpuStall::default()));
    for (before, after) in before.zip(after) {
        let union = deltas.union(before.contention, after.contention);
        let nonidle = deltas.union(before.nonidle, after.nonidle);
        // A CPU with a waiting task is not idle, even if the two counters were read apart.
        let nonidle = nonidle.max(union);
        weighted = weighted.saturating_add(u128::from(union.0) * u128::from(nonidle.0));
        weight += u128::from(nonidle.0);
        per_cpu.push(deltas.share(union));
    }
    let mean = u64::try_from(weighted / weight.max(1)).expect("a mean is no more than the largest");
    (Nanos(mean), per_cpu)
}

/// Adds causes and histogram. Without causes the histogram would show throttling as contention.
fn split_by_cause(
    all: CpuWait,
    before: &GroupStall,
    after: &GroupStall,
    deltas: &mut Deltas<'_>,
) -> CpuWait {
    let own = deltas.waited(before.throttled_own, after.throttled_own);
    let ancestor = deltas.waited(before.throttled_ancestor, after.throttled_ancestor);
    let contention =
        Waited { now: all.wait.now.since(own.now.plus(ancestor.now)), total: after.contention() };
    let buckets = before.histogram.iter().copied().chain(repeat(0)).zip(&after.histogram);
    CpuWait {
        contention: Some(contention),
        throttled_own: Some(own),
        throttled_ancestor: Some(ancestor),
        histogram: buckets.map(|(before, &after)| deltas.count(before, after)).collect(),
        ..all
    }
}

fn memory_wait(before: &MemoryStall, after: &MemoryStall, deltas: &mut Deltas<'_>) -> MemoryWait {
    let any = deltas.union_waited(before.any, after.any);
    let causes = after.causes.iter().map(|(&cause, after)| {
        let before = before.causes.get(&cause).copied().unwrap_or_default();
        let wait = MemoryCauseWait {
            union: deltas.union_waited(before.union, after.union),
            time: deltas.waited(before.time, after.time),
            count: deltas.count(before.count, after.count),
        };
        (cause, wait)
    });
    MemoryWait { any, causes: causes.collect() }
}
