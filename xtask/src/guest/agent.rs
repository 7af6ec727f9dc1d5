//! The agent under test: started in a cgroup of its own, asked over HTTP, ended.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::clock::Since;
use crate::v2::Group;

const ADDRESS: &str = "127.0.0.1:9797";

/// An emulated machine is slow to load programs into its kernel.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A running agent; it ends with this value.
pub(super) struct Agent {
    probes: String,
    process: Child,
    http: ureq::Agent,
    group: Group,
}

impl Agent {
    /// Starts `isobar run` and waits until it is ready.
    pub(super) fn start(isobar: &Path, probes: &str, mount: &Path) -> Result<Self> {
        let group = Group::make(mount.join("isobar"))?;
        let process = Command::new(isobar)
            .args(["run", "--listen", ADDRESS, "--probes", probes])
            // The console is a terminal, but what it says is read from a file.
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start isobar")?;
        let http = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(15)))
            .build()
            .into();
        let pid = process.id().to_string();
        let mut agent = Self { probes: probes.into(), process, http, group };
        agent.group.write("cgroup.procs", &pid)?;
        let since = Since::now();
        while let Err(why) = agent.get("readyz") {
            agent.must_be_up()?;
            if !since.within(STARTS_WITHIN) {
                return Err(why.context(format!("isobar is not ready after {STARTS_WITHIN:?}")));
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(agent)
    }

    /// `--probes`, as it was started with.
    pub(super) fn probes(&self) -> &str {
        &self.probes
    }

    /// False once it has ended.
    pub(super) fn is_up(&mut self) -> bool {
        self.must_be_up().is_ok()
    }

    /// What it says now.
    pub(super) fn snapshot(&mut self) -> Result<Value> {
        self.must_be_up()?;
        let text = self.get("api/v1/snapshot")?;
        serde_json::from_str(&text).context("the snapshot is no JSON")
    }

    fn must_be_up(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            Some(status) => bail!("isobar has ended: {status}"),
            None => Ok(()),
        }
    }

    fn get(&self, path: &str) -> Result<String> {
        let url = format!("http://{ADDRESS}/{path}");
        let mut answer = self.http.get(&url).call().with_context(|| url.clone())?;
        answer.body_mut().read_to_string().context(url)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
