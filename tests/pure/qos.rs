//! `isobar qos` on a machine of files; what it makes of manifests is in `sessions/qos.md`.

use std::fs;

use crate::program::{isobar, text};
use serde_json::{Value, json};

#[test]
fn qos_sandbox_and_gap() {
    const UID: &str = "7a1e5b1c-9d3f-4c58-8a86-2f0d4b7c6e19";
    let dir = tempfile::tempdir().unwrap();
    let pod = dir
        .path()
        .join(format!("cgroup/kubepods.slice/kubepods-pod{}.slice", UID.replace('-', "_")));
    let [web, sandbox] =
        ["e", "f"].map(|id| pod.join(format!("cri-containerd-{}.scope", id.repeat(64))));
    for (cgroup, procs) in [(&web, "7\n8\n9\n"), (&sandbox, "6\n")] {
        fs::create_dir_all(cgroup).unwrap();
        fs::write(cgroup.join("cgroup.procs"), procs).unwrap();
    }
    fs::write(pod.join("cgroup.procs"), "").unwrap();
    for (pid, score) in [(6, "-998\n"), (7, "-997\n"), (8, "high\n")] {
        let proc = dir.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&proc).unwrap();
        fs::write(proc.join("status"), "Name:\tsleep\nCpus_allowed_list:\t0-3\n").unwrap();
        fs::write(proc.join("oom_score_adj"), score).unwrap();
    }
    let [proc, cgroup] = ["proc", "cgroup"].map(|name| dir.path().join(name));
    let roots = ["--proc", proc.to_str().unwrap(), "--cgroup-root", cgroup.to_str().unwrap()];
    let output = isobar(&["qos", "-o", "json"]).args(roots).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kind"], "NodeQosReport");
    let sleeping = |pid: u32, score: i32| json!([{"pid": pid, "name": "sleep", "oomScoreAdj": score, "drifted": false}]);
    let found = &report["containers"];
    assert_eq!(found[0]["podUid"], UID);
    assert_eq!(found[0]["processes"], sleeping(7, -997), "9 has left, 8 is a gap");
    assert_eq!(found[1]["processes"], sleeping(6, -998));
    let output = isobar(&["qos"]).args(roots).output().unwrap();
    let table = text(&output.stdout);
    let row: Vec<_> = table.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(row, [UID, "(sandbox)", "Guaranteed", "-998", "1", "-"]);
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("proc/8/oom_score_adj: ") && stderr.contains("expected a number"),
        "{stderr}"
    );
}

#[test]
fn qos_limits_and_daemons() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let file = dir.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let id = "a".repeat(64);
    let container = format!("cgroup/kubepods/burstable/podu1/{id}");
    let files = [("cpu.weight", "100\n"), ("memory.max", "max\n"), ("cgroup.procs", "7\n8\n")];
    for (file, text) in files {
        write(&format!("{container}/{file}"), text);
    }
    write("cgroup/system.slice/kubelet.service/cgroup.procs", "9\n10\n");
    // A user may call his cgroups like those of a pod.
    write(&format!("cgroup/user.slice/kubepods/burstable/podu1/{id}/cgroup.procs"), "11\n");
    for (pid, name, score) in [
        (7, "web", "875"),
        (8, "kube-proxy", "-999"),
        (9, "kubelet", "0"),
        (10, "sh", "0"),
        (11, "fake", "0"),
    ] {
        write(&format!("proc/{pid}/status"), &format!("Name:\t{name}\nCpus_allowed_list:\t0\n"));
        write(&format!("proc/{pid}/oom_score_adj"), &format!("{score}\n"));
    }
    let pod = json!({
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"containers": [{"name": "main", "resources": {
            "requests": {"cpu": "500m", "memory": "1G"}, "limits": {"memory": "2G"},
        }}]},
        "status": {"containerStatuses": [{"name": "main", "containerID": format!("containerd://{id}")}]},
    });
    write("pods.json", &pod.to_string());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let output = isobar(&["qos", "-o", "json", "--node-memory", "8G"])
        .args(["--pods", &at("pods.json"), "--proc", &at("proc"), "--cgroup-root", &at("cgroup")])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["nLimitsDrifted"], 2, "{report}");
    let of = |drift: &Value| [&drift["file"], &drift["live"], &drift["why"]].map(Value::to_string);
    let drifts = report["containers"][0]["limits"].as_array().unwrap();
    let told: Vec<_> = drifts.iter().map(of).collect();
    let want =
        [["\"memory.max\"", "\"max\"", "\"looser\""], ["\"cpu.weight\"", "\"100\"", "\"looser\""]];
    assert_eq!(told, want);
    let drifted: Vec<_> = report["containers"][0]["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|process| (process["name"].as_str().unwrap(), &process["drifted"]))
        .collect();
    assert_eq!(drifted, [("web", &json!(false)), ("kube-proxy", &json!(false))]);
    let daemon = json!({"pid": 9, "name": "kubelet", "oomScoreAdj": 0, "drifted": true});
    assert_eq!(
        report["daemons"],
        json!([{"cgroup": "/system.slice/kubelet.service", "expected": -999, "process": daemon}])
    );
    assert_eq!(report["nDrifted"], 1);
}
