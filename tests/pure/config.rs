//! `isobar config` as an operator meets it: every problem with its place, thresholds as the
//! kubelet parses them, and nothing lost between printing and reading.

use crate::machine::given;
use std::fs;

use serde_json::{Value, json};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const HEAD: &str = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n";

#[test]
fn every_problem_of_a_file_is_told_with_its_place_and_the_exit_code_says_so() {
    let many = format!(
        "{HEAD}\
kubeReservd: {{cpu: 1}}
kubeReserved: {{storage: 1Gi, memory: -1Mi}}
systemReserved: {{cpu: abc}}
enforceNodeAllocatable: [pods, system-reserved, pods, everything]
reservedSystemCPUs: 0-x
cgroupsPerQOS: yes
maxPods: many
evictionHard:
  memory.available: 150%
  swap.available: 100Mi
evictionSoft: {{memory.available: 1Gi}}
evictionMinimumReclaim: {{memory.available: 0%}}
maxPods: 110
conditions:
  system:
    cpu: {{measure: raw, line: full}}
relief: {{budget: 0, enforce: [kill]}}
"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("many.yaml");
    fs::write(&file, many).unwrap();
    let file = file.to_str().unwrap();
    let output = given(&["config", "check", file], "");
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    let lines: Vec<&str> = text(&output.stderr).lines().collect();
    #[rustfmt::skip]
    let want = [
        // place, part of the line
        ("3:1",   "kubeReservd: unknown key, did you mean kubeReserved?"),
        ("4:25",  "kubeReserved.storage: --kube-reserved value failed to parse: cannot reserve \"storage\" resource"),
        ("4:38",  "resource quantity for \"memory\" cannot be negative: -1Mi"),
        ("5:23",  "failed to parse quantity \"abc\" for \"cpu\" resource: "),
        ("6:32",  "systemReservedCgroup (--system-reserved-cgroup) must be specified when"),
        ("6:49",  "duplicated enforcements \"pods\" in enforceNodeAllocatable"),
        ("6:55",  "option \"everything\" specified for enforceNodeAllocatable"),
        ("7:21",  "unable to parse reservedSystemCPUs (--reserved-cpus) 0-x, error: "),
        ("8:16",  "cgroupsPerQOS: expected true or false, found the text \"yes\""),
        ("9:10",  "maxPods: expected a whole number, found the text \"many\""),
        ("11:21", "eviction percentage threshold memory.available must be <= 100%: 150%"),
        ("12:19", "unsupported eviction signal swap.available"),
        ("13:34", "grace period must be specified for the soft eviction threshold memory.available"),
        ("14:44", "eviction percentage minimum reclaim memory.available must be positive: 0%"),
        ("15:1",  "maxPods: this key stands here twice"),
        ("18:31", "conditions.system.cpu.line: the line full of the node's CPU pressure is always 0"),
        ("19:18", "relief.budget: expected a whole number from 1 to 1000000"),
        ("19:31", "relief.enforce[0]: expected one of reclaim, squeeze,"),
    ];
    assert_eq!(lines.len(), want.len(), "{}", text(&output.stderr));
    for (line, (place, part)) in lines.iter().zip(want) {
        assert!(line.starts_with(&format!("{file}:{place}: ")), "{place}: {line}");
        assert!(line.contains(part), "{part}: {line}");
    }

    let output = given(&["config", "check", file, "-o", "json"], "");
    assert_eq!(output.status.code(), Some(3));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["valid"], false);
    assert_eq!(json["problems"].as_array().unwrap().len(), want.len());
    assert_eq!(json["problems"][0]["line"], 3);
}

#[test]
fn what_cannot_be_read_at_all_is_invalid_input() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = dir.path().join("bytes.yaml");
    fs::write(&bytes, b"kind: \xff").unwrap();
    let bytes = bytes.to_str().unwrap();
    #[rustfmt::skip]
    let table = [
        // file, standard input, first line ends with
        ("-", "",                 "-:1:1: the file holds no document"),
        ("-", "a: 1\n\tb: 2",     "-:2:1: a tab in the indentation: use spaces"),
        ("-", "a: x\0",           "-:1:5: expected text, found the control character U+0000"),
        (bytes, "",               ":1:7: expected UTF-8 text, found the byte 0xff"),
        ("/nowhere.yaml", "",     "/nowhere.yaml:1:1: cannot read: No such file or directory (os error 2)"),
    ];
    for (file, stdin, want) in table {
        for verb in ["check", "view"] {
            let output = given(&["config", verb, "-f", file], stdin);
            assert_eq!(output.status.code(), Some(3), "{verb} {file} {stdin:?}");
            let told = text(&output.stderr).lines().next().unwrap();
            assert!(told.ends_with(want), "{verb} {file} {stdin:?}: {told}");
        }
    }
}

/// Thresholds, or nothing and the exit code.
fn parsed(fields: &str) -> Result<Value, Option<i32>> {
    let output = given(&["config", "view", "-", "-o", "json"], &format!("{HEAD}{fields}\n"));
    match output.status.code() {
        Some(0) => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        code => Err(code),
    }
}

#[test]
fn thresholds_are_printed_as_the_kubelet_parses_them() {
    let hard = |signal: &str, key: &str, value: Value| {
        json!({"signal": signal, "operator": "LessThan", key: value,
               "gracePeriod": "0s", "minReclaim": "0"})
    };
    let soft = |value: &str| {
        json!({"signal": "memory.available", "operator": "LessThan", "quantity": value,
               "gracePeriod": "30s", "minReclaim": "0"})
    };
    #[rustfmt::skip]
    let table = [
        // case, fields, thresholds
        ("T1", "evictionHard: {}", Ok(json!([]))),
        ("T2", "evictionHard: {memory.available: 150Mi}\nevictionSoft: {memory.available: 300Mi}\n\
                evictionSoftGracePeriod: {memory.available: 30s}\nevictionMinimumReclaim: {memory.available: '0'}",
            Ok(json!([
                hard("memory.available", "quantity", json!("150Mi")),
                soft("300Mi"),
                hard("allocatableMemory.available", "quantity", json!("150Mi")),
            ]))),
        ("T7", "evictionHard: {memory.available: 0%}\nevictionSoft: {memory.available: 0%}", Ok(json!([]))),
        ("T9", "evictionHard: {mem.available: 150Mi}", Err(Some(3))),
        ("T26", "enforceNodeAllocatable: [none]\nevictionHard: {memory.available: 25.5%}",
            Ok(json!([hard("memory.available", "percentage", json!(0.255))]))),
        ("in bytes", "enforceNodeAllocatable: [none]\nevictionHard: {memory.available: 1024Mi}",
            Ok(json!([hard("memory.available", "quantity", json!("1Gi"))]))),
        ("a share is reclaimed", "evictionHard: {nodefs.available: 1Gi}\nevictionMinimumReclaim: {nodefs.available: 5%}",
            Ok(json!([{"signal": "nodefs.available", "operator": "LessThan", "quantity": "1Gi",
                       "gracePeriod": "0s", "minReclaim": 0.05}]))),
    ];
    for (case, fields, want) in table {
        assert_eq!(parsed(fields), want, "{case}");
    }
    assert_eq!(parsed("").unwrap().as_array().unwrap().len(), 6, "the kubelet's defaults");
}

#[test]
fn what_is_printed_is_taken_again_and_means_the_same() {
    let kubelets = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    clusterDomain: cluster.local\nevictionHard: {memory.available: 5%}\nmaxPods: 250\n";
    let ours = format!("{HEAD}evictionPressure: [{{scope: system, signal: cpu, threshold: 50}}]\n");
    let defaults = given(&["config", "defaults"], "");
    for file in [kubelets, &ours, text(&defaults.stdout)] {
        let once = given(&["config", "view", "-"], file);
        let checked = given(&["config", "check", "-"], text(&once.stdout));
        assert_eq!(text(&checked.stdout), "-: ok\n", "{file}: {}", text(&checked.stderr));
        let twice = given(&["config", "view", "-"], text(&once.stdout));
        assert_eq!(text(&once.stdout), text(&twice.stdout), "{file}");
        let thresholds = |file: &str| given(&["config", "view", "-", "-o", "json"], file).stdout;
        assert_eq!(thresholds(file), thresholds(text(&once.stdout)), "{file}");
    }
    let none = given(&["config", "view"], "");
    let same = given(&["config", "view", "-"], text(&defaults.stdout));
    assert_eq!(text(&none.stdout), text(&same.stdout));
    assert_eq!(text(&given(&["config", "check"], "").stdout), "defaults: ok\n");
}

#[test]
fn the_schema_is_one() {
    let output = given(&["config", "schema"], "");
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["properties"]["maxPods"]["type"], json!(["integer", "null"]));
    assert_eq!(schema["additionalProperties"], false);
}
