use std::sync::Arc;

use super::*;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryFiles, MemoryStat};
use crate::model::decision::SparedReason;
use crate::model::sample::Sample;
use crate::model::settings::Settings;
use crate::model::units::{MilliCpu, Nanos};
use crate::model::workload::{Container, Owner, Resources};
use crate::policy::rank::harm::Entry;
use crate::policy::rank::tests::contenders_of;
use crate::policy::rank::{Harm, rank_all};
use crate::policy::takers::TakerStanding;

const ID: &str = "0f3c9d51e6a84b27c0d1f2e3948576a1b2c3d4e5f60718293a4b5c6d7e8f901";

fn mib(n: u64) -> Bytes {
    Bytes(n << 20)
}

/// A cgroup with this use of memory (if its files could be read), pids and processes.
fn scope(path: &str, memory: Option<u64>, pids: Option<u64>, procs: Option<u64>) -> Scope {
    let stat = MemoryStat { inactive_file: mib(1), ..MemoryStat::default() };
    let path = CgroupPath(path.into());
    let files = Cgroup {
        path: path.clone(),
        memory: MemoryFiles {
            current: memory.map(|n| mib(n + 1)),
            stat: Some(stat),
            ..MemoryFiles::default()
        },
        pids_current: pids,
        n_procs: procs,
        ..Cgroup::default()
    };
    Scope { place: Place::of(&path), path, files: Some(files.into()), ..Scope::default() }
}

fn snapshot(scopes: impl IntoIterator<Item = Scope>) -> Snapshot {
    let scopes = (1..).map(CgroupId).zip(scopes).collect();
    Snapshot { scopes, interval: Nanos::SECOND, ..Snapshot::default() }
}

fn pod(uid: &str, name: &str, requests: &[(&str, &str)]) -> Pod {
    let requests = requests.iter().map(|(name, q)| ((*name).into(), q.parse().unwrap()));
    let resources = Resources { requests: requests.collect(), ..Resources::default() };
    let containers = vec![Container { resources, ..Container::default() }];
    Pod { uid: uid.into(), name: name.into(), containers, ..Pod::default() }
}

fn sample(pods: impl IntoIterator<Item = Pod>) -> Sample {
    let pods = pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
    let pods = Arc::new(pods);
    Sample { pods: Some(pods), ..Sample::default() }
}

fn of(sample: &Sample, snapshot: &Snapshot, signal: &str, order: Order) -> Vec<Contender> {
    let purpose = Purpose::named(signal).unwrap();
    let mut settings = Settings::default();
    settings.ranking.order = order;
    contenders_of(sample, snapshot, &HarmStanding::default(), purpose, &settings)
}

fn text(quantity: Option<Quantity>) -> String {
    quantity.map_or_else(|| "-".into(), |quantity| quantity.to_string())
}

#[test]
fn contenders_usage_of_pod_or_containers() {
    let pod = "/kubepods/burstable/podu";
    let (one, two) = (format!("{pod}/{ID}1"), format!("{pod}/{ID}2"));
    let below = format!("{one}/below");
    let all = |whole: (Option<u64>, Option<u64>)| {
        snapshot([
            scope(pod, whole.0, whole.1, Some(0)),
            scope(&one, Some(300), Some(30), Some(3)),
            scope(&below, Some(200), Some(20), Some(2)),
            scope(&two, Some(100), Some(10), Some(1)),
        ])
    };
    let read = all((Some(450), Some(45)));
    let unread = all((None, None));
    let nothing = snapshot([scope(pod, None, None, None)]);
    #[rustfmt::skip]
    let table = [
        // snapshot, signal, order, use
        (&read,    "memory.available",      Order::Qos,     "450Mi"),
        (&unread,  "memory.available",      Order::Qos,     "400Mi"), // what a container made is part of it
        (&nothing, "memory.available",      Order::Qos,     "-"),
        (&read,    "pid.available",         Order::Qos,     "45"),    // threads, which are what runs out
        (&unread,  "pid.available",         Order::Qos,     "40"),
        (&read,    "pid.available",         Order::Kubelet, "6"),     // processes, as the kubelet counts
        (&nothing, "pid.available",         Order::Kubelet, "-"),
        (&read,    "nodefs.available",      Order::Qos,     "-"),     // not measured
        (&read,    "nodefs.inodesFree",     Order::Qos,     "-"),
        (&read,    "kubepods.disk.pressure", Order::Qos,    "-"),
        (&read,    "kubepods.cpu.pressure", Order::Qos,     "-"),     // a first sample
    ];
    for (snapshot, signal, order, want) in table {
        let got = of(&Sample::default(), snapshot, signal, order);
        assert_eq!(got.len(), 1, "{signal}: one contender for the pod and all that is in it");
        assert_eq!(text(got[0].usage), want, "{signal} {order:?}");
    }
}

#[test]
fn contenders_disk_use_by_what_is_short() {
    use crate::model::disk::{ContainerDisk, DiskReading, DiskUse, PodDisk};
    use crate::model::node::Filesystem;
    let used = |mib: u64| DiskUse { bytes: Some(Bytes(mib << 20)), inodes: Some(mib) };
    let container = ContainerDisk { layer: used(1), logs: used(2) };
    let containers = [("app".to_owned(), container)].into();
    let disk = PodDisk { containers, ..PodDisk::default() };
    let pods = [("u".to_owned(), disk)].into();
    let mut sample = sample([pod("u", "web", &[("ephemeral-storage", "1Mi")])]);
    sample.pod_disks = Some(Arc::new(DiskReading { at: Nanos(1), pods, ..DiskReading::default() }));
    let snapshot = snapshot([
        scope("/kubepods/podu", None, None, None),
        scope("/kubepods/podv", None, None, None),
    ]);
    let on = |device| Some(Filesystem { device, ..Filesystem::default() });
    #[rustfmt::skip]
    let table = [
        // device of images and layers, signal, use, request
        (1, "nodefs.available",     "3Mi", "1Mi"),
        (1, "imagefs.inodesFree",   "3",   "1Mi"),
        (2, "nodefs.available",     "2Mi", "1Mi"),
        (2, "imagefs.available",    "1Mi", "1Mi"),
        (2, "containerfs.available", "1Mi", "1Mi"),
    ];
    for (device, signal, usage, request) in table {
        let files = &mut sample.node.filesystems;
        (files.nodefs, files.imagefs, files.containerfs) = (on(1), on(device), on(device));
        let got = of(&sample, &snapshot, signal, Order::Qos);
        let got: Vec<_> = got.iter().map(|c| (text(c.usage), text(c.request))).collect();
        let unknown = ("-".to_owned(), "-".to_owned());
        assert_eq!(got, [(usage.into(), request.into()), unknown], "{device} {signal}");
    }
}

#[test]
fn contenders_cpu_usage_is_a_rate() {
    let mut snapshot = snapshot([scope("/kubepods/podu", None, None, None)]);
    let scope = snapshot.scopes.values_mut().next().unwrap();
    scope.cpu_usage = Some(MilliCpu(1_500));
    let sample = sample([pod("u", "web", &[("cpu", "500m")])]);
    let got = of(&sample, &snapshot, "kubepods.cpu.pressure", Order::Qos);
    assert_eq!((text(got[0].usage), text(got[0].request)), ("1500m".into(), "500m".into()));
}

#[test]
fn contenders_cpu_usage_is_averaged_in_the_order_cause() {
    let mut settings = Settings::default();
    let purpose = Purpose::named("kubepods.cpu.pressure").unwrap();
    let sample = sample([pod("u", "web", &[("cpu", "500m")])]);
    let mut harm = HarmStanding::default();
    harm.cpu.is_measured = true;
    harm.cpu.pods.insert("u".into(), Entry { taken: 400_000_000, ..Entry::default() });
    #[rustfmt::skip]
    let table = [
        // order, measured, used in this tick, usage
        (Order::Cause,   true,  Some(1_500), "400m"),
        (Order::Cause,   true,  None,        "-"), // its file could not be read
        (Order::Cause,   false, Some(1_500), "1500m"),
        (Order::Qos,     true,  Some(1_500), "1500m"),
        (Order::Kubelet, true,  Some(1_500), "1500m"),
    ];
    for (order, is_measured, used, want) in table {
        (settings.ranking.order, harm.cpu.is_measured) = (order, is_measured);
        let mut snapshot = snapshot([scope("/kubepods/podu", None, None, None)]);
        snapshot.scopes.values_mut().for_each(|scope| scope.cpu_usage = used.map(MilliCpu));
        let got = contenders_of(&sample, &snapshot, &harm, purpose, &settings);
        assert_eq!(text(got[0].usage), want, "{order:?} {is_measured} {used:?}");
    }
}

#[test]
fn contenders_hold_memory_and_swap_and_free_memory() {
    let sample = sample([pod("u", "web", &[("memory", "500Mi")])]);
    let mut snapshot = snapshot([scope("/kubepods/burstable/podu", Some(900), None, None)]);
    let scope = snapshot.scopes.values_mut().next().unwrap();
    let files = Arc::make_mut(scope.files.as_mut().unwrap());
    files.memory.swap_current = Some(mib(300));
    files.memory.stat = Some(MemoryStat {
        anon: mib(100),
        shmem: mib(40),
        file: mib(840),
        active_file: mib(760),
        inactive_file: mib(40),
        ..MemoryStat::default()
    });
    let purpose = Purpose::named("memory.available").unwrap();
    let settings = Settings::default();
    #[rustfmt::skip]
    let table = [
        // an eviction is possible, cache counts as taken; MiB that it holds, that its end frees
        (true,  Counts::Held,      440,   140),
        (false, Counts::Held,      440,   100),
        (true,  Counts::WithCache, 1_240, 940),
        (false, Counts::WithCache, 1_240, 900),
    ];
    for (can_evict, counts, holds, frees) in table {
        let steps = can_evict.then(|| BTreeSet::from([StepKind::Evict]));
        let sample = Sample { available_steps: steps, ..sample.clone() };
        let (harm, takers) = (&HarmStanding::default(), &TakerStanding::default());
        let (settings, snapshot) = (&settings, &snapshot);
        let node = Node { sample: &sample, snapshot, harm, takers, settings };
        let protected = Protected::of(settings, &sample, snapshot);
        let got = of_node(node, purpose, (None, counts), &protected);
        let want = (Some(mib(holds).0), Some(mib(frees).0));
        assert_eq!((got[0].holds, got[0].frees), want, "{can_evict} {counts:?}");
    }
}

#[test]
fn contenders_request_without_the_api() {
    let snapshot = snapshot([
        scope("/kubepods/podguaranteed", Some(1), None, None),
        scope("/kubepods/burstable/podburstable", Some(1), None, None),
        scope("/kubepods/besteffort/podbest", Some(1), None, None),
    ]);
    #[rustfmt::skip]
    let table = [
        // signal, requests of best, burstable, guaranteed
        ("memory.available",      ["0", "-", "-"]),
        ("kubepods.cpu.pressure", ["0", "-", "-"]),
        ("nodefs.available",      ["-", "-", "-"]),
        ("pid.available",         ["-", "-", "-"]),
    ];
    for (signal, want) in table {
        let got = of(&Sample::default(), &snapshot, signal, Order::Qos);
        let names: Vec<_> = got.iter().map(|contender| contender.name.as_str()).collect();
        assert_eq!(names, ["best", "burstable", "guaranteed"], "the uid stands in for the name");
        let requests: Vec<_> = got.iter().map(|contender| text(contender.request)).collect();
        assert_eq!(requests, want, "{signal}");
    }
}

#[test]
fn contenders_join_the_api() {
    let told = Pod {
        namespace: "shop".into(),
        priority: Some(7),
        started: Some(1_700_000_000),
        labels: [("pod-template-hash".into(), "5d8f".into())].into(),
        ..pod("u", "web-1", &[("memory", "100Mi"), ("ephemeral-storage", "1Gi")])
    };
    let snapshot = snapshot([scope("/kubepods/burstable/podu", Some(300), None, None)]);
    let got = of(&sample([told]), &snapshot, "memory.available", Order::Qos);
    let owner = Owner { kind: "Template".into(), name: "5d8f".into(), uid: String::new() };
    let want = Contender {
        name: "web-1".into(),
        namespace: "shop".into(),
        uid: "u".into(),
        class: QosClass::Burstable,
        priority: 7,
        request: Some(Quantity::bytes(100 << 20)),
        usage: Some(Quantity::bytes(300 << 20)),
        holds: Some(0),
        harm: None,
        part: None,
        taken: None,
        lasting: None,
        frees: Some(0),
        started: Some(1_700_000_000),
        owner: Some(owner),
        preference: None,
        spared: None,
    };
    assert_eq!(got, [want]);
    let got = of(
        &sample([pod("u", "w", &[("ephemeral-storage", "1Gi")])]),
        &snapshot,
        "nodefs.inodesFree",
        Order::Kubelet,
    );
    assert_eq!(text(got[0].request), "1Gi");
}

#[test]
fn contenders_static_pod_by_hash() {
    const HASHED: &str = "3f1a9c0e8b7d6a5f4e3d2c1b0a998877";
    let mut mirror = pod("6c1a4e95-6bb6", "etcd-node", &[]);
    for key in ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"] {
        mirror.annotations.insert(key.into(), HASHED.into());
    }
    // Its owner may write this annotation, and is not the static pod for that.
    let mut stranger = pod("7d2b5f06-7cc7", "stranger", &[]);
    stranger.annotations.insert("kubernetes.io/config.hash".into(), HASHED.into());
    let snapshot =
        snapshot([scope(&format!("/kubepods/burstable/pod{HASHED}"), Some(1), None, None)]);
    let sample = sample([mirror, stranger]);
    assert_eq!(sample.pod(HASHED).map(|pod| pod.name.as_str()), Some("etcd-node"));
    let got = of(&sample, &snapshot, "memory.available", Order::Qos);
    assert_eq!((got[0].name.as_str(), got[0].uid.as_str()), ("etcd-node", HASHED));
    assert_eq!(got[0].spared, Some(SparedReason::Mirror));
}

#[test]
fn contenders_need_a_cgroup() {
    let got =
        of(&sample([pod("u", "ended", &[])]), &snapshot([]), "memory.available", Order::Kubelet);
    assert_eq!(got, []);
}

#[test]
fn contenders_opted_out_and_isobar() {
    #[rustfmt::skip]
    let table = [
        // label, value, spared as
        ("isobar/never-evict",     "true",   Some(SparedReason::OptedOut)),
        ("isobar/never-evict",     "false",  None),
        ("app.kubernetes.io/name", "isobar", None), // any owner may write it
        ("app.kubernetes.io/name", "web",    None),
    ];
    for (label, value, want) in table {
        let mut pod = pod("u", "w", &[]);
        pod.labels.insert(label.into(), value.into());
        let got = Contender::of(&pod, QosClass::BestEffort, &Settings::default().ranking);
        assert_eq!(got.spared, want, "{label}={value}");
    }
}

/// A DaemonSet's pods and a leaking job's have nothing in common but their class.
#[test]
fn contenders_unknown_owners() {
    let uids: Vec<_> = (0..40).map(|i| format!("hog{i:02}")).collect();
    let path = |uid: &str| format!("/kubepods/besteffort/pod{uid}");
    let hogs = uids.iter().map(|uid| scope(&path(uid), Some(20), None, None));
    let snapshot = snapshot(hogs.chain([scope(&path("still"), Some(30), None, None)]));
    let entry = |ms: u64| Entry {
        harm: Harm { others: Nanos(ms * 1_000_000), own: Nanos(0) },
        taken: 1,
        ..Entry::default()
    };
    let mut standing = HarmStanding::default();
    standing.memory.is_measured = true;
    standing.memory.pods = uids.iter().map(|uid| (uid.clone(), entry(2))).collect();
    let purpose = Purpose::named("memory.available").unwrap();
    let settings = Settings::default();
    let pods = contenders_of(&Sample::default(), &snapshot, &standing, purpose, &settings);
    let got = rank_all(&pods, purpose, Order::Qos, &settings.ranking);
    let names: Vec<_> = got.candidates.iter().map(|c| (c.name.as_str(), c.members.len())).collect();
    assert_eq!(names.len(), 41);
    assert!(names.iter().all(|(_, n_members)| *n_members == 0), "{names:?}");
}

#[test]
fn contenders_leave_out_what_was_not_read() {
    let path = CgroupPath("/kubepods/burstable/podu".into());
    let files = Cgroup { path: path.clone(), ..Cgroup::default() };
    let unread = Scope { files: Some(files.into()), ..scope(&path.0, None, None, None) };
    for (scope, n) in [(unread, 0), (scope(&path.0, None, None, None), 1)] {
        let all = of(&sample([]), &snapshot([scope]), "memory.available", Order::Kubelet);
        assert_eq!(all.len(), n);
    }
}
