//! A file that is mapped as programs are and touched page by page: the working set of a node that
//! runs more code than it has memory for.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use serde_json::{Value, json};

use super::Until;

const PAGE: usize = 4096;

/// Map a file as a program's text and touch its pages in no order, again and again.
#[derive(clap::Args)]
pub(super) struct Map {
    /// The file, which must be there.
    #[arg(long)]
    path: PathBuf,
    /// How much of it.
    #[arg(long)]
    mib: usize,
    /// Rest so long after every 256 pages.
    #[arg(long, default_value_t = 0)]
    rest_ms: u64,
    /// Touch nothing, and lock so much more of it in memory a second.
    #[arg(long, conflicts_with = "rest_ms")]
    lock_mib_per_s: Option<usize>,
}

impl Map {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let name = self.path.display();
        let file = File::open(&self.path).with_context(|| format!("cannot open {name}"))?;
        let size = self.mib << 20;
        // Touching beyond its end would be a bus error.
        if size == 0 || file.metadata()?.len() < size as u64 {
            bail!("{name} has less than {} MiB", self.mib);
        }
        let flags = (ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE);
        // SAFETY: a new mapping of a file that is never shortened; it is only read, and it stays
        // until this process ends.
        let memory =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), size, flags.0, flags.1, &file, 0) };
        let memory = memory.with_context(|| format!("cannot map {name}"))?;
        // SAFETY: the mapping that was just made, of this size.
        unsafe { rustix::mm::madvise(memory, size, Advice::LinuxNoHugepage) }.ok();
        if let Some(step) = self.lock_mib_per_s {
            let mut locked = 0;
            while until.goes_on() {
                let more = (step << 20).min(size - locked);
                // SAFETY: within the mapping; what it holds stays as it is.
                unsafe { rustix::mm::mlock(memory.wrapping_byte_add(locked), more) }
                    .with_context(|| format!("cannot lock {name}"))?;
                locked += more;
                until.sleep(Duration::from_secs(1));
            }
            return Ok(json!({ "load": "map", "mib": self.mib, "mibLocked": locked >> 20 }));
        }
        let (mut n_touched, mut random, mut sum) = (0u64, 1u64, 0u64);
        while until.goes_on() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let page = (random >> 33) as usize % (size / PAGE);
            // SAFETY: `page` lies within the mapping, which is readable and at most as long as
            // the file.
            sum += u64::from(unsafe { memory.cast::<u8>().add(page * PAGE).read_volatile() });
            n_touched += 1;
            if self.rest_ms > 0 && n_touched % 256 == 0 {
                until.sleep(Duration::from_millis(self.rest_ms));
            }
        }
        Ok(json!({ "load": "map", "mib": self.mib, "pagesTouched": n_touched, "sum": sum }))
    }
}
