//! Trees and a node as they look on real machines, kept in tests/data.

use crate::sampling::{cgroup, data, gaps, paths, sample, sampler};
use isobar_core::model::cgroup::{IoLimit, Limit, MemoryEvents};
use isobar_core::model::node::{CpuTime, Meminfo, Reclaim};
use isobar_core::model::pod::{Place, QosClass, Runtime};
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::sample::GapReason::{Torn, Unsupported};
use isobar_core::model::threshold::Signal;
use isobar_core::model::units::{Bytes, Micros, Nanos, Percent};
use isobar_core::policy::assess::signals::observe;

const UID: &str = "7a1e5b1c-9d3f-4c58-8a86-2f0d4b7c6e19";
const STATIC: &str = "3f1a9c0e8b7d6a5f4e3d2c1b0a998877";
const ID: &str = "0f3c9d51e6a84b27c0d1f2e3948576a1b2c3d4e5f60718293a4b5c6d7e8f9012";

#[test]
fn sampler_both_drivers() {
    let burstable = QosClass::Burstable;
    for (tree, runtime) in
        [("cgroup-systemd", Runtime::Containerd), ("cgroup-cgroupfs", Runtime::Unknown)]
    {
        let root = data(tree);
        let read = sample(&mut sampler(&root), 1);
        assert_eq!(gaps(&read, &root), [], "{tree}");
        #[rustfmt::skip]
        let places = [
            // place, memory.current in MiB, cpu.max, processes
            (Place::Kubepods, 2, Limit::At(20_000), 0),
            (Place::Qos { class: burstable }, 3, Limit::Max, 0),
            (Place::Pod { uid: UID.into(), class: burstable }, 4, Limit::At(40_000), 0),
            (Place::Container { pod: UID.into(), class: burstable, id: ID.into(), runtime }, 5, Limit::Max, 3),
            (Place::Pod { uid: STATIC.into(), class: QosClass::Guaranteed }, 6, Limit::At(60_000), 0),
        ];
        for (place, mib, quota, n_procs) in places {
            let found: Vec<_> =
                read.cgroups.values().filter(|cgroup| Place::of(&cgroup.path) == place).collect();
            assert_eq!(found.len(), 1, "{tree} {place:?}");
            let found = found[0];
            assert_eq!(found.memory.current, Some(Bytes(mib << 20)), "{tree} {place:?}");
            assert_eq!(found.cpu.quota, Some(quota), "{tree} {place:?}");
            assert_eq!(found.n_procs, Some(n_procs), "{tree} {place:?}");
        }
    }
}

#[test]
fn sampler_container_files() {
    let read = sample(&mut sampler(&data("cgroup-cgroupfs")), 1);
    let container = cgroup(&read, &format!("/kubepods/burstable/pod{UID}/{ID}"));
    let pod = cgroup(&read, &format!("/kubepods/burstable/pod{UID}"));
    assert_eq!(container.parent.map(|parent| &*read.cgroups[&parent]), Some(pod));

    let avg = Percent(5_00);
    let some = Line { avg10: avg, avg60: avg, avg300: avg, total: Micros(5_000) };
    let full = Line { total: Micros(2_500), ..Line::default() };
    assert_eq!(container.pressure.cpu, Some(Pressure { some: Some(some), full: Some(full) }));
    let irq = Line { total: Micros(5), ..Line::default() };
    assert_eq!(container.pressure.irq, Some(Pressure { some: None, full: Some(irq) }));

    let cpu = container.cpu;
    assert_eq!((cpu.usage, cpu.throttled), (Some(Micros(5_000_000)), Some(Micros(500))));
    assert_eq!((cpu.periods, cpu.throttled_periods), (Some(50), Some(5)));
    assert_eq!((cpu.quota, cpu.period), (Some(Limit::Max), Some(Micros(100_000))));
    assert_eq!(cpu.weight, Some(5));

    let memory = container.memory;
    assert_eq!(memory.swap_current, Some(Bytes(5)));
    let limits = (memory.max, memory.high, memory.low, memory.min);
    let zero = Some(Limit::At(0));
    assert_eq!(limits, (Some(Limit::Max), Some(Limit::Max), zero, zero));
    let events = MemoryEvents { high: 5, max: 5, ..MemoryEvents::default() };
    assert_eq!(memory.events, Some(events));
    let stat = memory.stat.unwrap();
    assert_eq!((stat.anon, stat.inactive_file), (Bytes(5_000), Bytes(5_021)));
    assert_eq!((stat.pgscan, stat.pgmajfault), (5_031, 5_034));

    let io = container.io.unwrap();
    assert_eq!((io.read, io.written, io.reads, io.writes), (Bytes(40_960), Bytes(5), 5, 1));
    // What is done on a device is known from the reading after its limit on.
    let limit = IoLimit {
        device: (8, 0),
        read: Some(Bytes(1 << 20)),
        writes: Some(120),
        ..IoLimit::default()
    };
    assert_eq!(container.io_limits, [limit]);
    assert_eq!((container.pids_current, container.pids_max), (Some(5), Some(Limit::Max)));
}

#[test]
fn sampler_torn_and_new_lines() {
    let root = data("cgroup-torn");
    let read = sample(&mut sampler(&root), 1);
    assert_eq!(paths(&read), ["/", "/good", "/newer", "/torn"]);
    let new = "line 1 has a key that this version of isobar does not know";
    let (stat, current, max, psi) = (
        "line 3: expected `key number`, found \"nr_throttled\"",
        "line 1: expected a value, found \"\"",
        "line 1: expected a number or `max`, found \"lots\"",
        "line 2: expected a line feed at its end, found \"full avg10=0.00 avg6\"",
    );
    let mut want = [
        (Unsupported, "/newer/cpu.pressure", new),
        (Torn, "/torn/cpu.stat", stat),
        (Torn, "/torn/memory.current", current),
        (Torn, "/torn/memory.max", max),
        (Torn, "/torn/memory.pressure", psi),
    ];
    let mut told = gaps(&read, &root);
    want.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, want);

    let newer = cgroup(&read, "/newer");
    assert_eq!(newer.pressure.cpu.unwrap().some.unwrap().total, Micros(7));
    assert_eq!(newer.io.unwrap().writes, 4);
    let torn = cgroup(&read, "/torn");
    assert_eq!((torn.pressure.memory, torn.memory.current, torn.memory.max), (None, None, None));
    assert!(torn.pressure.cpu.is_some() && torn.memory.high.is_some());
}

#[test]
fn sampler_switched_off_told_once() {
    let root = data("cgroup-partial");
    let mut sampler = sampler(&root);
    for tick in 1..=12 {
        let read = sample(&mut sampler, tick);
        let pod = format!("/kubepods.slice/kubepods-pod{STATIC}.slice");
        let of = |file| format!("{pod}/{file}");
        let (switch, swap, swap_max) =
            (of("cgroup.pressure"), of("memory.swap.current"), of("memory.swap.max"));
        let below = |name| format!("/system.slice/unit-{name}.service/cgroup.subtree_control");
        let units = [below(0), below(1), below(2)];
        let mut want = vec![
            (
                Unsupported,
                "/cgroup.controllers",
                "no io controller on cgroup v2: boot with cgroup_no_v1=io",
            ),
            (Unsupported, switch.as_str(), "is 0: write 1 to account this cgroup's pressure"),
            (Unsupported, swap.as_str(), "this kernel does not have it"),
            (Unsupported, swap_max.as_str(), "this kernel does not have it"),
            (
                Unsupported,
                "/system.slice/cgroup.subtree_control",
                "the cpu controller is off below: write +cpu to enable it",
            ),
        ];
        want.extend(units.iter().map(|unit| {
            (
                Unsupported,
                unit.as_str(),
                "the memory controller is off below: write +memory to enable it",
            )
        }));
        let mut told = gaps(&read, &root);
        want.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, want, "tick {tick}");
        assert_eq!(cgroup(&read, "/system.slice/unit-0.service").cpu.weight, None);
    }
}

#[test]
fn sampler_node_files() {
    let mut sampler = sampler(&data("cgroup-cgroupfs"));
    let facts = sampler.facts().clone();
    assert_eq!((facts.name.as_str(), facts.kernel.as_str()), ("node-1", "6.12.0-test"));
    assert_eq!((facts.boot_id.len(), facts.n_cpus), (36, 2));

    let node = sample(&mut sampler, 1).node;
    let kib = |n: u64| Bytes(n << 10);
    let memory = Meminfo {
        total: kib(32_768_000),
        free: kib(1_024_000),
        available: kib(16_384_000),
        swap_total: kib(2_048_000),
        swap_free: kib(2_040_000),
        swap_cached: kib(0),
        zswap: Bytes(0),
        hugetlb: kib(0),
    };
    assert_eq!(node.memory, Some(memory));
    // The file counts in hundredths of a second on every machine of today.
    let time = |ticks: u64| Nanos(ticks * 10_000_000);
    let cpu = CpuTime { busy: time(1_630), idle: time(40_500), steal: time(80) };
    assert_eq!(node.cpu, Some(cpu));
    let reclaim = Reclaim { scanned: 7_100, reclaimed: 6_450, refaults: 1_230 };
    assert_eq!(node.reclaim, Some(reclaim));
    assert_eq!((node.n_runnable, node.n_threads), (Some(3), Some(1_234)));
    assert_eq!(node.max_threads, Some(255_000));
    assert_eq!(node.pressure.cpu.unwrap().some.unwrap().avg10, Percent(10_34));
    assert_eq!(node.pressure.irq.unwrap().full.unwrap().total, Micros(44));
}

#[test]
fn signals_of_a_recorded_node() {
    let kib = |n: u64| n << 10;
    // `anon` and `file` of the root less `inactive_file`; `memory.current` less `inactive_file`.
    let (used_by_node, used_by_pods) = (1_000 + 1_001 - 1_021, 2_097_152 - 2_021);
    for driver in ["cgroup-cgroupfs", "cgroup-systemd"] {
        let sample = sample(&mut sampler(&data(driver)), 1);
        let mut cgroups = sample.cgroups.values().map(|cgroup| &**cgroup);
        let kubepods = cgroups.find(|c| Place::of(&c.path) == Place::Kubepods);
        #[rustfmt::skip]
        let table = [
            // signal, available, capacity
            (Signal::MemoryAvailable, Some((kib(32_768_000) - used_by_node, kib(32_768_000)))),
            (Signal::AllocatableMemoryAvailable, Some((4_194_304 - used_by_pods, 4_194_304))),
            (Signal::PidAvailable, Some((255_000 - 1_234, 255_000))),
            (Signal::NodefsAvailable, None), // this node has no such directory
        ];
        for (signal, want) in table {
            let got = observe(signal, &sample, kubepods).ok();
            let got = got.map(|seen| (seen.available, seen.capacity));
            assert_eq!(got, want, "{driver} {signal}");
        }
    }
}
