//! `isobar rank` on the documented scenario, and on a hostile one; more is in `sessions/rank.md`.

use crate::machine::given;
use serde_json::Value;

#[track_caller]
fn ranking(scenario: &str, more: &[&str]) -> Value {
    let arguments: Vec<_> = ["rank", "-f", "-", "-o", "json"].iter().chain(more).copied().collect();
    let got = given(&arguments, scenario);
    assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
    serde_json::from_slice(&got.stdout).unwrap()
}

/// `key=value` of one candidate, as they decide.
fn keys(candidate: &Value) -> String {
    let keys = candidate["keys"].as_array().unwrap().iter();
    keys.map(|key| format!("{}={}", key["key"], key["value"]).replace('"', ""))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn rank_documented_scenario() {
    let page = include_str!("../../docs/configuration.md");
    let section = page.split("## A scenario").nth(1).unwrap();
    let scenario = section.split("```").nth(1).unwrap().strip_prefix("yaml\n").unwrap();
    let got = ranking(scenario, &["--signal", "kubepods.disk.pressure"]);
    assert_eq!(got["spared"][0]["why"], "static");
    let evictable = scenario.replace("config.source: file", "config.source: api");
    let evictable = evictable.replace("never-evict: \"true\"", "never-evict: \"false\"");
    #[rustfmt::skip]
    let table = [
        // signal, keys
        ("memory.available",        "exceedsRequest=true priority=0 harm=12 excess=200Mi"),
        ("kubepods.cpu.pressure",   "exceedsRequest=true priority=0 harm=12 excess=250m"),
        ("nodefs.available",        "exceedsRequest=true priority=0 harm=12 excess=1Gi"),
        ("nodefs.inodesFree",       "exceedsRequest=true priority=0 harm=12 excess=1k"),
        ("pid.available",           "priority=0 harm=12 processes=20"),
        ("system.disk.pressure",    "priority=0 harm=12 usage=10Mi"),
    ];
    for (signal, want) in table {
        let got = ranking(&evictable, &["--signal", signal]);
        let want = format!("qos=Burstable {want} started=1795262400 uid=7a1e5b1c");
        assert_eq!(keys(&got["candidates"][0]), want, "{signal}");
    }
}

#[test]
fn rank_hostile_name() {
    let got = given(&["rank", "-f", "-"], "pods: [{name: \"a\\e[2Jb\", critical: true}]");
    let stdout = String::from_utf8(got.stdout).unwrap();
    assert!(stdout.contains('a') && !stdout.contains('\x1b'), "{stdout:?}");
}
