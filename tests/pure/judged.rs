//! Recordings of virtual machines, that must be judged the same for ever.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::program::{isobar, text};
use crate::sampling::data;
use serde_json::Value;

/// Recordings of virtual machines, made by `cargo xtask lab --keep` from the scenarios of the same
/// names.
fn recordings() -> Vec<PathBuf> {
    let mut all: Vec<_> =
        fs::read_dir(data("recordings")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert!(all.len() >= 5, "{all:?}");
    all
}

fn replay(file: &Path, more: &[&str]) -> Output {
    isobar(&[&["replay", file.to_str().unwrap()], more].concat()).output().unwrap()
}

/// Ticks in which a condition was True, and the decisions of all.
fn ticks_true(lines: &[Value], condition: &str) -> usize {
    let holds = |decision: &&Value| {
        let all = decision["assessment"]["conditions"].as_array().unwrap();
        all.iter().any(|one| one["type"] == condition && one["status"] == "True")
    };
    lines.iter().filter(holds).count()
}

fn decisions(file: &Path, more: &[&str]) -> Vec<Value> {
    let got = replay(file, more);
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    text(&got.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Recordings of an agent that marked who took memory only once a forecast had lasted: its
/// decisions are kept, and others would be made today from this tick on.
const OTHERWISE: [&str; 2] = ["incident-leak-6.12.isobar", "incident-leak-6.12-v4.isobar"];
pub(crate) const DIFFERENCE: &str = "tick 3 differs: /ranking\n";

fn is_decided_otherwise(file: &Path) -> bool {
    OTHERWISE.iter().any(|name| file.ends_with(name))
}

#[test]
fn replay_kept_recordings() {
    for file in recordings() {
        let got = replay(&file, &["--check"]);
        let told = text(&got.stdout) + &text(&got.stderr);
        let is_otherwise = is_decided_otherwise(&file);
        assert_eq!(got.status.code(), Some(is_otherwise.into()), "{}: {told}", file.display());
        assert_eq!(told.starts_with(DIFFERENCE), is_otherwise, "{}: {told}", file.display());
    }
}

#[test]
fn incidents_import_of_version_3() {
    let file = data("recordings").join("incident-leak-6.12.isobar");
    let lines = zstd::decode_all(fs::File::open(&file).unwrap()).unwrap();
    let header: Value =
        serde_json::from_slice(lines.split(|b| *b == b'\n').next().unwrap()).unwrap();
    assert_eq!(header["version"], 3, "it is kept to show that this version is read");
    let dir = tempfile::TempDir::new().unwrap();
    let shelf = dir.path().to_str().unwrap();
    let imported =
        isobar(&["incidents", "import", file.to_str().unwrap(), "--dir", shelf]).output().unwrap();
    assert_eq!(imported.status.code(), Some(0), "{}", text(&imported.stderr));
    let mut shown = isobar(&["incidents", "show", "latest", "--dir", shelf, "-o", "json"]);
    let shown: Value = serde_json::from_slice(&shown.output().unwrap().stdout).unwrap();
    assert_eq!(shown["incident"]["name"], "20261122T101330Z-exhaustion-kubepods.memory.exhaustion");
}

#[test]
fn replay_throttled_and_contended() {
    const CPU: &str = "KubepodsCPUContentionPressure";
    let raw = data("raw-psi.yaml");
    let mut seen = BTreeMap::new();
    for scenario in ["judged-throttled", "judged-contended"] {
        let file = data("recordings").join(format!("{scenario}-6.1.isobar"));
        let own = decisions(&file, &[]);
        let n_own = ticks_true(&own, CPU);
        // Each line is a tick that raw PSI would have judged otherwise: both decisions.
        let differences = decisions(&file, &["--config", raw.to_str().unwrap(), "-o", "ndjson"]);
        let otherwise: Vec<Value> = differences.iter().map(|d| d["otherwise"].clone()).collect();
        seen.insert(scenario, (n_own > 0, ticks_true(&otherwise, CPU) > 0));
    }
    let want = [("judged-throttled", (false, true)), ("judged-contended", (true, true))];
    // On the contended node raw PSI may hold a little earlier or later; that is a difference, too.
    assert_eq!(seen, BTreeMap::from(want), "(by contention, by raw PSI)");
}

#[test]
fn replay_leak_names_the_pod() {
    let file = data("recordings").join("judged-leak-6.12.isobar");
    let decisions = decisions(&file, &[]);
    let actions = |decision: &Value| decision["relief"]["actions"].as_array().unwrap().clone();
    let first = decisions.iter().find(|decision| !actions(decision).is_empty()).unwrap();
    let action = &actions(first)[0];
    assert_eq!(action["target"]["name"], "leak", "{action:#}");
    assert_eq!(action["isEnforced"], false);
    let targets = decisions.iter().flat_map(actions).map(|a| a["target"]["name"].clone());
    assert!(targets.into_iter().all(|name| name == "leak"));
}
