mod parties;

use std::sync::Arc;

use super::*;
use crate::model::cgroup::{Cgroup, IoStat, MemoryStat};
use crate::model::snapshot::{CpuWait, MemoryCauseWait, MemoryWait, Scope, Union, Waited};
use crate::model::stall::{KernelStalls, MemoryCause};
use crate::model::units::{Bytes, MilliCpu, Percent};

const MS: u64 = 1_000_000;
const POD_A: &str = "/kubepods/burstable/poda";
const IN_A: &str =
    "/kubepods/burstable/poda/0f3c9d51e6a84b27c0d1f2e3948576a1b2c3d4e5f60718293a4b5c6d7e8f9012";
const BESIDE_A: &str = "/kubepods/burstable/poda/crio-conmon";
const POD_B: &str = "/kubepods/podb";
const DAEMON: &str = "/system.slice/daemon.service";

/// A node at two moments, and what is remembered of it.
struct Node {
    before: Sample,
    sample: Sample,
    snapshot: Snapshot,
    standing: HarmStanding,
}

impl Node {
    /// Two pods, one of them with a container and its monitor, and a daemon; ids from 1 in the
    /// order of the list. Everything is covered, and no task waits.
    fn new() -> Self {
        let paths = ["/kubepods", POD_A, IN_A, BESIDE_A, POD_B, "/system.slice", DAEMON];
        let id = |path: &str| {
            let at = paths.iter().position(|p| *p == path);
            at.map(|at| CgroupId(at as u64 + 1))
        };
        let scope = |path: &&str| {
            let above = path.rsplit_once('/').map(|(above, _)| above);
            let path = CgroupPath((*path).into());
            let parent = above.and_then(id);
            let io = Some(IoStat::default());
            let files = Cgroup { path: path.clone(), parent, io, ..Cgroup::default() };
            let files = Some(files.into());
            Scope { place: Place::of(&path), path, parent, files, ..Scope::default() }
        };
        let scopes = paths.iter().map(|path| (id(path).unwrap(), scope(path))).collect();
        let covers = Coverage::ALL;
        let kernel = Some(KernelStalls { covers, ..KernelStalls::default() });
        let sample = Sample { kernel, ..Sample::default() };
        let snapshot = Snapshot { interval: Nanos::SECOND, scopes, covers, ..Snapshot::default() };
        Self { before: sample.clone(), sample, snapshot, standing: HarmStanding::default() }
    }

    fn id(&self, path: &str) -> CgroupId {
        let found = self.snapshot.scopes.iter().find(|(_, scope)| &*scope.path.0 == path);
        // Of the idle task, and of what came and went between two samples.
        let other = CgroupId(if path == "idle" { 0 } else { 99 });
        found.map_or(other, |(id, _)| *id)
    }

    /// Reads so many MiB in so many requests, and waits for them so many milliseconds.
    fn read(&mut self, path: &str, mib: u64, reads: u64, waited: u64) {
        let (id, scope) = (self.id(path), self.scope(path));
        scope.io_wait = Some(Waited { now: Nanos(waited * MS), total: Nanos(0) });
        let files = Arc::make_mut(scope.files.as_mut().unwrap());
        files.io = Some(IoStat { read: Bytes(mib << 20), reads, ..IoStat::default() });
        let earlier = Cgroup { io: Some(IoStat::default()), ..files.clone() };
        self.before.cgroups.insert(id, earlier.into());
    }

    fn scope(&mut self, path: &str) -> &mut Scope {
        let id = self.id(path);
        self.snapshot.scopes.get_mut(&id).unwrap()
    }

    fn blame(&mut self, victim: &str, aggressor: &str, ms: u64) {
        let named = |path: &str| (path != "idle").then(|| CgroupPath(path.into()));
        let blame = Blame {
            victim: self.id(victim),
            victim_path: named(victim),
            aggressor: self.id(aggressor),
            aggressor_path: named(aggressor),
            time: Nanos(ms * MS),
            loss: None,
        };
        self.snapshot.aggressions.push(blame);
    }

    /// `memory.current` before and now, and the share of the second in which memory was short.
    fn charges(&mut self, path: &str, before: Option<u64>, now: u64, short: Percent) {
        let id = self.id(path);
        let scope = self.scope(path);
        scope.shortage = Some(Union { now: short, ..Union::default() });
        let files = Arc::make_mut(scope.files.as_mut().unwrap());
        files.memory.current = Some(Bytes(now << 20));
        let mut earlier = files.clone();
        earlier.memory.current = before.map(|mib| Bytes(mib << 20));
        if before.is_some() {
            self.before.cgroups.insert(id, earlier.into());
        }
    }

    fn update(&mut self) {
        let none = Workloads::default();
        let Self { standing, before, sample, snapshot, .. } = self;
        standing.update(Some(before), sample, snapshot, &none, &none.parties(snapshot));
    }

    /// Milliseconds a second of others' waiting and of its own.
    fn harm(&self, resource: Resource, who: &str) -> (u64, u64) {
        let by_party = self.standing.measured(resource).unwrap();
        let outside = || by_party.outside.get(&CgroupPath(who.into()));
        let entry = by_party.pods.get(who).or_else(outside).copied().unwrap_or_default();
        (entry.harm.others.0 / MS, entry.harm.own.0 / MS)
    }
}

#[test]
fn harm_of_run_queue_waits() {
    let mut node = Node::new();
    node.blame(POD_B, IN_A, 300);
    node.blame(DAEMON, IN_A, 50);
    node.blame(IN_A, IN_A, 7); // its own threads queue for each other
    node.blame(IN_A, BESIDE_A, 2); // the runtime's monitor is the pod's, too
    node.blame(POD_B, DAEMON, 40);
    node.blame(POD_B, "idle", 90); // the idle task: the latency of a wake-up
    node.blame("/gone", IN_A, 1); // a cgroup that came and went within the tick
    node.blame(IN_A, "/kubepods/podc", 5); // the same, as the one that ran
    node.update();
    #[rustfmt::skip]
    let table = [
        // who, others wait, it waits itself
        ("a",    351, 9),
        ("b",    0,   0),
        ("c",    5,   0),
        (DAEMON, 40,  0),
    ];
    for (who, others, own) in table {
        assert_eq!(node.harm(Resource::Cpu, who), (others, own), "{who}");
    }
    let told = node.standing.cpu.outsiders(3, Resource::Cpu, |_| true);
    let want = Outsider { path: CgroupPath(DAEMON.into()), harm: Nanos(40 * MS) };
    assert_eq!(told, [want]);
}

#[test]
fn harm_of_a_throttled_pod() {
    let mut node = Node::new();
    let throttled = Some(Waited { now: Nanos(800 * MS), total: Nanos(0) });
    for path in [POD_A, IN_A] {
        node.scope(path).cpu = Some(CpuWait { throttled_own: throttled, ..CpuWait::default() });
    }
    node.update();
    assert_eq!(node.harm(Resource::Cpu, "a"), (0, 800), "counted once, at the pod");
    let harm = node.standing.cpu.pods["a"].harm;
    assert!(harm.is_own_alone());
}

#[test]
fn harm_of_shortage_by_charge() {
    let mut node = Node::new();
    node.charges(POD_A, Some(100), 400, Percent(10_00)); // the hog
    node.charges(IN_A, Some(100), 400, Percent(10_00)); // is in the pod already
    node.charges(POD_B, Some(500), 450, Percent(80_00)); // the sufferer
    node.charges(DAEMON, Some(10), 110, Percent(20_00));
    node.update();
    #[rustfmt::skip]
    let table = [
        // who, others wait, it waits itself
        ("a",    750, 75), // three quarters of 1000 and of 100
        ("b",    0,   0),  // shrank
        (DAEMON, 225, 50), // a quarter of 900 and of 200
    ];
    for (who, others, own) in table {
        assert_eq!(node.harm(Resource::Memory, who), (others, own), "{who}");
    }
}

#[test]
fn harm_of_who_keeps_memory_full() {
    let reclaimed = |node: &mut Node, path: &str, mib: u64| {
        let id = node.id(path);
        let stat = |pgsteal| Some(MemoryStat { pgsteal, ..MemoryStat::default() });
        Arc::make_mut(node.scope(path).files.as_mut().unwrap()).memory.stat =
            stat(1_000 + mib * 256);
        Arc::make_mut(node.before.cgroups.get_mut(&id).unwrap()).memory.stat = stat(1_000);
    };
    // A thrashes at the limit of all pods and does not grow; B reads back what it lost to A.
    let mut node = Node::new();
    node.charges(POD_A, Some(400), 400, Percent(50_00));
    node.charges(POD_B, Some(40), 50, Percent(50_00));
    reclaimed(&mut node, POD_A, 90);
    reclaimed(&mut node, POD_B, 0);
    node.update();
    assert_eq!(node.harm(Resource::Memory, "a"), (450, 450));
    assert_eq!(node.harm(Resource::Memory, "b"), (50, 50));

    // A thrashes beneath a limit of its own.
    let mut node = Node::new();
    node.charges(POD_A, Some(400), 400, Percent(0));
    node.charges(POD_B, Some(40), 50, Percent(50_00));
    reclaimed(&mut node, POD_A, 90);
    reclaimed(&mut node, POD_B, 0);
    let wait = MemoryCauseWait {
        union: Waited { now: Nanos(MS), total: Nanos(0) },
        ..MemoryCauseWait::default()
    };
    let causes = [(MemoryCause::OwnLimit, wait)].into();
    node.scope(POD_A).memory = Some(MemoryWait { causes, ..MemoryWait::default() });
    node.update();
    assert_eq!(node.harm(Resource::Memory, "a"), (0, 1));
}

#[test]
fn harm_of_a_new_pod() {
    let mut node = Node::new();
    node.charges(POD_A, None, 400, Percent(0));
    node.charges(POD_B, Some(100), 100, Percent(50_00));
    node.update();
    assert_eq!(node.harm(Resource::Memory, "a"), (500, 0));
}

#[test]
fn harm_of_an_unread_pod() {
    let mut node = Node::new();
    node.charges(POD_A, None, 400, Percent(0));
    node.charges(POD_B, Some(100), 100, Percent(50_00));
    // It was there, without figures.
    node.before.cgroups.insert(node.id(POD_A), Arc::default());
    node.update();
    assert_eq!(node.harm(Resource::Memory, "a"), (0, 0));
}

#[test]
fn harm_of_a_workload() {
    let mut node = Node::new();
    let rules = [crate::model::settings::WorkloadRule {
        path: "/system.slice".parse().unwrap(),
        qos_class: crate::model::pod::QosClass::Burstable,
        priority: 0,
        requests: [].into(),
    }];
    node.blame(POD_B, DAEMON, 300);
    node.blame(DAEMON, "/system.slice", 50); // within it
    let snapshot = node.snapshot.clone();
    let workloads = Workloads::of(&rules, &snapshot);
    let parties = workloads.parties(&snapshot);
    node.standing.update(Some(&node.before), &node.sample, &snapshot, &workloads, &parties);
    assert_eq!(node.harm(Resource::Cpu, "/system.slice"), (300, 50));
    assert_eq!(node.harm(Resource::Cpu, DAEMON), (0, 0), "and of nobody else");
}

#[test]
fn harm_at_own_limit() {
    let wait = |ms| MemoryCauseWait {
        union: Waited { now: Nanos(ms * MS), total: Nanos(0) },
        ..MemoryCauseWait::default()
    };
    let mut node = Node::new();
    node.charges(POD_A, Some(100), 100, Percent(0));
    let causes = [
        (MemoryCause::OwnLimit, wait(300)),
        (MemoryCause::OwnHigh, wait(20)),
        (MemoryCause::AncestorLimit, wait(4)), // of a container: the pod's
        (MemoryCause::AllocatableLimit, wait(999)),
        (MemoryCause::Refault, wait(999)),
    ];
    node.scope(POD_A).memory = Some(MemoryWait { causes: causes.into(), ..MemoryWait::default() });
    node.update();
    assert_eq!(node.harm(Resource::Memory, "a"), (0, 324));
}

#[test]
fn harm_of_disk_waits() {
    let mut node = Node::new();
    node.read(POD_A, 30, 0, 100);
    node.read(POD_B, 10, 0, 500);
    node.update();
    assert_eq!(node.harm(Resource::Io, "a"), (375, 75));
    assert_eq!(node.harm(Resource::Io, "b"), (25, 125));
    assert_eq!(node.standing.io.pods["a"].taken, 30 << 20, "bytes a second");
}

#[test]
fn cpu_time_is_averaged_with_harm() {
    let mut node = Node::new();
    for (used, want) in [(1_100, "1100m"), (0, "1"), (1_000, "1"), (2_100, "1100m")] {
        for path in [POD_A, IN_A] {
            node.scope(path).cpu_usage = Some(MilliCpu(used));
        }
        node.update();
        let entry = node.standing.cpu.pods["a"];
        assert_eq!(entry.cpu_usage().to_string(), want, "counted once, at the pod");
    }
    assert!(!node.standing.cpu.pods.contains_key("b"), "it used none");
}

#[test]
fn harm_decays() {
    let mut node = Node::new();
    node.blame(POD_B, POD_A, 1000);
    node.update();
    assert_eq!(node.harm(Resource::Cpu, "a"), (1000, 0), "the first interval is all that is known");
    node.snapshot.aggressions.clear();
    node.update();
    assert_eq!(node.harm(Resource::Cpu, "a"), (909, 0), "ten elevenths");
    node.snapshot.interval = Nanos(10 * Nanos::SECOND.0);
    node.update();
    assert_eq!(node.harm(Resource::Cpu, "a"), (454, 0), "a half");

    // Who begins now has not done so for long.
    node.snapshot.interval = Nanos::SECOND;
    node.blame(POD_A, POD_B, 1100);
    node.update();
    assert_eq!(node.harm(Resource::Cpu, "b"), (100, 0), "an eleventh");
}

#[test]
fn harm_unmeasured_is_unknown() {
    let mut node = Node::new();
    node.blame(POD_B, POD_A, 1000);
    node.update();
    assert!(node.standing.measured(Resource::Cpu).is_some());
    assert!(node.standing.measured(Resource::Pids).is_none(), "nobody waits for a pid");

    let covered = node.sample.kernel.clone();
    node.sample.kernel.as_mut().unwrap().covers.waits = false;
    node.update();
    let known = [Resource::Cpu, Resource::Io, Resource::Memory]
        .map(|n| node.standing.measured(n).is_some());
    assert_eq!(known, [false, false, true]);
    let is_paused = |node: &Node| {
        [Resource::Cpu, Resource::Memory, Resource::Io]
            .map(|resource| node.standing.is_paused(resource))
    };
    assert_eq!(is_paused(&node), [true, false, true], "of CPU, memory and disks");
    node.sample.kernel = None;
    node.update();
    assert_eq!(is_paused(&node), [true; 3]);
    let paused = || HarmByParty { is_paused: true, ..HarmByParty::default() };
    let [cpu, memory, io] = [(); 3].map(|()| paused());
    let want = HarmStanding { cpu, memory, io };
    assert_eq!(node.standing, want, "and nothing else is remembered");
    (0..1_000).for_each(|_| node.update());
    assert_eq!(node.standing, want, "however long it lasts");

    // No interval, no news: a first sample, or a clock that stood still.
    node.sample.kernel = covered;
    node.update();
    assert_eq!(is_paused(&node), [false; 3], "measured again");
    let before = node.standing.clone();
    node.snapshot.interval = Nanos(0);
    node.update();
    let Node { standing, sample, snapshot, .. } = &mut node;
    let none = Workloads::default();
    standing.update(None, sample, snapshot, &none, &none.parties(snapshot));
    assert_eq!(node.standing, before);
}

#[test]
fn harm_never_measured() {
    let mut node = Node::new();
    node.sample.kernel = None;
    node.update();
    assert_eq!(node.standing, HarmStanding::default());
    assert!(
        ![Resource::Cpu, Resource::Memory, Resource::Io]
            .iter()
            .any(|n| node.standing.is_paused(*n))
    );
}

#[test]
fn harm_forgets() {
    let mut node = Node::new();
    node.blame(POD_A, POD_B, 1000);
    node.blame(POD_B, POD_A, 1000);
    node.update();
    node.snapshot.aggressions.clear();
    node.snapshot.scopes.retain(|_, scope| &*scope.path.0 != POD_B);
    node.update();
    let known: Vec<_> = node.standing.cpu.pods.keys().collect();
    assert_eq!(known, ["a"]);
    for _ in 0..200 {
        node.update();
    }
    assert!(node.standing.cpu.pods.is_empty(), "{:?}", node.standing.cpu);
}

#[test]
fn harm_standing_json_round_trip() {
    let mut node = Node::new();
    node.blame(POD_B, POD_A, 300);
    node.blame(POD_B, DAEMON, 300);
    node.charges(POD_A, Some(1), 9, Percent(10_00));
    node.update();
    let json = serde_json::to_string(&node.standing).unwrap();
    let back: HarmStanding = serde_json::from_str(&json).unwrap();
    assert_eq!(back, node.standing, "{json}");
}
