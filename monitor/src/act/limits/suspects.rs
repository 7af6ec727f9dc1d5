//! Which other writer may change a limit, judged by the processes that run.

use std::fs;
use std::path::Path;

use isobar_core::model::limit::LimitWrite;

/// The possible writers, in words.
pub(super) fn suspects(proc: &Path, write: &LimitWrite) -> String {
    let mut writers = Vec::new();
    let running = running(proc);
    let name = write.cgroup.segments().next_back().unwrap_or_default();
    if name.ends_with(".slice")
        && running.iter().any(|(pid, name)| (*pid, name.as_str()) == (1, "systemd"))
    {
        let property = property(&write.file).map_or_else(String::new, |p| format!(" {p}= in"));
        writers.push(format!(
            "systemd, which writes what its unit says whenever that is loaded (set{property} \
             {name} there)"
        ));
    }
    let this = std::process::id();
    for (pid, name) in &running {
        match name.as_str() {
            "kubelet" => {
                writers.push(format!("the kubelet ({pid}), by a configuration of its own"));
            }
            "isobar" if *pid != this => writers.push(format!("another isobar ({pid})")),
            _ => {}
        }
    }
    match writers.as_slice() {
        [] => "the other writer is unknown: neither a kubelet nor a systemd unit sets it".into(),
        writers => format!("it may be {}", writers.join(", or ")),
    }
}

/// Processes by number and name.
fn running(proc: &Path) -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir(proc) else { return Vec::new() };
    let one = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        Some((pid, name.trim_end().to_owned()))
    };
    let mut all: Vec<_> = entries.flatten().filter_map(one).collect();
    all.sort_unstable();
    all
}

/// The property by which systemd knows a file: systemd.resource-control(5).
fn property(file: &str) -> Option<&'static str> {
    Some(match file {
        "memory.max" => "MemoryMax",
        "cpu.weight" => "CPUWeight",
        "pids.max" => "TasksMax",
        "cpuset.cpus" => "AllowedCPUs",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::cgroup::CgroupPath;
    use isobar_core::model::settings::WrittenLimit;

    #[test]
    fn suspects_are_named_by_running_processes() {
        type Runs = &'static [(u32, &'static str)];
        #[rustfmt::skip]
        let table: [(Runs, &str, &str, &str); 5] = [
            // who runs, cgroup, file, what is said
            (&[(1, "init")],                   "/kubepods",       "memory.max",      "the other writer is unknown"),
            (&[(1, "systemd"), (7, "kubelet")], "/kubepods",      "memory.max",      "it may be the kubelet (7), by"),
            (&[(1, "systemd"), (7, "kubelet")], "/kubepods.slice", "memory.max",     "(set MemoryMax= in kubepods.slice there), or the kubelet (7)"),
            (&[(1, "systemd")],                "/kubepods.slice", "hugetlb.2MB.max", "(set kubepods.slice there)"),
            (&[(1, "init"), (9, "isobar")],    "/kubepods.slice", "pids.max",        "it may be another isobar (9)"),
        ];
        for (running, cgroup, file, want) in table {
            let proc = tempfile::tempdir().unwrap();
            for (pid, name) in running {
                let dir = proc.path().join(pid.to_string());
                fs::create_dir(&dir).unwrap();
                fs::write(dir.join("comm"), format!("{name}\n")).unwrap();
            }
            let write = LimitWrite {
                what: WrittenLimit::Allocatable,
                cgroup: CgroupPath(cgroup.into()),
                file: file.into(),
                value: "1".into(),
            };
            let got = suspects(proc.path(), &write);
            assert!(got.contains(want), "{running:?} {cgroup} {file}: {got}");
        }
    }
}
