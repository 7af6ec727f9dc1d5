//! `isobar allocatable` on a machine of our making; without one, see `sessions/allocatable.md`.

use crate::machine::{Machine, json, refusal};
use serde_json::{Value, json};

/// A configuration of ours for a machine of our making.
fn ours(machine: &Machine) -> String {
    let root = machine.at("").display().to_string();
    machine.write(
        "isobar.yaml",
        &format!(
            "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nkubeletRoot: {root}\n\
             kubeReserved: {{cpu: 500m, memory: 1Gi}}\nsystemReserved: {{cpu: 500m, memory: 1Gi}}\n\
             enforceNodeAllocatable: [pods, system-reserved]\n\
             systemReservedCgroup: /system.slice\nkubeReservedCgroup: /kube.slice\n\
             podsPerCore: 10\n"
        ),
    )
}

#[test]
fn allocatable_names_drift() {
    let machine = Machine::new();
    let shares = 7 * 1_024;
    let weight = (1 + (shares - 2) * 9_999 / 262_142).to_string();
    machine.cgroup(
        "kubepods.slice",
        &[
            ("memory.max", "34359738368"), // 32 GiB and not 30
            ("cpu.weight", &weight),
            ("pids.max", "max"),
            ("hugetlb.2MB.max", "67108864"),
            ("hugetlb.2MB.rsvd.max", "max"),
        ],
        &[],
    );
    machine.cgroup(
        "system.slice",
        &[
            ("memory.max", "1073741824"),
            ("cpu.weight", "59"), // what a runtime makes of 512 shares
            ("memory.current", "2147483648"),
            ("memory.stat", "anon 1\ninactive_file 0"),
            ("cpu.stat", "usage_usec 1"),
        ],
        &[],
    );
    let config = ours(&machine);
    let got = json(&machine.isobar(&["allocatable", "--config", &config, "-o", "json"]));
    assert_eq!(got["capacity"]["cpu"], "8");
    assert_eq!(got["capacity"]["memory"], "32Gi");
    assert_eq!(got["capacity"]["hugepages-2Mi"], "64Mi");
    assert_eq!(got["capacity"]["pid"], "10k");
    assert_eq!(got["capacity"]["pods"], "80");
    let drift: Vec<_> = got["drift"]
        .as_array()
        .unwrap()
        .iter()
        .map(|drift| {
            let text = |key: &str| drift[key].as_str().unwrap_or("none").to_owned();
            format!("{} {} {}: {}", text("cgroup"), text("file"), text("live"), text("why"))
        })
        .collect();
    let want = [
        "/kubepods.slice memory.max 34359738368: looser",
        "/kubepods.slice pids.max max: looser",
        "/system.slice cpu.weight 59: runtimesScale",
        "/system.slice hugetlb.2MB.max none: noController",
    ];
    assert_eq!(drift, want);
    assert_eq!(got["live"]["pods"]["pidsMax"], "max");
    assert_eq!(got["live"]["pods"]["hugetlbMax"], json!({"2MB": 67_108_864}));
    assert_eq!(got["live"]["kubeReserved"]["exists"], false);
    let outgrown = json!([
        {"cgroup": "/system.slice", "resource": "memory", "used": "2Gi", "reserved": "1Gi"}
    ]);
    assert_eq!(got["layout"]["outgrown"], outgrown);
}

/// After a change of the cgroup driver both may be there until the node boots.
#[test]
fn allocatable_is_about_the_kubepods_that_has_processes() {
    #[rustfmt::skip]
    let table = [
        // whether each has processes, the one that counts
        ([("kubepods", true),  ("kubepods.slice", false)], "/kubepods"),
        ([("kubepods", false), ("kubepods.slice", true)],  "/kubepods.slice"),
    ];
    for (groups, want) in table {
        let machine = Machine::new();
        for (path, is_populated) in groups {
            let events = format!("populated {}", u8::from(is_populated));
            machine.cgroup(path, &[("memory.max", "max"), ("cgroup.events", &events)], &[]);
        }
        let config = ours(&machine);
        let got = json(&machine.isobar(&["allocatable", "--config", &config, "-o", "json"]));
        assert_eq!(got["live"]["pods"]["path"], want);
    }
}

#[test]
fn allocatable_counts_outsiders() {
    let machine = Machine::new();
    machine.cgroup("", &[], &[1, 2, 3]);
    machine.cgroup("user.slice/session", &[], &[10, 11]);
    machine.cgroup("system.slice/sshd.service", &[], &[12]);
    machine.cgroup("kubepods.slice/kubepods-pod1.slice", &[], &[13]);
    for (pid, name, mib) in [(1, "init", 8), (2, "kthreadd", 0), (3, "kworker", 0)] {
        machine.process(pid, name, mib, "0-7");
    }
    for (pid, name, mib) in
        [(10, "bash", 4), (11, "compiler", 900), (12, "sshd", 9), (13, "web", 2_000)]
    {
        machine.process(pid, name, mib, "0-7");
    }
    let config = ours(&machine);
    let got = json(&machine.isobar(&["allocatable", "--config", &config, "-o", "json"]));
    let outside = &got["layout"]["outside"];
    assert_eq!((&outside["processes"], &outside["kernelThreads"]), (&json!(3), &json!(2)));
    assert_eq!(outside["biggest"]["name"], "compiler");
    assert_eq!(outside["biggest"]["cgroup"], "/user.slice/session");
    let exists: Vec<_> =
        got["layout"]["cgroups"].as_array().unwrap().iter().map(|group| &group["exists"]).collect();
    assert_eq!(exists, [true, false, true]);

    let table = machine.isobar(&["allocatable", "--config", &config]);
    let table = String::from_utf8(table.stdout).unwrap();
    for said in
        ["/kube.slice (missing)", "compiler (11) in /user.slice/session", "2 kernel threads"]
    {
        assert!(table.contains(said), "{said:?} in\n{table}");
    }
}

/// Every file of limits, unlimited, and 20 GiB in use.
fn unlimited(machine: &Machine, cgroup: &str) {
    let files = [
        ("cgroup.controllers", "cpuset cpu memory hugetlb pids"),
        ("memory.max", "max"),
        ("cpu.weight", "100"),
        ("pids.max", "max"),
        ("hugetlb.2MB.max", "max"),
        ("memory.current", "21474836480"),
        ("memory.stat", "inactive_file 0"),
    ];
    machine.cgroup(cgroup, &files, &[]);
}

/// `cgroup file value: result` of each limit.
fn limits(document: &Value) -> Vec<String> {
    let line = |limit: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        let write = &limit["write"];
        let (cgroup, file, live) =
            (text(&write["cgroup"]), text(&write["file"]), text(&limit["live"]));
        format!("{cgroup} {file} {live}: {}", text(&limit["result"]))
    };
    document["limits"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn allocatable_apply_and_roll_back() {
    let machine = Machine::new();
    machine.write("cgroup/cgroup.controllers", "cpuset cpu memory hugetlb pids\n");
    unlimited(&machine, "kubepods.slice");
    unlimited(&machine, "system.slice");
    let config = ours(&machine);
    let state = machine.at("state").display().to_string();
    let ask = |verb: &[&str]| {
        let rest = ["--state-dir", &state, "-o", "json"];
        machine.isobar(&[&["allocatable"], verb, &rest].concat())
    };
    let apply = ["--apply", "--config", &config];
    let first = ask(&apply);
    assert_eq!(first.status.code(), Some(1), "something could not be written");
    let first: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!((&first["kind"], &first["problems"]), (&json!("Limits"), &json!([])));
    let want = [
        "/kubepods.slice memory.max 32212254720: written",
        "/kubepods.slice cpu.weight 274: written",
        "/kubepods.slice pids.max 10000: written",
        "/kubepods.slice hugetlb.2MB.max 4611686018427387904: written",
        // 1 GiB would have to be taken from daemons that use 20.
        "/system.slice memory.max max: failed",
        "/system.slice cpu.weight 20: written",
        "/system.slice hugetlb.2MB.max 0: written",
    ];
    assert_eq!(limits(&first), want);
    let why = first["limits"][4]["detail"].as_str().unwrap();
    assert!(why.contains("19456 MiB") && why.contains("must be evicted first"), "{why}");

    machine.write("cgroup/system.slice/memory.current", "0\n");
    let again = json(&ask(&apply));
    assert_eq!(
        limits(&again)[3..5],
        [
            "/kubepods.slice hugetlb.2MB.max 4611686018427387904: kept",
            "/system.slice memory.max 1073741824: written",
        ]
    );
    machine.write("cgroup/kubepods.slice/pids.max", "5000\n");
    let back = json(&ask(&["--roll-back"]));
    let want = [
        "/kubepods.slice memory.max max: written",
        "/kubepods.slice cpu.weight 100: written",
        "/kubepods.slice pids.max 5000: drifted",
        "/kubepods.slice hugetlb.2MB.max max: written",
        "/system.slice cpu.weight 100: written",
        "/system.slice hugetlb.2MB.max max: written",
        "/system.slice memory.max max: written",
    ];
    assert_eq!(limits(&back), want);
    assert_eq!(limits(&json(&ask(&["--roll-back"]))), [""; 0]);
}

#[test]
fn allocatable_apply_refuses() {
    let machine = Machine::new();
    unlimited(&machine, "kubepods");
    let state = machine.at("state").display().to_string();
    let config = ours(&machine);
    let ask = |more: &[&str]| {
        let all = [&["allocatable", "--apply", "--state-dir", &state], more].concat();
        machine.isobar(&all)
    };
    let output = ask(&["--config", &config]);
    assert_eq!(output.status.code(), Some(3));
    let table = String::from_utf8(output.stdout).unwrap();
    for said in [
        "/kubepods  memory.max  32212254720     max  32212254720  written",
        "! system-reserved: cgroup /system.slice is not there, so the kubelet would not start",
        "or take system-reserved out of enforceNodeAllocatable",
    ] {
        assert!(table.contains(said), "{said:?} in\n{table}");
    }
    // The defaults would take back what the kubelet has written.
    let untold = machine.write(
        "untold.yaml",
        "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nkubeReserved: {memory: 1Gi}\n",
    );
    let written = || std::fs::read_to_string(machine.at("cgroup/kubepods/memory.max")).unwrap();
    let before = written();
    let untold = refusal(&ask(&["--config", &untold]));
    assert!(
        untold.contains("what the kubelet reserves is not known; name the kubelet's"),
        "{untold}"
    );
    assert_eq!(written(), before);
    let unsaid = refusal(&ask(&[]));
    assert!(unsaid.contains("add --config or --kubelet-config"), "{unsaid}");
    let usage = ask(&["--config", &config, "--roll-back"]);
    assert_eq!(usage.status.code(), Some(2), "one or the other");
    let usage = ask(&["--config", &config, "--capacity", "cpu=1"]);
    assert_eq!(usage.status.code(), Some(2), "another node's limits are not this one's");
}
