//! What the agent takes for itself, by the number of cgroups: CPU, memory, time to its first sample.

use std::fmt;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::rig::Rig;
use super::tree::{Cpus, Tree};
use isobar_lab::clock::Since;
use isobar_lab::table::{against, table};

/// Cgroups that are made, whether CPUs are pressed, and the budget in percent of one core.
const CASES: [(usize, Cpus, Option<f64>); 6] = [
    (10, Cpus::Calm, None),
    (100, Cpus::Calm, None),
    (500, Cpus::Calm, None),
    (500, Cpus::Pressed, Some(0.7)),
    (1_000, Cpus::Pressed, Some(1.4)),
    (2_000, Cpus::Pressed, Some(2.8)),
];

/// The size that the other budgets are about.
const BUDGETED: usize = 500;

/// The kernel counts CPU time in hundredths of a second: over this it is 0.03 % of one core.
const WINDOW: Duration = Duration::from_secs(30);

/// `USER_HZ`, which is 100 wherever eBPF is.
pub(super) const USER_HZ: f64 = 100.0;

const MIB: f64 = 1024.0 * 1024.0;

/// What the agent took at each size.
#[derive(Serialize)]
pub(super) struct Figures {
    sizes: Vec<Size>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Size {
    n_made: usize,
    is_pressed: bool,
    /// With those that were there before.
    n_seen: usize,
    /// Of a container; each one that is on makes more files to be read.
    controllers: String,
    /// Of one core.
    cpu_percent: f64,
    /// Of these, in the kernel: reading files.
    cpu_system_percent: f64,
    rss_mib: f64,
    /// The most until it was steady.
    peak_at_start_mib: f64,
    /// Once somebody had asked for everything, as JSON.
    rss_asked_mib: f64,
    first_sample_ms: f64,
    map_mib: Option<f64>,
}

/// Seconds that this should take.
pub(super) fn expected() -> f64 {
    CASES.into_iter().map(|(n, ..)| for_one(n)).sum()
}

fn for_one(n: usize) -> f64 {
    WINDOW.as_secs_f64() + 8.0 + n as f64 / 200.0
}

/// Measures every size.
pub(super) fn measure(rig: &mut Rig) -> Result<Figures> {
    let mut sizes = Vec::new();
    for (n, cpus, _) in CASES {
        let pressed = if cpus == Cpus::Pressed { ", CPUs pressed" } else { "" };
        rig.progress.step(&format!("agent: {n} cgroups{pressed}"), for_one(n));
        sizes.push(of_one(rig, n, cpus)?);
    }
    Ok(Figures { sizes })
}

fn of_one(rig: &Rig, n: usize, cpus: Cpus) -> Result<Size> {
    let tree = Tree::grow(rig, n, cpus)?;
    let mut agent = rig.agent()?;
    // Past its metering, and past the first turns of what is read every ten ticks.
    rig.pause(Duration::from_secs(6))?;
    let pid = agent.pid();
    let start = Memory::of(pid)?;
    let (before, since) = (Cpu::of(pid)?, Since::now());
    rig.pause(WINDOW)?;
    let (after, took) = (Cpu::of(pid)?, since.elapsed().as_secs_f64());
    let steady = Memory::of(pid)?;
    // Only now: a snapshot of thousands of cgroups takes the agent time of its own.
    let snapshot = agent.snapshot()?;
    let asked = Memory::of(pid)?;
    let percent = |ticks: u64| 100.0 * ticks as f64 / USER_HZ / took;
    let system = after.system - before.system;
    Ok(Size {
        n_made: n,
        is_pressed: cpus == Cpus::Pressed,
        n_seen: snapshot["scopes"].as_object().map_or(0, serde_json::Map::len),
        controllers: tree.controllers()?,
        cpu_percent: percent(after.user - before.user + system),
        cpu_system_percent: percent(system),
        rss_mib: steady.now,
        peak_at_start_mib: start.peak,
        rss_asked_mib: asked.now,
        first_sample_ms: agent.ready_after().as_secs_f64() * 1e3,
        map_mib: snapshot["cost"]["kernel"]["mapBytes"].as_f64().map(|bytes| bytes / MIB),
    })
}

/// CPU time of a process in ticks: fields 14 and 15 of `/proc/PID/stat`.
pub(super) struct Cpu {
    pub(super) user: u64,
    pub(super) system: u64,
}

impl Cpu {
    pub(super) fn of(pid: u32) -> Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::read(&text).with_context(|| format!("no CPU time in {text:?}"))
    }

    fn read(stat: &str) -> Option<Self> {
        // The name may hold anything, also blanks and brackets.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ').skip(11);
        let mut next = || fields.next()?.parse().ok();
        Some(Self { user: next()?, system: next()? })
    }
}

/// CPU time of the threads of this name in seconds; `None` if there is none.
pub(super) fn of_thread(pid: u32, name: &str) -> Result<Option<f64>> {
    let mut sum = None;
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        // A thread may end in between.
        let read = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim() == name {
            let run = read("schedstat");
            let ns = run.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
            let ns = ns.with_context(|| format!("no schedstat of the thread {name}"))?;
            *sum.get_or_insert(0.0) += ns / 1e9;
        }
    }
    Ok(sum)
}

/// Memory of a process that is in RAM, in MiB.
pub(super) struct Memory {
    pub(super) now: f64,
    /// Of it, what is no file.
    pub(super) anonymous: f64,
    pub(super) peak: f64,
}

impl Memory {
    pub(super) fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
            kib.map(|kib| kib / 1024.0).with_context(|| format!("no {name} for process {pid}"))
        };
        let (now, anonymous) = (field("VmRSS:")?, field("RssAnon:")?);
        Ok(Self { now, anonymous, peak: field("VmHWM:")? })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "cgroups made (seen)",
            "CPU %",
            "in the kernel",
            "RSS MiB",
            "peak at start",
            "once asked",
            "first sample ms",
            "maps MiB",
        ];
        let rows: Vec<Vec<String>> = self.sizes.iter().map(row).collect();
        let seconds = WINDOW.as_secs();
        writeln!(f, "The agent at 1 Hz, CPU over {seconds} s of one core.\n")?;
        writeln!(f, "{}", table(&head, &rows))?;
        let Some(size) = self.sizes.iter().find(|size| size.n_made == BUDGETED) else {
            return Ok(());
        };
        for (size, (n, _, budget)) in self.sizes.iter().zip(CASES) {
            let Some(limit) = budget else { continue };
            let (figure, verdict) = (size.cpu_percent, against(size.cpu_percent, limit));
            writeln!(
                f,
                "budget, CPU at {n}, pressed: {figure:.2} %, at most {limit} %: {verdict}"
            )?;
        }
        #[rustfmt::skip]
        let budgets = [
            ("RSS, steady", "MiB", Some(size.rss_mib), 24.0),
            ("RSS, peak at start", "MiB", Some(size.peak_at_start_mib), 60.0),
            ("first sample", "ms", Some(size.first_sample_ms), 1_000.0),
            ("maps", "MiB", size.map_mib, 16.0),
        ];
        for (name, unit, figure, limit) in budgets {
            let Some(figure) = figure else {
                writeln!(f, "budget, {name}: not judged, it was not measured")?;
                continue;
            };
            let verdict = against(figure, limit);
            writeln!(f, "budget, {name}: {figure:.2} {unit}, at most {limit} {unit}: {verdict}")?;
        }
        let controllers = match size.controllers.as_str() {
            "" => "no controllers, so most of a container's files are missing and cost nothing",
            some => some,
        };
        writeln!(f, "a container had: {controllers}")
    }
}

fn row(size: &Size) -> Vec<String> {
    vec![
        format!(
            "{} ({}){}",
            size.n_made,
            size.n_seen,
            if size.is_pressed { ", pressed" } else { "" }
        ),
        format!("{:.2}", size.cpu_percent),
        format!("{:.2}", size.cpu_system_percent),
        format!("{:.1}", size.rss_mib),
        format!("{:.1}", size.peak_at_start_mib),
        format!("{:.1}", size.rss_asked_mib),
        format!("{:.0}", size.first_sample_ms),
        size.map_mib.map_or_else(|| "-".into(), |mib| format!("{mib:.1}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let rest = "S 1 2 2 0 -1 4194560 1 0 0 0 123 45 0 0 20 0";
        for name in ["isobar", "a b", ") (", "x) S 9 9"] {
            let cpu = Cpu::read(&format!("42 ({name}) {rest}")).unwrap();
            assert_eq!((cpu.user, cpu.system), (123, 45), "{name:?}");
        }
        assert!(Cpu::read("42 (isobar) S 1").is_none());
    }
}
