//! An agent that is killed in the middle of an incident: the next one keeps what was recorded of it.

use std::thread::sleep;
use std::time::Duration;

use crate::host::Agent;
use crate::program::{isobar, text};
use rustix::process::Signal;
use serde_json::Value;

const HEAD: &str = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n";
/// `PIDPressure` never holds, and on any machine.
const CALM: &str = "evictionHard: {pid.available: \"1\"}\n";
const SHORT: &str = "evictionHard: {pid.available: \"99.99%\"}\n";

fn incidents(dir: &str, more: &[&str]) -> String {
    let got = isobar(&["incidents", "--dir", dir]).args(more).output().unwrap();
    assert_eq!(got.status.code(), Some(0), "{more:?}: {}", text(&got.stderr));
    text(&got.stdout)
}

#[test]
fn incident_outlives_a_killed_agent() {
    let kept = tempfile::tempdir().unwrap();
    let config = kept.path().join("config.yaml");
    let configure = |keys| std::fs::write(&config, format!("{HEAD}{keys}")).unwrap();
    configure(CALM);
    let dir = format!("{}/recording/", kept.path().display());
    let arguments = ["--probes", "none", "--config", config.to_str().unwrap(), "--record", &dir];
    let mut agent = Agent::start(&arguments);
    agent.wait_for("a calm tick", |s| s["tick"].as_u64() > Some(1));
    configure(SHORT);
    agent.hang_up();
    let first = agent.wait_for("PIDPressure", |s| {
        s["decision"]["assessment"]["nodePressure"][0] == "PIDPressure"
    });
    agent.next(&agent.next(&first));
    let list: Value = serde_json::from_str(&agent.get("/api/v1/incidents").unwrap()).unwrap();
    assert_eq!(list["incidents"][0]["state"], "open", "{list}");
    agent.end_by(Signal::KILL);
    let open = incidents(&dir, &["show", "latest", "-o", "json"]);
    assert!(
        open.contains("PIDPressure became True.") && open.contains("before it was calm for 30s"),
        "{open}"
    );

    // The next agent goes on with it, until it is calm.
    let next = Agent::start(&arguments);
    let ls = || -> Value { serde_json::from_str(&incidents(&dir, &["ls", "-o", "json"])).unwrap() };
    let second = next.wait_for("some ticks", |s| s["tick"].as_u64() > Some(3));
    let all = ls();
    let states: Vec<_> =
        all["incidents"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["open"], "{all:#}");
    configure(CALM);
    next.hang_up();
    let calm = || ls()["incidents"].as_array().unwrap().iter().any(|one| one["state"] == "frozen");
    // It is over after half a minute without anything.
    for _ in 0..45 {
        if calm() {
            break;
        }
        sleep(Duration::from_secs(1));
    }
    let all = ls();
    let frozen = all["incidents"].as_array().unwrap().iter().find(|one| one["state"] == "frozen");
    let frozen = frozen.unwrap_or_else(|| panic!("none is frozen: {all:#}"));
    // Ticks of both agents; the last one of the first may be lost.
    let ticks = frozen["ticks"].as_u64();
    assert!(
        ticks > Some(first["tick"].as_u64().unwrap() + second["tick"].as_u64().unwrap()),
        "{frozen:#}"
    );
    assert_eq!(frozen["who"], "PIDPressure");
    let (name, file) = (frozen["name"].as_str().unwrap(), kept.path().join("out.isobar"));
    let file = file.to_str().unwrap();
    incidents(&dir, &["export", name, "-o", file]);
    let checked = isobar(&["replay", file, "--check"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stdout));
}
