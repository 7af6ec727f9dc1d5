//! The built binary where it has to look at this node: what it answers, and how it ends.

use crate::host::{Agent, free_port, skip};
use crate::program::{isobar, text};
use isobar::clock;
use isobar_core::model::units::Nanos;
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn run_ends_on_signals() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut agent = Agent::start(&["--probes", "none"]);
        // A reader that never leaves must not hold the agent back.
        let _reader =
            ureq::get(format!("http://{}/api/v1/stream", agent.address())).call().unwrap();
        let asked = clock::now().boot;
        let status = agent.end_by(signal);
        assert_eq!(status.code(), Some(0), "{signal:?}");
        let took = clock::now().boot.since(asked);
        assert!(took < Nanos::SECOND, "{signal:?}: {took:?}");
    }
}

#[test]
fn status_logs_nothing() {
    let got = isobar(&["status", "-o", "json"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&got.stderr);
    if !matches!(got.status.code(), Some(0 | 10)) {
        return skip(&format!("nothing can be sampled here: {stderr}"));
    }
    assert!(!stderr.contains("INFO") && !stderr.contains("WARN"), "{stderr}");
}

#[test]
fn top_and_status_ask_an_agent() {
    let agent = Agent::start(&["--probes", "none"]);
    let address = agent.address().to_string();
    let got = isobar(&["top", "--once", "-o", "ndjson", "--agent", &address]).output().unwrap();
    let line: Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!(line["apiVersion"], "isobar/v1alpha1");
    assert_eq!(text(&got.stdout).lines().count(), 1);

    let got = isobar(&["status", "-o", "json", "--agent", &address]).output().unwrap();
    let status: Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["facts"]["kernel"], rustix::system::uname().release().to_str().unwrap());
}

#[test]
fn run_duration() {
    let begun = clock::now().boot;
    let address = free_port().to_string();
    let got = isobar(&["run", "--probes", "none", "--duration", "1s", "--listen", &address])
        .output()
        .unwrap();
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    let took = clock::now().boot.since(begun);
    assert!(Nanos::SECOND <= took && took < Nanos(3 * Nanos::SECOND.0), "{took:?}");
    assert!(got.stdout.is_empty(), "diagnostics belong on stderr");
}
