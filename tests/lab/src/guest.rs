//! `lab guest`: what runs inside a virtual machine. Plays one scenario after the other and tells the
//! host in a line of JSON what was seen of each.

mod agent;
mod answer;
mod churn;
mod cluster;
mod disks;
mod driver;
mod frozen;
mod listen;
mod measure;
mod peaks;
mod peer;
mod play;
pub(crate) mod pods;
mod scrape;
mod testbed;
mod watch;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::agents::{Agent, recording};
use crate::cgroup;
use crate::facts::{Facts, Line, Play};
use crate::form::{self, Scenario};
use agent::Running;
use play::play;

/// How often deaths are looked for.
const TICK: Duration = Duration::from_millis(20);

/// Play scenarios in this virtual machine.
#[derive(clap::Args)]
pub struct Guest {
    /// The scenarios' directory; its file `plan` names those to be played, one JSON object a line.
    #[arg(long)]
    scenarios: PathBuf,
    /// Where results go, line by line.
    #[arg(long)]
    results: PathBuf,
}

impl Guest {
    /// Plays all that the plan asks for.
    ///
    /// # Errors
    /// The plan cannot be read, or its results not be written.
    pub fn run(self) -> Result<()> {
        let mut results = File::options()
            .append(true)
            .open(&self.results)
            .with_context(|| format!("cannot write to {}", self.results.display()))?;
        let mut say = |line: &Line| -> Result<()> {
            Ok(writeln!(results, "{}", serde_json::to_string(line)?)?)
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
        say(&Line::Up { kernel: kernel.clone() })?;
        survive()?;
        let scenarios = form::read_all(&self.scenarios)?;
        let mount = cgroup::mount()?;
        let plan = fs::read_to_string(self.scenarios.join("plan"))?;
        let before = groups(&mount)?;
        let mut running = None;
        for line in plan.lines() {
            let play: Play = serde_json::from_str(line).context("the plan is no JSON")?;
            say(&Line::Begin { play: play.clone() })?;
            match one(&scenarios, &play, &mount, &mut running) {
                Ok((facts, files)) => {
                    for (name, file) in files {
                        say(&Line::Recording { name, base64: BASE64_STANDARD.encode(file) })?;
                    }
                    let facts = Box::new(Facts { kernel: kernel.clone(), ..facts });
                    say(&Line::Ran { play, facts })?;
                }
                Err(why) => say(&Line::Broke { play, why: format!("{why:#}") })?,
            }
            let left = groups(&mount)?;
            if left.iter().any(|name| !before.contains(name) && !is_agents(name)) {
                return say(&Line::Spent);
            }
        }
        say(&Line::Done)
    }
}

/// The watching process must neither be killed nor wait for memory, and hears of every orphan.
fn survive() -> Result<()> {
    fs::write("/proc/self/oom_score_adj", "-1000").context("cannot be spared by the kernel")?;
    rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT | rustix::mm::MlockAllFlags::FUTURE)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Names of the cgroups at the top.
fn groups(mount: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(mount)?.flatten().filter(|entry| entry.path().is_dir());
    Ok(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

fn is_agents(name: &str) -> bool {
    Agent::named(name).is_ok()
}

/// Recordings, by what they are called after the scenario.
type Files = Vec<(String, Vec<u8>)>;

/// What was seen of one play; and what the agent recorded if it was to, and its incidents.
fn one(
    scenarios: &[Scenario],
    one: &Play,
    mount: &Path,
    running: &mut Option<Running>,
) -> Result<(Facts, Files)> {
    let scenario = scenarios.iter().find(|s| s.name == one.scenario);
    let scenario = scenario.with_context(|| format!("no scenario is called {}", one.scenario))?;
    let agent = Agent::named(&one.agent).map_err(anyhow::Error::msg)?;
    let mut facts = play(scenario, agent, mount, running)?;
    let mut files = Files::new();
    if scenario.form.record && agent.offers_views() {
        let file = recording(&scenario.form);
        let recorded = fs::read(file).with_context(|| format!("cannot read {file}"))?;
        files.push((String::new(), recorded));
    }
    let incidents = facts.agent.as_mut().map(|agent| std::mem::take(&mut agent.incident_files));
    let named = (1..).zip(incidents.unwrap_or_default());
    files.extend(named.map(|(n, file)| (format!("-incident-{n}"), file)));
    Ok((facts, files))
}
