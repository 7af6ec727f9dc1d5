//! Unions: what is counted, what is unknown, and what must not hide behind what.

use std::sync::Arc;

use super::*;
use crate::model::stall::{CauseStall, MemoryStall};
use crate::model::workload::{Container, Pod, Resources};

#[test]
fn contention_mean_over_cpus() {
    #[rustfmt::skip]
    let table = [
        // [contention, nonidle] of each CPU in ms, mean in hundredths, each CPU
        ([[0, 0],       [0, 0]],         0, [0, 0]),
        ([[500, 1_000], [0, 0]],     50_00, [50_00, 0]),     // an idle CPU has no weight
        ([[1_000, 1_000], [0, 1_000]], 50_00, [100_00, 0]),  // a busy one does
        ([[1_000, 1_000], [0, 250]], 80_00, [100_00, 0]),
        ([[300, 0],     [0, 0]],     30_00, [30_00, 0]),     // who waits is not idle
    ];
    for (each, mean, per_cpu) in table {
        let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
        pod(&mut prev).cpus = cpus([[0, 0], [0, 0]]);
        pod(&mut next).cpus = cpus(each);
        kernel(&mut next).cpus = cpus(each);
        let snapshot = between(&prev, &next);
        for scope in [&snapshot.whole, &snapshot.scopes[&POD]] {
            let contention = scope.contention.unwrap();
            assert_eq!(contention.now, Percent(mean), "{each:?} {}", scope.path);
            assert_eq!(contention.total, ms(u64::from(mean) / 10), "{each:?} {}", scope.path);
            assert_eq!(scope.contention_per_cpu, per_cpu.map(Percent), "{each:?} {}", scope.path);
        }
    }
}

#[test]
fn contention_beside_throttling() {
    // CPU 1: four threads, of which three wait at any time. CPU 0: a hundred threads of a cgroup
    // held to a tenth of it, which queue for each other while they are let run.
    let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
    pod(&mut prev).cpus = cpus([[0, 0], [0, 0]]);
    *pod(&mut next) = GroupStall {
        cpus: cpus([[100, 100], [1_000, 1_000]]),
        wait: ms(100_000 + 3_000),
        throttled_own: ms(90_000),
        ..GroupStall::default()
    };
    let scope = &between(&prev, &next).scopes[&POD];
    let cpu = scope.cpu.as_ref().unwrap();
    let of_task_time = Percent::share(3_000, cpu.wait.now.0 / 1_000_000);
    assert!(of_task_time < Percent(3_00), "a share of task time shows {of_task_time} %");
    assert!(scope.contention.unwrap().now > Percent(90_00), "{:?}", scope.contention);
    assert_eq!(scope.contention_per_cpu, [Percent(10_00), Percent(100_00)]);
    assert_eq!(cpu.throttled_own.unwrap().now, ms(90_000));
}

#[test]
fn contention_without_throttled() {
    let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
    pod(&mut prev).cpus = cpus([[0, 0], [0, 0]]);
    *pod(&mut next) = GroupStall {
        cpus: cpus([[2, 200], [0, 0]]),
        wait: ms(800),
        throttled_own: ms(300),
        throttled_ancestor: ms(498),
        n_waits: 10,
        ..GroupStall::default()
    };
    let scope = &between(&prev, &next).scopes[&POD];
    assert_eq!(scope.contention.unwrap().now, Percent(20));
    let cpu = scope.cpu.as_ref().unwrap();
    assert_eq!(cpu.contention.unwrap(), Waited { now: ms(2), total: ms(2) });
}

#[test]
fn contention_below_the_request() {
    #[rustfmt::skip]
    let table = [
        // request, used and contended in ms of a second, contention below the request
        (Some("500m"), 499, 300, Some(Percent(30_00))),
        (Some("500m"), 500, 300, Some(Percent(0))),
        (Some("500m"), 0,   0,   Some(Percent(0))),
        (Some("0"),    0,   300, None),
        (None,         0,   300, None),
    ];
    for (request, used, contended, want) in table {
        let [mut prev, mut next] = [1_000, 2_000].map(|at| sample(ms(at)));
        for (sample, used) in [(&mut prev, 0), (&mut next, used)] {
            let files = Arc::make_mut(sample.cgroups.get_mut(&POD).unwrap());
            files.path = CgroupPath("/kubepods/podu".into());
            files.cpu.usage = micros(used * 1_000);
            let requests = request.map(|request| ("cpu".into(), request.parse().unwrap()));
            let resources =
                Resources { requests: requests.into_iter().collect(), ..Default::default() };
            let containers = vec![Container { resources, ..Container::default() }];
            let pod = Pod { uid: "u".into(), containers, ..Pod::default() };
            sample.pods = Some(Pods::new([("u".into(), pod)].into()));
        }
        pod(&mut prev).cpus = cpus([[0, 0], [0, 0]]);
        pod(&mut next).cpus = cpus([[contended, 1_000], [0, 0]]);
        let scope = &between(&prev, &next).scopes[&POD];
        assert_eq!(scope.below_request.map(|union| union.now), want, "{request:?} {used}");
    }
}

#[test]
fn union_unmeasured_is_none() {
    let none = Coverage::default();
    let no_quota = Coverage { throttling: false, ..ALL };
    let no_memory = Coverage { memory: false, ..ALL };
    let (cpu, no_cpu) = (Some(100), None);
    let (with, without) = (cpus([[10, 20], [0, 0]]), Vec::new());
    #[rustfmt::skip]
    let table = [
        // covers, weight, the pod's entry,   lost, waits, split, contention, shortage
        (ALL,       cpu,    Some(&with),      [0, 0],  true,  true,  true,       true),
        (ALL,       no_cpu, Some(&without),   [0, 0],  true,  true,  false,      true),  // no queue
        (ALL,       cpu,    None,             [0, 0],  true,  true,  true,       true),  // never waited
        (ALL,       no_cpu, None,             [0, 0],  true,  true,  false,      true),
        (ALL,       cpu,    None,             [0, 1],  false, false, false,      false), // map was full
        (ALL,       cpu,    None,             [4, 4],  true,  true,  true,       true),  // long ago
        (no_quota,  cpu,    Some(&with),      [0, 0],  true,  false, false,      true),
        (no_memory, cpu,    Some(&with),      [0, 0],  true,  true,  true,       false),
        (none,      cpu,    Some(&with),      [0, 0],  false, false, false,      false),
    ];
    for (i, row) in table.into_iter().enumerate() {
        let (covers, weight, entry, lost, waits, split, contention, shortage) = row;
        let [prev, next] = [(1_000, lost[0]), (2_000, lost[1])].map(|(at, lost)| {
            let mut sample = sample(ms(at));
            Arc::make_mut(sample.cgroups.get_mut(&POD).unwrap()).cpu.weight = weight;
            kernel(&mut sample).covers = covers;
            kernel(&mut sample).lost.cgroups = lost;
            if let Some(cpus) = entry {
                *pod(&mut sample) =
                    GroupStall { cpus: cpus.clone(), n_waits: 1, ..GroupStall::default() };
            }
            sample
        });
        let scope = &between(&prev, &next).scopes[&POD];
        assert_eq!(scope.cpu.is_some(), waits, "waits, row {i}");
        assert_eq!(scope.cpu.as_ref().is_some_and(|c| c.contention.is_some()), split, "row {i}");
        assert_eq!(scope.contention.is_some(), contention, "contention, row {i}");
        assert_eq!(scope.shortage.is_some(), shortage, "shortage, row {i}");
        assert_eq!(scope.memory.is_some(), shortage, "memory, row {i}");
    }
}

#[test]
fn what_found_no_room_is_not_calm() {
    #[rustfmt::skip]
    let table = [
        // stalls lost before and after, waits for IO lost, whether causes are covered, and IO known
        ([0, 0], [0, 0], true,  true),
        ([4, 4], [4, 4], true,  true), // long ago
        ([4, 5], [4, 4], false, true),
        ([4, 4], [4, 5], true,  false),
    ];
    for (stalls, io_waits, has_causes, has_io) in table {
        let [prev, next] = [0, 1].map(|i| {
            let mut sample = sample(ms(1_000 + 1_000 * i as u64));
            (kernel(&mut sample).lost.stalls, kernel(&mut sample).lost.io_waits) =
                (stalls[i], io_waits[i]);
            pod(&mut sample).n_waits = 1;
            sample
        });
        let snapshot = between(&prev, &next);
        assert_eq!(snapshot.covers, Coverage { memory_causes: has_causes, ..ALL }, "{stalls:?}");
        let scope = &snapshot.scopes[&POD];
        assert_eq!(scope.io_wait.is_some(), has_io, "{io_waits:?}");
        assert!(scope.shortage.is_some() && scope.cpu.is_some(), "a lower bound is known");
    }
}

#[test]
fn union_needs_two_samples() {
    for without in [[true, false], [false, true], [true, true]] {
        let [mut prev, mut next] = [1_000, 2_000].map(|at| sample(ms(at)));
        for (sample, without) in [&mut prev, &mut next].into_iter().zip(without) {
            if without {
                sample.kernel = None;
            }
        }
        let snapshot = between(&prev, &next);
        for scope in [&snapshot.whole, &snapshot.scopes[&POD]] {
            assert_eq!((scope.contention, scope.shortage), (None, None), "{without:?}");
            assert_eq!((&scope.cpu, &scope.memory, scope.io_wait), (&None, &None, None));
        }
    }
}

#[test]
fn shortage_by_cause() {
    let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
    let stall = |union, time, count| CauseStall { union: ms(union), time: ms(time), count };
    let memory = |any, shortage, causes: &[(MemoryCause, CauseStall)]| MemoryStall {
        any: ms(any),
        shortage: ms(shortage),
        causes: causes.iter().copied().collect(),
    };
    let own = MemoryCause::OwnLimit;
    kernel(&mut prev).memory = memory(100, 10, &[(own, stall(90, 200, 5))]);
    let global = (MemoryCause::Global, stall(40, 80, 2));
    kernel(&mut next).memory = memory(900, 50, &[(own, stall(860, 1_700, 25)), global]);
    let whole = between(&prev, &next).whole;
    assert_eq!(whole.shortage.unwrap().now, Percent(4_00));
    let wait = whole.memory.unwrap();
    assert_eq!(wait.any, Waited { now: ms(800), total: ms(900) });
    assert_eq!(wait.causes[&own].time.now, ms(1_500));
    assert_eq!(wait.causes[&own].count, 20);
    assert_eq!(wait.causes[&MemoryCause::Global].union, Waited { now: ms(40), total: ms(40) });
}

#[test]
fn union_clamped_to_time() {
    #[rustfmt::skip]
    let table = [
        // growth of one CPU's union in ms, share, doubts
        (1_000, 100_00, 0),
        (1_050, 100_00, 0), // read a moment late
        (1_200, 100_00, 2), // the union, and the weight that equals it
        (u64::MAX / 1_000_000, 100_00, 2),
    ];
    for (grown, share, too_fast) in table {
        let (prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
        kernel(&mut next).cpus = cpus([[grown, grown], [0, 0]]);
        let snapshot = between(&prev, &next);
        assert_eq!(snapshot.whole.contention.unwrap().now, Percent(share), "{grown}");
        assert!(snapshot.whole.contention.unwrap().total <= ms(1_050), "{grown}");
        assert_eq!(snapshot.doubts.too_fast, too_fast, "{grown}");
    }
}

#[test]
fn union_of_a_torn_sample() {
    // Begun on the second, but the first sample's maps were read 300 ms late; all of it contended.
    let [mut a, mut b, mut c] = [1_000, 2_000, 3_000].map(|at| sample(ms(at)));
    for (sample, read_at) in [(&mut a, 1_300), (&mut b, 2_000), (&mut c, 3_000)] {
        kernel(sample).clock = ms(read_at);
        kernel(sample).cpus = cpus([[read_at, read_at], [0, 0]]);
    }
    let mut averages = Averages::new(2);
    for pair in [[&a, &b], [&b, &c]] {
        let snapshot = Snapshot::between(Some(pair[0]), pair[1], &mut averages);
        assert_eq!(snapshot.whole.contention.unwrap().now, Percent::FULL);
        assert_eq!(snapshot.doubts, Doubts::default());
    }
}

/// A run of one sample a second in which the node's CPU 0 is contended for `share` of a second.
fn run(averages: &mut Averages, seconds: std::ops::Range<u64>, share: u64, drift: u64) -> Union {
    let at = |s: u64| {
        let mut sample = sample(ms(s * 1_000));
        let done = s * share * (10_000 + drift) / 1_000;
        kernel(&mut sample).clock = Nanos(s * (10_000 + drift) * 100_000);
        kernel(&mut sample).cpus = cpus([[done, done], [0, 0]]);
        sample
    };
    let mut union = None;
    for s in seconds {
        union = Snapshot::between(Some(&at(s)), &at(s + 1), averages).whole.contention;
    }
    union.unwrap()
}

#[test]
fn union_averages_over_a_pause() {
    let mut averages = Averages::new(2);
    let busy = run(&mut averages, 0..60, 100, 0);
    assert!(busy.avg10 > Percent(95_00) && busy.avg60 > Percent(60_00), "{busy:?}");
    let mut short = averages.clone();
    let after_short = run(&mut short, 66..68, 100, 0);
    assert!(after_short.avg10 >= busy.avg10, "six seconds unmeasured: {after_short:?}");
    let after_long = run(&mut averages, 90..92, 100, 0);
    let minute = Averaged::from(after_long).avg60;
    let (low, high) = (minute.low < Percent(10_00), minute.high == Percent::FULL);
    assert!(low && high, "half a minute unmeasured: {after_long:?}");
    assert_eq!((after_long.avg60, after_long.seen), (Percent::FULL, Some(ms(2_000))));
    assert!(after_long.total > busy.total, "totals go on");
}

/// A machine that slept for ten minutes was not calm for them.
#[test]
fn union_averages_over_a_sleep() {
    let mut averages = Averages::new(2);
    let busy = run(&mut averages, 0..60, 100, 0);
    let at = |second: u64, awake: u64| {
        let mut sample = sample(ms(second * 1_000));
        kernel(&mut sample).clock = ms(awake * 1_000);
        kernel(&mut sample).cpus = cpus([[awake * 1_000; 2], [0, 0]]);
        sample
    };
    for (then, now) in [((60, 60), (661, 61)), ((661, 61), (662, 62))] {
        let [then, now] = [then, now].map(|(second, awake)| at(second, awake));
        let union = Snapshot::between(Some(&then), &now, &mut averages).whole.contention.unwrap();
        assert_eq!(union.avg60, Percent::FULL, "{union:?}");
        assert!(union.seen.is_some_and(|seen| seen <= ms(2_000)), "{union:?}");
        assert!(union.total > busy.total, "totals go on");
    }
}

#[test]
fn union_clock_that_gains() {
    let mut averages = Averages::new(2);
    let day = 86_400;
    // 0.5 % fast: far worse than any clock, so that an hour shows it.
    let busy = run(&mut averages, day..day + 3_600, 100, 50);
    assert!(busy.avg10 > Percent(99_00), "{busy:?}");
    let calm = run(&mut averages, day + 3_600..day + 3_640, 0, 0);
    assert!(calm.avg10 < Percent(5_00), "{calm:?}");
}

#[test]
fn union_late_tick() {
    let [prev, mut late, mut calm] = [1_000, 21_000, 31_000].map(|at| sample(ms(at)));
    for sample in [&mut late, &mut calm] {
        kernel(sample).cpus = cpus([[20_000, 20_000], [0, 0]]);
    }
    let mut averages = Averages::new(2);
    let union = Snapshot::between(Some(&prev), &late, &mut averages).whole.contention.unwrap();
    assert!(union.avg10 > Percent(80_00), "{union:?}");
    let union = Snapshot::between(Some(&late), &calm, &mut averages).whole.contention.unwrap();
    assert!(union.avg10 < Percent(50_00), "nothing is owed after it: {union:?}");
}

#[test]
fn between_another_boot() {
    let mut averages = Averages::new(2);
    run(&mut averages, 1_000..1_060, 100, 0);
    let (before, rebooted) = (sample(ms(1_060_000)), sample(ms(5_000)));
    let snapshot = Snapshot::between(Some(&before), &rebooted, &mut averages);
    assert_eq!((snapshot.interval, snapshot.whole.contention), (Nanos(0), None));
    let union = run(&mut averages, 6..9, 0, 0);
    assert_eq!((union.avg10, union.avg60, union.total), (Percent(0), Percent(0), Nanos(0)));
}
