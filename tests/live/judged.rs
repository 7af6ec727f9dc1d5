//! The judgement through the built binary, on this node and on SIGHUP.

use std::fs;

use crate::host::Agent;
use crate::program::{isobar, text};
use serde_json::Value;

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
fn status_and_explain_short_of_pids() {
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
fn run_reloads_on_hangup() {
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
fn run_record_and_replay() {
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
