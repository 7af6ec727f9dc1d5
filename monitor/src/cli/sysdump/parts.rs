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
const VERSION: &str = "/proc/version";
/// Where the kernel's own file systems are mounted everywhere.
const KERNEL: [&str; 2] = ["/proc/", "/sys/"];

/// Files of the kernel by name.
pub(super) fn kernel(is_whole: bool) -> Vec<(String, Result<String, io::Error>)> {
    let name = |path: &str| path.trim_start_matches('/').replace('/', "-");
    let lines = FILES.into_iter().chain([COMMAND_LINE]);
    let read = |path: &'static str| {
        let text = text(path);
        (name(path), if is_whole { text } else { text.map(|text| without_names(path, text)) })
    };
    lines.map(read).collect()
}

fn text(path: &str) -> io::Result<String> {
    let bytes = read_bounded(File::open(path)?, LARGEST)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A file of the kernel without what may name a node, a disk, or who built it.
fn without_names(path: &str, text: String) -> String {
    let is_kept = |word: &&str| match path {
        COMMAND_LINE => PARAMETERS.iter().any(|known| word.starts_with(known)),
        _ => !word.contains('@'),
    };
    if ![COMMAND_LINE, VERSION].contains(&path) {
        return text;
    }
    let kept: Vec<_> = text.split_whitespace().filter(is_kept).collect();
    format!("{}\n", kept.join(" "))
}

/// What capabilities do stays; their details and remedies name cgroups and processes, as does what could
/// not be read. Findings are about the machine, and name nothing that runs on it but where cgroups are
/// mounted.
pub(super) fn redact_diagnosis(diagnosis: &mut Value) {
    let capabilities = diagnosis.get_mut("capabilities").and_then(Value::as_array_mut);
    for capability in capabilities.into_iter().flatten() {
        *capability = json!({"name": capability["name"], "state": capability["state"]});
    }
    if diagnosis["capabilitiesUnknown"].is_string() {
        diagnosis["capabilitiesUnknown"] = "redacted".into();
    }
    let mut names = Names::default();
    let gaps = diagnosis.get_mut("unread").and_then(Value::as_array_mut);
    for gap in gaps.into_iter().flatten() {
        let object = names.text(gap["object"].as_str().unwrap_or_default());
        *gap = json!({"object": object, "why": gap["why"]});
    }
    let unread = diagnosis.get_mut("summary").and_then(|summary| summary.get_mut("unread"));
    for object in unread.and_then(Value::as_array_mut).into_iter().flatten() {
        *object = names.text(object.as_str().unwrap_or_default()).into();
    }
    let findings = diagnosis.get_mut("findings").and_then(Value::as_array_mut);
    for detail in findings.into_iter().flatten().filter_map(|one| one.get_mut("detail")) {
        let words = detail.as_str().unwrap_or_default().split(' ');
        let is_standard = |word: &str| KERNEL.iter().any(|root| word.starts_with(root));
        let replaced = words.map(|word| match word.starts_with('/') && !is_standard(word) {
            true => names.text(word),
            false => word.into(),
        });
        *detail = replaced.collect::<Vec<_>>().join(" ").into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_names_of_nodes_disks_and_builders() {
        #[rustfmt::skip]
        let table = [
            // file, its text, what is kept
            (COMMAND_LINE, "root=UUID=1-2 psi=1 ip=::::web7 quiet", "psi=1\n"),
            (COMMAND_LINE, "cgroup_no_v1=all isolcpus=2-3",         "cgroup_no_v1=all isolcpus=2-3\n"),
            (COMMAND_LINE, "",                                      "\n"),
            (VERSION,      "Linux version 6.12.5 (me@acme) #1 SMP", "Linux version 6.12.5 #1 SMP\n"),
            (FILES[1],     "MemTotal: 5 kB\n",                      "MemTotal: 5 kB\n"),
        ];
        for (path, text, want) in table {
            assert_eq!(without_names(path, text.into()), want, "{path}: {text}");
        }
    }

    #[test]
    fn redact_diagnosis_keeps_what_works() {
        let mut diagnosis = json!({
            "findings": [
                {"name": "PSI", "state": "ok", "detail": "/proc/pressure"},
                {"name": "cgroup v2", "state": "ok", "detail": "/web/tree, beside v1 at /sys/fs/cgroup (hybrid)"},
            ],
            "capabilities": [{"name": "probes", "state": "limited", "detail": "web.service", "remedy": "stop web"}],
            "unread": [{"object": "/sys/fs/cgroup/system.slice/web.service/cgroup.pressure", "why": "unsupported", "detail": "of web"}],
            "summary": {"unread": ["/sys/fs/cgroup/system.slice/web.service/cgroup.pressure"]},
        });
        redact_diagnosis(&mut diagnosis);
        assert_eq!(diagnosis["findings"][0]["detail"], "/proc/pressure");
        let mount = diagnosis["findings"][1]["detail"].as_str().unwrap();
        assert!(mount.ends_with("beside v1 at /sys/fs/cgroup (hybrid)"), "{mount}");
        assert_eq!(diagnosis["capabilities"][0]["state"], "limited");
        assert_eq!(diagnosis["unread"][0]["why"], "unsupported");
        assert_eq!(diagnosis["unread"][0]["object"], diagnosis["summary"]["unread"][0]);
        assert!(!diagnosis.to_string().contains("web"), "{diagnosis}");
    }
}
