//! The least that watching cgroups by their files costs: the same five files of each, once a second,
//! on descriptors that stay open, and nothing is made of what they say.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::Until;
use crate::cgroup;

/// What is read of each cgroup, as far as it is there.
const FILES: [&str; 5] =
    ["cpu.stat", "memory.current", "memory.stat", "cpu.pressure", "memory.pressure"];

/// Read five files of every cgroup once a second, and make nothing of them
#[derive(clap::Args)]
pub(super) struct Poll {
    /// So often; then rest.
    #[arg(long)]
    rounds: u64,
}

impl Poll {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
        let mut open = vec![cgroup::mount()?];
        let (mut files, mut n_cgroups) = (Vec::new(), 0u64);
        while let Some(dir) = open.pop() {
            n_cgroups += 1;
            files.extend(FILES.iter().filter_map(|name| File::open(dir.join(name)).ok()));
            let below = fs::read_dir(&dir).with_context(|| dir.display().to_string())?;
            open.extend(
                below.flatten().map(|entry| entry.path()).filter(|path: &PathBuf| path.is_dir()),
            );
        }
        let (mut buffer, mut n_rounds) = (vec![0; 16 << 10], 0u64);
        let used = || clock_gettime(ClockId::ProcessCPUTime);
        let before = used();
        while until.goes_on() && n_rounds < self.rounds {
            // A cgroup may be gone by now.
            files.retain(|file| file.read_at(&mut buffer, 0).is_ok());
            n_rounds += 1;
            until.sleep(Duration::from_secs(1));
        }
        let after = used();
        let ms =
            (after.tv_sec - before.tv_sec) * 1_000 + (after.tv_nsec - before.tv_nsec) / 1_000_000;
        println!(
            "{}",
            json!({ "load": "poll", "cgroups": n_cgroups, "rounds": n_rounds, "cpuMs": ms })
        );
        until.sleep(until.rest());
        Ok(json!({ "load": "poll" }))
    }
}
