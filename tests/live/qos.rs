//! `isobar qos` on processes of this node, held against what they should have.

use std::fs;
use std::sync::MutexGuard;
use std::thread::sleep;
use std::time::Duration;

use crate::host::{Group, alone};
use crate::program::isobar;
use serde_json::{Value, json};

const UID: &str = "7a1e5b1c-9d3f-4c58-8a86-2f0d4b7c6e19";

/// A container as the cgroupfs driver has it, below a cgroup of our own.
struct Node {
    // Dropped in this order: the innermost first.
    containers: Vec<Group>,
    above: Vec<Group>,
    _alone: MutexGuard<'static, ()>,
}

impl Node {
    /// One pod of the class `class`, with a container for each of `ids`.
    fn make(class: &str, ids: &[&str]) -> Option<Self> {
        let alone = alone();
        let mut above = vec![Group::make(&format!("qos-{class}"))?];
        for name in ["kubepods", class, &format!("pod{UID}")] {
            above.push(above.last().unwrap().child(name));
        }
        let containers = ids.iter().map(|id| above.last().unwrap().child(id)).collect();
        above.reverse();
        Some(Self { containers, above, _alone: alone })
    }

    /// The cgroup that has the cgroup of all pods in it: the top of a tree of its own.
    fn tree(&self) -> &str {
        let top = self.above.last().unwrap();
        top.dir().to_str().unwrap()
    }

    /// A process in the container `n`, once it has this score: none below 0, which takes more than
    /// root has everywhere.
    fn run(&mut self, n: usize, score: i32) -> u32 {
        let script = format!("echo {score} > /proc/self/oom_score_adj; exec sleep 60");
        let pid = self.containers[n].run(&script);
        for _ in 0..250 {
            let is_asleep = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "sleep\n";
            if is_asleep {
                let now = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
                assert_eq!(now.trim(), score.to_string());
                return pid;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("no process is asleep within five seconds");
    }
}

/// The containers of our pod, as `isobar qos` with these arguments sees them.
fn ours(node: &Node, arguments: &[&str]) -> Vec<Value> {
    ours_of(node.tree(), arguments)
}

fn ours_of(tree: &str, arguments: &[&str]) -> Vec<Value> {
    let output = isobar(&[&["qos", "-o", "json", "--cgroup-root", tree], arguments].concat())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kind"], "NodeQosReport");
    let all = report["containers"].as_array().unwrap().iter();
    all.filter(|container| container["podUid"] == UID).cloned().collect()
}

fn process(pid: u32, score: i32, drifted: bool) -> Value {
    json!({"pid": pid, "name": "sleep", "oomScoreAdj": score, "drifted": drifted})
}

#[test]
fn qos_names_drift() {
    let ids = ["a", "b"].map(|id| id.repeat(64));
    let Some(mut node) = Node::make("besteffort", &[&ids[0], &ids[1]]) else { return };
    let (right, wrong) = (node.run(0, 1_000), node.run(0, 500));
    let found = ours(&node, &[]);
    assert_eq!(found.len(), 1, "what is empty is left out: {found:?}");
    assert_eq!((&found[0]["id"], &found[0]["qosClass"]), (&json!(ids[0]), &json!("BestEffort")));
    let want = json!([process(right, 1_000, false), process(wrong, 500, true)]);
    assert_eq!(found[0]["processes"], want);
    let table = isobar(&["qos", "--cgroup-root", node.tree()]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    let row = table.lines().find(|line| line.starts_with(UID)).unwrap();
    assert!(row.contains(&format!("{wrong} (sleep) has 500")), "{table}");
}

#[test]
fn qos_finds_pods_below_the_cgroup_root_of_the_kubelet() {
    let Some(mut node) = Node::make("besteffort", &[&"e".repeat(64)]) else { return };
    node.run(0, 1_000);
    let (above, name) = node.tree().rsplit_once('/').unwrap();
    assert_eq!(ours_of(above, &[]), [] as [Value; 0], "these are another kubelet's");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubelet.yaml");
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    fs::write(&file, format!("{head}cgroupRoot: /{name}\ncgroupDriver: cgroupfs\n")).unwrap();
    let found = ours_of(above, &["--kubelet-config", file.to_str().unwrap()]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn qos_with_pods_known() {
    let ids = ["c", "d"].map(|id| id.repeat(64));
    let Some(mut node) = Node::make("burstable", &[&ids[0], &ids[1]]) else { return };
    let (right, wrong) = (node.run(0, 875), node.run(0, 876));
    let other = node.run(1, 400);
    let alone = ours(&node, &[]);
    let want = json!([process(right, 875, false), process(wrong, 876, false)]);
    assert_eq!(alone[0]["processes"], want, "either may be, by the class alone");

    let requests = json!({"memory": "1G"});
    let pod = json!({
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": UID},
        "spec": {"containers": [{"name": "main-0", "resources": {"requests": requests}}]},
        "status": {
            "qosClass": "Burstable",
            "containerStatuses": [
                {"name": "main-0", "containerID": format!("containerd://{}", ids[0])},
            ],
        },
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pods.json");
    fs::write(&file, json!({"kind": "List", "items": [pod]}).to_string()).unwrap();
    let found = ours(&node, &["--pods", file.to_str().unwrap(), "--node-memory", "8G"]);
    assert_eq!((&found[0]["pod"], &found[0]["container"]), (&json!("web"), &json!("main-0")));
    assert_eq!(found[0]["expected"], json!([{"from": 875, "to": 875, "of": "container"}]));
    let want = json!([process(right, 875, false), process(wrong, 876, true)]);
    assert_eq!(found[0]["processes"], want);
    // Not named by the status: the sandbox, or a container started since. This is neither.
    assert_eq!(found[1]["container"], Value::Null);
    assert_eq!(found[1]["processes"], json!([process(other, 400, true)]));
}
