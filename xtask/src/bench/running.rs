//! The agent that is measured: started in a cgroup of its own, asked over HTTP, ended.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::running::Running;
use isobar_lab::cgroup::Group;
use isobar_lab::clock::Since;

/// An emulated machine is slow to load programs into its kernel.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A running agent; it ends with this value.
pub(super) struct Agent {
    address: String,
    process: Running,
    http: ureq::Agent,
    group: Group,
    ready_after: Duration,
}

impl Agent {
    /// Starts `isobar`, which says `run` already, in `group` and waits until it is ready.
    pub(super) fn start(
        mut isobar: Command,
        probes: &str,
        address: &str,
        group: Group,
    ) -> Result<Self> {
        let since = Since::now();
        let started = isobar
            .args(["--listen", address, "--probes", probes])
            // The console is a terminal, but what it says is read from a file.
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .spawn();
        let process = Running(started.context("cannot start isobar")?);
        let http = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(15)))
            .build()
            .into();
        let pid = process.0.id().to_string();
        let address = address.into();
        let ready_after = Duration::ZERO;
        let mut agent = Self { address, process, http, group, ready_after };
        agent.group.write("cgroup.procs", &pid)?;
        while let Err(why) = agent.get("readyz") {
            agent.must_be_up()?;
            if !since.within(STARTS_WITHIN) {
                return Err(why.context(format!("isobar is not ready after {STARTS_WITHIN:?}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
        agent.ready_after = since.elapsed();
        Ok(agent)
    }

    /// From its start to its first sample.
    pub(super) fn ready_after(&self) -> Duration {
        self.ready_after
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// What asks it.
    pub(super) fn http(&self) -> ureq::Agent {
        self.http.clone()
    }

    /// What it says now.
    pub(super) fn snapshot(&mut self) -> Result<Value> {
        self.must_be_up()?;
        let text = self.get("api/v1/snapshot")?;
        serde_json::from_str(&text).context("the snapshot is no JSON")
    }

    fn must_be_up(&mut self) -> Result<()> {
        match self.process.0.try_wait()? {
            Some(status) => bail!("isobar has ended: {status}"),
            None => Ok(()),
        }
    }

    fn get(&self, path: &str) -> Result<String> {
        let url = format!("http://{}/{path}", self.address);
        let mut answer = self.http.get(&url).call().with_context(|| url.clone())?;
        answer.body_mut().read_to_string().context(url)
    }
}
