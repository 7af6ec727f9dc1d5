use std::collections::BTreeSet;

use super::peaks::percentile;
use super::readings::Used;
use super::*;
use isobar_core::model::cgroup::{Cgroup, CgroupId, MemoryStat};
use isobar_core::model::node::Meminfo;
use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::CgroupDriver::{Cgroupfs, Systemd};
use isobar_core::model::settings::{Node, WorkloadRule};
use isobar_core::model::units::Micros;

pub(super) const MIB: u64 = 1 << 20;

/// A node of 1000 MiB at `second`: each cgroup with its memory in MiB and its CPU time in milliseconds.
pub(super) fn sample(second: u64, cgroups: &[(&str, u64, u64)], left: u64) -> Sample {
    let boot = Nanos(second * Nanos::SECOND.0);
    let mut sample = Sample { at: Moment { boot, wall: boot }, ..Sample::default() };
    let (total, available) = (Bytes(1_000 * MIB), Bytes(left * MIB));
    sample.node.memory = Some(Meminfo { total, available, ..Meminfo::default() });
    for (id, (path, memory, cpu)) in (1..).zip(cgroups) {
        let mut one = Cgroup { path: CgroupPath((*path).into()), ..Cgroup::default() };
        one.memory.current = Some(Bytes(memory * MIB));
        one.memory.stat = Some(MemoryStat::default());
        one.cpu.usage = Some(Micros(cpu * 1_000));
        sample.cgroups.insert(CgroupId(id), one.into());
    }
    sample
}

fn workload(path: &str) -> WorkloadRule {
    WorkloadRule {
        path: path.parse().unwrap(),
        qos_class: QosClass::Burstable,
        priority: 0,
        requests: ResourceList::new(),
    }
}

/// By resource, in thousandths.
fn amounts(list: &[(&str, u64)]) -> ResourceList {
    list.iter().map(|(name, milli)| ((*name).to_owned(), Quantity::milli(*milli))).collect()
}

#[test]
fn readings_belong_to_one_group_each() {
    type Row<'a> = (&'a [(&'a str, u64, u64)], Option<u64>, Option<u64>);
    #[rustfmt::skip]
    let table: [Row<'_>; 8] = [
        // cgroups, MiB of the kubelet and the runtime, MiB of the system
        (&[("/system.slice", 500, 0), ("/system.slice/kubelet.service", 100, 0), ("/kubepods.slice", 900, 0)], Some(100), Some(400)),
        (&[("/podruntime.slice", 300, 0), ("/podruntime.slice/kubelet.service", 100, 0), ("/init.scope", 5, 0)], Some(300), Some(5)),
        (&[("/kubelet.slice", 950, 0), ("/kubelet.slice/kubelet-kubepods.slice", 900, 0), ("/user.slice", 7, 0)], Some(50), Some(7)),
        (&[("/system.slice", 500, 0), ("/kubepods", 900, 0)], None, Some(500)),
        (&[("/user.slice", 10, 0), ("/user.slice/kubepods", 4, 0)], None, Some(6)),
        (&[("/", 10, 0)], None, None),
        // Workloads are nothing of the system.
        (&[("/work-a", 50, 0), ("/work-a/work-inner", 20, 0), ("/init.scope", 5, 0)], None, Some(5)),
        (&[("/system.slice", 60, 0), ("/system.slice/work-b", 50, 0)], None, Some(10)),
    ];
    let rules: Vec<_> = ["/work-*", "/system.slice/work-*", "/work-a/*"].map(workload).into();
    for (cgroups, kube, system) in table {
        let mut sample = sample(1, cgroups, 0);
        let pods = cgroups.iter().find(|(path, ..)| path.contains("kubepods"));
        sample.kubepods = pods.map(|(path, ..)| CgroupPath((*path).into()));
        let All { kube: a, system: b, .. } =
            Readings::new(Node::default(), rules.clone()).of(&sample, None);
        let mib = |used: &Used| used.memory.map(|bytes| bytes.0 / MIB);
        assert_eq!((mib(&a), mib(&b)), (kube, system), "{cgroups:?}");
    }
}

#[test]
fn readings_of_reserved_cgroups() {
    let cgroups = [
        ("/mine.slice", 30, 0),
        ("/a.slice", 2, 0),
        ("/a.slice/a-mine.slice", 1, 0),
        ("/system.slice", 20, 0),
        ("/system.slice/kubelet.service", 9, 0),
        ("/user.slice", 5, 0),
    ];
    let within = Some("/system.slice/kubelet.service in /system.slice");
    #[rustfmt::skip]
    let table = [
        // driver, kubeReservedCgroup, systemReservedCgroup; MiB of the kubelet and of the system, what is left out of the system
        (Cgroupfs, "/mine.slice",    "",                [30, 27], None),
        (Systemd,  "/mine",          "",                [30, 27], None),
        (Systemd,  "/b/mine.slice",  "",                [30, 27], None), // only the last part counts
        (Systemd,  "/a-mine.slice",  "",                [1, 56],  Some("/a.slice/a-mine.slice in /a.slice")),
        (Systemd,  "/system.slice/kubelet.service", "", [9, 48],  within), // as it is written
        (Systemd,  "",               "",                [9, 48],  within),
        (Systemd,  "",               "/gone.slice",     [9, 48],  within),
        (Systemd,  "",               "/system.slice",   [0, 20],  None), // its limit is the kubelet's, too
        (Systemd,  "",               "/system",         [0, 20],  None),
        (Systemd,  "/mine",          "/system",         [30, 20], None),
        (Systemd,  "/system.slice",  "/system.slice",   [20, 0],  None), // one with both names
    ];
    for (cgroup_driver, kube, system, want, left_out) in table {
        let (kube_reserved_cgroup, system_reserved_cgroup) = (kube.into(), system.into());
        let node =
            Node { cgroup_driver, kube_reserved_cgroup, system_reserved_cgroup, ..Node::default() };
        let mut readings = Readings::new(node, Vec::new());
        let sample = sample(1, &cgroups, 0);
        let All { kube: a, system: b, .. } = readings.of(&sample, None);
        let mib = [a, b].map(|used| used.memory.map_or(0, |bytes| bytes.0 / MIB));
        assert_eq!(mib, want, "{kube} {system}");
        let told = readings.left_out.map(|(kube, system)| format!("{} in {}", kube.0, system.0));
        assert_eq!(told.as_deref(), left_out, "{kube} {system}");
    }
}

/// An enforced limit is one of the workloads in it, too.
#[test]
fn workloads_are_of_the_system_where_its_limit_meets_them() {
    use isobar_core::model::settings::Enforcement::{Pods, SystemReserved};
    let cgroups = [("/system.slice", 60, 0), ("/system.slice/work-b", 50, 0), ("/work-a", 7, 0)];
    let all = [(BTreeSet::from([Pods]), 10), (BTreeSet::from([Pods, SystemReserved]), 60)];
    for (enforce, want) in all {
        let node = Node {
            enforce: enforce.clone(),
            system_reserved_cgroup: "/system.slice".into(),
            ..Node::default()
        };
        let rules = ["/system.slice/work-*", "/work-*"].map(workload).into();
        let All { system, .. } = Readings::new(node, rules).of(&sample(1, &cgroups, 0), None);
        assert_eq!(system.memory, Some(Bytes(want * MIB)), "{enforce:?}");
    }
}

#[test]
fn advice_counts_once_what_lies_in_the_cgroup_of_the_system() {
    use isobar_core::model::settings::Enforcement::{KubeReserved, Pods};
    let cgroups = [("/system.slice", 20, 0), ("/system.slice/kubelet.service", 9, 0)];
    #[rustfmt::skip]
    let table = [
        // what is enforced, MiB of the kubelet and of the system, problems that name the kubelet's cgroup
        (vec![Pods],               [None,    Some(20)], 1),
        (vec![Pods, KubeReserved], [Some(9), Some(20)], 0), // its limit has to hold it
    ];
    for (enforce, want, n_problems) in table {
        let mut settings = Settings::default();
        settings.node.system_reserved_cgroup = "/system.slice".into();
        settings.node.enforce = enforce.into_iter().collect();
        let mut record = Record::new(settings, None);
        record.add(&sample(1, &cgroups, 0));
        let advice = record.advice().unwrap();
        let most = |group: &Group| Some(group.memory.as_ref()?.max.to_u64() / MIB);
        assert_eq!(advice.groups.iter().map(most).collect::<Vec<_>>(), want);
        assert_eq!(advice.kube_reserved.contains_key("memory"), want[0].is_some());
        let problems = advice.problems.iter();
        let told = problems.filter(|text| text.contains("kubelet"));
        assert_eq!(told.count(), n_problems, "{:?}", advice.problems);
    }
}

#[test]
fn advice_goes_by_the_cpus_of_the_last_boot() {
    let mut record = Record::new(Settings::default(), Some(4));
    for n_cpus in [Some(8), None, Some(0)] {
        record.has_cpus(n_cpus);
        assert_eq!(record.capacity[CPU], Quantity::count(8), "{n_cpus:?}");
    }
}

#[test]
fn advice_holds_the_record() {
    let mut settings = Settings::default();
    settings.node.kube_reserved = amounts(&[("memory", 256 * MIB * 1_000), ("cpu", 90)]);
    let mut record = Record::new(settings, Some(4));
    for second in 0..200 {
        // A peak of four seconds in two hundred; the node loses 300 MiB within five seconds.
        let is_peak = (100..104).contains(&second);
        let kube = if is_peak { 400 } else { 200 };
        let left = 4_000 - 60 * second.clamp(50, 55);
        let cgroups = [
            ("/system.slice", kube + 100, second * 150),
            ("/system.slice/kubelet.service", kube, second * 100),
        ];
        record.add(&sample(second, &cgroups, left));
    }
    let advice = record.advice().unwrap();
    let text = |list: &ResourceList| {
        list.iter().map(|(name, amount)| format!("{name} {amount}")).collect::<Vec<_>>()
    };
    // Half again, because it is less than an hour; rounded up.
    assert_eq!((advice.margin, advice.covered), (50, Nanos(199 * Nanos::SECOND.0)));
    assert_eq!(text(&advice.kube_reserved), ["cpu 150m", "memory 608Mi"]);
    assert_eq!(text(&advice.system_reserved), ["cpu 80m", "memory 160Mi"]);
    assert_eq!(advice.threshold.map(|one| one.to_string()).as_deref(), Some("464Mi"));
    let met = advice.preview.iter().filter(|one| one.daemons == Daemons::Kube);
    let met: Vec<_> = met
        .map(|one| {
            let first = one.first.map(|at| at.boot.0 / Nanos::SECOND.0);
            (one.resource, one.limit, one.ticks, first)
        })
        .collect();
    #[rustfmt::skip]
    let want = [
        ("memory", "p95",         4,   Some(100)),
        ("memory", "p99",         0,   None),
        ("memory", "recommended", 0,   None),
        ("memory", "configured",  4,   Some(100)),
        ("cpu",    "p95",         0,   None),
        ("cpu",    "p99",         0,   None),
        ("cpu",    "recommended", 0,   None),
        ("cpu",    "configured",  199, Some(1)), // the first tick has no rate
    ];
    assert_eq!(met, want);
    assert_eq!(advice.preview[0].by, Some(CgroupPath("/system.slice/kubelet.service".into())));
    let [little, no_pods, left_out] = &advice.problems[..] else { panic!("{:?}", advice.problems) };
    assert!(little.contains("little record") && no_pods.contains("no cgroup of all pods"));
    assert!(left_out.contains("without what /system.slice/kubelet.service uses"), "{left_out}");
}

#[test]
fn advice_of_pauses_and_nothing() {
    assert_eq!(Record::new(Settings::default(), None).advice(), None);
    let mut record = Record::new(Settings::default(), None);
    // An hour passed unrecorded; another boot begins at 5.
    for second in [0, 1, 3_600, 3_601, 5, 6] {
        record.add(&sample(
            second,
            &[("/system.slice", 1, second * 1_000)],
            4_000 - second % 2_000,
        ));
    }
    let advice = record.advice().unwrap();
    assert_eq!((advice.ticks, advice.covered), (6, Nanos(3 * Nanos::SECOND.0)));
    assert_eq!(
        advice.fastest_loss,
        Some(Quantity::bytes(MIB)),
        "what is lost in a pause took longer"
    );
    assert_eq!(advice.groups.last().unwrap().cpu.as_ref().unwrap().max.to_string(), "1");
}

#[test]
fn percentile_of_few_and_many() {
    let many: Vec<u64> = (1..=200).collect();
    #[rustfmt::skip]
    let table: [(&[u64], u64, Option<u64>); 6] = [
        // values, share, value
        (&[],       50,  None),
        (&[7],      50,  Some(7)),
        (&[1, 2],   50,  Some(1)),
        (&[1, 2],   95,  Some(2)),
        (&many,     99,  Some(198)),
        (&many,     100, Some(200)),
    ];
    for (values, share, want) in table {
        let sorted: Vec<_> = values.iter().map(|value| (*value, Nanos::SECOND)).collect();
        assert_eq!(percentile(&sorted, share), want, "{share} of {}", values.len());
    }
}

/// The system uses 100 MiB and a tenth of a CPU for ten hours, of which 15 ticks of each 300 are left, and
/// then three times as much for twenty minutes.
#[test]
fn percentiles_weigh_time_also_where_a_recording_is_thinned() {
    let thinned = (0..36_000).filter(|second| second % 300 < 15).map(|second| (second, 100));
    let whole = (36_000..37_200).map(|second| (second, 300));
    // Whether an agent goes on, or comes back after a day.
    for away in [0, 86_400] {
        let mut record = Record::new(Settings::default(), Some(4));
        for (second, used) in thinned.clone().chain(whole.clone()) {
            let second = if used == 300 { second + away } else { second };
            // Of CPU, the time so far.
            let cpu = second * used - if used == 300 { 200 * (36_000 + away) } else { 0 };
            record.add(&sample(second, &[("/system.slice", used, cpu)], 500));
        }
        let system = record.advice().unwrap().groups.last().unwrap().clone();
        let told = [system.memory, system.cpu].map(|of| {
            let Percentiles { p50, p95, p99, .. } = of.unwrap();
            [p50, p95, p99].map(|one| one.to_string())
        });
        let want = [["100Mi", "100Mi", "300Mi"], ["100m", "100m", "300m"]];
        assert_eq!(told, want.map(|of| of.map(String::from)), "{away}");
    }
}

#[test]
fn groups_tell_kubelet_and_runtime_apart_where_both_are_known() {
    use Daemons::{Kube, Kubelet, Runtime, System};
    let [kubelet, containerd] =
        ["/system.slice/kubelet.service", "/system.slice/containerd.service"];
    let shim = "/system.slice/containerd.service/shim";
    #[rustfmt::skip]
    let table = [
        // cgroups with their MiB and milliseconds of CPU a second; who used how much memory and CPU
        (vec![(kubelet, 100, 50), (containerd, 60, 20), (shim, 9, 3)], vec![(Kube, "160Mi", "70m"), (Kubelet, "100Mi", "50m"), (Runtime, "60Mi", "20m"), (System, "0", "0")]),
        (vec![(kubelet, 100, 50)],                                     vec![(Kube, "100Mi", "50m"), (System, "0", "0")]),
    ];
    for (cgroups, want) in table {
        let mut record = Record::new(Settings::default(), Some(4));
        for second in 1..=9 {
            let all: Vec<_> =
                cgroups.iter().map(|(path, memory, cpu)| (*path, *memory, cpu * second)).collect();
            let sum =
                |of: fn(&(&str, u64, u64)) -> u64| all[..all.len().min(2)].iter().map(of).sum();
            let slice = ("/system.slice", sum(|one| one.1), sum(|one| one.2));
            record.add(&sample(second, &[&[slice][..], &all].concat(), 500));
        }
        let groups = record.advice().unwrap().groups;
        let told = groups.iter().map(|one| {
            let max =
                |of: &Option<Percentiles>| of.as_ref().map_or("0".into(), |of| of.max.to_string());
            (one.daemons, max(&one.memory), max(&one.cpu))
        });
        let want: Vec<_> =
            want.iter().map(|(who, m, c)| (*who, (*m).to_owned(), (*c).to_owned())).collect();
        assert_eq!(told.collect::<Vec<_>>(), want);
    }
}
