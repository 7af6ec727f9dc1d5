//! What an archive has: files of the kernel, and what is left of the rest without names.

use std::fs::File;
use std::io;

use isobar::config::read_bounded;
use isobar::record::incident::redact::Names;
use serde_json::{Value, json};

/// No file of these is longer.
const LARGEST: u64 = 256 << 10;
#[rustfmt::skip]
const FILES: [&str; 15] = [
    "/proc/version",
    "/proc/meminfo",
    "/proc/pressure/cpu",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/min_free_kbytes",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/unprivileged_bpf_disabled",
    "/sys/kernel/security/lsm",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/fs/cgroup/cgroup.controllers",
];
const COMMAND_LINE: &str = "/proc/cmdline";
/// Parameters of the kernel that tell of what isobar measures; others may name a node or a disk.
const PARAMETERS: [&str; 8] = [
    "psi=",
    "cgroup",
    "swapaccount=",
    "systemd.unified_cgroup_hierarchy=",
    "isolcpus=",
    "nohz_full=",
    "mitigations=",
    "transparent_hugepage=",
];
/// Settings that hold names, patterns of them, or labels.
const NAMED: [&str; 3] = ["/ranking/optOutLabel", "/relief/neverTouch", "/workloads"];

/// Files of the kernel by name.
pub(super) fn kernel(is_whole: bool) -> Vec<(String, Result<String, io::Error>)> {
    let name = |path: &str| path.trim_start_matches('/').replace('/', "-");
    let mut all: Vec<_> = FILES.iter().map(|path| (name(path), text(path))).collect();
    let line = text(COMMAND_LINE);
    let line = if is_whole { line } else { line.map(|line| parameters(&line)) };
    all.push((name(COMMAND_LINE), line));
    all
}

fn text(path: &str) -> io::Result<String> {
    let bytes = read_bounded(File::open(path)?, LARGEST)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn parameters(line: &str) -> String {
    let is_known = |word: &&str| PARAMETERS.iter().any(|known| word.starts_with(known));
    let known: Vec<_> = line.split_whitespace().filter(is_known).collect();
    format!("{}\n", known.join(" "))
}

/// Details of capabilities name cgroups; what they can do stays. Findings are about the machine, and
/// name nothing that runs on it.
pub(super) fn redact_diagnosis(diagnosis: &mut Value) {
    let capabilities = diagnosis.get_mut("capabilities").and_then(Value::as_array_mut);
    for capability in capabilities.into_iter().flatten() {
        let (name, state) = (&capability["name"], &capability["state"]);
        *capability = json!({"name": name, "state": state, "remedy": capability["remedy"]});
    }
    if diagnosis["capabilitiesUnknown"].is_string() {
        diagnosis["capabilitiesUnknown"] = "redacted".into();
    }
}

pub(super) fn redacted_settings(mut settings: Value) -> Value {
    for place in NAMED {
        if let Some(value) = settings.pointer_mut(place) {
            *value = match value {
                Value::Array(all) => json!(format!("redacted: {} of them", all.len())),
                _ => json!("redacted"),
            };
        }
    }
    Names::default().replace(&mut settings);
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_without_names() {
        #[rustfmt::skip]
        let table = [
            // command line, what is kept
            ("root=UUID=1-2 psi=1 ip=::::web7 quiet", "psi=1\n"),
            ("cgroup_no_v1=all isolcpus=2-3",         "cgroup_no_v1=all isolcpus=2-3\n"),
            ("",                                      "\n"),
        ];
        for (line, want) in table {
            assert_eq!(parameters(line), want, "{line}");
        }
    }

    #[test]
    fn redacted_settings_name_nothing() {
        let settings = json!({
            "ranking": {"optOutLabel": "acme.example/keep"},
            "relief": {"neverTouch": ["/acme.slice/*"]},
            "node": {"kubeReservedCgroup": "/acme-runtime", "maxPods": 110},
            "workloads": [{"path": "/acme/*"}],
        });
        let left = redacted_settings(settings);
        assert!(!left.to_string().contains("acme"), "{left}");
        assert_eq!(left["node"]["maxPods"], 110);
        assert_eq!(left["relief"]["neverTouch"], "redacted: 1 of them");
    }

    #[test]
    fn redact_diagnosis_keeps_what_works() {
        let mut diagnosis = json!({
            "findings": [{"name": "PSI", "state": "ok", "detail": "/proc/pressure"}],
            "capabilities": [{"name": "probes", "state": "limited", "detail": "web.service", "remedy": null}],
        });
        redact_diagnosis(&mut diagnosis);
        assert_eq!(diagnosis["findings"][0]["detail"], "/proc/pressure");
        assert_eq!(diagnosis["capabilities"][0]["state"], "limited");
        assert!(!diagnosis.to_string().contains("web"), "{diagnosis}");
    }
}
