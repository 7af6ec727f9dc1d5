//! Leaks, spikes, cache and thrash, second by second, and properties.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::cgroup::{Cgroup, MemoryFiles, MemoryStat};
use crate::model::node::Meminfo;
use crate::model::snapshot::Union;
use crate::model::stall::{Coverage, KernelStalls};

const MIB: u64 = 1 << 20;

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

/// A node of 1,000 MiB, in MiB: available, free, swap used; and what its reclaim did.
fn node(at: Nanos, memory: (u64, u64, u64), reclaim: Option<Reclaim>) -> Sample {
    let (available, free, swapped) = memory;
    let mut sample = Sample::default();
    sample.at.boot = at;
    sample.node.memory = Some(Meminfo {
        total: Bytes(1_000 * MIB),
        free: Bytes(free * MIB),
        available: Bytes(available * MIB),
        swap_total: Bytes(4_000 * MIB),
        swap_free: Bytes((4_000 - swapped) * MIB),
        ..Meminfo::default()
    });
    sample.node.reclaim = reclaim;
    sample
}

/// The node's outlook after samples one second apart.
fn after(samples: impl IntoIterator<Item = Sample>) -> Outlook {
    let mut standing = GrowthStanding::default();
    let all = samples
        .into_iter()
        .map(|sample| outlooks(&sample, None, Limited::default(), &mut standing));
    *all.last().expect("a sample").first().expect("the node")
}

fn scanned(scanned: u64, reclaimed: u64, refaults: u64) -> Option<Reclaim> {
    Some(Reclaim { scanned, reclaimed, refaults })
}

#[test]
fn growth_time_left() {
    type Course = fn(u64) -> (u64, u64, u64);
    type Row = (&'static str, u64, Course, u64, Option<u64>, Option<u64>);
    #[rustfmt::skip]
    let table: &[Row] = &[
        // what, seconds, MiB available, free and swapped at a second; left, growth, lasts (seconds)
        ("idle",            20, |_| (500, 100, 0),                500, Some(0),  None),
        ("one reading",     0,  |_| (500, 100, 0),                500, None,     None),
        ("one second",      1,  |t| (500 - 10 * t, 100, 0),       490, None,     None),
        ("leak",            20, |t| (500 - 5 * t, 100, 0),        400, Some(5),  Some(80)),
        ("leak, nearly",    90, |t| (500 - 5 * t, 10, 0),         50,  Some(5),  Some(10)),
        ("leak into swap",  30, |t| (20, 10, 20 * t),             20,  Some(20), Some(1)),
        ("nothing left",    20, |t| (0, 0, 5 * t),                0,   Some(5),  Some(0)),
        ("cold pages out",  20, |t| (100 + 5 * t, 10, 5 * t),     200, Some(0),  None), // swapped, and given back
        ("cache is filled", 20, |t| (500, 400 - 20 * t, 0),       500, Some(0),  None), // it could go at once
        ("given back",      20, |t| (100 + 5 * t, 50, 0),         200, Some(0),  None),
        ("a spike ended",   30, |t| (if t < 12 { 800 - 50 * t } else { 800 }, 100, 0), 800, Some(0), None),
    ];
    for (what, n, course, left, growth, lasts) in table {
        let got = after((0..=*n).map(|t| node(seconds(t), course(t), None)));
        assert_eq!(got.left, Some(Bytes(left * MIB)), "{what}");
        assert_eq!(got.growth, growth.map(|mib| Bytes(mib * MIB)), "{what}");
        assert_eq!(got.lasts, lasts.map(seconds), "{what}");
        assert_eq!((got.efficiency, got.refaults), (None, None), "{what}: no counters were read");
    }
}

#[test]
fn growth_counts_reclaimable_cache() {
    #[rustfmt::skip]
    let table = [
        // scanned and reclaimed a second, left of 100 MiB free and 400 MiB cache, efficiency
        (10_000, 9_000, 500, Some(Percent(90_00))), // streaming reads: pages go as fast as they come
        (10_000, 4_000, 500, Some(Percent(40_00))),
        (10_000, 2_250, 300, Some(Percent(22_50))), // half way between
        (10_000, 500,   100, Some(Percent(5_00))),
        (10_000, 0,     100, Some(Percent(0))),     // reclaim in vain: only what is free is left
        (40,     0,     500, None),                 // too few to tell
        (0,      0,     500, None),
    ];
    for (scan, steal, left, efficiency) in table {
        let samples =
            (0..=10).map(|t| node(seconds(t), (500, 100, 0), scanned(scan * t, steal * t, 0)));
        let got = after(samples);
        assert_eq!(got.efficiency, efficiency, "{scan} {steal}");
        assert_eq!(got.left, Some(Bytes(left * MIB)), "{scan} {steal}");
    }
}

#[test]
fn low_counts_no_huge_pages() {
    #[rustfmt::skip]
    let table = [
        // MiB left of 1000, in huge pages; is memory low
        (100, 0,   true),
        (101, 0,   false),
        (90,  200, false), // a tenth of 800
        (80,  200, true),
        (10,  950, false),
    ];
    for (left, huge, want) in table {
        let mut sample = node(seconds(1), (left, left, 0), None);
        sample.node.memory.as_mut().unwrap().hugetlb = Bytes(huge * MIB);
        let outlook = after([sample.clone()]);
        let is_low = low(&[outlook], &sample, None) == [ScopeName::System];
        assert_eq!(is_low, want, "{left} {huge}");
    }
}

#[test]
fn growth_refaults_per_second() {
    #[rustfmt::skip]
    let table = [
        // refaults a second, seconds, per second
        (0,     10, Some(0)),
        (7_000, 10, Some(7_000)),
        (7_000, 30, Some(7_000)),
        (7_000, 1,  None), // too short
    ];
    for (refaults, n, want) in table {
        let samples = (0..=n).map(|t| node(seconds(t), (900, 800, 0), scanned(0, 0, refaults * t)));
        assert_eq!(after(samples).refaults, want, "{refaults} over {n}");
    }
}

#[test]
fn growth_refaults_of_the_last_second() {
    let mut standing = GrowthStanding::default();
    // Seven seconds of thrash, and three in which nothing was read back.
    let latest = (0..=10).map(|t: u64| {
        let sample = node(seconds(t), (900, 800, 0), scanned(0, 0, 7_000 * t.min(7)));
        outlooks(&sample, None, Limited::default(), &mut standing);
        standing.latest_refaults(ScopeName::System)
    });
    let want = [vec![None; 2], vec![Some(7_000); 6], vec![Some(0); 3]].concat();
    assert_eq!(latest.collect::<Vec<_>>(), want);
}

/// All pods, in MiB: limit, current, inactive and active cache.
fn pods(limit: Option<Limit>, current: u64, inactive: u64, active: u64) -> Scope {
    let (inactive_file, active_file) = (Bytes(inactive * MIB), Bytes(active * MIB));
    let stat = MemoryStat { inactive_file, active_file, ..MemoryStat::default() };
    let memory = MemoryFiles {
        max: limit,
        current: Some(Bytes(current * MIB)),
        stat: Some(stat),
        ..MemoryFiles::default()
    };
    Scope { files: Some(Cgroup { memory, ..Cgroup::default() }.into()), ..Scope::default() }
}

#[test]
fn growth_of_kubepods() {
    type Course = fn(u64) -> (u64, u64, u64);
    type Row = (&'static str, Option<Limit>, Course, u64, Option<u64>, u64, Option<u64>);
    let at = Some(Limit::At(1_000 * MIB));
    #[rustfmt::skip]
    let table: &[Row] = &[
        // what, limit, current, inactive and active cache at a second, refaults a second; left, growth, lasts at second 10
        ("leak",          at,               |t| (800 + 10 * t, 0, 0),          0,     Some(100), 10, Some(10)),
        ("cache filled",  at,               |t| (800 + 20 * t, 20 * t, 0),     0,     Some(200), 0,  None),
        ("cache used",    at,               |t| (1_000, 400 - 20 * t, 20 * t), 0,     Some(400), 0,  None),
        ("read back",     at,               |t| (1_000, 400 - 20 * t, 20 * t), 2_000, Some(200), 20, Some(10)),
        ("full of cache", at,               |_| (1_000, 600, 0),               0,     Some(600), 0,  None),
        ("no limit",      Some(Limit::Max), |t| (800 + 10 * t, 0, 0),          0,     None,      10, None),
        ("limit unread",  None,             |t| (800 + 10 * t, 0, 0),          0,     None,      10, None),
    ];
    for (what, limit, course, refaults, left, growth, lasts) in table {
        let mut standing = GrowthStanding::default();
        let mut got = Vec::new();
        for t in 0..=10 {
            let (current, inactive, active) = course(t);
            let mut sample = Sample::default();
            sample.at.boot = seconds(t);
            let mut kubepods = pods(*limit, current, inactive, active);
            let files = Arc::make_mut(kubepods.files.as_mut().unwrap());
            files.memory.stat.as_mut().unwrap().workingset_refault_file = refaults * t;
            got = outlooks(
                &sample,
                Some((CgroupId(2), &kubepods)),
                Limited::default(),
                &mut standing,
            );
        }
        let [got] = got[..] else { panic!("{what}: {got:?}") };
        assert_eq!(got.scope, ScopeName::Kubepods, "{what}");
        assert_eq!(got.left, left.map(|mib| Bytes(mib * MIB)), "{what}");
        assert_eq!(got.growth, Some(Bytes(growth * MIB)), "{what}");
        assert_eq!(got.lasts, lasts.map(seconds), "{what}");
    }
}

#[test]
fn growth_lasts_until_parties_meet_their_own_limits() {
    type Row<'a> = (&'a [(u64, u64)], Option<u64>);
    #[rustfmt::skip]
    let table: &[Row<'_>] = &[
        // growth and room of limited parties; how long 500 MiB last at 20 a second
        (&[],                   Some(25)),
        (&[(20, 200)],          None),     // all growth ends after 10 s
        (&[(10, 100)],          Some(40)), // 300 are left after 10 s, and 10 a second go on
        (&[(10, 0)],            Some(50)), // it is at its limit
        (&[(20, 0)],            None),
        (&[(20, 500)],          Some(25)), // as much as is left
        (&[(20, 499)],          None),
        (&[(5, 100), (10, 100)], Some(60)), // 300 are left after 10 s, 200 after 20, and 5 a second go on
        (&[(10, 200), (10, 100)], None),
        (&[(30, 300)],          None),     // it takes what others give back
    ];
    for (limited, want) in table {
        let limited: Vec<_> = limited.iter().map(|(a, b)| (a * MIB, b * MIB)).collect();
        let (node_alone, pods_alone) = (
            Limited { node: limited.clone(), ..Limited::default() },
            Limited { pods: limited.clone(), ..Limited::default() },
        );
        let no_limit = Some(25);
        for (limited, want) in [(node_alone, [*want, no_limit]), (pods_alone, [no_limit, *want])] {
            let mut standing = GrowthStanding::default();
            let all = (0..=10).map(|t| {
                let kubepods = pods(Some(Limit::At(1_000 * MIB)), 300 + 20 * t, 0, 0);
                let (sample, id) = (node(seconds(t), (700 - 20 * t, 100, 0), None), CgroupId(2));
                outlooks(&sample, Some((id, &kubepods)), limited.clone(), &mut standing)
            });
            let got: Vec<_> = all.last().unwrap().iter().map(|outlook| outlook.lasts).collect();
            assert_eq!(got, want.map(|lasts| lasts.map(seconds)), "{limited:?}");
        }
    }
}

#[test]
fn growth_ignores_own_limits() {
    #[rustfmt::skip]
    let table = [
        // shortage of all pods over ten seconds, whether causes are known, refaults a second; left of 600 MiB cache, half of it active
        (None,                false, 0,     600), // not measured: nothing is said of it
        (Some(Percent(0)),    true,  0,     600), // a pod reclaims at its own limit
        (Some(Percent(1_00)), true,  0,     0),   // at the limit of all
        (None,                false, 2_000, 300),
        (Some(Percent(0)),    true,  2_000, 600), // and reads back what it drops
        (Some(Percent(0)),    false, 2_000, 300), // it may be the limit of all
        (Some(Percent(1_00)), true,  2_000, 0),
    ];
    for (shortage, memory_causes, refaults, left) in table {
        let what = format!("{shortage:?} {memory_causes} {refaults}");
        let mut standing = GrowthStanding::default();
        let mut got = Vec::new();
        for t in 0..=10 {
            let mut kubepods = pods(Some(Limit::At(1_000 * MIB)), 1_000, 300, 300);
            kubepods.shortage = shortage.map(|avg10| Union { avg10, ..Union::default() });
            let files = Arc::make_mut(kubepods.files.as_mut().unwrap());
            let stat = files.memory.stat.as_mut().unwrap();
            stat.pgscan = 10_000 * t;
            stat.workingset_refault_file = refaults * t;
            let covers = Coverage { memory_causes, ..Coverage::default() };
            let kernel = Some(KernelStalls { covers, ..KernelStalls::default() });
            let mut sample = Sample { kernel, ..Sample::default() };
            sample.at.boot = seconds(t);
            got = outlooks(
                &sample,
                Some((CgroupId(2), &kubepods)),
                Limited::default(),
                &mut standing,
            );
        }
        assert_eq!(got[0].efficiency, Some(Percent(0)), "{what}");
        assert_eq!(got[0].left, Some(Bytes(left * MIB)), "{what}");
    }
}

#[test]
fn growth_cgroup_made_again() {
    let mut standing = GrowthStanding::default();
    #[rustfmt::skip]
    let table = [
        // second, id, MiB, growth
        (0, 2, 100, None),
        (2, 2, 120, Some(10)),
        (3, 3, 900, None),
        (5, 3, 902, Some(1)),
    ];
    for (second, id, current, growth) in table {
        let mut sample = Sample::default();
        sample.at.boot = seconds(second);
        let kubepods = pods(Some(Limit::At(1_000 * MIB)), current, 0, 0);
        let got =
            outlooks(&sample, Some((CgroupId(id), &kubepods)), Limited::default(), &mut standing);
        assert_eq!(got[0].growth, growth.map(|mib| Bytes(mib * MIB)), "second {second}");
    }
}

#[test]
fn growth_readings_are_spaced() {
    let mut standing = GrowthStanding::default();
    let mut tick = |ms: u64| {
        let sample = node(Nanos(ms * 1_000_000), (500, 100, 0), None);
        outlooks(&sample, None, Limited::default(), &mut standing);
        standing.system.len()
    };
    for ms in (0..30_000).step_by(50) {
        assert!(tick(ms) <= 26, "at {ms} ms");
    }
    assert_eq!(tick(90_000), 1, "what was a minute ago says nothing about now");
    assert_eq!(tick(90_000), 1, "a clock that stands still");
    assert_eq!(tick(10), 1, "a clock that ran backwards");
}

proptest! {
    #[test]
    fn growth_drops_old_readings(
        readings in proptest::collection::vec(
            (0..100_000_u64, 0..=1_000_u64, 0..=1_000_u64, 0..=4_000_u64, any::<[u64; 3]>()),
            1..60,
        ),
    ) {
        let mut standing = GrowthStanding::default();
        for (ms, available, free, swapped, [scan, steal, refaults]) in readings {
            let stat = scanned(scan, steal, refaults);
            let sample = node(Nanos(ms * 1_000_000), (available, free, swapped), stat);
            let got = outlooks(&sample, None, Limited::default(), &mut standing)[0];
            prop_assert!(got.left.unwrap() <= Bytes(available * MIB));
            prop_assert_eq!(got.lasts.is_some(), got.growth.is_some_and(|growth| growth.0 > 0));
            let ring = &standing.system;
            prop_assert!(ring.iter().zip(ring.iter().skip(1)).all(|(a, b)| a.at < b.at));
        }
        let json = serde_json::to_string(&standing).unwrap();
        prop_assert_eq!(serde_json::from_str::<GrowthStanding>(&json).unwrap(), standing);
    }
}
