//! `isobar cpus` on a machine of our making; without one, see `sessions/cpus.md`.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

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
    let cgroup = "/kubepods/burstable/pod1-2";
    let want = json!([
        {"pid": 12, "name": "stray", "pod": "1-2", "cgroup": cgroup, "cpus": "4", "ranOn": null, "ranMillis": null},
        {"pid": 14, "name": "pause", "pod": "1-2", "cgroup": cgroup, "cpus": "0", "ranOn": null, "ranMillis": null}
    ]);
    assert_eq!(got["intruders"], want, "nothing is known of their threads");
    assert_eq!(got["interrupts"], json!(null));
    // A pod chooses the names of its processes.
    machine.process(12, "st\u{1b}[2J\u{9b}ray\u{1f402}", 1, "3-4");
    let table = machine.isobar(&["cpus", "--config", &config]);
    let table = String::from_utf8(table.stdout).unwrap();
    let line = "\n 12  st\u{fffd}[2J\u{fffd}ray\u{1f402}  1-2  4     gone      -\n";
    assert!(table.contains(line) && table.contains("checksum ok"), "{table}");
    assert!(!table.contains('\u{1b}'), "{table:?}");
}

#[test]
fn cpus_tells_who_ran_on_reserved_cpus() {
    let machine = Machine::new();
    let root = machine.at("kubelet").display().to_string();
    machine.cgroup("kubepods/burstable/pod1-2", &[], &[11, 12]);
    machine.process(11, "may", 1, "0-7");
    machine.process(12, "does", 1, "0-7");
    let thread = |pid: u32, ticks: u64| {
        let zeros = "0 ".repeat(16);
        let text =
            format!("{pid} (x) R 1 1 1 0 -1 0 1 1 1 1 {ticks} 0 0 0 20 0 1 0 5 {zeros}4 0\n");
        let part = machine.write(&format!("proc/{pid}/part"), &text);
        let task = machine.at(&format!("proc/{pid}/task/{pid}"));
        fs::create_dir_all(&task).unwrap();
        fs::rename(part, task.join("stat")).unwrap();
    };
    // Both stand on CPU 4; one of them runs.
    thread(11, 500);
    thread(12, 500);
    for (irq, name, cpus) in [(24, "eth0", "3"), (25, "eth1", "0,4"), (26, "nvme0q1", "0-1")] {
        machine.write(&format!("proc/irq/{irq}/effective_affinity_list"), &format!("{cpus}\n"));
        fs::create_dir(machine.at(&format!("proc/irq/{irq}/{name}"))).unwrap();
    }
    let config = machine.write(
        "isobar.yaml",
        &format!(
            "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nkubeletRoot: {root}\n\
             cpuManagerPolicy: static\nsystemReserved: {{cpu: \"2\"}}\n{STRICT}\n"
        ),
    );
    let ask = |output: &[&str]| {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut ticks = 500;
                while !is_over.load(Ordering::Relaxed) {
                    ticks += 1;
                    thread(12, ticks);
                    thread::sleep(Duration::from_millis(20));
                }
            });
            let got = machine.isobar(&[&["cpus", "--config", &config], output].concat());
            is_over.store(true, Ordering::Relaxed);
            got
        })
    };
    let got = json(&ask(&["-o", "json"]));
    let told = |n: usize, key: &str| got["intruders"][n][key].clone();
    assert_eq!((told(0, "name"), told(0, "ranOn")), (json!("does"), json!("4")), "{got}");
    assert!(told(0, "ranMillis").as_u64() > Some(0), "{got}");
    assert_eq!((told(1, "name"), told(1, "ranOn")), (json!("may"), json!("")));
    assert_eq!(told(1, "ranMillis"), json!(0));
    // Those on reserved CPUs are in their place.
    let interrupts = json!([
        {"irq": 24, "name": "eth0", "cpus": "3"},
        {"irq": 26, "name": "nvme0q1", "cpus": "1"}
    ]);
    assert_eq!((&got["interrupts"], &got["problems"]), (&interrupts, &json!([])));
    let table = String::from_utf8(ask(&[]).stdout).unwrap();
    let lines: Vec<_> = table.lines().collect();
    let line = |with: &str| lines.iter().find(|line| line.contains(with)).copied();
    assert!(line(" does ").is_some_and(|line| line.contains("ms")), "{table}");
    assert!(line(" may  ").is_some_and(|line| line.ends_with('-')), "{table}");
    assert!(table.contains("handled on CPUs of pods: 2") && line("nvme0q1").is_some(), "{table}");
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
            fs::read_to_string(file).unwrap().trim().to_owned()
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
