//! A fork bomb with memory, of bounded size.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Until;

/// Start one process after the other, each with memory of its own, and keep up their number.
#[derive(clap::Args)]
pub(super) struct Fork {
    /// How many at most at a time.
    #[arg(long)]
    processes: usize,
    /// The memory of each.
    #[arg(long)]
    mib_each: usize,
    /// How many are started in a second.
    #[arg(long, default_value_t = 20)]
    per_second: u64,
}

impl Fork {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let pause = Duration::from_millis(1000 / self.per_second.max(1));
        let (mut children, mut n_started) = (Vec::new(), 0u64);
        while until.goes_on() {
            children.retain_mut(|child: &mut Child| matches!(child.try_wait(), Ok(None)));
            if children.len() < self.processes {
                children.push(self.child(until)?);
                n_started += 1;
            }
            until.sleep(pause);
        }
        for mut child in children {
            // Fails only if it has ended already.
            let _ = child.kill();
            child.wait()?;
        }
        Ok(json!({ "load": "fork", "started": n_started }))
    }

    fn child(&self, until: &Until) -> Result<Child> {
        let mut child = Command::new("/proc/self/exe");
        child.args(["load", "memory", "--once", "--mib", &self.mib_each.to_string()]);
        child.arg(format!("--seconds={}", until.rest().as_secs_f64()));
        child.stdin(Stdio::null()).stdout(Stdio::null());
        child.spawn().context("cannot start another process")
    }
}
