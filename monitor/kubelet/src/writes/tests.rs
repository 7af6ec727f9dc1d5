use super::*;
use Enforcement::{
    KubeReserved, KubeReservedCompressible, Pods, SystemReserved, SystemReservedCompressible,
};
use isobar_core::model::cgroup::Limit;
use isobar_core::model::machine::Found;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::settings::CgroupDriver::{self, Cgroupfs, Systemd};
use isobar_core::model::settings::Enforcement;

const GIB: u64 = 1 << 30;
const OFFERED: [&str; 6] = ["cpu", "cpuset", "hugetlb", "io", "memory", "pids"];

fn list(pairs: &[(&str, &str)]) -> ResourceList {
    pairs.iter().map(|(name, amount)| ((*name).into(), amount.parse().unwrap())).collect()
}

fn node(driver: CgroupDriver, enforce: &[Enforcement]) -> Node {
    Node {
        cgroup_driver: driver,
        enforce: enforce.iter().copied().collect(),
        kube_reserved: list(&[("cpu", "1"), ("memory", "2Gi"), ("pid", "1000")]),
        system_reserved: list(&[("cpu", "500m"), ("memory", "1Gi")]),
        kube_reserved_cgroup: "/kube.slice".into(),
        system_reserved_cgroup: "/system.slice".into(),
        ..Node::default()
    }
}

fn found(path: CgroupPath) -> Found {
    Found {
        path,
        exists: true,
        controllers: OFFERED.map(str::to_owned).into(),
        memory_max: Some(Limit::Max),
        cpu_weight: Some(100),
        pids_max: Some(Limit::Max),
        hugetlb_max: [("2MB".into(), Limit::Max)].into(),
        ..Found::default()
    }
}

/// Four CPUs, 32 GiB, room for 10,000 processes; all cgroups are there.
fn ground(node: &Node) -> Ground {
    let cpus: CpuSet = "0-3".parse().unwrap();
    let reserved = |name: &str| names::reserved(node.cgroup_driver, name).map(found);
    Ground {
        capacity: list(&[("cpu", "4"), ("memory", "32Gi"), ("pid", "10000")]),
        live: Live {
            pods: found(names::kubepods(node)),
            kube_reserved: reserved(&node.kube_reserved_cgroup),
            system_reserved: reserved(&node.system_reserved_cgroup),
        },
        offered: OFFERED.map(str::to_owned).into(),
        topology: Topology::flat(&cpus),
        exclusive: Some(CpuSet::default()),
    }
}

fn written(node: Node, what: WrittenLimit, change: impl FnOnce(&mut Ground)) -> Writes {
    let mut ground = ground(&node);
    change(&mut ground);
    writes(&Settings { node, ..Settings::default() }, &BTreeSet::from([what]), &ground)
}

fn lines(all: &Writes) -> Vec<String> {
    let line = |w: &LimitWrite| format!("{} {} {}", w.cgroup, w.file, w.value);
    all.writes.iter().map(line).collect()
}

#[test]
fn writes_each_level() {
    let pods = |path: &str| {
        // 32 GiB less 3, 4 CPUs less 1.5, and 10,000 less 1,000.
        let files = [("memory.max", 29 * GIB), ("cpu.weight", 98), ("pids.max", 9_000)];
        files.map(|(file, value)| format!("{path} {file} {value}")).to_vec()
    };
    let with = |path: &str, more: &[&str]| {
        let more = more.iter().map(|line| (*line).to_owned());
        pods(path).into_iter().chain(more).collect::<Vec<_>>()
    };
    let all = vec![
        "/kubepods memory.max 34359738368".to_owned(),
        "/kubepods cpu.weight 157".into(),
        "/kubepods pids.max 10000".into(),
    ];
    #[rustfmt::skip]
    let table = [
        // driver, cgroupRoot, enforced, what is written
        (Cgroupfs, "",    vec![Pods], pods("/kubepods")),
        (Systemd,  "",    vec![Pods], pods("/kubepods.slice")),
        (Cgroupfs, "/a",  vec![Pods], pods("/a/kubepods")),
        (Systemd,  "/a",  vec![Pods], pods("/a.slice/a-kubepods.slice")),
        (Cgroupfs, "",    vec![],     all),
        (Systemd,  "",    vec![Pods, SystemReserved], with("/kubepods.slice", &[
            "/system.slice memory.max 1073741824", "/system.slice cpu.weight 20",
        ])),
        (Systemd,  "",    vec![Pods, KubeReserved], with("/kubepods.slice", &[
            "/kube.slice memory.max 2147483648", "/kube.slice cpu.weight 39", "/kube.slice pids.max 1000",
        ])),
        (Systemd,  "",    vec![Pods, KubeReservedCompressible, SystemReservedCompressible], with("/kubepods.slice", &[
            "/system.slice cpu.weight 20", "/kube.slice cpu.weight 39",
        ])),
    ];
    for (driver, root, enforce, want) in table {
        let row = format!("{driver:?} {root:?} {enforce:?}");
        let node = Node { cgroup_root: root.into(), ..node(driver, &enforce) };
        let got = written(node, WrittenLimit::Allocatable, |_| {});
        assert_eq!(lines(&got), want, "{row}");
        assert_eq!(got.refused, [], "{row}");
    }
}

#[test]
fn writes_huge_pages() {
    let huge = |offered: bool| {
        let node = node(Cgroupfs, &[Pods, SystemReserved]);
        let got = written(node, WrittenLimit::Allocatable, |ground| {
            ground.capacity.insert("hugepages-2Mi".into(), Quantity::bytes(64 << 20));
            if !offered {
                ground.offered.remove("hugetlb");
            }
        });
        lines(&got).into_iter().filter(|line| line.contains("hugetlb")).collect::<Vec<_>>()
    };
    let want = ["/kubepods hugetlb.2MB.max 4611686018427387904", "/system.slice hugetlb.2MB.max 0"];
    assert_eq!(huge(true), want);
    assert_eq!(huge(false), [""; 0]);
}

#[test]
fn writes_refusals() {
    type Change = fn(&mut Node, &mut Ground);
    type Row =
        (&'static str, Change, &'static [&'static str], &'static str, &'static str, &'static str);
    let enforced = [Pods, SystemReserved, KubeReserved];
    #[rustfmt::skip]
    let table: [Row; 11] = [
        // row, what is wrong, cgroups that are written all the same, level, why, way out
        ("too much", |_, g| { g.capacity.insert("memory".into(), Quantity::bytes(GIB)); }, &[],
            "allocatable", "Resource \"memory\" has a reservation of 3Gi but capacity of 1Gi", "reserve less"),
        ("unknown", |_, g| { g.capacity.remove("memory"); g.capacity.remove("pid"); }, &[],
            "allocatable", "the capacity of memory, pid is not known", "/proc"),
        ("no pods", |n, _| n.cgroups_per_qos = false, &["/kube.slice", "/system.slice"],
            "kubepods", "without cgroupsPerQOS", "set cgroupsPerQOS"),
        ("nothing set aside", |n, _| n.kube_reserved.clear(), &["/kubepods.slice", "/system.slice"],
            "kube-reserved", "[\"kube\"] cgroup is not configured properly", "set kubeReserved, or take kube-reserved out"),
        ("root", |_, g| g.live.kube_reserved = None, &["/kubepods.slice", "/system.slice"],
            "kube-reserved", "names no cgroup", "name one below the root"),
        ("absent", |_, g| g.live.system_reserved.as_mut().unwrap().exists = false, &["/kube.slice", "/kubepods.slice"],
            "system-reserved", "cgroup /system.slice is not there, so the kubelet would not start", "create it before"),
        ("same", |_, g| g.live.kube_reserved.as_mut().unwrap().path.0 = "/system.slice".into(), &["/kubepods.slice", "/system.slice"],
            "kube-reserved", "is the system-reserved cgroup too", "name another cgroup"),
        ("controllers", |_, g| g.live.kube_reserved.as_mut().unwrap().controllers = ["cpu", "cpuset", "hugetlb"].map(str::to_owned).into(), &["/kubepods.slice", "/system.slice"],
            "kube-reserved", "cgroup [\"kube\"] has some missing controllers: memory, pids", "write \"+memory +pids\" to cgroup.subtree_control above /kube.slice"),
        // Also those of which it has no limit to write.
        ("huge pages", |_, g| _ = g.live.kube_reserved.as_mut().unwrap().controllers.remove("hugetlb"), &["/kubepods.slice", "/system.slice"],
            "kube-reserved", "has some missing controllers: hugetlb", "+hugetlb"),
        ("compressible", |n, g| { n.enforce = [Pods, KubeReservedCompressible].into(); g.live.kube_reserved.as_mut().unwrap().controllers.remove("cpuset"); }, &["/kubepods.slice"],
            "kube-reserved", "cgroup [\"kube\"] has some missing controllers: cpuset", "+cpuset"),
        ("nested", |n, g| { n.kube_reserved_cgroup = "/kube-a_b.slice".into(); g.live.kube_reserved.as_mut().unwrap().controllers.clear(); }, &["/kubepods.slice", "/system.slice"],
            "kube-reserved", "cgroup [\"kube\" \"a-b\"] has some missing controllers: cpu, cpuset, hugetlb, memory, pids", "+cpu +cpuset +hugetlb +memory +pids"),
    ];
    for (row, change, cgroups, level, why, remedy) in table {
        let mut node = node(Systemd, &enforced);
        let mut ground = ground(&node);
        change(&mut node, &mut ground);
        let settings = Settings { node, ..Settings::default() };
        let got = writes(&settings, &BTreeSet::from([WrittenLimit::Allocatable]), &ground);
        let at: BTreeSet<_> = got.writes.iter().map(|write| &*write.cgroup.0).collect();
        assert_eq!(at.into_iter().collect::<Vec<_>>(), cgroups, "{row}");
        let [refusal] = got.refused.as_slice() else { panic!("{row}: {:?}", got.refused) };
        assert_eq!(refusal.level, level, "{row}");
        assert!(refusal.why.contains(why), "{row}: {}", refusal.why);
        assert!(refusal.remedy.contains(remedy), "{row}: {}", refusal.remedy);
    }
}

#[test]
fn writes_cpusets() {
    #[rustfmt::skip]
    let table = [
        // row, reserved, exclusive, what is written, what is said
        ("one",       Some("0"),   "",    vec!["/kubepods 1-3", "/kubepods/burstable 1-3", "/kubepods/besteffort 1-3"], None),
        ("exclusive", Some("0"),   "2",   vec!["/kubepods 1-3", "/kubepods/burstable 1,3", "/kubepods/besteffort 1,3"], None),
        ("by amount", None,        "",    vec!["/kubepods 2-3", "/kubepods/burstable 2-3", "/kubepods/besteffort 2-3"], None),
        ("all",       Some("0-3"), "",    vec![], Some("all CPUs are reserved: 0-3")),
        ("offline",   Some("3-4"), "",    vec![], Some("reserved-cpus: 3-4 is not a subset of online-cpus: 0-3")),
        ("none left", Some("0-1"), "2-3", vec![], Some("all CPUs that are not reserved are exclusive")),
        ("unknown",   Some("0"),   "?",   vec!["/kubepods 1-3"], Some("which CPUs are exclusive to containers is not known")),
    ];
    for (row, reserved, exclusive, want, refused) in table {
        let mut node = node(Cgroupfs, &[Pods]);
        node.reserved_cpus = reserved.map(|cpus| cpus.parse().unwrap());
        let got = written(node, WrittenLimit::ReservedCpus, |ground| {
            ground.exclusive = exclusive.parse().ok();
        });
        assert_eq!(got.withdrawn.is_empty(), row != "none left", "{row}");
        assert!(got.writes.iter().all(|write| write.file == "cpuset.cpus"), "{row}");
        let sets: Vec<_> = got.writes.iter().map(|w| format!("{} {}", w.cgroup, w.value)).collect();
        assert_eq!(sets, want, "{row}");
        let why = got.refused.first().map(|refusal| refusal.why.as_str());
        assert_eq!(why.is_some(), refused.is_some(), "{row}: {why:?}");
        assert!(why.unwrap_or_default().contains(refused.unwrap_or_default()), "{row}: {why:?}");
    }
    let mut node = node(Cgroupfs, &[Pods]);
    (node.kube_reserved, node.system_reserved) = (ResourceList::new(), ResourceList::new());
    let got = written(node, WrittenLimit::ReservedCpus, |_| {});
    assert_eq!((got.writes.len(), got.refused[0].why.as_str()), (0, "no CPU is reserved"));
}
