//! `cargo xtask guest`: what runs inside a virtual machine. Plays one scenario after the other and
//! reports each to the host in a line of JSON.

pub(crate) mod agent;
mod answer;
mod stage;

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::clock::Since;
use crate::relief;
use crate::scenario::judge::{Evidence, judge};
use crate::scenario::report::{Line, Report};
use crate::scenario::{self, Scenario};
use crate::v2::{self, Group};
use agent::Agent;
use stage::Stage;

/// Nobody else listens in a machine of our own.
const ADDRESS: &str = "127.0.0.1:9797";
/// Where the agent finds its configuration, if a scenario has one.
const CONFIG: &str = "/tmp/config.yaml";
/// Where it finds the node's pods.
const PODS: &str = "/tmp/pods.yaml";
/// Where it records, if a scenario wants that.
const RECORDING: &str = "/tmp/recording.isobar";

/// Play scenarios in this virtual machine.
#[derive(clap::Args)]
pub(crate) struct Guest {
    /// The scenarios' directory; its file `list` names those to be played.
    #[arg(long)]
    scenarios: PathBuf,
    /// Where results go, line by line.
    #[arg(long)]
    results: PathBuf,
    /// The agent.
    #[arg(long, default_value = "/bin/isobar")]
    isobar: PathBuf,
}

impl Guest {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut results = File::options()
            .append(true)
            .open(&self.results)
            .with_context(|| format!("cannot write to {}", self.results.display()))?;
        if self.scenarios.join("plan").exists() {
            relief::play_all(&self.scenarios, &mut results)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut say = |line: &Line| -> Result<()> {
            Ok(writeln!(results, "{}", serde_json::to_string(line)?)?)
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
        say(&Line::Up { kernel: kernel.clone() })?;
        let mut agent = None;
        for scenario in self.listed()? {
            say(&Line::Begin { scenario: scenario.name.clone() })?;
            let since = Since::now();
            let played = self.play(&scenario, &mut agent);
            if scenario.form.record
                && let Some(agent) = agent.take()
            {
                agent.leave()?;
                let (scenario, file) = (scenario.name.clone(), fs::read(RECORDING)?);
                say(&Line::Recording { scenario, base64: BASE64_STANDARD.encode(file) })?;
            }
            let mut report = match played {
                Ok(evidence) => judged(&scenario, &evidence),
                Err(why) => Report {
                    scenario: scenario.name,
                    kernel: String::new(),
                    passed: false,
                    seconds: 0.0,
                    error: Some(format!("{why:#}")),
                    expectations: Vec::new(),
                },
            };
            report.seconds = since.elapsed().as_secs_f64();
            report.kernel.clone_from(&kernel);
            say(&Line::Ran(report))?;
        }
        drop(agent);
        say(&Line::Done)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The scenarios that the host asked for, in its order.
    fn listed(&self) -> Result<Vec<Scenario>> {
        let list = fs::read_to_string(self.scenarios.join("list"))?;
        let mut all = scenario::read_all(&self.scenarios)?;
        let take = |name: &str| {
            let at = all.iter().position(|s| s.name == name);
            at.map(|i| all.swap_remove(i)).with_context(|| format!("no scenario is called {name}"))
        };
        list.lines().map(take).collect()
    }

    fn play(&self, scenario: &Scenario, running: &mut Option<Agent>) -> Result<Evidence> {
        let probes = &scenario.form.probes;
        let mount = v2::mount()?;
        let form = &scenario.form;
        let is_alone =
            form.record || form.config.is_some() || form.pods.is_some() || form.mode.is_some();
        // One agent for as many scenarios as possible: that is how it will live.
        let is_other = |agent: &mut Agent| agent.probes() != probes || !agent.is_up();
        if is_alone || running.as_mut().is_some_and(is_other) {
            *running = None;
        }
        let ready = match running.take() {
            Some(agent) => agent,
            None => {
                let group = Group::make(mount.join("isobar"))?;
                Agent::start(self.command(scenario)?, probes, ADDRESS, group)?
            }
        };
        let agent = running.insert(ready);
        let stage = Stage::set(form, &mount)?;
        let measured = measure(scenario, agent);
        let struck = stage.strike();
        let evidence = measured?;
        struck?;
        if is_alone && !scenario.form.record {
            *running = None;
        }
        Ok(evidence)
    }

    /// The agent, configured as the scenario wants it.
    fn command(&self, scenario: &Scenario) -> Result<Command> {
        let form = &scenario.form;
        let mut isobar = Command::new(&self.isobar);
        // What is true is asked here, not what it costs: on an emulated CPU that is far more.
        isobar.args(["run", "--probe-budget", "100"]);
        if let Some(mode) = &form.mode {
            isobar.args(["--mode", mode]);
        }
        let files = [("--config", CONFIG, &form.config), ("--pods", PODS, &form.pods)];
        for (option, file, text) in files {
            if let Some(text) = text {
                fs::write(file, text)?;
                isobar.args([option, file]);
            }
        }
        if form.record {
            // Left behind by the scenario before.
            match fs::remove_file(RECORDING) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(why.into()),
                _ => {}
            }
            isobar.args(["--record", RECORDING]);
        }
        Ok(isobar)
    }
}

/// Lets the loads settle, then collects snapshots until the measured time is over.
fn measure(scenario: &Scenario, agent: &mut Agent) -> Result<Evidence> {
    let form = &scenario.form;
    let time = |seconds| Duration::try_from_secs_f64(seconds).context("no such time");
    std::thread::sleep(time(form.settle)?);
    let first = seen_by(agent, scenario)?;
    let mut snapshots = vec![first];
    let (since, limit) = (Since::now(), time(form.seconds)?);
    while since.within(limit) {
        let rest = limit.saturating_sub(since.elapsed());
        // Asking costs the guest time, so only those are asked who must be. After a kill by the
        // kernel ticks come every 100 ms, and each snapshot is gone with the next.
        let pause = if scenario.needs_watching() { Duration::from_millis(80) } else { rest };
        std::thread::sleep(pause.min(rest));
        let snapshot = agent.snapshot()?;
        if snapshots.last().is_none_or(|last| last["tick"] != snapshot["tick"]) {
            snapshots.push(snapshot);
        }
    }
    if snapshots.len() < 2 {
        bail!("the agent took no sample in {limit:?}");
    }
    let questions = scenario.expect.iter().flat_map(|expected| expected.meaning.questions());
    let mount = v2::mount()?;
    let answers = questions.map(|asked| (asked.clone(), answer::answer(asked, &mount))).collect();
    Ok(Evidence { snapshots, answers })
}

/// The first snapshot that has every cgroup of the scenario.
fn seen_by(agent: &mut Agent, scenario: &Scenario) -> Result<Value> {
    let since = Since::now();
    loop {
        let snapshot = agent.snapshot()?;
        let scopes = snapshot["scopes"].as_object();
        let known = |path: &str| scopes.is_some_and(|s| s.values().any(|s| s["path"] == path));
        let missing = scenario.form.cgroup.iter().find(|group| !known(&group.path));
        let Some(missing) = missing else { return Ok(snapshot) };
        if !since.within(Duration::from_secs(10)) {
            bail!("the agent does not see cgroup {}", missing.path);
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

fn judged(scenario: &Scenario, evidence: &Evidence) -> Report {
    let expectations: Vec<_> = scenario.expect.iter().map(|e| judge(e, evidence)).collect();
    Report {
        scenario: scenario.name.clone(),
        kernel: String::new(),
        passed: expectations.iter().all(|judged| judged.passed),
        seconds: 0.0,
        error: None,
        expectations,
    }
}
