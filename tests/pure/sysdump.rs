//! The archive of a bug report: what is in it, and which names are not.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cli::made_up_agent;
use crate::kept::keep;
use crate::program::{self, text};
use crate::sampling::data;
use serde_json::Value;
use tempfile::TempDir;

fn entries(archive: &Path) -> BTreeMap<String, Vec<u8>> {
    let packed = zstd::Decoder::new(File::open(archive).unwrap()).unwrap();
    let mut archive = tar::Archive::new(packed);
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.path().unwrap().display().to_string(), bytes)
    };
    archive.entries().unwrap().map(read).collect()
}

#[test]
fn sysdump_has_names_only_where_they_are_asked_for() {
    let dir = TempDir::new().unwrap();
    keep(&data("recordings/judged-leak-6.12.isobar"), dir.path());
    let agent = made_up_agent().to_string();
    for (name, more, has_names) in [("a", None, false), ("b", Some("--no-redact"), true)] {
        let file = dir.path().join(name);
        let mut command = program::isobar(&["sysdump", "--agent", &agent, "--dir"]);
        let got = command.arg(dir.path()).arg(&file).args(more).output().unwrap();
        assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let all = entries(&file);
        for wanted in [
            "README.txt",
            "version.json",
            "doctor.json",
            "config.json",
            "incidents.json",
            "kernel/proc-meminfo",
            "problems.txt",
        ] {
            assert!(all.contains_key(wanted), "{wanted}: {:?}", all.keys());
        }
        let (path, ticks) = all.iter().find(|(name, _)| name.ends_with(".isobar")).unwrap();
        let unpacked = zstd::decode_all(&ticks[..]).unwrap();
        let words: Vec<_> = all
            .iter()
            .filter(|(name, _)| !name.ends_with(".isobar"))
            .map(|(name, bytes)| format!("{name} {}", text(bytes)))
            .chain([path.clone(), text(&unpacked)])
            .collect();
        for name in ["shop", "leak", "worker-1"] {
            let found = words.iter().any(|words| words.contains(name));
            assert_eq!(found, has_names, "{name} in {more:?}");
        }
        let taken = dir.path().join("taken");
        fs::write(&taken, ticks).unwrap();
        let replayed = program::isobar(&["replay", "--check"]).arg(&taken).output().unwrap();
        assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stdout));
        let doctor: Value = serde_json::from_slice(&all["doctor.json"]).unwrap();
        assert_eq!(doctor["capabilities"].as_array().map(Vec::len), Some(6));

        let again = program::isobar(&["sysdump", "--agent", &agent]).arg(&file).output().unwrap();
        assert_eq!(again.status.code(), Some(1), "nothing is overwritten");
        assert_eq!(entries(&file).len(), all.len());
    }
}

#[test]
fn sysdump_names_nothing_of_a_configuration() {
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("acme.yaml");
    let good = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n\
        conditions: {prefix: acme.example/}\nranking: {optOutLabel: acme.example/keep}\n\
        relief: {neverTouch: [/acme.slice/*]}\nkubeReservedCgroup: /acme-kube\nmaxPods: 77\n\
        kubeReserved: {cpu: 100m}\nworkloads: [{path: /acme/*}]\n";
    let bad = format!("{good}acmeSetting: 1\n");
    #[rustfmt::skip]
    let table = [
        // configuration, whether it is in the archive
        (good,  true),
        (&*bad, false),
    ];
    for (n, (text_of, is_there)) in table.into_iter().enumerate() {
        fs::write(&config, text_of).unwrap();
        let file = dir.path().join(n.to_string());
        let mut command = program::isobar(&["sysdump", "--agent", "127.0.0.1:1", "--config"]);
        let got = command.arg(&config).arg("--dir").arg(dir.path()).arg(&file).output().unwrap();
        assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
        let all = entries(&file);
        for (name, bytes) in &all {
            assert!(!text(bytes).contains("acme"), "{name}: {}", text(bytes));
        }
        let config = all.get("config.json").map(|bytes| text(bytes));
        assert_eq!(config.is_some_and(|text| text.contains("77")), is_there);
        assert_eq!(text(&all["problems.txt"]).contains("isobar config check"), !is_there);
    }
}

#[test]
fn sysdump_without_incidents_or_agent() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("a");
    let mut command = program::isobar(&["sysdump", "--agent", "127.0.0.1:1", "--dir"]);
    let got = command.arg(dir.path()).arg(&file).output().unwrap();
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    let all = entries(&file);
    let doctor: Value = serde_json::from_slice(&all["doctor.json"]).unwrap();
    assert!(doctor["capabilitiesUnknown"].is_string(), "{doctor}");
    let incidents: Value = serde_json::from_slice(&all["incidents.json"]).unwrap();
    assert_eq!(incidents["incidents"].as_array().map(Vec::len), Some(0));
}
