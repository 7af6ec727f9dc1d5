//! An agent that is killed in the middle of an incident: the next one keeps what was recorded of it.

use crate::host::Agent;
use crate::program::{isobar, text};
use rustix::process::Signal;
use serde_json::Value;

/// A condition that holds from the first tick on, on any machine.
const ALWAYS: &str = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n\
    conditions: {system: {disk: {measure: raw, line: full, threshold: 0%}}}\n";

fn incidents(dir: &str, more: &[&str]) -> String {
    let got = isobar(&["incidents", "--dir", dir]).args(more).output().unwrap();
    assert_eq!(got.status.code(), Some(0), "{more:?}: {}", text(&got.stderr));
    text(&got.stdout)
}

#[test]
fn incident_outlives_a_killed_agent() {
    let kept = tempfile::tempdir().unwrap();
    let config = kept.path().join("config.yaml");
    std::fs::write(&config, ALWAYS).unwrap();
    let dir = format!("{}/recording/", kept.path().display());
    let arguments = ["--probes", "none", "--config", config.to_str().unwrap(), "--record", &dir];
    let mut agent = Agent::start(&arguments);
    agent.wait_for("some ticks", |s| s["tick"].as_u64() > Some(4));
    let list: Value = serde_json::from_str(&agent.get("/api/v1/incidents").unwrap()).unwrap();
    assert_eq!(list["incidents"][0]["state"], "open", "{list}");
    agent.end_by(Signal::KILL);
    assert!(incidents(&dir, &["show", "latest"]).contains("It is not over in this record."));

    let next = Agent::start(&arguments);
    next.wait_for("some ticks", |s| s["tick"].as_u64() > Some(3));
    let all: Value = serde_json::from_str(&incidents(&dir, &["ls", "-o", "json"])).unwrap();
    let frozen = all["incidents"].as_array().unwrap().iter().find(|one| one["state"] == "frozen");
    let frozen = frozen.unwrap_or_else(|| panic!("none is frozen: {all:#}"));
    // Four ticks were seen published; the last may be lost.
    assert!(frozen["ticks"].as_u64() >= Some(4), "{frozen:#}");
    let (name, file) = (frozen["name"].as_str().unwrap(), kept.path().join("out.isobar"));
    let file = file.to_str().unwrap();
    incidents(&dir, &["export", name, "-o", file]);
    let checked = isobar(&["replay", file, "--check"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stdout));
}
