//! `isobar qos`, the built binary: pods of files against the kubelet's own scores, and the
//! processes of this node against what they should have.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::machine::given;
use crate::program::isobar;

const UID: &str = "7a1e5b1c-9d3f-4c58-8a86-2f0d4b7c6e19";

/// A pod's manifest from a text as `pod r 1/1Gi; init; main r 100m/100Mi l -/200Mi`: after `;` each
/// container by its kind, `pod` for the pod as a whole; requests and limits as CPU/memory.
fn manifest(text: &str) -> Value {
    let mut spec = json!({"containers": [], "initContainers": []});
    for part in text.split(';').map(str::trim) {
        let words: Vec<_> = part.split_whitespace().collect();
        let mut resources = json!({});
        for pair in words[1..].chunks(2) {
            let list = ["cpu", "memory"].into_iter().zip(pair[1].split('/'));
            let set = list.filter(|(_, text)| *text != "-").map(|(k, v)| (k.to_owned(), json!(v)));
            let key = if pair[0] == "r" { "requests" } else { "limits" };
            resources[key] = Value::Object(set.collect());
        }
        let mut container = json!({"image": "x", "resources": resources});
        let lists = ["containers", "initContainers"];
        let list = match words[0] {
            "pod" => {
                spec["resources"] = resources;
                continue;
            }
            "main" => lists[0],
            "init" => lists[1],
            "sidecar" => {
                container["restartPolicy"] = json!("Always");
                lists[1]
            }
            other => panic!("{other:?} in {text:?}"),
        };
        let list = spec[list].as_array_mut().unwrap();
        container["name"] = json!(format!("{}-{}", words[0], list.len()));
        list.push(container);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

/// What `isobar qos` with these arguments says, given `text` on standard input.
fn qos(arguments: &[&str], text: &str) -> Output {
    given(&[&["qos"], arguments].concat(), text)
}

#[track_caller]
fn report(arguments: &[&str], text: &str) -> Value {
    let output = qos(&[&["-f", "-", "-o", "json"], arguments].concat(), text);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn scores(report: &Value) -> Vec<i64> {
    let containers = report["containers"].as_array().unwrap();
    containers.iter().map(|container| container["oomScoreAdj"].as_i64().unwrap()).collect()
}

#[test]
fn each_pod_gets_the_kubelets_class_and_scores() {
    #[rustfmt::skip]
    let table: [(&str, &str, &str, &[i64]); 36] = [
        // pod, memory of the node, class, scores
        ("main r 100m/100Mi l 100m/100Mi",                                 "4Gi", "Guaranteed", &[-997]),
        ("main r 100m/100Mi l 100m/100Mi; main r 100m/100Mi l 100m/100Mi", "4Gi", "Guaranteed", &[-997, -997]),
        ("main; main",                                                     "4Gi", "BestEffort", &[1_000, 1_000]),
        ("main",                                                           "4Gi", "BestEffort", &[1_000]),
        ("main; main r 1/- l 2/-",                                         "4Gi", "Burstable",  &[999, 999]),
        ("main; main r 10m/100Mi l 10m/100Mi",                             "4Gi", "Burstable",  &[999, 976]),
        ("main r -/100Mi l -/100Mi",                                       "4Gi", "Burstable",  &[976]),
        ("main r 100m/100Mi",                                              "4Gi", "Burstable",  &[976]),
        ("main r 1/100Mi l 2/100Mi; main r 100m/100Mi l 100m/100Mi",       "4Gi", "Burstable",  &[976, 976]),
        ("main r 10m/100Mi l 100m/200Mi",                                  "4Gi", "Burstable",  &[976]),
        ("main; init r 10m/100Mi l 100m/200Mi",                            "4Gi", "Burstable",  &[976, 999]), // init first
        ("pod r 10m/100Mi l 10m/100Mi; main",                              "4Gi", "Guaranteed", &[-997]),
        ("pod r 10m/10Mi l 20m/50Mi; main",                                "4Gi", "Burstable",  &[998]),
        ("pod r 10m/10Mi l 20m/50Mi; main r 5m/10Mi l 5m/10Mi",            "4Gi", "Burstable",  &[998]),
        ("pod r 10m/10Mi; main r 5m/10Mi",                                 "4Gi", "Burstable",  &[998]),
        ("main l 100m/100Mi",                                              "4Gi", "Burstable",  &[999]),
        ("main r 100m/1Gi l 200m/1Gi; main r 200m/1Gi l 100m/1Gi",         "4Gi", "Guaranteed", &[-997, -997]),
        ("main l 10/-",                                                    "4G",  "Burstable",  &[999]),
        ("main r 0/- l -/10G",                                             "8G",  "Burstable",  &[999]),
        ("main l -/0",                                             "7230457451",  "BestEffort", &[1_000]),
        ("main r 5m/10G l 5m/10G",                                  "123456789",  "Guaranteed", &[-997]),
        ("main r 5m/7999999999",                                           "8G",  "Burstable",  &[3]),
        ("main r -/1000000000 l -/1000001000",                             "8G",  "Burstable",  &[875]),
        ("init r -/1G; main r -/1G",                                       "8G",  "Burstable",  &[875, 875]),
        ("init r -/1G; sidecar r -/1G; main r -/1G",                       "8G",  "Burstable",  &[875, 875, 875]),
        ("init r -/1G; sidecar r -/4G; main r -/1G",                       "8G",  "Burstable",  &[875, 500, 875]),
        ("pod r 5m/2G l 5m/2G; main; main",                                "4G",  "Guaranteed", &[-997, -997]),
        ("pod r -/2G l -/2000001000; main; main",                          "4G",  "Burstable",  &[750, 750]),
        ("pod r -/2G; main r -/1G l -/1G; main r -/1G l -/1G",             "4G",  "Burstable",  &[750, 750]),
        ("pod r -/2G; sidecar; main",                                      "4G",  "Burstable",  &[750, 750]),
        ("main r -/100Mi",                                                 "16Gi", "Burstable", &[994]),
        ("main r -/64Gi",                                                  "32Gi", "Burstable", &[3]),
        ("main r -/1Gi",                                                   "32Gi", "Burstable", &[969]),
        ("main r 0.5/1Gi l 500m/1024Mi",                                   "32Gi", "Guaranteed", &[-997]),
        ("main r 0/0 l 0/0",                                               "32Gi", "BestEffort", &[1_000]),
        ("main r 1e-3/1e9",                                                "8G",  "Burstable",  &[875]),
    ];
    // In one go: a process for each row would take its time.
    for memory in ["4Gi", "4G", "8G", "16Gi", "32Gi", "7230457451", "123456789"] {
        let rows: Vec<_> = table.iter().filter(|row| row.1 == memory).collect();
        let documents: Vec<_> = rows.iter().map(|row| manifest(row.0).to_string()).collect();
        let reports = report(&["--node-memory", memory], &documents.join("\n---\n"));
        let reports = reports.as_array().map_or(vec![&reports], |all| all.iter().collect());
        assert_eq!(reports.len(), rows.len(), "{memory}");
        for ((text, _, class, want), report) in rows.into_iter().zip(reports) {
            assert_eq!(report["qosClass"], *class, "{text}");
            assert_eq!(scores(report), *want, "{text} of {memory}");
        }
    }
}

#[test]
fn one_pod_is_an_object_and_several_are_a_list() {
    let pod = manifest("main r -/1Gi; init");
    let one = report(&["--node-memory", "32Gi"], &pod.to_string());
    let want = json!({
        "apiVersion": "isobar/v1alpha1", "kind": "QosReport", "name": "p", "qosClass": "Burstable",
        "nodeMemory": "32Gi",
        "containers": [
            {"name": "init-0", "oomScoreAdj": 999},
            {"name": "main-0", "oomScoreAdj": 969},
        ],
    });
    assert_eq!(one, want);
    let list = json!({"kind": "List", "items": [pod]});
    assert_eq!(report(&["--node-memory", "32Gi"], &list.to_string()), json!([want]));
    assert_eq!(report(&[], r#"{"kind": "PodList", "items": []}"#), json!([]));
}

#[test]
fn a_node_critical_pod_is_safe_and_an_ephemeral_container_has_a_row() {
    let mut pod = manifest("main r -/4Gi");
    pod["spec"]["ephemeralContainers"] = json!([{"name": "look"}]);
    let of = |pod: &Value| scores(&report(&["--node-memory", "8Gi"], &pod.to_string()));
    assert_eq!(of(&pod), [500, 999]);
    pod["spec"]["priorityClassName"] = json!("system-node-critical");
    pod["spec"]["priority"] = json!(2_000_001_000);
    assert_eq!(of(&pod), [-997, -997]);
}

#[test]
fn what_the_api_server_would_change_is_said_and_done_if_asked() {
    let text = manifest("main l 1/1Gi").to_string();
    let raw = qos(&["-f", "-", "--node-memory", "8Gi", "-o", "json"], &text);
    let note = String::from_utf8(raw.stderr).unwrap();
    assert!(note.contains("p: Burstable as it is written, Guaranteed once admitted"), "{note}");
    let admitted = report(&["--admitted"], &text);
    assert_eq!((&admitted["qosClass"], scores(&admitted)), (&json!("Guaranteed"), vec![-997]));
    let plain = qos(&["-f", "-", "-o", "json"], &manifest("main r 1/1Gi l 1/1Gi").to_string());
    assert_eq!(String::from_utf8(plain.stderr).unwrap(), "", "nothing would change");
}

#[test]
fn bad_input_is_told_in_full_with_its_places_and_ends_with_3() {
    #[rustfmt::skip]
    let table: [(&[&str], &str, i32, &[&str]); 9] = [
        // arguments, file, exit code, on stderr
        (&[], "", 3, &["-:1:1: the file holds no document"]),
        (&[], "kind: Pod\nspec: [", 3, &["-:3:1: not valid YAML"]),
        (&[], "kind: Service\n", 3, &["-:1:1: expected a pod", "-:1:7: kind: passed over: \"Service\""]),
        (&[], "kind: Pod\nspec:\n  priority: x\n  containers:\n  - name: a\n    resources: {requests: {cpu: 1KB, memory: -1}}\n", 3,
            &["-:3:13: spec.priority: ", "-:6:33: spec.containers[0].resources.requests.cpu: ", "-:6:46: spec.containers[0].resources.requests.memory: expected a quantity that is not negative"]),
        (&["--node-memory", "32GB"], "kind: Pod\nspec: {containers: [{name: a}]}", 3, &["--node-memory \"32GB\": quantities must match"]),
        (&["--node-memory", "0"], "kind: Pod\nspec: {containers: [{name: a}]}", 3, &["a node has some memory"]),
        (&["--node-memory", "-1Gi"], "kind: Pod\nspec: {containers: [{name: a}]}", 3, &["a node has some memory"]),
        (&["-f", "/does/not/exist"], "kind: Pod\nspec: {containers: [{name: a}]}", 3, &["cannot read /does/not/exist"]),
        (&["-o", "yaml"], "", 2, &["invalid value 'yaml'"]),
    ];
    for (arguments, text, code, want) in table {
        let output = qos(&[&["-f", "-"], arguments].concat(), text);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {text:?}: {stderr}");
        for part in want {
            assert!(stderr.contains(part), "{arguments:?} {text:?}: {part:?} is not in {stderr}");
        }
        assert_eq!(output.stdout, b"", "{arguments:?} {text:?}");
    }
}

/// The containers of our pod, as `isobar qos` with these arguments sees them.
fn ours(arguments: &[&str]) -> Vec<Value> {
    let output = isobar(&[&["qos", "-o", "json"], arguments].concat()).output().unwrap();
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
fn a_sandbox_is_told_by_its_score_and_a_gap_is_told() {
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
    let found = ours(&roots);
    assert_eq!(found[0]["processes"], json!([process(7, -997, false)]), "9 has left, 8 is a gap");
    assert_eq!(found[1]["processes"], json!([process(6, -998, false)]));
    let output = isobar(&["qos"]).args(roots).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let row: Vec<_> = table.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(row, [UID, "(sandbox)", "Guaranteed", "-998", "1", "-"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("proc/8/oom_score_adj: ") && stderr.contains("expected a number"),
        "{stderr}"
    );
}
