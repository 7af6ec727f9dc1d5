//! What every measurement needs: the agent's program, a place for cgroups, the clock, an end.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::progress::Progress;
use super::running::Agent;
use isobar_lab::cgroup::{self, Group};
use isobar_lab::clock::Since;
use isobar_lab::signals::Stop;

/// The beginning of the names of our cgroups; our pid follows.
const NAME: &str = "isobar-bench-";

/// The agent meters its programs from tick 3 to tick 4, and from 23 to 24; metering makes each run
/// dearer, so what is measured goes in between.
const METERED: u64 = 5;

/// What every measurement needs.
pub(super) struct Rig {
    isobar: PathBuf,
    /// The kernel side, as the agent carries it.
    pub(super) object: PathBuf,
    mount: PathBuf,
    stop: Stop,
    pub(super) progress: Progress,
}

impl Rig {
    pub(super) fn new(isobar: PathBuf, object: PathBuf, expected: f64) -> Result<Self> {
        let mount = cgroup::mount()?;
        tidy(&mount)?;
        Ok(Self { isobar, object, mount, stop: Stop::listen()?, progress: Progress::new(expected) })
    }

    /// Makes a cgroup of ours; `part` tells it from the others.
    pub(super) fn group(&self, part: &str) -> Result<Group> {
        let dir = self.mount.join(format!("{NAME}{}-{part}", std::process::id()));
        Group::make(dir).context("cgroups are needed: run this as root")
    }

    /// The agent, ready, on a port of its own.
    pub(super) fn agent(&self) -> Result<Agent> {
        self.agent_with("agent", &[])
    }

    /// The same with more arguments, in a cgroup that `part` tells from those of other agents.
    pub(super) fn agent_with(&self, part: &str, arguments: &[String]) -> Result<Agent> {
        let mut isobar = Command::new(&self.isobar);
        // What it costs is measured here, so it is not to be left off for that.
        isobar.args(["run", "--probe-budget", "100"]).args(arguments).env("ISOBAR_LOG", "error");
        // The node's own recording is not for what is played here.
        isobar.env("ISOBAR_NO_RECORD", "true");
        // Taken again at once by the agent; nobody else is after it.
        let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        Agent::start(isobar, "all", &free.to_string(), self.group(part)?)
    }

    /// Waits until the agent has metered its programs, and returns what it says then.
    pub(super) fn metered(&self, agent: &mut Agent) -> Result<Value> {
        loop {
            let snapshot = agent.snapshot()?;
            if snapshot["tick"].as_u64() >= Some(METERED) {
                return Ok(snapshot);
            }
            self.pause(Duration::from_millis(250))?;
        }
    }

    /// Waits; an error if we are told to end meanwhile.
    pub(super) fn pause(&self, time: Duration) -> Result<()> {
        let since = Since::now();
        while since.within(time) {
            self.go_on()?;
            let left = time.saturating_sub(since.elapsed());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        self.go_on()
    }

    /// An error once we are told to end.
    pub(super) fn go_on(&self) -> Result<()> {
        if self.stop.requested() {
            bail!("stopped by a signal: what was measured so far is lost");
        }
        Ok(())
    }
}

/// Removes what a benchmark that was killed left behind; an error if another one is at work.
fn tidy(mount: &Path) -> Result<()> {
    for entry in fs::read_dir(mount)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(NAME) else { continue };
        let pid = rest.split('-').next().unwrap_or_default();
        if Path::new("/proc").join(pid).exists() {
            bail!("a benchmark is running already, with process {pid}");
        }
        fs::write(entry.path().join("cgroup.kill"), "1")?;
        remove(&entry.path())?;
    }
    Ok(())
}

/// Removes a cgroup and all below it.
fn remove(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(dir).with_context(|| format!("cannot remove {}", dir.display()))
}
