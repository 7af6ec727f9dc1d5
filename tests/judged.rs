//! The judgement through the built binary: on this node, on SIGHUP, and on recordings of virtual
//! machines that must be judged the same for ever.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod live;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use live::{Agent, isobar};
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A configuration in a directory of its own.
struct Config {
    dir: tempfile::TempDir,
}

impl Config {
    fn new(text: &str) -> Self {
        let config = Self { dir: tempfile::tempdir().unwrap() };
        config.write(text);
        config
    }

    fn path(&self) -> String {
        self.dir.path().join("config.yaml").display().to_string()
    }

    fn write(&self, text: &str) {
        let head = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n";
        fs::write(self.path(), format!("{head}{text}")).unwrap();
    }
}

/// More pids than there ever are free: always met.
const SHORT_OF_PIDS: &str = "evictionHard: {pid.available: \"99.99%\"}\n";

#[test]
fn a_node_that_is_short_is_under_pressure_and_the_reason_is_told() {
    let config = Config::new(SHORT_OF_PIDS);
    let run = |verb: &[&str]| {
        let more = ["--probes", "none", "--config", &config.path()];
        isobar(&[verb, &more].concat()).output().unwrap()
    };
    let status = run(&["status"]);
    assert_eq!(status.status.code(), Some(10), "{}", text(&status.stderr));
    assert!(text(&status.stdout).contains("pid.available"), "{}", text(&status.stdout));

    let explained = run(&["explain", "-o", "json"]);
    assert_eq!(explained.status.code(), Some(0), "{}", text(&explained.stderr));
    let document: Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(document["decision"]["assessment"]["nodePressure"][0], "PIDPressure");
    let why = document["explanation"]["why"].to_string();
    assert!(why.contains("pid.available") && why.contains("(hard)"), "{why}");
    assert!(!document["explanation"]["verdict"].as_array().unwrap().is_empty());
}

#[test]
fn sighup_reads_the_configuration_again_and_a_bad_one_changes_nothing() {
    let config = Config::new("evictionHard: {}\n");
    let mut agent = Agent::start(&["--probes", "none", "--config", &config.path()]);
    let calm = agent.wait_for("a first decision", |s| s["tick"].as_u64() > Some(1));
    assert_eq!(
        calm["decision"]["assessment"]["nodePressure"].as_array().map(Vec::len),
        Some(0),
        "{calm:#}"
    );

    config.write(SHORT_OF_PIDS);
    agent.hang_up();
    let short = agent.wait_for("the new threshold", |s| s["decision"]["generation"] == 1);
    assert_eq!(short["decision"]["assessment"]["nodePressure"][0], "PIDPressure");
    // What was before is not forgotten: the samples go on being counted and compared.
    assert!(short["tick"].as_u64() > calm["tick"].as_u64() && short["interval"].as_u64() > Some(0));

    config.write("evictionHard: {pid.avail: 1}\nranking: {order: best}\n");
    agent.hang_up();
    let after = agent.next(&agent.next(&agent.snapshot()));
    assert_eq!(after["decision"]["generation"], 1);
    assert_eq!(after["decision"]["assessment"]["nodePressure"][0], "PIDPressure");
    assert_eq!(agent.stop().code(), Some(0));
    let told = agent.stderr();
    for wrong in ["unsupported eviction signal pid.avail", "config.yaml:4:", "keeping the old one"]
    {
        assert!(told.contains(wrong), "{wrong}: {told}");
    }
}

#[test]
fn a_node_that_records_is_judged_the_same_again() {
    let (config, file) = (Config::new(SHORT_OF_PIDS), tempfile::tempdir().unwrap());
    let file = file.path().join("recording").display().to_string();
    let more = ["--probes", "none", "--config", &config.path(), "--record", &file];
    let mut agent = Agent::start(&more);
    agent.wait_for("some ticks", |s| s["tick"].as_u64() > Some(3));
    assert_eq!(agent.stop().code(), Some(0));
    let checked = isobar(&["replay", &file, "--check"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains("all the same"), "{}", text(&checked.stdout));
}

/// Recordings of virtual machines, made by `cargo xtask vm --keep` from the scenarios of the same
/// names.
fn recordings() -> Vec<PathBuf> {
    let mut all: Vec<_> =
        fs::read_dir(data("recordings")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert!(all.len() >= 4, "{all:?}");
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

#[test]
fn what_virtual_machines_recorded_is_judged_the_same_for_ever() {
    for file in recordings() {
        let got = replay(&file, &["--check"]);
        let told = text(&got.stdout) + &text(&got.stderr);
        assert_eq!(got.status.code(), Some(0), "{}: {told}", file.display());
    }
}

#[test]
fn a_throttled_pod_and_a_contended_node_differ_by_contention_and_not_by_raw_psi() {
    const CPU: &str = "KubepodsCPUContentionPressure";
    let raw = data("raw-psi.yaml");
    let mut seen = BTreeMap::new();
    for scenario in ["judged-throttled", "judged-contended"] {
        let file = data("recordings").join(format!("{scenario}-6.1.isobar"));
        let own = decisions(&file, &[]);
        let n_own = ticks_true(&own, CPU);
        // Each line is a tick that raw PSI would have judged otherwise: both decisions.
        let differences = decisions(&file, &["--config", raw.to_str().unwrap()]);
        let otherwise: Vec<Value> = differences.iter().map(|d| d["otherwise"].clone()).collect();
        seen.insert(scenario, (n_own > 0, ticks_true(&otherwise, CPU) > 0));
    }
    let want = [("judged-throttled", (false, true)), ("judged-contended", (true, true))];
    // On the contended node raw PSI may hold a little earlier or later; that is a difference, too.
    assert_eq!(seen, BTreeMap::from(want), "(by contention, by raw PSI)");
}

#[test]
fn the_pod_that_leaks_is_named_before_the_kernel_kills_it() {
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
