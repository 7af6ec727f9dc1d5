//! `isobar config`: nothing is lost between printing and reading, and what cannot be read is told.
//! Problems and thresholds are in `sessions/config.md`.

use std::fs;

use crate::machine::given;
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const HEAD: &str = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n";

#[test]
fn config_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = dir.path().join("bytes.yaml");
    fs::write(&bytes, b"kind: \xff").unwrap();
    let bytes = bytes.to_str().unwrap();
    #[rustfmt::skip]
    let table = [
        // file, standard input, first line ends with
        ("-", "a: 1\n\tb: 2",     "-:2:1: a tab in the indentation: use spaces"),
        ("-", "a: x\0",           "-:1:5: expected text, found the control character U+0000"),
        (bytes, "",               ":1:7: expected UTF-8 text, found the byte 0xff"),
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

#[test]
fn config_view_round_trip() {
    let kubelets = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    clusterDomain: cluster.local\nevictionHard: {memory.available: 5%}\nmaxPods: 250\n";
    let ours = format!("{HEAD}evictionPressure: [{{scope: system, signal: cpu, threshold: 50}}]\n");
    let defaults = given(&["config", "defaults"], "");
    for file in [kubelets, &ours, text(&defaults.stdout)] {
        let once = given(&["config", "view", "-f", "-"], file);
        let checked = given(&["config", "check", "-f", "-"], text(&once.stdout));
        assert_eq!(text(&checked.stdout), "-: ok\n", "{file}: {}", text(&checked.stderr));
        let twice = given(&["config", "view", "-f", "-"], text(&once.stdout));
        assert_eq!(text(&once.stdout), text(&twice.stdout), "{file}");
        let thresholds =
            |file: &str| given(&["config", "view", "-f", "-", "-o", "json"], file).stdout;
        assert_eq!(thresholds(file), thresholds(text(&once.stdout)), "{file}");
    }
    let none = given(&["config", "view"], "");
    let same = given(&["config", "view", "-f", "-"], text(&defaults.stdout));
    assert_eq!(text(&none.stdout), text(&same.stdout));
}

#[test]
fn config_schema() {
    let output = given(&["config", "schema"], "");
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["properties"]["maxPods"]["type"], json!(["integer", "null"]));
    assert_eq!(schema["additionalProperties"], false);
}
