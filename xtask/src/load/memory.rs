//! Memory that is used over and over, so that what is taken away is missed at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::{Until, threads};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

/// Allocate memory and keep writing to every page of it.
#[derive(clap::Args)]
pub(super) struct Memory {
    /// How much, of all threads together.
    #[arg(long)]
    mib: usize,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Grow by so much a second instead of at once.
    #[arg(long)]
    step_mib_per_s: Option<usize>,
}

impl Memory {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        if self.threads == 0 || self.mib == 0 {
            bail!("memory needs at least one thread and one MiB");
        }
        let size = self.mib * MIB / self.threads;
        let step = self.step_mib_per_s.map(|mib| mib * MIB / self.threads);
        let touched = Arc::new(AtomicU64::new(0));
        let (ends, count) = (until.clone(), Arc::clone(&touched));
        threads(self.threads, until, move || {
            count.fetch_add(touch(size, step, &ends), Ordering::Relaxed);
        })?;
        let touched = touched.load(Ordering::Relaxed);
        Ok(json!({ "load": "memory", "mib": self.mib, "pagesTouched": touched }))
    }
}

/// Writes to one page after the other, round and round; returns how many.
fn touch(size: usize, step: Option<usize>, until: &Until) -> u64 {
    // Zeroed memory is only promised: each page comes when it is first written to.
    let mut memory = vec![0u8; size];
    let mut n_touched = 0u64;
    while until.goes_on() {
        let grown = step.map_or(size, |step| {
            let so_far = until.since.elapsed().as_millis() as usize * (step / 1000);
            so_far.clamp(PAGE, size)
        });
        for page in memory[..grown].chunks_exact_mut(PAGE) {
            if !until.goes_on() {
                break;
            }
            n_touched += 1;
            // A page that never changes would be stored once by compressed swap.
            page[..8].copy_from_slice(&n_touched.to_ne_bytes());
        }
    }
    n_touched
}
