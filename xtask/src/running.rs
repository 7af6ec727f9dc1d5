//! Processes that end with the value that holds them.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

/// A process; killed, if it still runs, when this goes.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// `cargo xtask load` with these arguments, in a cgroup.
    pub(crate) fn load(arguments: &[&str], group: &Path) -> Result<Self> {
        let mut load = Command::new(std::env::current_exe()?);
        load.arg("load").args(arguments).arg("--cgroup").arg(group);
        let started = load.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Self(started.context("cannot start a load")?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
