//! One empty program on context switches: what any attached program costs on this machine.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::build;

/// The program stays attached for as long as this value lives.
pub(super) struct Empty(Child);

impl Empty {
    /// Builds and runs `monitor/benches/empty.rs`, which carries the kernel side at `object`.
    pub(super) fn attach(object: &Path) -> Result<Self> {
        let mut cargo = build::cargo_with(object);
        cargo.args(["bench", "--quiet", "--package", "isobar", "--bench", "empty"]);
        let process = cargo.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut empty = Self(process.context("cannot start cargo")?);
        let stdout = empty.0.stdout.take().context("its output is piped")?;
        let mut said = String::new();
        BufReader::new(stdout).read_line(&mut said)?;
        if said != "attached\n" {
            bail!("the empty program does not attach");
        }
        Ok(empty)
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        // Its input ends, and so does it; cargo ends with it.
        drop(self.0.stdin.take());
        // Fails only if it has ended already.
        let _ = self.0.wait();
    }
}
