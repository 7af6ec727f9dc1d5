//! Snapshots of a node that does not exist: busy, throttled, with a neighbour that does harm.
//! The numbers fit together, so that whoever looks at the page sees a story.

use std::collections::BTreeMap;
use std::sync::Arc;

use isobar::clock;
use isobar::record::incident::shelf::{Draft, Shelf};
use isobar::record::incident::{Incident, State};
use isobar::serve::publish::{Latest, Publisher, channel};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath, CpuFiles, Limit, MemoryFiles};
use isobar_core::model::cost::{Cost, KernelCost, ProgramCost};
use isobar_core::model::node::{Meminfo, NodeFacts, NodeReading};
use isobar_core::model::pod::{Place, QosClass, Runtime};
use isobar_core::model::psi::{Line, Pressure, Pressures};
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::snapshot::{
    Blame, CpuWait, MemoryCauseWait, MemoryWait, Scope, Snapshot, Union, Waited,
};
use isobar_core::model::stall::{Coverage, MemoryCause, OomKill, OomRecord};
use isobar_core::model::units::{Bytes, Micros, MilliCpu, Nanos, Percent};
use isobar_core::policy::engine::Step;
use isobar_kubelet::checkpoint::Assignment;
use isobar_kubelet::cpus::{Pool, Sets};

/// A name that a browser or a terminal would act upon if it were not taken as text.
pub(crate) const HOSTILE: &str = "/<img src=x onerror=alert(1)>.service";

/// An incident that is kept.
pub(crate) const INCIDENT: &str = "20260922T024003Z-condition-SystemCPUContentionPressure";

pub(crate) const POD_A: &str = "3f2a91c4-7d1e-4b0a-9a52-0c6e1f7b8d21";
const POD_B: &str = "b81d60f2-52ce-4f5c-8a10-6e0c9d3a7f44";
pub(crate) const POD_C: &str = "0a7c44de-91b3-4c3f-b6f1-2d9be58c1e90";

/// Both ends of a watch for a made-up node.
pub(crate) fn publisher() -> (Publisher, Latest) {
    let facts = NodeFacts {
        name: "worker-07".into(),
        kernel: "6.12.57-cloud-amd64".into(),
        boot_id: "5d0b1f0e".into(),
        n_cpus: 8,
    };
    let (to, latest) = channel();
    let mut publisher = Publisher::new(facts, clock::now(), to);
    let shelf = Shelf::in_memory();
    let (name, state) = (INCIDENT.into(), State::Frozen);
    let incident = Incident { name, state, ..Incident::default() };
    shelf.keep(incident, Draft::in_memory().unwrap()).unwrap();
    publisher.show_incidents(&Arc::new(shelf));
    (publisher, latest)
}

/// What its CPU manager leaves to whom, with a state that is good or not.
pub(crate) fn cpus(problem: Option<&str>) -> Pool {
    let set = |cpus: &str| cpus.parse().unwrap();
    let of_a = Assignment { pod: POD_A.into(), container: "app".into(), cpus: set("2-3") };
    Pool {
        reserved: set("0"),
        sets: Some(Sets {
            default: set("0-1,4-7"),
            exclusive: set("2-3"),
            shared_millicores: 5_000,
        }),
        assignments: vec![of_a],
        problems: problem.map(str::to_owned).into_iter().collect(),
    }
}

/// Publishes tick `tick`, as of now.
pub(crate) fn publish(publisher: &mut Publisher, tick: u64) {
    let kubepods = Some(CgroupId(2));
    publish_step(publisher, Step { kubepods, ..step(snapshot(tick)) });
}

/// A tick that came to this, with kills that are named by its own cgroups.
pub(crate) fn step(snapshot: Snapshot) -> Step {
    let scope = |id| snapshot.scopes.get(&id);
    let path = |id| scope(id).map(|scope| scope.path.clone());
    let name = |kill: &OomKill| scope(kill.victim).and_then(|scope| scope.name.clone());
    let record = |kill| OomRecord::of(kill, snapshot.at, name(kill), path);
    let oom_kills = snapshot.oom_kills.iter().map(record).collect();
    Step { snapshot, oom_kills, ..Step::default() }
}

pub(crate) fn publish_step(publisher: &mut Publisher, step: Step) {
    publisher.publish(step, capabilities(), cost());
}

/// One busy second. It moves a little from tick to tick.
pub(crate) fn snapshot(tick: u64) -> Snapshot {
    let sway = u16::try_from((tick * 37) % 300).unwrap();
    Snapshot {
        tick,
        at: clock::now(),
        interval: Nanos::SECOND,
        covers: Coverage::ALL,
        node: NodeReading {
            memory: Some(Meminfo {
                total: Bytes(33_554_432_000),
                available: Bytes(6_710_886_400),
                ..Meminfo::default()
            }),
            n_threads: Some(1_874),
            n_runnable: Some(19),
            ..NodeReading::default()
        },
        whole: Scope {
            path: CgroupPath::root(),
            place: Place::Node,
            pressure: pressures(63_10 + sway, 21_40, 3_20),
            cpu: Some(cpu_wait(2_900, 1_610, 240)),
            contention: Some(union(41_20 + sway)),
            contention_per_cpu: [58, 44, 39, 71, 12, 33, 40, 35].map(|p| Percent(p * 100)).into(),
            memory: Some(memory_wait(&[(MemoryCause::OwnLimit, 190), (MemoryCause::Global, 18)])),
            shortage: Some(union(1_80)),
            io_wait: Some(waited(310)),
            ..Scope::default()
        },
        scopes: scopes(sway),
        aggressions: aggressions(),
        oom_kills: if tick == 3 { vec![oom_kill()] } else { vec![] },
        gaps: vec![Gap {
            object: "/proc/pressure/irq".into(),
            why: GapReason::Unsupported,
            detail: "no such file: the kernel was built without CONFIG_IRQ_TIME_ACCOUNTING".into(),
        }],
        ..Snapshot::default()
    }
}

/// A cgroup: hundredths of a percent, and milliseconds.
type Row = (u64, String, Place, (u16, u16, u16), u16, (u64, u64, u64), Option<(MemoryCause, u64)>);

fn scopes(sway: u16) -> BTreeMap<CgroupId, Scope> {
    let burstable = "/kubepods.slice/kubepods-burstable.slice";
    let pod = |uid: &str, class| Place::Pod { uid: uid.into(), class };
    let a = format!("{burstable}/kubepods-burstable-pod{}.slice", POD_A.replace('-', "_"));
    let b = format!("{burstable}/kubepods-burstable-pod{}.slice", POD_B.replace('-', "_"));
    let c = format!("/kubepods.slice/kubepods-pod{}.slice", POD_C.replace('-', "_"));
    let container = Place::Container {
        pod: POD_A.into(),
        class: QosClass::Burstable,
        id: "9f86d081884c7d659a2feaa0c55ad015".into(),
        runtime: Runtime::Containerd,
    };
    #[rustfmt::skip]
    let table: [Row; 10] = [
        // id, path, place, psi cpu, mem, io, contention, (others, own, above) ms, memory cause
        (2, "/kubepods.slice".to_owned(), Place::Kubepods, (61_00, 20_10, 2_10), 40_10, (2_600, 1_610, 240), Some((MemoryCause::OwnLimit, 190))),
        (3, burstable.to_owned(), Place::Qos { class: QosClass::Burstable }, (60_20, 20_10, 2_10), 38_00, (2_400, 1_610, 240), None),
        (11, a.clone(), pod(POD_A, QosClass::Burstable), (52_40 + sway, 0, 20), 37_90 + sway, (1_480, 0, 240), None),
        (12, format!("{a}/cri-containerd-9f86d081884c7d659a2feaa0c55ad015.scope"), container, (52_40, 0, 20), 37_90, (1_480, 0, 240), None),
        (13, b, pod(POD_B, QosClass::Burstable), (44_70, 0, 0), 6_20, (160, 1_610, 0), None),
        (14, c, pod(POD_C, QosClass::Guaranteed), (8_30, 20_10, 1_90), 8_00, (310, 0, 0), Some((MemoryCause::OwnLimit, 190))),
        (20, "/system.slice".into(), Place::Other, (7_20, 1_10, 3_10), 7_20, (290, 0, 0), None),
        (21, "/system.slice/containerd.service".into(), Place::Other, (5_10, 0, 1_20), 5_10, (190, 0, 0), None),
        (22, "/system.slice/backup-nightly-with-a-rather-long-name@var-lib-postgresql.service".into(), Place::Other, (1_90, 1_10, 3_00), 1_90, (60, 0, 0), Some((MemoryCause::Refault, 11))),
        (23, HOSTILE.into(), Place::Other, (90, 0, 0), 90, (12, 0, 0), None),
    ];
    let scope = |(id, path, place, psi, contention, wait, cause): Row| {
        let scope = Scope {
            path: CgroupPath(path.clone().into()),
            place,
            pressure: pressures(psi.0, psi.1, psi.2),
            files: Some(files(path).into()),
            cpu_usage: Some(MilliCpu(100 + id * 71)),
            cpu: Some(cpu_wait(wait.0, wait.1, wait.2)),
            contention: Some(union(contention)),
            memory: Some(memory_wait(cause.as_slice())),
            shortage: Some(union(0)),
            io_wait: Some(waited(u64::from(psi.2) / 10)),
            ..Scope::default()
        };
        (CgroupId(id), scope)
    };
    table.into_iter().map(scope).collect()
}

fn aggressions() -> Vec<Blame> {
    let path = |p: &str| Some(CgroupPath(p.into()));
    #[rustfmt::skip]
    let table = [
        // victim, aggressor, its path, ms
        (12, 22, path("/system.slice/backup-nightly-with-a-rather-long-name@var-lib-postgresql.service"), 905),
        (12, 13, None, 402),
        (14, 22, None, 211),
        (13, 12, None, 160),
        (12, 99, None, 96),
        (21, 12, path("/x"), 88),
        (14, 0,  None, 21),
        (23, 23, path(HOSTILE), 12),
    ];
    let blame = |(victim, aggressor, aggressor_path, ms): (_, _, _, u64)| Blame {
        victim: CgroupId(victim),
        aggressor: CgroupId(aggressor),
        aggressor_path,
        time: Nanos(ms * 1_000_000),
        ..Blame::default()
    };
    table.map(blame).into()
}

fn oom_kill() -> OomKill {
    OomKill {
        at: clock::now().boot,
        victim: CgroupId(12),
        victim_pid: Some(48_213),
        victim_comm: Some("mysqld".into()),
        limit: Some(CgroupId(11)),
        limit_known: true,
        trigger: CgroupId(12),
        ..OomKill::default()
    }
}

fn files(path: String) -> Cgroup {
    Cgroup {
        path: CgroupPath(path.into()),
        cpu: CpuFiles {
            quota: Some(Limit::At(200_000)),
            period: Some(Micros(100_000)),
            ..CpuFiles::default()
        },
        memory: MemoryFiles {
            current: Some(Bytes(812_000_000)),
            max: Some(Limit::At(1_073_741_824)),
            ..MemoryFiles::default()
        },
        ..Cgroup::default()
    }
}

fn pressures(cpu: u16, memory: u16, io: u16) -> Pressures {
    let line = |avg10: u16| Line {
        avg10: Percent(avg10),
        avg60: Percent(avg10 / 5 * 4),
        avg300: Percent(avg10 / 3),
        total: Micros(123_456_789),
    };
    let file =
        |some: u16, full: u16| Some(Pressure { some: Some(line(some)), full: Some(line(full)) });
    Pressures {
        cpu: file(cpu, 0),
        memory: file(memory, memory / 4),
        io: file(io, io / 2),
        irq: None,
    }
}

fn union(avg10: u16) -> Union {
    Union {
        now: Percent(avg10 + avg10 / 10),
        avg10: Percent(avg10),
        avg60: Percent(avg10 / 10 * 8),
        avg300: Percent(avg10 / 3),
        total: Nanos(88 * Nanos::SECOND.0),
        seen: None,
    }
}

fn waited(ms: u64) -> Waited {
    Waited { now: Nanos(ms * 1_000_000), total: Nanos(ms * 60_000_000) }
}

fn cpu_wait(others: u64, own: u64, above: u64) -> CpuWait {
    CpuWait {
        wait: waited(others + own + above),
        contention: Some(waited(others)),
        throttled_own: Some(waited(own)),
        throttled_ancestor: Some(waited(above)),
        n_waits: 4_210,
        histogram: vec![0, 3, 40, 200, 90, 12],
    }
}

fn memory_wait(causes: &[(MemoryCause, u64)]) -> MemoryWait {
    let wait = |ms| MemoryCauseWait { union: waited(ms), time: waited(ms * 3), count: 20 };
    MemoryWait {
        any: waited(causes.iter().map(|(_, ms)| ms).sum()),
        causes: causes.iter().map(|(cause, ms)| (*cause, wait(*ms))).collect(),
    }
}

pub(crate) fn capabilities() -> Vec<Capability> {
    use CapabilityState::{Absent, Attached, Blind, Off};
    #[rustfmt::skip]
    let table = [
        // name, state, detail, remedy
        ("sched_switch",         Attached, "tp_btf", None),
        ("throttle intervals",   Attached, "fentry on throttle_cfs_rq", None),
        ("psi_memstall_enter",   Absent,   "not in this kernel's BTF", Some("a kernel with CONFIG_PSI=y")),
        ("io_schedule",          Blind,    "saw nothing of the agent's own work", None),
        ("oom_kill_process",     Off,      "switched off by --probes", Some("--probes all")),
        ("memory controller",    Attached, "/sys/fs/cgroup", None),
    ];
    let capability = |(name, state, detail, remedy): (&str, _, &str, Option<&str>)| Capability {
        remedy: remedy.map(Into::into),
        ..Capability::new(name, state, detail)
    };
    table.map(capability).into()
}

pub(crate) fn cost() -> Cost {
    let program = |name: &str, runs, per_run| ProgramCost {
        name: name.into(),
        runs,
        per_run: Nanos(per_run),
        per_second: Nanos(runs * per_run),
    };
    Cost {
        cpu: Some(MilliCpu(7)),
        used: Some(Nanos(41_000_000)),
        resident: Some(Bytes(18_300_000)),
        tick: Nanos(3_400_000),
        publishing: Nanos(900_000),
        reading: Nanos(1_500_000),
        decision: Nanos(2_100_000),
        handover: Some(Nanos(64_000)),
        longest_gap: Nanos(1_001_000_000),
        major_faults: Some(0),
        kernel: KernelCost {
            programs: vec![program("sched_switch", 41_200, 312), program("throttle", 38, 540)],
            map_bytes: Some(Bytes(9_437_184)),
        },
    }
}
