//! `isobar cpus` on a machine of our making; without one, see `sessions/cpus.md`.

use crate::machine::{Machine, json};
use serde_json::json;

const STRICT: &str = "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}";

#[test]
fn cpus_finds_intruders() {
    let machine = Machine::new();
    let root = machine.at("kubelet").display().to_string();
    let state = r#"{"policyName":"static","defaultCpuSet":"1-3,5-7","checksum":0}"#;
    machine.write("kubelet/cpu_manager_state", state);
    machine.cgroup("system.slice", &[], &[10]);
    machine.cgroup("kubepods/burstable/pod1-2", &[], &[11, 12, 13, 14]);
    machine.process(10, "daemon", 1, "0-7");
    // A user may call his cgroups like those of a pod.
    machine.cgroup("user.slice/kubepods/burstable/pod1-2", &[], &[15]);
    machine.process(15, "fake", 1, "0-7");
    // The kubelet never pins a sandbox; the score tells it, not the name, which anybody may choose.
    machine.process(13, "pause", 1, "0-7");
    machine.write("proc/13/oom_score_adj", "-998\n");
    machine.process(14, "pause", 1, "0");
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
        {"pid": 12, "name": "stray", "pod": "1-2", "cgroup": "/kubepods/burstable/pod1-2", "cpus": "4"},
        {"pid": 14, "name": "pause", "pod": "1-2", "cgroup": "/kubepods/burstable/pod1-2", "cpus": "0"}
    ]);
    assert_eq!(got["intruders"], want);
    let table = machine.isobar(&["cpus", "--config", &config]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("stray") && table.contains("checksum ok"), "{table}");
}

#[test]
fn cpus_apply_and_roll_back() {
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
