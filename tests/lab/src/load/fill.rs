//! A file that grows, on a disk or in memory (tmpfs): what it holds outlives the process that wrote it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Until;

/// Fill a file, and keep it. Below /dev it is in shared memory. Its directory is made
#[derive(clap::Args)]
pub(super) struct Fill {
    /// The file.
    #[arg(long)]
    path: PathBuf,
    /// Until it has this size.
    #[arg(long)]
    mib: u64,
    /// By so much a second.
    #[arg(long)]
    step_mib_per_s: u64,
    /// End then, as a container does that waits to be started again.
    #[arg(long)]
    end: bool,
}

impl Fill {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let name = self.path.display();
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        dir.map(fs::create_dir_all)
            .transpose()
            .with_context(|| format!("no directory for {name}"))?;
        let open = fs::OpenOptions::new().create(true).append(true).open(&self.path);
        let mut file = open.with_context(|| format!("cannot open {name}"))?;
        let block = vec![0x5a; 1 << 20];
        let mut n = 0;
        while until.goes_on() {
            let due = until.since.elapsed().as_millis() as u64 * self.step_mib_per_s / 1_000;
            if n < due.min(self.mib) {
                file.write_all(&block).with_context(|| format!("cannot write {name}"))?;
                n += 1;
            } else if self.end && n == self.mib {
                break;
            } else {
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(json!({ "load": "fill", "mib": n }))
    }
}
