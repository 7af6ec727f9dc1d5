//! Differences: when there is one, when it is believed, and who made whom wait.

use std::sync::Arc;

use super::*;
use crate::model::node::CpuTime;
use crate::model::psi::{Line, Pressure};
use crate::model::sample::{Gap, GapReason};
use crate::model::stall::{Aggression, ShortLived};

#[test]
fn between_first_sample() {
    let mut first = sample(ms(1_000));
    Arc::make_mut(first.cgroups.get_mut(&POD).unwrap()).cpu.usage = micros(5);
    pod(&mut first).wait = ms(9);
    kernel(&mut first).oom_kills.push(OomKill::default());
    first.gaps.push(Gap { object: "x".into(), why: GapReason::Gone, detail: String::new() });
    let snapshot = Snapshot::between(None, &first, &mut Averages::new(2));
    let scope = &snapshot.scopes[&POD];
    assert_eq!(snapshot.interval, Nanos(0));
    assert_eq!((scope.cpu_usage, &scope.cpu, scope.contention), (None, &None, None));
    assert_eq!((&scope.memory, scope.shortage, scope.io_wait), (&None, None, None));
    assert_eq!(snapshot.whole.contention, None);
    assert_eq!(scope.files.as_ref().unwrap().cpu.usage, micros(5));
    assert_eq!((snapshot.oom_kills.len(), snapshot.gaps.len()), (1, 1));
    assert_eq!(snapshot.doubts, Doubts::default());
}

#[test]
fn between_root_is_the_node() {
    let (prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
    kernel(&mut next)
        .groups
        .insert(ROOT, GroupStall { wait: ms(30), ..GroupStall::default() }.into());
    Arc::make_mut(kernel(&mut next).groups.get_mut(&ROOT).unwrap()).n_waits = 4;
    let mut before = prev.clone();
    kernel(&mut before).groups.insert(ROOT, Arc::default());
    let snapshot = between(&before, &next);
    assert_eq!(snapshot.scopes.keys().collect::<Vec<_>>(), [&POD]);
    assert_eq!(snapshot.whole.cpu.unwrap().wait.now, ms(30));
}

#[test]
fn between_cgroup_made_again() {
    let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
    pod(&mut prev).wait = ms(500);
    Arc::make_mut(prev.cgroups.get_mut(&POD).unwrap()).cpu.usage = micros(900_000);
    let reborn = CgroupId(8);
    let mut files = next.cgroups.remove(&POD).unwrap();
    Arc::make_mut(&mut files).cpu.usage = micros(1_000_000);
    next.cgroups.insert(reborn, files);
    kernel(&mut next)
        .groups
        .insert(reborn, GroupStall { wait: ms(800), ..GroupStall::default() }.into());
    let snapshot = between(&prev, &next);
    let scope = &snapshot.scopes[&reborn];
    assert_eq!((scope.cpu_usage, &scope.cpu, scope.contention), (None, &None, None));
    assert_eq!(snapshot.doubts, Doubts::default(), "a new id is no counter running backwards");
}

#[test]
fn between_averages_per_cgroup() {
    let mut averages = Averages::new(2);
    let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
    pod(&mut prev).cpus = cpus([[0, 0], [0, 0]]);
    pod(&mut next).cpus = cpus([[900, 900], [0, 0]]);
    let _ = Snapshot::between(Some(&prev), &next, &mut averages);
    let kept = serde_json::to_string(&averages).unwrap();
    let mut gone = sample(ms(3_000));
    gone.cgroups.remove(&POD);
    let _ = Snapshot::between(Some(&next), &gone, &mut averages);
    let dropped = serde_json::to_string(&averages).unwrap();
    let entry = format!("\"{}\":", POD.0);
    assert!(kept.contains(&entry) && !dropped.contains(&entry), "{kept}\n{dropped}");
}

#[test]
fn between_clock_jumps() {
    #[rustfmt::skip]
    let table = [
        // boot from, boot to, wall by, rates, jumps
        (ms(1_000), ms(2_000), 1_000,     true,  0),
        (ms(1_000), ms(2_000), 2_000,     true,  0), // a second apart is still allowed
        (ms(1_000), ms(2_000), 2_001,     true,  1),
        (ms(1_000), ms(2_000), -3_600_000, true, 1), // the wall clock was set back
        (ms(1_000), ms(1_000), 0,         false, 1), // stands still
        (ms(9_000), ms(1_000), 1_000,     false, 1), // another boot
    ];
    for (from, to, wall_by, rates, jumps) in table {
        let (mut prev, mut next) = (sample(from), sample(to));
        next.at.wall = Nanos(prev.at.wall.0.saturating_add_signed(wall_by * 1_000_000));
        Arc::make_mut(prev.cgroups.get_mut(&POD).unwrap()).cpu.usage = micros(0);
        Arc::make_mut(next.cgroups.get_mut(&POD).unwrap()).cpu.usage = micros(100_000);
        let snapshot = between(&prev, &next);
        let row = format!("{from:?} {to:?} {wall_by}");
        assert_eq!(snapshot.scopes[&POD].cpu_usage.is_some(), rates, "{row}");
        assert_eq!(snapshot.whole.contention.is_some(), rates, "{row}");
        assert_eq!(snapshot.doubts.clock_jumps, jumps, "{row}");
    }
}

#[test]
fn between_cpu_use_clamped() {
    #[rustfmt::skip]
    let table = [
        // CPUs at the start, used before and after in us, milli CPUs, backwards, too fast
        (2, (0, 500_000),         500, 0, 0),
        (2, (0, 2_000_000),     2_000, 0, 0),
        (2, (0, 2_100_000),     2_000, 0, 0), // read a moment late: clamped, nothing odd
        (2, (0, 9_000_000),     2_000, 0, 1),
        (0, (0, 9_000_000),     9_000, 0, 0), // the number of CPUs is unknown
        (2, (700_000, 600_000),     0, 1, 0),
    ];
    for (n_cpus, (before, after), want, backwards, too_fast) in table {
        let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
        Arc::make_mut(prev.cgroups.get_mut(&POD).unwrap()).cpu.usage = micros(before);
        Arc::make_mut(next.cgroups.get_mut(&POD).unwrap()).cpu.usage = micros(after);
        let busy = |us| Some(CpuTime { busy: Nanos(us * 1_000), ..CpuTime::default() });
        (prev.node.cpu, next.node.cpu) = (busy(before), busy(after));
        let snapshot = Snapshot::between(Some(&prev), &next, &mut Averages::new(n_cpus));
        let row = format!("{n_cpus} CPUs, {before} to {after}");
        assert_eq!(snapshot.scopes[&POD].cpu_usage, Some(MilliCpu(want)), "{row}");
        assert_eq!(snapshot.whole.cpu_usage, Some(MilliCpu(want)), "{row}");
        let doubts = (snapshot.doubts.backwards, snapshot.doubts.too_fast);
        assert_eq!(doubts, (2 * backwards, 2 * too_fast), "{row}");
    }
}

#[test]
fn between_tells_what_a_hypervisor_took() {
    #[rustfmt::skip]
    let table = [
        // busy and stolen milliseconds before and after, share stolen
        ([100, 0],  [100, 0],     None),
        ([100, 50], [1_100, 50],  None),
        ([100, 50], [800, 350],   Some(30_00)),
        ([100, 50], [100, 350],   Some(100_00)),
        ([100, 50], [800, 40],    None), // counted anew
    ];
    for (before, after, want) in table {
        let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
        let time = |[busy, steal]: [u64; 2]| {
            Some(CpuTime { busy: ms(busy), steal: ms(steal), idle: Nanos(0) })
        };
        (prev.node.cpu, next.node.cpu) = (time(before), time(after));
        assert_eq!(between(&prev, &next).whole.stolen, want.map(Percent), "{before:?} {after:?}");
    }
}

#[test]
fn between_cpu_hotplug() {
    #[rustfmt::skip]
    let table = [
        // CPUs that eBPF has seen, lines of /proc/stat, milli CPUs of 4,000 used
        (Some(4), None,    4_000),
        (None,    Some(4), 4_000),
        (None,    Some(1), 2_000), // one was taken away in the interval
        (None,    None,    2_000),
    ];
    for (seen, listed, want) in table {
        let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
        match seen {
            Some(n) => kernel(&mut next).cpus = vec![cpus([[0, 1_000]])[0]; n],
            None => (prev.kernel, next.kernel) = (None, None),
        }
        next.node.n_cpus = listed;
        Arc::make_mut(prev.cgroups.get_mut(&POD).unwrap()).cpu.usage = micros(0);
        Arc::make_mut(next.cgroups.get_mut(&POD).unwrap()).cpu.usage = micros(4_000_000);
        let used = between(&prev, &next).scopes[&POD].cpu_usage;
        assert_eq!(used, Some(MilliCpu(want)), "{seen:?} {listed:?}");
    }
}

#[test]
fn between_pressure_outruns_clock() {
    #[rustfmt::skip]
    let table = [
        // total before and after in us, backwards, too fast, stalled by the disk
        ((0, 250_000),   0, 0, 25_00),
        ((0, 1_000_000), 0, 0, 100_00),
        ((0, 1_090_000), 0, 0, 100_00), // read a moment late
        ((0, 1_200_000), 0, 1, 100_00),
        ((5, 4),         1, 0, 0),
    ];
    let full = |total| {
        let full = Some(Line { total: Micros(total), ..Line::default() });
        Some(Pressure { some: None, full })
    };
    for ((before, after), backwards, too_fast, stalled) in table {
        let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
        assert_eq!(between(&prev, &next).whole.disk_stalled, None, "no pressure file");
        prev.node.pressure.io = full(before);
        next.node.pressure.io = full(after);
        let snapshot = between(&prev, &next);
        assert_eq!(snapshot.whole.disk_stalled, Some(Percent(stalled)), "{before} {after}");
        assert_eq!(snapshot.whole.pressure, next.node.pressure);
        let doubts = (snapshot.doubts.backwards, snapshot.doubts.too_fast);
        assert_eq!(doubts, (backwards, too_fast), "{before} {after}");
    }
}

/// Pressure files are read again after 900 ms, and ticks may come sooner.
#[test]
fn disk_stalled_is_a_share_of_the_time_between_two_readings() {
    #[rustfmt::skip]
    let table = [
        // tick and reading at ms, total in us, stalled by the disk
        (1_000, 1_000, 0,         None),
        (2_000, 2_000, 500_000,   Some(50_00)),
        (2_250, 2_000, 500_000,   None),         // the same reading
        (2_500, 2_000, 500_000,   None),
        (2_750, 2_000, 500_000,   None),
        (3_000, 3_000, 1_500_000, Some(100_00)), // of a second, not of a quarter
        (3_250, 3_000, 1_500_000, None),
        (3_950, 3_950, 1_500_000, Some(0)),
        (4_200, 3_950, 1_500_000, None),
        (4_950, 4_950, 1_750_000, Some(25_00)),
    ];
    let mut averages = Averages::new(2);
    let mut before: Option<Sample> = None;
    for (at, read, total, want) in table {
        let mut next = sample(ms(at));
        let full = Some(Line { total: Micros(total), ..Line::default() });
        next.node.pressure.io = Some(Pressure { some: None, full });
        next.node.pressure_read = (read != at).then_some(ms(read));
        Arc::make_mut(next.cgroups.get_mut(&POD).unwrap()).pressure = next.node.pressure;
        let snapshot = Snapshot::between(before.as_ref(), &next, &mut averages);
        for scope in [&snapshot.whole, &snapshot.scopes[&POD]] {
            assert_eq!(scope.disk_stalled, want.map(Percent), "{at} {}", scope.path);
        }
        assert_eq!(snapshot.doubts, Doubts::default(), "{at}");
        before = Some(next);
    }
}

#[test]
fn between_doubts_add_up() {
    let mut averages = Averages::new(2);
    let (mut a, mut b, c) = (sample(ms(1_000)), sample(ms(2_000)), sample(ms(3_000)));
    pod(&mut a).wait = ms(2);
    pod(&mut b).wait = ms(1);
    let first = Snapshot::between(Some(&a), &b, &mut averages);
    let second = Snapshot::between(Some(&b), &c, &mut averages);
    assert_eq!((first.doubts.backwards, second.doubts.backwards), (1, 2));
}

#[test]
fn between_aggressions_sorted() {
    let (mut prev, mut next) = (sample(ms(1_000)), sample(ms(2_000)));
    let [gone, brief, unknown, idle] = [20, 21, 22, 0].map(CgroupId);
    prev.cgroups.insert(gone, cgroup("/gone").into());
    kernel(&mut next).short_lived = vec![ShortLived { id: brief, path: CgroupPath("/b".into()) }];
    let pair = |victim, aggressor, time| Aggression { victim, aggressor, time: ms(time) };
    kernel(&mut prev).matrix = vec![pair(POD, gone, 100)]; // of the interval before
    kernel(&mut next).matrix = vec![
        pair(POD, idle, 3),
        pair(POD, CgroupId::UNKNOWN, 2),
        pair(POD, gone, 0),
        pair(POD, POD, 50), // a group in its own way
        pair(brief, POD, 70),
        pair(unknown, POD, 50),
        pair(gone, POD, 4),
    ];
    let snapshot = between(&prev, &next);
    let seen: Vec<_> = snapshot
        .aggressions
        .iter()
        .map(|b| {
            let name = |path: &Option<CgroupPath>| path.as_ref().map(ToString::to_string);
            (name(&b.victim_path), name(&b.aggressor_path), b.time)
        })
        .collect();
    let (pod, brief) = (Some("/pod".to_string()), Some("/b".to_string()));
    #[rustfmt::skip]
    let want = [
        (brief,               pod.clone(), ms(70)),
        (pod.clone(),         pod.clone(), ms(50)), // equal times: the smaller ids first
        (None,                pod.clone(), ms(50)),
        (Some("/gone".into()), pod.clone(), ms(4)),
        (pod.clone(),         None,        ms(3)),
        (pod,                 None,        ms(2)),
    ];
    assert_eq!(seen, want);
}

#[test]
fn place_follows_the_path_of_an_id_that_another_cgroup_has_now() {
    let mut averages = Averages::default();
    for path in ["/kubepods/poda", "/kubepods/besteffort", "/kubepods/poda", "/a.service"] {
        let mut sample = sample(Nanos(1));
        let cgroups = [(CgroupId(1), cgroup("/kubepods")), (CgroupId(2), cgroup(path))];
        sample.cgroups = cgroups.map(|(id, cgroup)| (id, Arc::new(cgroup))).into();
        let snapshot = Snapshot::between(None, &sample, &mut averages);
        let place = &snapshot.scopes[&CgroupId(2)].place;
        assert_eq!(*place, sample.places().place(&CgroupPath(path.into())));
    }
}
