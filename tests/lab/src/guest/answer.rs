//! What only the machine itself can tell, while a scenario still stands.

use std::fs;
use std::path::{Path, PathBuf};

use isobar_core::model::cpuset::CpuSet;

/// More than any limit; and a number that JSON has.
const MAX: f64 = u64::MAX as f64;

/// The number that a file of a cgroup holds.
pub(super) fn file(mount: &Path, cgroup: &str, name: &str) -> Result<f64, String> {
    let text = read(&below(mount, cgroup).join(name))?;
    number(&text).ok_or_else(|| format!("{name} of {cgroup} holds {:?}", text.trim()))
}

/// Processes in and below a cgroup that may run on `cpu`.
pub(super) fn cpus_allowed(mount: &Path, cgroup: &str, cpu: u32) -> Result<usize, String> {
    allowed(&below(mount, cgroup), cpu)
}

fn below(mount: &Path, cgroup: &str) -> PathBuf {
    mount.join(cgroup.trim_start_matches('/'))
}

/// The number that a file holds, or that stands for its `max`.
fn number(text: &str) -> Option<f64> {
    match text.trim() {
        "max" => Some(MAX),
        text => text.parse().ok(),
    }
}

/// Processes in and below `dir` that may run on `cpu`.
fn allowed(dir: &Path, cpu: u32) -> Result<usize, String> {
    let mut n = 0;
    for pid in read(&dir.join("cgroup.procs"))?.lines() {
        // One that has just ended runs nowhere.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let list = list.ok_or_else(|| format!("process {pid} has no Cpus_allowed_list"))?;
        let cpus: CpuSet = list.trim().parse().map_err(|why| format!("process {pid}: {why}"))?;
        n += usize::from(cpus.0.contains(&cpu));
    }
    let entries = fs::read_dir(dir).map_err(|why| format!("{}: {why}", dir.display()))?;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        n += allowed(&path, cpu)?;
    }
    Ok(n)
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|why| format!("{}: {why}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_answers_with_its_number_and_max_is_more_than_any() {
        let table = [("123\n", Some(123.0)), ("max\n", Some(MAX)), ("\n", None)];
        for (text, want) in table {
            assert_eq!(number(text), want, "{text:?}");
        }
    }
}
