//! The kubelet's own cases, and properties.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryStat};
use crate::model::fraction::Fraction;
use crate::model::node::{Filesystem, Filesystems, Meminfo};
use crate::model::quantity::Quantity;
use crate::model::threshold::Amount;
use crate::model::units::Bytes;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

fn bytes(n: u64) -> Amount {
    Amount::Quantity(Quantity::bytes(n))
}

fn percent(n: u8) -> Amount {
    Amount::Percentage(Fraction::of_percent(f32::from(n)).unwrap())
}

fn threshold(signal: Signal, value: Amount) -> Threshold {
    Threshold { signal, value, grace: Nanos(0), min_reclaim: None }
}

fn seen(signal: Signal, available: u64, capacity: u64, at: Nanos) -> Observation {
    Observation { signal, available, capacity, at }
}

fn judge_at(
    second: u64,
    thresholds: &[Threshold],
    observations: &[Observation],
    standing: &mut ThresholdStanding,
) -> Verdict {
    let mut sample = Sample::default();
    sample.at.boot = seconds(second);
    judge(&Eviction::default(), thresholds, observations, &sample, standing)
}

#[test]
fn threshold_met_strictly_below() {
    let min = Some(bytes(500 * MIB));
    let one = Threshold { min_reclaim: min, ..threshold(Signal::MemoryAvailable, bytes(GIB)) };
    let share = Threshold {
        min_reclaim: Some(percent(5)),
        ..threshold(Signal::MemoryAvailable, percent(20))
    };
    #[rustfmt::skip]
    let table = [
        // threshold, available, capacity, met, met until its minimum reclaim is there
        (one,   500 * MIB,       4 * GIB,     true,  true),
        (one,   2 * GIB,         4 * GIB,     false, false),
        (one,   GIB,             4 * GIB,     false, true), // exactly the threshold is not met
        (one,   GIB - 1,         4 * GIB,     true,  true),
        (one,   GIB * 105 / 100, 4 * GIB,     false, true),
        (one,   GIB + 500 * MIB, 4 * GIB,     false, false),
        (share, 100 * MIB,       1_000 * MIB, true,  true),
        (share, 225 * MIB,       1_000 * MIB, false, true),
        (share, 300 * MIB,       1_000 * MIB, false, false),
    ];
    for (threshold, available, capacity, met, held) in table {
        let seen = seen(Signal::MemoryAvailable, available, capacity, Nanos(0));
        assert_eq!(below(&threshold, &seen), met, "{available}");
        assert_eq!(wanted(&threshold, &seen) > seen.available, held, "{available}");
    }
}

#[test]
fn threshold_percent_of_capacity() {
    let thresholds = [
        threshold(Signal::MemoryAvailable, percent(20)),
        threshold(Signal::NodefsAvailable, percent(30)),
    ];
    use Signal::{MemoryAvailable as Memory, NodefsAvailable as Nodefs};
    #[rustfmt::skip]
    let table: &[(u64, u64, &[Signal])] = &[
        // memory of 1000Mi, nodefs of 1000Gi, met
        (100, 100, &[Memory, Nodefs]),
        (300, 400, &[]),
        (300, 100, &[Nodefs]),
        (100, 400, &[Memory]),
    ];
    for (memory, nodefs, want) in table {
        let observations = [
            seen(Memory, memory * MIB, 1_000 * MIB, Nanos(0)),
            seen(Nodefs, nodefs * GIB, 1_000 * GIB, Nanos(0)),
        ];
        let got = judge_at(1, &thresholds, &observations, &mut ThresholdStanding::default());
        assert_eq!(signals(&got), *want, "memory {memory}Mi nodefs {nodefs}Gi");
    }
}

fn signals(verdict: &Verdict) -> Vec<Signal> {
    let signal = |met: &Met| match met.threshold {
        Trigger::Eviction(threshold) => threshold.signal,
        Trigger::Pressure(_) => unreachable!("none was given"),
    };
    verdict.met.iter().map(signal).collect()
}

#[test]
fn threshold_reading_counts_once() {
    #[rustfmt::skip]
    let table = [
        // read at, last read at, is new
        (0, Some(5), true),  // undated
        (5, None,    true),
        (4, Some(5), false),
        (5, Some(5), false),
        (6, Some(5), true),
    ];
    for (read, last, want) in table {
        assert_eq!(is_newer(Nanos(read), last.map(Nanos)), want, "{read} after {last:?}");
    }
    let mut standing = ThresholdStanding::default();
    let mut fresh = |read: u64| {
        let seen = seen(Signal::NodefsAvailable, 1, 2, seconds(read));
        judge_at(1, &[], &[seen], &mut standing).fresh.len()
    };
    assert_eq!([fresh(1), fresh(1), fresh(2)], [1, 0, 1]);
}

#[test]
fn threshold_grace() {
    let soft = threshold(Signal::MemoryAvailable, bytes(2 * GIB));
    let soft = Threshold { grace: seconds(60), ..soft };
    let hard = threshold(Signal::MemoryAvailable, bytes(GIB));
    let (low, none) = (Some(GIB), None);
    #[rustfmt::skip]
    let table = [
        // second, available, is met since and due
        (0,   low,           Some((0, false))),
        (59,  low,           Some((0, false))),
        (60,  low,           Some((0, true))),
        (61,  Some(2 * GIB), None), // left: the timer is gone
        (62,  low,           Some((62, false))),
        (80,  none,          None), // no reading is no shortage, as in the kubelet
        (81,  low,           Some((81, false))),
        (142, low,           Some((81, true))),
        (100, low,           Some((81, false))), // a clock that ran backwards
        (70,  low,           Some((70, false))),
    ];
    let mut standing = ThresholdStanding::default();
    for (second, available, want) in table {
        let read = available.map(|n| seen(Signal::MemoryAvailable, n, 4 * GIB, seconds(second)));
        let read: Vec<_> = read.into_iter().collect();
        let got = judge_at(second, &[soft], &read, &mut standing);
        let got = got.met.first().map(|met| (met.since.0 / Nanos::SECOND.0, met.is_due));
        assert_eq!(got, want, "second {second}");
    }
    let seen = [seen(Signal::MemoryAvailable, 0, GIB, seconds(1))];
    let got = judge_at(1, &[hard], &seen, &mut ThresholdStanding::default());
    assert!(got.met[0].is_due, "a hard threshold has no grace: {got:?}");
}

#[test]
fn threshold_order() {
    use Signal::{
        AllocatableMemoryAvailable as Allocatable, ContainerfsAvailable as Containerfs,
        ImagefsAvailable as Imagefs, MemoryAvailable as Memory, NodefsAvailable as Nodefs,
        PidAvailable as Pid,
    };
    #[rustfmt::skip]
    let table: &[(&[Signal], &[Signal])] = &[
        (&[Nodefs, Pid, Memory],      &[Memory, Nodefs, Pid]),
        (&[Nodefs, Pid, Allocatable], &[Allocatable, Nodefs, Pid]),
        (&[],                         &[]),
        (&[Allocatable, Memory, Imagefs, Nodefs, Containerfs], &[Allocatable, Memory, Imagefs, Nodefs, Containerfs]),
    ];
    for (configured, want) in table {
        let thresholds: Vec<_> =
            configured.iter().map(|s| threshold(*s, bytes(150 * MIB))).collect();
        let seen: Vec<_> = configured.iter().map(|s| seen(*s, 50 * MIB, GIB, seconds(1))).collect();
        let got = judge_at(1, &thresholds, &seen, &mut ThresholdStanding::default());
        assert_eq!(signals(&got), *want, "{configured:?}");
    }
}

/// The kubelet's timeline of memory, minute by minute: hard below 1Gi, soft below 2Gi for two
/// minutes, a transition period of five.
#[test]
fn threshold_kubelet_timeline() {
    let hard = threshold(Signal::MemoryAvailable, bytes(GIB));
    let soft = threshold(Signal::MemoryAvailable, bytes(2 * GIB));
    let thresholds = [hard, Threshold { grace: seconds(120), ..soft }];
    let (none, insufficient) = (&[][..], &["NodeHasInsufficientMemory"][..]);
    let sufficient = &["NodeHasSufficientMemory"][..];
    #[rustfmt::skip]
    let table = [
        // minute, available, pressure, grace of what is due, events
        (0,  2_048, false, None,      none),
        (1,  1_500, true,  None,      insufficient), // the soft one is in its grace period
        (4,  1_500, true,  Some(120), none),         // evicts with the soft one's grace
        (24, 3_072, false, None,      sufficient),
        (25, 500,   true,  Some(0),   insufficient), // evicts at once
        (26, 2_048, true,  None,      none),         // within the transition period
        (31, 2_048, false, None,      sufficient),
    ];
    let mut standing = ThresholdStanding::default();
    for (minute, available, pressure, due, events) in table {
        let now = minute * 60;
        let read = [seen(Signal::MemoryAvailable, available * MIB, 4 * GIB, seconds(now))];
        let got = judge_at(now, &thresholds, &read, &mut standing);
        let want = if pressure { vec![NodePressure::MemoryPressure] } else { Vec::new() };
        assert_eq!(got.pressure, want, "minute {minute}");
        let first = got.met.iter().find(|met| met.is_due);
        let grace = first.map(|met| match met.threshold {
            Trigger::Eviction(threshold) => threshold.grace.0 / Nanos::SECOND.0,
            Trigger::Pressure(_) => unreachable!("none was given"),
        });
        assert_eq!(grace, due, "minute {minute}");
        let reasons: Vec<_> = got.events.iter().map(|event| event.reason.as_str()).collect();
        assert_eq!(reasons, events, "minute {minute}");
    }
}

#[test]
fn threshold_transition_period() {
    let hard = [threshold(Signal::PidAvailable, Amount::Quantity(Quantity::count(10)))];
    #[rustfmt::skip]
    let table = [
        // second, available, pressure
        (0,   5,  true),
        (299, 50, true),
        (300, 50, false), // strictly less
    ];
    let mut standing = ThresholdStanding::default();
    for (second, available, want) in table {
        let read = [seen(Signal::PidAvailable, available, 100, seconds(second))];
        let got = judge_at(second, &hard, &read, &mut standing);
        assert_eq!(got.pressure == [NodePressure::PidPressure], want, "second {second}");
    }
}

#[test]
fn threshold_min_reclaim() {
    let min_reclaim = Some(bytes(500 * MIB));
    let hard = Threshold { min_reclaim, ..threshold(Signal::MemoryAvailable, bytes(GIB)) };
    #[rustfmt::skip]
    let table = [
        // configured, available, what is missing
        (true,  GIB + 100 * MIB, None),            // was never due
        (true,  GIB - 100 * MIB, Some(600 * MIB)),
        (true,  GIB + 100 * MIB, Some(400 * MIB)),
        (true,  GIB + 499 * MIB, Some(MIB)),
        (true,  GIB + 500 * MIB, None),
        (true,  GIB + 100 * MIB, None),
        (true,  0,               Some(GIB + 500 * MIB)),
        (false, GIB + 100 * MIB, None),            // a new configuration has dropped it
    ];
    let mut standing = ThresholdStanding::default();
    for (second, (configured, available, want)) in (1..).zip(table) {
        let thresholds = if configured { vec![hard] } else { Vec::new() };
        let read = [seen(Signal::MemoryAvailable, available, 4 * GIB, seconds(second))];
        let got = judge_at(second, &thresholds, &read, &mut standing);
        let missing = got.met.first().and_then(|met| met.missing);
        assert_eq!(missing, want, "second {second}");
    }
}

#[test]
fn threshold_containerfs() {
    let disk = |device| Some(Filesystem { device, ..Filesystem::default() });
    let nodefs = threshold(Signal::NodefsAvailable, percent(10));
    let imagefs = threshold(Signal::ImagefsAvailable, percent(15));
    let inodes = threshold(Signal::ImagefsInodesFree, percent(5));
    let own = threshold(Signal::ContainerfsAvailable, percent(50));
    let containerfs = |value| threshold(Signal::ContainerfsAvailable, value);
    let containerfs_inodes = threshold(Signal::ContainerfsInodesFree, percent(5));
    #[rustfmt::skip]
    let table = [
        // devices of nodefs, imagefs, containerfs; what is added
        (disk(1), disk(1), disk(1), vec![containerfs(percent(10))]), // a single file system
        (disk(1), disk(2), disk(1), vec![containerfs(percent(10))]), // images apart
        (disk(1), disk(2), disk(2), vec![containerfs(percent(15)), containerfs_inodes]),
        (disk(1), None,    None,    vec![]), // no runtime known
    ];
    for (node, image, container, added) in table {
        let filesystems =
            Filesystems { at: Nanos(0), nodefs: node, imagefs: image, containerfs: container };
        let got = rewritten(&[nodefs, own, imagefs, inodes], &filesystems);
        let want: Vec<_> = [nodefs, imagefs, inodes].into_iter().chain(added).collect();
        assert_eq!(got, want, "{filesystems:?}");
    }
}

#[test]
fn threshold_event_numbers() {
    let hard = [threshold(Signal::MemoryAvailable, bytes(100 * MIB))];
    let read = [seen(Signal::MemoryAvailable, 90 * MIB, GIB, seconds(1))];
    let got = judge_at(1, &hard, &read, &mut ThresholdStanding::default());
    let want = "Node status is now: NodeHasInsufficientMemory: memory.available is 90Mi, the \
                threshold is 100Mi";
    assert_eq!(got.events[0].message, want);
}

#[test]
fn threshold_event_tells_of_page_cache() {
    let told = "; what is missing is mostly page cache, MemAvailable is ";
    #[rustfmt::skip]
    let table = [
        // MiB of the signal, cache in use, MemAvailable; what is told, where 100 are wanted
        (60, Some(500), Some(560), Some("560Mi")),
        (60, Some(21),  Some(560), Some("560Mi")), // more than half of 40
        (60, Some(20),  Some(560), None),
        (60, Some(500), Some(80),  None),          // the kernel counts it as used, too
        (60, Some(500), Some(81),  Some("81Mi")),
        (60, Some(500), Some(30),  None),
        (60, Some(500), None,      None),
        (60, None,      Some(560), None),
    ];
    for signal in [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable] {
        for (left, active, available, want) in table {
            let mut sample = Sample::default();
            let stat = |mib| MemoryStat { active_file: Bytes(mib * MIB), ..MemoryStat::default() };
            let mut root = Cgroup { path: CgroupPath::root(), ..Cgroup::default() };
            root.memory.stat = active.map(stat);
            sample.cgroups = [(CgroupId::ROOT, Arc::new(root))].into();
            sample.node.memory =
                available.map(|mib| Meminfo { available: Bytes(mib * MIB), ..Meminfo::default() });
            let hard = [threshold(signal, bytes(100 * MIB))];
            let read = [seen(signal, left * MIB, GIB, seconds(0))];
            let (eviction, mut standing) = (Eviction::default(), ThresholdStanding::default());
            let got = judge(&eviction, &hard, &read, &sample, &mut standing);
            let got = &got.events[0].message;
            let want = want.filter(|_| signal == Signal::MemoryAvailable);
            let row = format!("{signal} {left} {active:?} {available:?}: {got}");
            assert_eq!(got.split_once(told).map(|(_, left)| left), want, "{row}");
        }
    }
}

proptest! {
    #[test]
    fn threshold_met_iff_numbers(
        readings in proptest::collection::vec((0..400_u64, proptest::option::of(0..40_u64)), 1..60),
        min in 0..5_u64,
        grace in 0..5_u64,
    ) {
        let min_reclaim = Some(bytes(min));
        let threshold = threshold(Signal::MemoryAvailable, bytes(20));
        let threshold = Threshold { grace: seconds(grace), min_reclaim, ..threshold };
        let mut standing = ThresholdStanding::default();
        let mut was_due = false;
        // Seconds come in any order: a clock may stand still and run backwards.
        for (second, available) in readings {
            let read = available.map(|n| seen(Signal::MemoryAvailable, n, 40, seconds(second)));
            let read: Vec<_> = read.into_iter().collect();
            let got = judge_at(second, &[threshold], &read, &mut standing);
            let want = available.is_some_and(|n| n < 20 || (was_due && n < 20 + min));
            prop_assert_eq!(!got.met.is_empty(), want);
            if want {
                prop_assert_eq!(&got.pressure, &[NodePressure::MemoryPressure]);
                prop_assert!(got.met[0].since <= seconds(second));
            }
            was_due = got.met.first().is_some_and(|met| met.is_due);
        }
        let json = serde_json::to_string(&standing).unwrap();
        prop_assert_eq!(serde_json::from_str::<ThresholdStanding>(&json).unwrap(), standing);
    }
}
