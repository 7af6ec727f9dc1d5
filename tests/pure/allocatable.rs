//! `isobar allocatable` on the kubelet's own cases, and on a machine of our making.

use crate::machine::{Machine, json, output, refusal};
use serde_json::{Value, json};

/// A kubelet's configuration with these lines.
fn kubelet(lines: &str) -> String {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    format!("{head}{lines}\n")
}

/// The document for a capacity and a kubelet's configuration.
fn document(config: &str, capacity: &str) -> Value {
    let machine = Machine::empty();
    let file = machine.write("kubelet.yaml", &kubelet(config));
    let arguments = ["allocatable", "--kubelet-config", &file, "--capacity", capacity];
    json(&output(&[&arguments[..], &["-o", "json"]].concat()))
}

/// No threshold at all: setting one drops the defaults, and 100 % is ignored.
const NO_EVICTION: &str = "evictionHard: {imagefs.available: 100%}";

#[test]
fn the_kubelets_own_cases_come_out_as_they_do_there() {
    let ten = "cpu=10,memory=10Gi";
    let mi = |n: u64| n << 20;
    #[rustfmt::skip]
    let table = [
        // row, configuration, capacity, reservation, memory.max and cpu.weight of kubepods
        ("A1", format!("kubeReserved: {{cpu: 100m, memory: 100Mi}}\nsystemReserved: {{cpu: 50m, memory: 50Mi}}\n{NO_EVICTION}"),
            ten, json!({"cpu": "150m", "memory": "150Mi"}), mi(10_090), 385),
        ("A2", "kubeReserved: {cpu: 100m, memory: 100Mi}\nsystemReserved: {cpu: 50m, memory: 50Mi}\nevictionHard: {memory.available: 100Mi}".into(),
            ten, json!({"cpu": "150m", "memory": "250Mi"}), mi(10_090), 385),
        ("A4", NO_EVICTION.into(),
            ten, json!({}), mi(10_240), 391),
        ("A5", format!("kubeReserved: {{memory: 100Mi}}\nsystemReserved: {{cpu: 50m, memory: 50Mi}}\n{NO_EVICTION}"),
            ten, json!({"cpu": "50m", "memory": "150Mi"}), mi(10_090), 389),
        ("A6", format!("kubeReserved: {{cpu: 50m, memory: 100Mi}}\nsystemReserved: {{memory: 50Mi}}\n{NO_EVICTION}"),
            ten, json!({"cpu": "50m", "memory": "150Mi"}), mi(10_090), 389),
        ("A9", format!("kubeReserved: {{ephemeral-storage: 100Mi}}\n{NO_EVICTION}"),
            "cpu=1,memory=1Gi,ephemeral-storage=10Gi", json!({"ephemeral-storage": "100Mi"}), mi(1_024), 39),
        ("A10", "kubeReserved: {ephemeral-storage: 100Mi}\nevictionHard: {nodefs.available: 100Mi}".into(),
            "cpu=1,memory=1Gi,ephemeral-storage=10Gi", json!({"ephemeral-storage": "200Mi"}), mi(1_024), 39),
        ("A11", "kubeReserved: {ephemeral-storage: 150Mi}\nevictionHard: {nodefs.available: 5%}".into(),
            "cpu=1,memory=1Gi,ephemeral-storage=10Gi", json!({"ephemeral-storage": "694157320"}), mi(1_024), 39),
    ];
    for (row, config, capacity, reservation, memory, weight) in table {
        let got = document(&config, capacity);
        assert_eq!(got["reservation"], reservation, "{row}");
        let pods = &got["enforced"]["pods"];
        assert_eq!(
            (&pods["memoryMax"], &pods["cpuWeight"]),
            (&json!(memory), &json!(weight)),
            "{row}"
        );
    }
}

#[test]
fn the_document_has_the_shape_that_it_is_known_by() {
    let config = "kubeReserved: {memory: 2Gi, cpu: 500m, pid: \"1000\"}\n\
                  systemReserved: {memory: 1Gi}\n\
                  evictionHard: {memory.available: 100Mi, nodefs.available: 10%, imagefs.available: 15%}\n\
                  enforceNodeAllocatable: [pods, kube-reserved, system-reserved-compressible]\n\
                  kubeReservedCgroup: /kube\nsystemReservedCgroup: /system.slice";
    let got = document(config, "cpu=10,memory=32Gi,ephemeral-storage=100Gi,pods=110,pid=32768");
    let want = json!({
        "apiVersion": "isobar/v1alpha1",
        "kind": "Allocatable",
        "capacity": {
            "cpu": "10", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110",
            "pid": "32768",
        },
        "kubeReserved": {"memory": "2Gi", "cpu": "500m", "pid": "1k"},
        "systemReserved": {"memory": "1Gi"},
        // As the kubelet does, in single precision: 10 % of 100Gi.
        "evictionHard": {
            "memory.available": "100Mi", "nodefs.available": "10737418400",
            "imagefs.available": "15%",
        },
        "reservation": {
            "cpu": "500m", "memory": "3172Mi", "ephemeral-storage": "10737418400", "pid": "1k",
        },
        // A13: 29596Mi; A16: 96636764000.
        "allocatable": {
            "cpu": "9500m", "memory": "29596Mi", "ephemeral-storage": "96636764000", "pods": "110",
        },
        "enforced": {
            "pods": {
                "memoryMax": 31_138_512_896_u64, "cpuShares": 9_728, "cpuWeight": 371,
                "pidsMax": 31_768,
            },
            "kubeReserved": {
                "memoryMax": 2_147_483_648_u64, "cpuShares": 512, "cpuWeight": 20, "pidsMax": 1_000,
            },
            "systemReserved": {
                "memoryMax": null, "cpuShares": null, "cpuWeight": null, "pidsMax": null,
            },
        },
        "problems": [],
    });
    assert_eq!(got, want);
}

#[test]
fn what_the_kubelet_would_not_start_with_ends_in_the_code_for_invalid_input() {
    #[rustfmt::skip]
    let table = [
        // row, configuration, capacity, what is said
        ("A8", "kubeReserved: {cpu: \"5\", memory: 10Gi}\nsystemReserved: {cpu: \"5\", memory: 10Gi}\nevictionHard: {memory.available: 2Gi}",
            "cpu=10,memory=11Gi", "invalid Node Allocatable configuration. Resource \"memory\" has a reservation of 22Gi but capacity of 11Gi. Expected capacity >= reservation."),
        ("A14", "kubeReserved: {cpu: \"6\"}\nsystemReserved: {cpu: \"6\"}",
            "cpu=10", "invalid Node Allocatable configuration. Resource \"cpu\" has a reservation of 12 but capacity of 10. Expected capacity >= reservation."),
        ("storage", "kubeReserved: {storage: 1Gi}", "cpu=1", "cannot reserve \"storage\" resource"),
        ("negative", "systemReserved: {memory: -1Mi}", "cpu=1", "cannot be negative"),
        ("parse", "kubeReserved: {cpu: abc}", "cpu=1", "failed to parse quantity \"abc\" for \"cpu\" resource"),
        ("capacity", "", "cpu=1,disk=2,memory=1q", "unknown resource \"disk\""),
    ];
    for (row, config, capacity, want) in table {
        let machine = Machine::empty();
        let file = machine.write("kubelet.yaml", &kubelet(config));
        let arguments = ["allocatable", "--kubelet-config", &file, "--capacity", capacity];
        let got = refusal(&output(&arguments));
        assert!(got.contains(want), "{row}: {got}");
    }
    let two = refusal(&output(&["allocatable", "--capacity", "cpu=1,disk=2,memory=1q"]));
    assert!(two.contains("\"disk\"") && two.contains("\"1q\""), "all at once: {two}");
}

#[test]
fn named_cpus_take_the_place_of_the_reservations() {
    let got = document(
        "kubeReserved: {cpu: \"1\"}\nsystemReserved: {cpu: \"2\"}\nreservedSystemCPUs: 0-3",
        "cpu=16",
    );
    assert_eq!(got["systemReserved"], json!({"cpu": "4"}));
    assert_eq!((&got["kubeReserved"], &got["allocatable"]["cpu"]), (&json!({}), &json!("12")));
}

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
fn live_limits_stand_beside_the_configured_ones_and_drift_is_named_by_file() {
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

#[test]
fn whoever_runs_outside_of_the_three_cgroups_is_counted() {
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

#[test]
fn pods_are_held_against_what_is_left_for_them() {
    let machine = Machine::empty();
    let config = machine.write("kubelet.yaml", &kubelet("kubeReserved: {cpu: 500m, memory: 1Gi}"));
    let pod = |name: &str, resources: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  \
             - {{name: main, image: i, resources: {resources}}}\n"
        )
    };
    // The second one's limits are its requests.
    let pods = [
        pod("a", "{requests: {cpu: 1500m, memory: 2Gi}}"),
        pod("b", "{limits: {cpu: \"2\", memory: 1Gi}}"),
        "apiVersion: v1\nkind: Service\nmetadata: {name: c}\n".into(),
    ];
    let pods = machine.write("pods.yaml", &pods.join("---\n"));
    let arguments = ["allocatable", "--kubelet-config", &config, "--pods", &pods, "--capacity"];
    let ask = |capacity, form| output(&[&arguments[..], &[capacity, "-o", form]].concat());
    let got = json(&ask("cpu=4,memory=8Gi,pods=110", "json"));
    let want = json!([
        {"resource": "cpu", "requested": "3500m", "allocatable": "3500m", "free": "0", "fits": true},
        {"resource": "memory", "requested": "3Gi", "allocatable": "7068Mi", "free": "3996Mi", "fits": true},
        {"resource": "pods", "requested": "2", "allocatable": "110", "free": "108", "fits": true},
    ]);
    assert_eq!(got["fit"], want);
    assert!(got["problems"][0].as_str().unwrap().contains("Service"), "{}", got["problems"]);
    let got = json(&ask("cpu=3,memory=8Gi,pods=110", "json"));
    assert_eq!((&got["fit"][0]["fits"], &got["fit"][0]["free"]), (&json!(false), &json!("-1")));
    let table = String::from_utf8(ask("cpu=3,memory=8Gi", "table").stdout).unwrap();
    assert!(table.contains("REQUESTED") && table.contains("no"), "{table}");
    let broken = machine.write("broken.yaml", "kind: Pod\nspec: 7\n");
    let got = refusal(&output(&["allocatable", "--capacity", "cpu=1", "--pods", &broken]));
    assert!(got.contains("broken.yaml:2:"), "{got}");
}

/// Every file of limits, unlimited, and 20 GiB in use.
fn unlimited(machine: &Machine, cgroup: &str) {
    let files = [
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
fn limits_are_written_once_and_taken_back_where_they_still_stand() {
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
        "/kubepods.slice hugetlb.2MB.max 67108864: written",
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
            "/kubepods.slice hugetlb.2MB.max 67108864: kept",
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
fn what_the_kubelet_would_not_start_with_is_not_applied() {
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
    let unsaid = refusal(&ask(&[]));
    assert!(unsaid.contains("name one with --config or --kubelet-config"), "{unsaid}");
    let usage = ask(&["--config", &config, "--roll-back"]);
    assert_eq!(usage.status.code(), Some(2), "one or the other");
    let usage = ask(&["--config", &config, "--capacity", "cpu=1"]);
    assert_eq!(usage.status.code(), Some(2), "another node's limits are not this one's");
}
