//! The machine that the figures are of, and whether it was quiet.

use std::fmt;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Serialize;

use isobar_lab::cgroup;
use isobar_lab::shell::quietly;

/// Programs that hook into context switches as isobar does.
const OBSERVERS: [&str; 5] = ["isobar", "runqlat", "bpftrace", "below", "perf"];

/// A description that goes with every figure.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Host {
    /// When measuring began, UTC.
    date: String,
    kernel: String,
    model: String,
    n_cpus: usize,
    memory_mib: u64,
    /// True inside a virtual machine, where switching costs more.
    is_virtual: bool,
    /// Whether cgroup v2 has the cpu controller: only then are there levels to account for.
    pub(super) cpu_on_v2: bool,
    /// Tasks that wanted a CPU in the minute before.
    load: f64,
    /// Others that observe context switches, and add to every figure.
    others: Vec<String>,
    /// `kernel.bpf_stats_enabled`: adds some 50 ns to each run of each program.
    bpf_stats: bool,
}

impl Host {
    pub(super) fn look() -> Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let meminfo = fs::read_to_string("/proc/meminfo")?;
        let total = meminfo.lines().next().and_then(|line| line.split_whitespace().nth(1));
        let total: u64 = total.and_then(|kib| kib.parse().ok()).context("no memory in meminfo")?;
        let load = fs::read_to_string("/proc/loadavg")?;
        let load = load.split(' ').next().and_then(|load| load.parse().ok());
        let controllers = fs::read_to_string(cgroup::mount()?.join("cgroup.controllers"))?;
        let stats = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").unwrap_or_default();
        Ok(Self {
            date: quietly(Command::new("date").args(["-u", "+%FT%TZ"]))?.trim().into(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().into(),
            // Not on every architecture.
            model: field("model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
            n_cpus: rustix::thread::sched_getaffinity(None)?.count() as usize,
            memory_mib: total / 1024,
            is_virtual: field("flags").is_some_and(|f| f.split(' ').any(|f| f == "hypervisor")),
            cpu_on_v2: controllers.split_whitespace().any(|name| name == "cpu"),
            load: load.context("no load in loadavg")?,
            others: others()?,
            bpf_stats: stats.trim() == "1",
        })
    }
}

fn others() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc")?.flatten() {
        // Gone again, or no process at all.
        let Ok(name) = fs::read_to_string(process.path().join("comm")) else { continue };
        if OBSERVERS.contains(&name.trim()) {
            found.push(format!("{} ({})", name.trim(), process.file_name().display()));
        }
    }
    Ok(found)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { date, kernel, model, n_cpus, memory_mib, load, .. } = self;
        let kind = if self.is_virtual { "virtual" } else { "real" };
        let calm = if *load < 0.2 * *n_cpus as f64 { "quiet" } else { "busy" };
        write!(f, "{date}: Linux {kernel}, {n_cpus} CPUs ({model}, {kind}), {memory_mib} MiB; ")?;
        write!(f, "{calm} before (load {load})")?;
        if !self.others.is_empty() {
            write!(f, "\nalso observing, and in every figure: {}", self.others.join(", "))?;
        }
        if self.bpf_stats {
            write!(f, "\nkernel.bpf_stats_enabled is on: every program costs some 50 ns more")?;
        }
        Ok(())
    }
}
