//! What the agent says of itself: how long a tick takes, and what each program takes of each event.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::rig::Rig;
use super::running::Agent;
use super::tree::{Cpus, Tree};
use crate::demo;
use crate::running::Running;
use isobar_lab::cgroup::Group;
use isobar_lab::table::table;

/// Cgroups that are made.
const SIZES: [usize; 4] = [10, 100, 500, 2_000];

/// Ticks that a duration is the median of.
const TICKS: usize = 11;

/// What the agent reported.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    ticks: Vec<Tick>,
    /// From the smallest tree to the largest.
    us_per_cgroup: f64,
    idle: Vec<Program>,
    busy: Vec<Program>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tick {
    n_made: usize,
    n_seen: usize,
    median_us: f64,
    longest_us: f64,
}

/// One program's cost, as the agent reports it; metering adds some 50 ns to each run.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Program {
    name: String,
    runs: u64,
    #[serde(rename(deserialize = "perRun"))]
    ns_per_run: u64,
    #[serde(rename(deserialize = "perSecond"))]
    ns_per_second: u64,
}

/// Seconds that this should take.
pub(super) fn expected() -> f64 {
    SIZES.into_iter().map(for_one).sum::<f64>() + FOR_BUSY
}

fn for_one(n: usize) -> f64 {
    6.0 + TICKS as f64 + n as f64 / 200.0
}

const FOR_BUSY: f64 = 7.0;

/// Measures ticks at every size, and programs at the smallest, idle and busy.
pub(super) fn measure(rig: &mut Rig) -> Result<Figures> {
    let (mut ticks, mut idle) = (Vec::new(), Vec::new());
    for n in SIZES {
        rig.progress.step(&format!("sample: {n} cgroups"), for_one(n));
        let _tree = Tree::grow(rig, n, Cpus::Calm)?;
        let mut agent = rig.agent()?;
        let metered = programs(rig, &mut agent)?;
        if idle.is_empty() {
            idle = metered;
        }
        ticks.push(tick(rig, &mut agent, n)?);
    }
    rig.progress.step("sample: a busy moment", FOR_BUSY);
    let load = Load::start(rig)?;
    let busy = programs(rig, &mut rig.agent()?)?;
    drop(load);
    let us_per_cgroup = match (ticks.first(), ticks.last()) {
        (Some(small), Some(large)) if large.n_seen > small.n_seen => {
            (large.median_us - small.median_us) / (large.n_seen - small.n_seen) as f64
        }
        _ => 0.0,
    };
    Ok(Figures { ticks, us_per_cgroup, idle, busy })
}

/// The programs' cost, once metered; the dearest first, and none that did not run.
fn programs(rig: &Rig, agent: &mut Agent) -> Result<Vec<Program>> {
    let mut snapshot = rig.metered(agent)?;
    let programs = snapshot["cost"]["kernel"]["programs"].take();
    let programs: Vec<Program> =
        serde_json::from_value(programs).context("the agent's cost report is not as expected")?;
    let mut programs: Vec<Program> = programs.into_iter().filter(|p| p.runs > 0).collect();
    programs.sort_by_key(|program| std::cmp::Reverse(program.ns_per_second));
    Ok(programs)
}

fn tick(rig: &Rig, agent: &mut Agent, n: usize) -> Result<Tick> {
    let (mut took, mut n_seen, mut last) = (Vec::new(), 0, None);
    while took.len() < TICKS {
        rig.pause(Duration::from_secs(1))?;
        let snapshot = agent.snapshot()?;
        let number = snapshot["tick"].as_u64();
        if number == last {
            continue;
        }
        last = number;
        let ns = snapshot["cost"]["tick"].as_f64().context("no duration of a tick")?;
        took.push(ns / 1e3);
        n_seen = snapshot["scopes"].as_object().map_or(0, serde_json::Map::len);
    }
    took.sort_by(f64::total_cmp);
    Ok(Tick { n_made: n, n_seen, median_us: took[TICKS / 2], longest_us: took[TICKS - 1] })
}

/// As much switching as one CPU can do, with a spinner beside.
struct Load {
    /// They end before their cgroups go.
    _works: [Running; 2],
    _groups: [Group; 2],
}

impl Load {
    fn start(rig: &Rig) -> Result<Self> {
        let cpu = demo::last_cpu()?.to_string();
        let groups = [rig.group("busy")?, rig.group("beside")?];
        let place = ["--seconds", "120", "--cpu", &cpu];
        let switching = [&["pingpong", "--switches", "100000000"], &place[..]].concat();
        let spinning = [&["spin"], &place[..]].concat();
        let works = [
            Running::load(&switching, groups[0].dir())?,
            Running::load(&spinning, groups[1].dir())?,
        ];
        Ok(Self { _works: works, _groups: groups })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<String>> = self.ticks.iter().map(row).collect();
        writeln!(f, "A tick, as the agent times itself; median and longest of {TICKS}.\n")?;
        writeln!(f, "{}", table(&["cgroups made (seen)", "tick ms", "longest"], &rows))?;
        writeln!(f, "{:.1} µs for each further cgroup", self.us_per_cgroup)?;
        let moments =
            [("idle", &self.idle), ("busy (switching and spinning on one CPU)", &self.busy)];
        for (moment, programs) in moments {
            let rows: Vec<Vec<String>> = programs.iter().map(program).collect();
            let head = [moment, "runs", "ns a run", "µs a second"];
            write!(f, "\n{}", table(&head, &rows))?;
        }
        Ok(())
    }
}

fn row(tick: &Tick) -> Vec<String> {
    vec![
        format!("{} ({})", tick.n_made, tick.n_seen),
        format!("{:.2}", tick.median_us / 1e3),
        format!("{:.2}", tick.longest_us / 1e3),
    ]
}

fn program(program: &Program) -> Vec<String> {
    vec![
        program.name.clone(),
        program.runs.to_string(),
        program.ns_per_run.to_string(),
        format!("{:.0}", program.ns_per_second as f64 / 1e3),
    ]
}
