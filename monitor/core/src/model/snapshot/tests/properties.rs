//! What must hold for any two samples, however absurd.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::model::psi::{Line, Pressure, Pressures};
use crate::model::stall::{Aggression, CauseStall, MemoryStall};

/// Mostly plausible growths, at times the edges of the range.
fn nanos() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        8 => (0..20_000_000_000_u64).prop_map(Nanos),
        1 => any::<u64>().prop_map(Nanos),
        1 => Just(Nanos(u64::MAX)),
    ]
}

fn id() -> impl Strategy<Value = CgroupId> {
    (0..6_u64).prop_map(CgroupId)
}

prop_compose! {
    fn cpu()(contention in nanos(), nonidle in nanos(), switches in any::<u64>()) -> CpuStall {
        CpuStall { contention, nonidle, switches }
    }
}

prop_compose! {
    fn cause()(union in nanos(), time in nanos(), count in any::<u64>()) -> CauseStall {
        CauseStall { union, time, count }
    }
}

prop_compose! {
    fn memory()(
        any in nanos(),
        shortage in nanos(),
        causes in prop::collection::btree_map(select(&MemoryCause::ALL[..]), cause(), 0..3),
    ) -> MemoryStall {
        MemoryStall { any, shortage, causes }
    }
}

prop_compose! {
    fn group()(
        cpus in prop::collection::vec(cpu(), 0..3),
        waits in [nanos(), nanos(), nanos(), nanos()],
        n_waits in any::<u64>(),
        histogram in prop::collection::vec(any::<u64>(), 0..4),
        memory in memory(),
    ) -> GroupStall {
        let [wait, throttled_own, throttled_ancestor, io_wait] = waits;
        GroupStall {
            cpus, wait, throttled_own, throttled_ancestor, n_waits, histogram, io_wait,
            n_io_waits: n_waits, memory,
        }
    }
}

prop_compose! {
    fn stalls()(
        clock in nanos(),
        covers in prop::array::uniform4(any::<bool>()),
        cpus in prop::collection::vec(cpu(), 0..3),
        memory in memory(),
        groups in prop::collection::btree_map(id(), group().prop_map(Arc::new), 0..4),
        matrix in prop::collection::vec((id(), id(), nanos()), 0..6),
        lost in 0..2_u64,
    ) -> KernelStalls {
        let [waits, throttling, memory_too, memory_causes] = covers;
        let pair = |(victim, aggressor, time)| Aggression { victim, aggressor, time };
        KernelStalls {
            clock,
            covers: Coverage { waits, throttling, memory: memory_too, memory_causes, oom_kills: true },
            cpus,
            memory,
            groups,
            matrix: matrix.into_iter().map(pair).collect(),
            lost: Lost { cgroups: lost, ..Lost::default() },
            ..KernelStalls::default()
        }
    }
}

prop_compose! {
    fn files()(path in 0..4_u8, usage in prop::option::of(any::<u64>()), total in any::<u64>())
        -> Cgroup {
        let mut files = cgroup(&"/a".repeat(path.into()));
        if path == 0 {
            files.path = CgroupPath::root();
        }
        files.cpu.usage = usage.map(Micros);
        let some = Some(Line { total: Micros(total), ..Line::default() });
        let (cpu, io) = (Pressure { some, full: None }, Pressure { some, full: some });
        files.pressure = Pressures { cpu: Some(cpu), io: Some(io), ..Pressures::default() };
        files
    }
}

prop_compose! {
    fn any_sample()(
        boot in nanos(),
        wall in nanos(),
        cgroups in prop::collection::btree_map(id(), files(), 0..5),
        kernel in prop::option::weighted(0.9, stalls()),
    ) -> Sample {
        let cgroups = cgroups.into_iter().map(|(id, files)| (id, Arc::new(files))).collect();
        Sample { at: Moment { boot, wall }, cgroups, kernel, ..Sample::default() }
    }
}

/// Every snapshot of a run as JSON, line by line.
fn replay(samples: &[Sample], averages: &mut Averages) -> Vec<String> {
    let mut prev = None;
    let mut lines = Vec::new();
    for next in samples {
        let snapshot = Snapshot::between(prev, next, averages);
        lines.push(serde_json::to_string(&snapshot).expect("a snapshot is plain"));
        prev = Some(next);
    }
    lines
}

fn shares(snapshot: &Snapshot) -> impl Iterator<Item = Percent> {
    let scopes = snapshot.scopes.values().chain([&snapshot.whole]);
    scopes.flat_map(|scope| {
        let unions = scope.contention.into_iter().chain(scope.shortage);
        let shares = unions.flat_map(|u| [u.now, u.avg10, u.avg60, u.avg300]);
        shares.chain(scope.contention_per_cpu.iter().copied()).collect::<Vec<_>>()
    })
}

proptest! {
    #[test]
    fn between_never_panics_nor_exceeds_the_interval(
        samples in prop::collection::vec(any_sample(), 1..6),
    ) {
        let mut averages = Averages::new(2);
        let mut doubts = Doubts::default();
        for pair in samples.windows(2) {
            let snapshot = Snapshot::between(Some(&pair[0]), &pair[1], &mut averages);
            prop_assert!(shares(&snapshot).all(|share| share <= Percent::FULL));
            prop_assert!(snapshot.doubts.backwards >= doubts.backwards);
            prop_assert!(snapshot.doubts.too_fast >= doubts.too_fast);
            prop_assert!(snapshot.aggressions.is_sorted_by(|a, b| a.time >= b.time));
            doubts = snapshot.doubts;
        }
    }

    /// An agent shares what has not changed between two samples, and a recording need not.
    #[test]
    fn between_is_the_same_whether_cgroups_are_shared(first in any_sample(), passed in 1..5_u64) {
        let boot = first.at.boot.plus(Nanos(passed * Nanos::SECOND.0));
        let shared = Sample { at: Moment { boot, ..first.at }, ..first.clone() };
        let copied = shared.cgroups.iter().map(|(id, one)| (*id, Arc::new(Cgroup::clone(one))));
        let own = Sample { cgroups: copied.collect(), ..shared.clone() };
        prop_assert_eq!(between(&first, &shared), between(&first, &own));
    }

    #[test]
    fn between_is_deterministic(
        samples in prop::collection::vec(any_sample(), 1..5),
        cut in 0..5_usize,
    ) {
        let whole = replay(&samples, &mut Averages::new(2));
        prop_assert_eq!(&whole, &replay(&samples, &mut Averages::new(2)));

        // Begun in mid-life, from averages that were written down and read again.
        let cut = cut.min(samples.len() - 1);
        let mut averages = Averages::new(2);
        replay(&samples[..=cut], &mut averages);
        let stored = serde_json::to_string(&averages).expect("averages are plain");
        let mut restored: Averages = serde_json::from_str(&stored).expect("they read back");
        let mut rest = Vec::new();
        for pair in samples[cut..].windows(2) {
            let snapshot = Snapshot::between(Some(&pair[0]), &pair[1], &mut restored);
            rest.push(serde_json::to_string(&snapshot).expect("a snapshot is plain"));
        }
        prop_assert_eq!(&whole[cut + 1..], &rest[..]);
    }

    #[test]
    fn between_ignores_the_order_of_pairs(
        samples in (any_sample(), any_sample()),
    ) {
        let (prev, next) = samples;
        let straight = between(&prev, &next);
        let [prev, next] = [prev, next].map(|mut sample| {
            if let Some(kernel) = &mut sample.kernel {
                kernel.matrix.reverse();
                kernel.short_lived.reverse();
            }
            sample
        });
        prop_assert_eq!(straight, between(&prev, &next));
    }

    #[test]
    fn between_keeps_cgroups_apart(samples in (any_sample(), any_sample())) {
        let (mut prev, mut next) = samples;
        let both = between(&prev, &next);
        for sample in [&mut prev, &mut next] {
            sample.cgroups.remove(&CgroupId(3));
        }
        let without = between(&prev, &next);
        for (id, scope) in &without.scopes {
            prop_assert_eq!(Some(scope), both.scopes.get(id));
        }
    }
}
