//! `isobar cpus` on the kubelet's own cases, and on a machine of our making.

use crate::machine::{Machine, json, output, refusal};
use serde_json::{Value, json};

/// A kubelet's configuration with these lines.
fn kubelet(machine: &Machine, lines: &str) -> String {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    machine.write("kubelet.yaml", &format!("{head}{lines}\n"))
}

const STRICT: &str = "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}";

/// The document for a state file's text, online CPUs and, if any, a kubelet's configuration.
fn document(online: &str, state: &str, config: Option<&str>) -> Value {
    let machine = Machine::empty();
    let file = machine.write("cpu_manager_state", state);
    let mut arguments = vec!["cpus", "-o", "json", "--online", online, "--state", &file];
    let config = config.map(|lines| kubelet(&machine, lines));
    if let Some(config) = &config {
        arguments.extend(["--kubelet-config", config]);
    }
    json(&output(&arguments))
}

#[test]
fn state_files_of_the_kubelet_are_told_from_spoilt_ones() {
    let two = r#","entries":{"pod":{"container1":"4-6","container2":"1-3"}}"#;
    let ids = r#","entries":{"containerID1":"4-6","containerID2":"1-3"}"#;
    #[rustfmt::skip]
    let table = [
        // row, policy, default set, entries, checksum, exclusive CPUs
        ("C1",  "static", "0-79",                   "",  1_241_370_203_u64, 0),
        ("C2",  "static", "2-15,17-31,34-47,49-63", "",  4_141_502_832,     0),
        ("C3",  "none",   "4-6",                    "",    354_655_845,     0),
        ("C4",  "none",   "1-3",                    two, 3_610_638_499,     6),
        ("C8",  "none",   "1-3",                    "",  1_694_838_852,     0),
        ("C9",  "none",   "1-3",                    ids, 3_680_390_589,     6),
        ("C13", "static", "0-7",                    "",     14_413_152,     0),
        ("C14", "static", "0,2-7",                  "",    538_968_834,     0),
        ("C17", "none",   "",                       "",  1_353_318_690,     0),
    ];
    for (row, policy, default, entries, checksum, exclusive) in table {
        let text = |checksum: u64| {
            format!(
                r#"{{"policyName":"{policy}","defaultCpuSet":"{default}"{entries},"checksum":{checksum}}}"#
            )
        };
        let got = document("0-79", &text(checksum), None);
        let state = &got["state"];
        assert_eq!(state["checksum"], "ok", "{row}: {state}");
        assert_eq!(state["problems"], json!([]), "{row}");
        assert_eq!(
            (&state["policyName"], &state["defaultCpuSet"]),
            (&json!(policy), &json!(default)),
            "{row}"
        );
        assert_eq!(got["exclusiveCpus"], exclusive, "{row}");

        let spoilt = document("0-79", &text(1_337), None);
        assert_eq!(spoilt["state"]["checksum"], "corrupt", "C11, {row}");
        assert_eq!(spoilt["state"]["problems"], json!(["checkpoint is corrupted"]), "C11, {row}");
        assert_eq!(spoilt["exclusiveCpus"], 0, "what the kubelet refuses tells nothing, {row}");
    }
    let c12 = document("0-79", "{", None);
    assert_eq!(c12["state"]["checksum"], "corrupt");
    assert_eq!(c12["state"]["problems"], json!(["unexpected end of JSON input"]));
}

#[test]
fn the_document_has_the_shape_that_it_is_known_by() {
    let state =
        r#"{"policyName":"static","defaultCpuSet":"2-15,17-31,34-47,49-63","checksum":4141502832}"#;
    let config = format!("cpuManagerPolicy: static\nreservedSystemCPUs: 0-1,16,32-33,48\n{STRICT}");
    let got = document("0-63", state, Some(&config));
    let want = json!({
        "apiVersion": "isobar/v1alpha1",
        "kind": "Cpus",
        "online": "0-63",
        "policy": "static",
        "reserved": "0-1,16,32-33,48",
        "defaultCpuSet": "2-15,17-31,34-47,49-63",
        "sharedPoolMillicores": 58_000,
        "exclusiveCpus": 0,
        "strict": true,
        "intruders": null,
        "problems": [],
    });
    for (key, want) in want.as_object().unwrap() {
        assert_eq!(got[key], *want, "{key}");
    }
    assert_eq!(got["state"]["problems"], json!([]));
    let machine = Machine::empty();
    let config = kubelet(&machine, "cpuManagerPolicy: static\nsystemReserved: {cpu: 1500m}");
    let arguments = ["cpus", "--kubelet-config", &config, "--online", "0-79", "-o", "json"];
    let got = json(&output(&arguments));
    assert_eq!((&got["state"], &got["strict"]), (&Value::Null, &json!(false)));
    assert_eq!((&got["reserved"], &got["defaultCpuSet"]), (&json!("0-1"), &json!("0-79")));
    assert_eq!(got["sharedPoolMillicores"], 78_000);
}

/// The kubelet's own test machine as lscpu prints it: 12 CPUs, sockets taking turns.
fn dual_socket_ht() -> String {
    let lines = (0..12).map(|cpu| format!("{cpu},{},{},{}\n", cpu % 6, cpu % 2, cpu % 2));
    std::iter::once("# CPU,Core,Socket,Node\n".into()).chain(lines).collect()
}

#[test]
fn the_static_policy_is_held_to_its_checks_at_start() {
    let one = r#"{"fakePod":{"0":"0-2"}}"#;
    #[rustfmt::skip]
    let table = [
        // strict, default set, entries, what is said
        (false, "0-1",  "{}", Some("not all reserved cpus: \"0,6\" are present in defaultCpuSet: \"0-1\"")),
        (true,  "0-1",  "{}", Some("some of strictly reserved cpus: \"0\" are present in defaultCpuSet: \"0-1\"")),
        (false, "2-11", one,  Some("pod: fakePod, container: 0 cpuset: \"0-2\" overlaps with default cpuset \"2-11\"")),
        (false, "",     "{}", None),
        (false, "0-11", "{}", None),
        (true,  "1-5,7-11", "{}", None),
    ];
    for (strict, default, entries, want) in table {
        let machine = Machine::empty();
        let topology = machine.write("lscpu", &dual_socket_ht());
        let options = if strict { STRICT } else { "" };
        let lines = format!("cpuManagerPolicy: static\nkubeReserved: {{cpu: \"2\"}}\n{options}");
        let config = kubelet(&machine, &lines);
        let text =
            format!(r#"{{"policyName":"static","defaultCpuSet":"{default}","entries":{entries}}}"#);
        let state = machine.write("state", &text);
        let arguments = [
            "cpus",
            "-o",
            "json",
            "--kubelet-config",
            &config,
            "--topology",
            &topology,
            "--state",
            &state,
        ];
        let got = json(&output(&arguments));
        assert_eq!(got["reserved"], "0,6");
        let problems: Vec<_> = got["state"]["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p.as_str().unwrap())
            .collect();
        match want {
            Some(want) => assert!(problems.contains(&want), "{default} {strict}: {problems:?}"),
            None => assert!(problems.is_empty(), "{default} {strict}: {problems:?}"),
        }
    }
}

#[test]
fn another_policy_in_the_state_is_told() {
    let none = r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#;
    let got = document("0-7", none, Some("cpuManagerPolicy: static\nreservedSystemCPUs: \"0\""));
    let want = "configured policy \"static\" differs from state checkpoint policy \"none\"";
    assert_eq!(got["state"]["problems"], json!([want]));
    assert_eq!(got["state"]["checksum"], "ok");
    assert!(got["state"]["remedy"].as_str().unwrap().contains("before restarting Kubelet"));
}

#[test]
fn what_the_kubelet_would_not_start_with_ends_in_the_code_for_invalid_input() {
    let no_cpu =
        "the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero";
    #[rustfmt::skip]
    let table = [
        // configuration, online, what is said
        ("cpuManagerPolicy: static",                                "0-7", no_cpu),
        ("cpuManagerPolicy: static\nreservedSystemCPUs: 0,8-9",     "0-7", "reserved-cpus: 0,8-9 is not a subset of online-cpus: 0-7"),
        ("cpuManagerPolicy: static\nkubeReserved: {cpu: \"9\"}",    "0-7", "Expected capacity >= reservation."),
    ];
    for (lines, online, want) in table {
        let machine = Machine::empty();
        let config = kubelet(&machine, lines);
        let got = refusal(&output(&["cpus", "--kubelet-config", &config, "--online", online]));
        assert!(got.contains(want), "{lines}: {got}");
    }
    let machine = Machine::empty();
    let topology = machine.write("lscpu", "0,0,0\n");
    let got = refusal(&output(&["cpus", "--topology", &topology]));
    assert!(got.contains("line 1"), "{got}");
    let whole = machine.write("whole", &dual_socket_ht());
    let got = refusal(&output(&["cpus", "--topology", &whole, "--online", "0-12"]));
    assert!(got.contains("--online has CPUs 12"), "{got}");
}

#[test]
fn a_pool_that_is_too_small_is_a_problem_and_no_refusal() {
    let machine = Machine::empty();
    let config = machine.write(
        "isobar.yaml",
        "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\ncpuManagerPolicy: static\n\
         reservedSystemCPUs: 0-3\nminSharedCPUs: 5\n",
    );
    let got = json(&output(&["cpus", "--config", &config, "--online", "0-7", "-o", "json"]));
    assert_eq!(got["problems"], json!(["the shared pool has 4 CPUs, and minSharedCPUs wants 5"]));
}

#[test]
fn processes_of_pods_on_strictly_reserved_cpus_are_found() {
    let machine = Machine::new();
    let root = machine.at("kubelet").display().to_string();
    let state = r#"{"policyName":"static","defaultCpuSet":"1-3,5-7","checksum":0}"#;
    machine.write("kubelet/cpu_manager_state", state);
    machine.cgroup("system.slice", &[], &[10]);
    machine.cgroup("kubepods/burstable/pod1-2", &[], &[11, 12]);
    machine.process(10, "daemon", 1, "0-7");
    machine.process(11, "tidy", 1, "1-3,5-7");
    machine.process(12, "stray", 1, "3-4");
    let config = machine.write(
        "isobar.yaml",
        &format!(
            "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nkubeletRoot: {root}\n\
             cpuManagerPolicy: static\nsystemReserved: {{cpu: \"2\"}}\n{STRICT}\n"
        ),
    );
    let got = json(&machine.isobar(&["cpus", "--config", &config, "-o", "json"]));
    assert_eq!((&got["online"], &got["reserved"]), (&json!("0-7"), &json!("0,4")));
    assert_eq!(got["state"]["problems"], json!([]));
    let want = json!([
        {"pid": 12, "name": "stray", "pod": "1-2", "cgroup": "/kubepods/burstable/pod1-2", "cpus": "4"}
    ]);
    assert_eq!(got["intruders"], want);
    let table = machine.isobar(&["cpus", "--config", &config]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("stray") && table.contains("checksum ok"), "{table}");
}

#[test]
fn reserved_cpus_are_taken_from_pods_and_given_back() {
    let machine = Machine::new();
    let root = machine.at("kubelet").display().to_string();
    for cgroup in
        ["kubepods", "kubepods/burstable", "kubepods/besteffort", "kubepods/burstable/pod1-2"]
    {
        machine.cgroup(cgroup, &[("cpuset.cpus", "")], &[]);
    }
    machine.cgroup("kubepods/burstable/pod1-2", &[], &[11, 12]);
    machine.process(11, "tidy", 1, "1-3,5-7");
    machine.process(12, "stray", 1, "3-4");
    let config = machine.write(
        "isobar.yaml",
        &format!(
            "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nkubeletRoot: {root}\n\
             reservedSystemCPUs: 0,4\nwriteLimits: [reservedCpus]\ncpuManagerPolicy: static\n"
        ),
    );
    // A container has CPU 7 for itself.
    let state =
        r#"{"policyName":"static","defaultCpuSet":"0-6","entries":{"p":{"c":"7"}},"checksum":0}"#;
    machine.write("kubelet/cpu_manager_state", state);
    let state = machine.at("state").display().to_string();
    let ask = |verb: &[&str]| {
        let rest = ["--state-dir", &state, "-o", "json"];
        json(&machine.isobar(&[&["cpus"], verb, &rest].concat()))
    };
    let sets = || {
        ["kubepods", "kubepods/burstable", "kubepods/besteffort"].map(|cgroup| {
            let file = machine.at(&format!("cgroup/{cgroup}/cpuset.cpus"));
            std::fs::read_to_string(file).unwrap().trim().to_owned()
        })
    };
    let got = ask(&["--apply", "--config", &config]);
    assert_eq!(sets(), ["1-3,5-7", "1-3,5-6", "1-3,5-6"]);
    // The kernel moves whoever runs there; here nobody does.
    assert_eq!(got["intruders"][0]["name"], "stray");
    assert_eq!(got["intruders"].as_array().unwrap().len(), 1);
    let seen = ask(&["--config", &config]);
    assert_eq!(seen["intruders"][0]["name"], "stray", "counted wherever the limit is written");
    let back = ask(&["--roll-back"]);
    let results: Vec<_> =
        back["limits"].as_array().unwrap().iter().map(|one| one["result"].as_str()).collect();
    assert_eq!((results, sets()), (vec![Some("written"); 3], ["", "", ""].map(str::to_owned)));
}
