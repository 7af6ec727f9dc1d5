//! Whole ticks: what comes first, what is stale, and courses that pressure files do not show.

use std::collections::BTreeMap;

use super::*;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryFiles, MemoryStat};
use crate::model::condition::ScopeName;
use crate::model::decision::{NodePressure, made};
use crate::model::node::{Filesystem, Meminfo, Reclaim};
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::sample::Moment;
use crate::model::settings::Eviction;
use crate::model::snapshot::{Averages, Scope, Snapshot, Union};
use crate::model::threshold::{Amount, PressureSignal, PressureThreshold, Threshold};
use crate::model::units::{Bytes, Percent};

const MIB: u64 = 1 << 20;

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

/// What a node of 1,000 MiB is like at a second, in MiB.
#[derive(Debug, Clone, Copy, Default)]
struct Course {
    available: u64,
    free: u64,
    anon: u64,
    file: u64,
    inactive_file: u64,
    swapped: u64,
    scanned: u64,
    reclaimed: u64,
    refaults: u64,
    disk_read_at: Option<u64>,
}

fn sample(second: u64, course: Course) -> Sample {
    let mut sample = Sample { tick: second + 1, ..Sample::default() };
    sample.at = Moment { boot: seconds(second), wall: seconds(second) };
    let mib = |n: u64| Bytes(n * MIB);
    sample.node.memory = Some(Meminfo {
        total: mib(1_000),
        free: mib(course.free),
        available: mib(course.available),
        swap_total: mib(1_000),
        swap_free: mib(1_000 - course.swapped),
        ..Meminfo::default()
    });
    let Course { scanned, reclaimed, refaults, .. } = course;
    sample.node.reclaim = Some(Reclaim { scanned, reclaimed, refaults });
    sample.node.filesystems.at = seconds(course.disk_read_at.unwrap_or(0));
    let disk =
        Filesystem { device: 1, available: mib(1), capacity: mib(100), ..Filesystem::default() };
    sample.node.filesystems.nodefs = course.disk_read_at.map(|_| disk);
    let stat = MemoryStat {
        anon: mib(course.anon),
        file: mib(course.file),
        inactive_file: mib(course.inactive_file),
        ..MemoryStat::default()
    };
    let memory = MemoryFiles { stat: Some(stat), ..MemoryFiles::default() };
    let root = Cgroup { path: CgroupPath::root(), memory, ..Cgroup::default() };
    sample.cgroups = BTreeMap::from([(CgroupId(1), root.into())]);
    sample
}

fn threshold(signal: Signal, mib: u64) -> Threshold {
    let value = Amount::Quantity(Quantity::bytes(mib * MIB));
    Threshold { signal, value, grace: Nanos(0), min_reclaim: None }
}

fn settings(thresholds: Vec<Threshold>, pressure: Vec<PressureThreshold>) -> Settings {
    let eviction = Eviction { thresholds, pressure, ..Eviction::default() };
    Settings { eviction, ..Settings::default() }
}

/// Judges second after second.
struct Bench {
    settings: Settings,
    before: Option<Sample>,
    averages: Averages,
    standing: AssessStanding,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let (averages, standing) = (Averages::new(2), AssessStanding::default());
        Self { settings, before: None, averages, standing }
    }

    fn tick(&mut self, second: u64, course: Course) -> Assessment {
        let sample = sample(second, course);
        let snapshot = Snapshot::between(self.before.as_ref(), &sample, &mut self.averages);
        // What is remembered goes through a recording each time: nothing may be lost there.
        let json = serde_json::to_string(&self.standing).unwrap();
        self.standing = serde_json::from_str(&json).unwrap();
        let stalled = || psi(&sample);
        let limited = Limited::default();
        let got =
            assess(&self.settings, &sample, &snapshot, limited, stalled, &mut self.standing).0;
        self.before = Some(sample);
        got
    }
}

fn psi(sample: &Sample) -> Option<Percent> {
    Some(sample.node.pressure.memory?.some?.avg10)
}

fn names(met: &[Met]) -> Vec<String> {
    met.iter().map(|met| met.threshold.name()).collect()
}

fn reasons(assessment: &Assessment) -> Vec<&str> {
    assessment.events.iter().map(|event| event.reason.as_str()).collect()
}

#[test]
fn due_memory_first() {
    let disk = threshold(Signal::NodefsAvailable, 10);
    let memory = threshold(Signal::MemoryAvailable, 100);
    let mut bench = Bench::new(settings(vec![disk, memory], made::usual_pressure_thresholds()));
    let mut got = Assessment::default();
    for second in 0..=9 {
        let left = 60 - 5 * second;
        let course =
            Course { available: left, free: left, anon: 1_000 - left, ..Course::default() };
        let disk_read_at = Some(second);
        got = bench.tick(second, Course { disk_read_at, ..course });
    }
    assert_eq!(
        names(&got.met),
        ["memory.available", "system.memory.exhaustion", "nodefs.available"]
    );
    assert_eq!(got.first, Some(got.met[0]));
    assert_eq!(got.node_pressure, [NodePressure::MemoryPressure, NodePressure::DiskPressure]);
    assert_eq!(got.refused, [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort]);
    assert!(!got.is_stale);
}

#[test]
fn due_exhaustion_first() {
    let memory = threshold(Signal::MemoryAvailable, 100);
    let mut bench = Bench::new(settings(vec![memory], made::usual_pressure_thresholds()));
    let mut firsts = Vec::new();
    for second in 0..=11 {
        let left = 60 - 5 * second;
        let course =
            Course { available: left, free: left, anon: 1_000 - left, ..Course::default() };
        let got = bench.tick(second, course);
        firsts.push(got.first.map(|met| met.threshold.name()).unwrap_or_default());
    }
    // Ten seconds' worth is left at second 2, two at second 10.
    assert_eq!(
        firsts[9..],
        ["memory.available", "system.memory.exhaustion", "system.memory.exhaustion"]
    );
}

#[test]
fn due_exhaustion_needs_little_left() {
    let mut bench = Bench::new(settings(vec![], made::usual_pressure_thresholds()));
    let mut due = Vec::new();
    // A hundred MiB a second, of a thousand.
    for left in [700, 600, 500, 400, 300, 200, 101, 100] {
        let second = due.len() as u64;
        let course =
            Course { available: left, free: left, anon: 1_000 - left, ..Course::default() };
        let got = bench.tick(second, course);
        due.push((got.met.len(), got.first.is_some()));
    }
    // Foretold from the first two seconds' readings on.
    assert_eq!(due[2..7], [(1, false); 5]);
    assert_eq!(due[7], (1, true));
}

#[test]
fn due_stale_reading() {
    let mut bench = Bench::new(settings(vec![threshold(Signal::NodefsAvailable, 10)], Vec::new()));
    let begins = &["NodeHasDiskPressure", "EvictionThresholdMet"][..];
    #[rustfmt::skip]
    let table = [
        // second, disk read at, is stale, events
        (5,  Some(5),  false, begins),
        (6,  Some(5),  true,  &[]),
        (14, Some(5),  true,  &[]),
        (15, Some(15), false, &[]), // the same shortage: told once
    ];
    for (second, disk_read_at, is_stale, events) in table {
        let got = bench.tick(second, Course { disk_read_at, ..Course::default() });
        assert_eq!(names(&got.met), ["nodefs.available"], "second {second}");
        assert_eq!(got.is_stale, is_stale, "second {second}");
        assert!(got.first.is_some_and(|met| met.is_due), "second {second}");
        let told: Vec<_> =
            reasons(&got).into_iter().filter(|r| !r.starts_with("Pressure")).collect();
        assert_eq!(told, events, "second {second}");
    }
}

#[test]
fn due_average_that_only_remembers() {
    let scope = ScopeName::System;
    let of = |on| PressureThreshold { scope, on, grace: Nanos(0) };
    let both = [PressureSignal::Memory(Percent(30_00)), PressureSignal::Cpu(Percent(30_00))];
    let settings = settings(Vec::new(), both.map(of).into());
    let union = |now| Some(Union { now, avg10: Percent(84_00), ..Union::default() });
    let [still, over] = [Percent(30_00), Percent(29_99)];
    #[rustfmt::skip]
    let table = [
        // memory and CPU in the last interval; is stale, first to relieve
        (still, still, false, "system.memory.pressure"),
        (over,  still, true,  "system.memory.pressure"), // it may wait for want of memory
        (still, over,  false, "system.memory.pressure"),
        (over,  over,  true,  "system.memory.pressure"),
    ];
    for (memory, cpu, is_stale, first) in table {
        let whole = Scope { shortage: union(memory), contention: union(cpu), ..Scope::default() };
        let snapshot = Snapshot { whole, ..Snapshot::default() };
        let sample = sample(1, Course::default());
        let (limited, stalled) = (Limited::default(), || psi(&sample));
        let mut standing = AssessStanding::default();
        let (got, _) = assess(&settings, &sample, &snapshot, limited, stalled, &mut standing);
        assert_eq!((got.met.len(), got.is_stale), (2, is_stale), "{memory:?} {cpu:?}");
        assert_eq!(got.first.map(|met| met.threshold.name()).as_deref(), Some(first));
    }
}

#[test]
fn due_refaults_that_have_ended() {
    let on = PressureSignal::Refaults(1_000);
    let threshold = PressureThreshold { scope: ScopeName::System, on, grace: Nanos(0) };
    let mut bench = Bench::new(settings(Vec::new(), vec![threshold]));
    let stale = (0..=10).map(|second| {
        let got = bench.tick(second, Course { refaults: 4_000 * second.min(8), ..thrash(second) });
        got.first.map(|_| got.is_stale)
    });
    let want = [vec![None; 2], vec![Some(false); 7], vec![Some(true); 2]].concat();
    assert_eq!(stale.collect::<Vec<_>>(), want);
}

#[test]
fn assess_names_silent_signals() {
    let thresholds = vec![
        threshold(Signal::ImagefsAvailable, 10),
        threshold(Signal::AllocatableMemoryAvailable, 10),
        threshold(Signal::MemoryAvailable, 10),
    ];
    let got = Bench::new(settings(thresholds, Vec::new())).tick(1, Course::default());
    let named: Vec<_> = got.unobserved.iter().map(|missing| missing.signal).collect();
    assert_eq!(named, [Signal::AllocatableMemoryAvailable, Signal::ImagefsAvailable]);
    let seen: Vec<_> = got.observations.iter().map(|seen| seen.signal).collect();
    assert_eq!(seen, [Signal::MemoryAvailable]);
    assert_eq!((got.met, got.first, got.node_pressure), (Vec::new(), None, Vec::new()));
}

/// The first second at which something is due, and what. No pressure file exists in any of these.
fn first_due(settings: Settings, course: impl Fn(u64) -> Course) -> Option<(u64, String)> {
    let mut bench = Bench::new(settings);
    (0..200).find_map(|second| {
        let got = bench.tick(second, course(second));
        got.first.map(|met| (second, met.threshold.name()))
    })
}

/// 5 MiB a second, from 800 MiB.
fn leak(second: u64) -> Course {
    let left = 800_u64.saturating_sub(5 * second);
    Course { available: left, free: left, anon: 1_000 - left, ..Course::default() }
}

/// No room, and what is taken goes to swap: pressure can stay low if the disk is fast.
fn into_swap(second: u64) -> Course {
    let swapped = 10 * second.min(100);
    Course { available: 50, free: 20, anon: 900, swapped, ..Course::default() }
}

/// A working set of mapped files, larger than memory, read again and again. What is available
/// hardly falls.
fn thrash(second: u64) -> Course {
    let anon = 100 + second;
    Course {
        available: 800 - second,
        free: 8,
        anon,
        file: 880,
        inactive_file: 700,
        scanned: 100_000 * second,
        reclaimed: 4_000 * second,
        refaults: 4_000 * second,
        ..Course::default()
    }
}

/// A file of two gibibytes, read once: cache fills and goes as fast as it comes.
fn read_once(second: u64) -> Course {
    let cache = (100 * second).min(700);
    let pages = 25_600 * second;
    Course {
        available: 780,
        free: 800 - cache,
        anon: 200,
        file: cache,
        inactive_file: cache,
        scanned: pages,
        reclaimed: pages,
        ..Course::default()
    }
}

/// 50 MiB a second for eight seconds, then all of it given back.
fn spike(second: u64) -> Course {
    let taken = if (20..28).contains(&second) { 50 * (second - 19) } else { 0 };
    let left = 800 - taken;
    Course { available: left, free: left, anon: 1_000 - left, ..Course::default() }
}

#[test]
fn assess_freeze_without_pressure() {
    let refaults = PressureThreshold {
        scope: ScopeName::System,
        on: PressureSignal::Refaults(2_000),
        grace: seconds(10),
    };
    let usual = made::usual_pressure_thresholds();
    let exhaustion = "system.memory.exhaustion";
    type Row =
        (&'static str, fn(u64) -> Course, Vec<PressureThreshold>, Option<(u64, &'static str)>);
    #[rustfmt::skip]
    let table: [Row; 6] = [
        // what, course, thresholds, due at and by what
        ("leak",      leak,      usual.clone(),  Some((152, exhaustion))),
        ("swap",      into_swap, usual.clone(),  Some((4, exhaustion))),
        ("thrash",    thrash,    usual.clone(),  Some((4, exhaustion))), // cache counts for nothing
        ("refaults",  thrash,    vec![refaults], Some((12, "system.memory.refaults"))),
        ("read once", read_once, usual.clone(),  None),
        ("spike",     spike,     usual,          None),
    ];
    for (what, course, thresholds, want) in table {
        let got = first_due(settings(Vec::new(), thresholds), course);
        assert_eq!(got, want.map(|(second, name)| (second, name.to_owned())), "{what}");
    }
}

#[test]
fn assess_events_of_pressure() {
    let mut bench = Bench::new(settings(Vec::new(), made::usual_pressure_thresholds()));
    let told: Vec<_> = (0..20)
        .flat_map(|second| bench.tick(second, into_swap(second)).events)
        .filter(|event| event.reason == "PressureThresholdMet")
        .map(|event| event.message)
        .collect();
    let want = "Attempting to relieve system.memory.exhaustion: 5s, the threshold is 10s for 2s";
    assert_eq!(told, [want]);
}

#[test]
fn assess_filesystems_come_and_go() {
    let mut bench = Bench::new(settings(vec![threshold(Signal::NodefsAvailable, 10)], Vec::new()));
    let with = bench.tick(1, Course { disk_read_at: Some(1), ..Course::default() });
    assert_eq!(names(&with.met), ["nodefs.available"]);
    let without = bench.tick(2, Course::default());
    assert_eq!(names(&without.met), Vec::<String>::new());
    assert_eq!(without.unobserved.len(), 1, "{:?}", without.unobserved);
    assert_eq!(without.node_pressure, [NodePressure::DiskPressure], "within the transition period");
}

#[test]
fn assess_after_suspend() {
    let grace = seconds(30);
    let soft = Threshold { grace, ..threshold(Signal::MemoryAvailable, 100) };
    let mut bench = Bench::new(settings(vec![soft], vec![]));
    let short = Course { anon: 950, ..Course::default() };
    #[rustfmt::skip]
    let table = [
        // second, since, due
        (1,   1,  false),
        (2,   1,  false),
        (7,   1,  false), // five seconds are a late tick
        (67,  60, false), // a minute without samples does not count, except for the normal second
        (89,  81, false), // nor this
        (90,  81, false),
        (95,  81, false),
        (100, 81, false),
        (105, 81, false),
        (110, 81, false),
        (111, 81, true),
    ];
    for (second, since, is_due) in table {
        let assessment = bench.tick(second, short);
        let [met] = &assessment.met[..] else { panic!("{second}: {:?}", assessment.met) };
        assert_eq!((met.since, met.is_due), (seconds(since), is_due), "{second}");
    }
}
