use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::*;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::quantity::ResourceList;
use isobar_kubelet::checkpoint::Assignment;
use isobar_kubelet::cpus::Sets;

/// A machine of two CPUs in plain files, with kubepods and a process on both.
fn machine(dir: &Path) {
    let set = |path: &str, text: &str| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    set("sys/devices/system/cpu/online", "0-1\n");
    set("proc/7/status", "Name:\tspin\nPPid:\t1\nVmRSS:\t4 kB\nCpus_allowed_list:\t0-1\n");
    set("proc/7/oom_score_adj", "0\n");
    set("cgroup/cgroup.procs", "");
    for cgroup in ["kubepods", "kubepods/burstable", "kubepods/burstable/pod1-2"] {
        set(&format!("cgroup/{cgroup}/cpuset.cpus"), "\n");
        set(&format!("cgroup/{cgroup}/cgroup.procs"), "");
    }
    set("cgroup/kubepods/burstable/pod1-2/cgroup.procs", "7\n");
}

fn keeping(dir: &Path) -> Keeping {
    let (proc, cgroup_root) = (dir.join("proc"), dir.join("cgroup"));
    let places =
        Places { proc: proc.clone(), sys: dir.join("sys"), cgroup_root: Some(cgroup_root.clone()) };
    Keeping::begin(places, act::Places { cgroup_root, proc, state: dir.join("state") }).unwrap()
}

fn settings(what: &[WrittenLimit]) -> Settings {
    let mut settings = Settings::default();
    settings.node.write_limits = what.iter().copied().collect();
    settings.node.reserved_cpus = Some(CpuSet([0].into()));
    settings
}

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

const ENFORCED: Terms = Terms { is_enforced: true, is_told: true };
const OBSERVED: Terms = Terms { is_enforced: false, is_told: true };

/// What it says once it has carried out what was asked at that second.
fn seen(
    keeping: &mut Keeping,
    second: u64,
    settings: &Settings,
    terms: Terms,
) -> (Vec<LimitState>, Vec<Capability>) {
    keeping.look(seconds(second), settings, terms);
    for _ in 0..500 {
        sleep(Duration::from_millis(10));
        let before = keeping.last.clone();
        let (states, lacking) = keeping.look(seconds(second), settings, terms);
        let got = (states.to_vec(), lacking);
        if keeping.last != before {
            return got;
        }
    }
    panic!("nothing was heard: {:?}", keeping.last);
}

#[test]
fn keeper_names_intruders_on_reserved_cpus() {
    let dir = tempfile::tempdir().unwrap();
    machine(dir.path());
    let mut keeping = keeping(dir.path());
    let settings = settings(&[WrittenLimit::ReservedCpus]);
    let set = || fs::read_to_string(dir.path().join("cgroup/kubepods/cpuset.cpus")).unwrap();
    let results = |states: &[LimitState]| states.iter().map(|one| one.result).collect::<Vec<_>>();
    use LimitResult::{Drifted, Failed, Observed, Written};

    let (states, _) = seen(&mut keeping, 1, &settings, OBSERVED);
    assert_eq!((results(&states), set().trim()), (vec![Observed, Observed, Failed], ""));
    let (states, _) = seen(&mut keeping, 11, &settings, ENFORCED);
    assert_eq!((results(&states), set().trim()), (vec![Written, Written, Failed], "1"));
    let told = "1 processes of pods may still run on reserved CPUs: spin (7)";
    assert_eq!(states[0].detail, told);
    assert!(states[2].detail.contains("/kubepods/besteffort is not there"), "{:?}", states[2]);

    fs::write(dir.path().join("cgroup/kubepods/cpuset.cpus"), "0-1\n").unwrap();
    let (states, _) = keeping.look(seconds(20), &settings, ENFORCED);
    assert_eq!(results(states)[0], Written, "not looked at before it is time");
    let (states, _) = seen(&mut keeping, 21, &settings, ENFORCED);
    assert_eq!((states[0].result, set().trim()), (Drifted, "1"));
    let detail = format!("another writer changed 1 to \"0-1\"; it was written again; {told}");
    assert_eq!(states[0].detail, detail);
}

#[test]
fn keeper_writes_nothing_before_the_kubelet_has_told() {
    use WrittenLimit::{Allocatable, ReservedCpus};
    let untold = "what the kubelet reserves is not known";
    let unknown = "the capacity of memory, pid is not known";
    #[rustfmt::skip]
    let table = [
        // what, told by the kubelet, kube-reserved, system-reserved, reserved CPUs, why nothing is written
        (ReservedCpus, false, "",  "",  "",  Some(untold)),
        (ReservedCpus, false, "1", "",  "",  Some(untold)), // the kubelet may reserve the other
        (ReservedCpus, true,  "1", "",  "",  None),
        (ReservedCpus, false, "",  "1", "0", None), // by isobar's own file
        (ReservedCpus, false, "1", "0", "",  None),
        (Allocatable,  false, "1", "",  "",  Some(untold)),
        (Allocatable,  false, "",  "1", "0", Some(untold)),
        (Allocatable,  true,  "",  "",  "",  Some(unknown)),
        (Allocatable,  false, "1", "0", "",  Some(unknown)),
    ];
    for (what, is_told, kube, system, cpus, want) in table {
        let row = format!("{what:?} {is_told} {kube:?} {system:?} {cpus:?}");
        let dir = tempfile::tempdir().unwrap();
        machine(dir.path());
        let mut settings = settings(&[what]);
        let cpu = |amount: &str| amount.parse().ok().map(|amount| ("cpu".to_owned(), amount));
        settings.node.kube_reserved = cpu(kube).into_iter().collect();
        settings.node.system_reserved = cpu(system).into_iter().collect();
        settings.node.reserved_cpus =
            Some(cpus).filter(|c| !c.is_empty()).map(|c| c.parse().unwrap());
        let terms = Terms { is_enforced: true, is_told };
        let (states, lacking) = seen(&mut keeping(dir.path()), 1, &settings, terms);
        let said = lacking.first().map(|one| &*one.detail);
        assert_eq!(said, want, "{row}");
        let written = fs::read_to_string(dir.path().join("cgroup/kubepods/cpuset.cpus")).unwrap();
        assert_eq!(
            (written.trim(), states.is_empty()),
            (want.map_or("1", |_| ""), want.is_some()),
            "{row}"
        );
    }
}

#[test]
fn look_compares_what_the_kubelet_is_to_write() {
    let dir = tempfile::tempdir().unwrap();
    machine(dir.path());
    let set = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let left =
        ["MemFree", "MemAvailable", "SwapTotal", "SwapFree"].map(|name| format!("{name}: 0 kB\n"));
    set("proc/meminfo", &format!("MemTotal: 1048576 kB\n{}", left.concat()));
    set("proc/sys/kernel/pid_max", "4194304\n");
    set("proc/sys/kernel/threads-max", "8000\n");
    set("cgroup/kubepods/memory.max", "536870912\n");
    set("cgroup/kubepods/pids.max", "max\n");
    let mut keeping = keeping(dir.path());
    let mut settings = Settings::default();
    seen(&mut keeping, 1, &settings, ENFORCED);
    assert_eq!(keeping.last.states, [], "nobody has told what is reserved");
    settings.node.kube_reserved = [("memory".into(), "512Mi".parse().unwrap())].into();
    settings.generation = 1;
    let of = |states: &[LimitState]| {
        let all = states.iter().map(|one| (one.write.file.clone(), one.result));
        all.collect::<Vec<_>>()
    };
    use LimitResult::{Drifted, Kept, Observed};
    let told = |memory, pids| vec![("memory.max".to_owned(), memory), ("pids.max".into(), pids)];
    let (states, lacking) = seen(&mut keeping, 61, &settings, ENFORCED);
    assert_eq!((of(&states), lacking.len()), (told(Kept, Observed), 0), "{states:?}");
    set("cgroup/kubepods/memory.max", "1073741824\n");
    let (states, _) = seen(&mut keeping, 71, &settings, ENFORCED);
    assert_eq!(of(&states), told(Drifted, Observed));
    let detail =
        "another writer changed 536870912 to \"1073741824\"; without writeLimits it stays so";
    assert_eq!(states[0].detail, detail);
    let now = fs::read_to_string(dir.path().join("cgroup/kubepods/memory.max")).unwrap();
    assert_eq!(now, "1073741824\n", "nothing is written");
    set("cgroup/kubepods/memory.max", "536870912\n");
    let (states, _) = seen(&mut keeping, 81, &settings, ENFORCED);
    assert_eq!(of(&states), told(Kept, Observed));
}

#[test]
fn look_reports_refused_limits_as_capabilities() {
    let dir = tempfile::tempdir().unwrap();
    machine(dir.path());
    let mut keeping = keeping(dir.path());
    let mut settings = settings(&[WrittenLimit::ReservedCpus]);
    settings.node.reserved_cpus = Some(CpuSet([0, 1].into()));
    let (states, lacking) = seen(&mut keeping, 1, &settings, ENFORCED);
    assert_eq!(states, []);
    assert_eq!(
        (lacking[0].name.as_str(), lacking[0].state),
        ("limits of reserved CPUs", CapabilityState::Absent)
    );
    assert!(lacking[0].detail.contains("all CPUs are reserved: 0-1"), "{lacking:?}");
    assert_eq!(lacking[0].remedy.as_deref(), Some("reserve fewer CPUs"));
    settings.generation = 1;
    settings.node.reserved_cpus = Some(CpuSet([1].into()));
    let (states, lacking) = seen(&mut keeping, 2, &settings, ENFORCED);
    assert_eq!((states[0].write.value.as_str(), lacking.len()), ("0", 0));
    settings.node.write_limits.clear();
    settings.generation = 2;
    assert_eq!(keeping.look(seconds(3), &settings, ENFORCED), (&[][..], Vec::new()));
}

#[test]
fn look_tells_what_the_cpu_manager_leaves() {
    let dir = tempfile::tempdir().unwrap();
    machine(dir.path());
    let root = dir.path().join("kubelet");
    fs::create_dir(&root).unwrap();
    let mut settings = settings(&[]);
    settings.node.kubelet_root = root.display().to_string();
    let mut keeping = keeping(dir.path());
    seen(&mut keeping, 1, &settings, ENFORCED);
    let (pool, resources) = keeping.node();
    assert_eq!(pool, None, "the policy is none");
    let of = |list: &ResourceList| list["cpu"].to_string();
    let resources = resources.map(|node| (of(&node.capacity), of(&node.allocatable)));
    assert_eq!(resources, Some(("2".into(), "1".into())), "one is reserved");
    settings.generation += 1;
    settings.node.static_cpus = true;
    let set = |cpus: &[u32]| CpuSet(cpus.iter().copied().collect());
    let of = |exclusive: &[u32], default: &[u32], shared_millicores| Pool {
        reserved: set(&[0]),
        sets: Some(Sets { default: set(default), exclusive: set(exclusive), shared_millicores }),
        ..Pool::default()
    };
    let of_c = Assignment { pod: "u".into(), container: "c".into(), cpus: set(&[1]) };
    let refused = vec!["unexpected end of JSON input".to_owned()];
    #[rustfmt::skip]
    let table = [
        // state file, pool
        (None,                                      of(&[], &[0, 1], 1_000)),
        (Some(r#"{"policyName":"static","defaultCpuSet":"0","entries":{"u":{"c":"1"}},"checksum":0}"#),
                                                    Pool { assignments: vec![of_c], ..of(&[1], &[0], 0) }),
        (Some("{"),                                 Pool { problems: refused, ..of(&[], &[0, 1], 1_000) }),
    ];
    for ((state, want), second) in table.into_iter().zip([2, 12, 22]) {
        if let Some(text) = state {
            fs::write(root.join(CPU_STATE), text).unwrap();
        }
        seen(&mut keeping, second, &settings, ENFORCED);
        assert_eq!(keeping.node().0, Some(&want), "{state:?}");
    }
    let file = root.join(CPU_STATE);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    seen(&mut keeping, 32, &settings, ENFORCED);
    let problems = vec![format!("cannot read {}: Is a directory (os error 21)", file.display())];
    let want = Pool { reserved: set(&[0]), problems, ..Pool::default() };
    assert_eq!(keeping.node().0, Some(&want), "nothing is known of whose CPUs they are");
}

#[test]
fn keeper_leaves_the_slices_to_exclusive_cpus() {
    let dir = tempfile::tempdir().unwrap();
    machine(dir.path());
    let root = dir.path().join("kubelet");
    fs::create_dir(&root).unwrap();
    let mut settings = settings(&[WrittenLimit::ReservedCpus]);
    settings.node.kubelet_root = root.display().to_string();
    settings.node.static_cpus = true;
    let mut keeping = keeping(dir.path());
    let all =
        r#"{"policyName":"static","defaultCpuSet":"0","entries":{"u":{"c":"1"}},"checksum":0}"#;
    #[rustfmt::skip]
    let table = [
        // state file, sets of kubepods and of Burstable pods, why not
        (None,      ("1", "1"), None),
        (Some(all), ("", ""),   Some("all CPUs that are not reserved are exclusive to containers: 1")),
        (Some("{"), ("1", ""),  Some("which CPUs are exclusive to containers is not known")),
    ];
    for ((state, want, why), second) in table.into_iter().zip([1, 11, 21]) {
        if let Some(text) = state {
            fs::write(root.join(CPU_STATE), text).unwrap();
        }
        let (_, lacking) = seen(&mut keeping, second, &settings, ENFORCED);
        let set = |path: &str| {
            let file = dir.path().join("cgroup").join(path).join("cpuset.cpus");
            fs::read_to_string(file).unwrap().trim().to_owned()
        };
        let got = (set("kubepods"), set("kubepods/burstable"));
        assert_eq!((&*got.0, &*got.1), want, "{state:?}");
        let said = lacking.first().map(|one| &*one.detail);
        assert_eq!(said.is_some(), why.is_some(), "{state:?}: {said:?}");
        assert!(said.unwrap_or_default().contains(why.unwrap_or_default()), "{state:?}: {said:?}");
    }
}

#[test]
fn look_reports_a_missing_cgroup_tree() {
    let dir = tempfile::tempdir().unwrap();
    machine(dir.path());
    fs::remove_dir_all(dir.path().join("cgroup")).unwrap();
    let (states, lacking) =
        seen(&mut keeping(dir.path()), 1, &settings(&[WrittenLimit::Allocatable]), ENFORCED);
    assert_eq!((states.len(), lacking[0].name.as_str()), (0, "limits"));
}
