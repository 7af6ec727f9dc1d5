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
