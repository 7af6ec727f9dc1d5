//! Memory that is used over and over, so that what is taken away is missed at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
    /// With a step: begin with so much.
    #[arg(long, default_value_t = 0)]
    start_mib: usize,
    /// Write to each page once, as a leak does, and not over and over.
    #[arg(long)]
    once: bool,
    /// The same in every page, so that it compresses to nothing.
    #[arg(long)]
    same: bool,
    /// End so long after the beginning, however long the load may last.
    #[arg(long)]
    hold_seconds: Option<u64>,
}

/// What each thread does.
#[derive(Clone, Copy)]
struct Plan {
    size: usize,
    start: usize,
    /// Bytes a second.
    step: Option<usize>,
    once: bool,
    same: bool,
}

impl Memory {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        if self.threads == 0 || self.mib == 0 {
            bail!("memory needs at least one thread and one MiB");
        }
        let each = |mib: usize| mib * MIB / self.threads;
        let plan = Plan {
            size: each(self.mib),
            start: each(self.start_mib),
            step: self.step_mib_per_s.map(each),
            once: self.once,
            same: self.same,
        };
        let mut until = until.clone();
        if let Some(seconds) = self.hold_seconds {
            until.limit = until.limit.min(Duration::from_secs(seconds));
        }
        let touched = Arc::new(AtomicU64::new(0));
        let (ends, count) = (until.clone(), Arc::clone(&touched));
        threads(self.threads, &until, move || {
            count.fetch_add(plan.touch(&ends), Ordering::Relaxed);
        })?;
        let touched = touched.load(Ordering::Relaxed);
        Ok(json!({ "load": "memory", "mib": self.mib, "pagesTouched": touched }))
    }
}

impl Plan {
    /// Writes to one page after the other; returns how often.
    fn touch(self, until: &Until) -> u64 {
        // Zeroed memory is only promised: each page comes when it is first written to.
        let mut memory = vec![0u8; self.size];
        let (mut n_touched, mut done) = (0u64, 0);
        while until.goes_on() {
            let grown = self.grown(until);
            for page in memory[done..grown].chunks_exact_mut(PAGE) {
                if !until.goes_on() {
                    break;
                }
                n_touched += 1;
                // A page that never changes would be stored once by compressed swap.
                let mark = if self.same { 1 } else { n_touched };
                page[..8].copy_from_slice(&mark.to_ne_bytes());
            }
            if self.once {
                done = grown;
                until.sleep(Duration::from_millis(if grown == self.size { 100 } else { 5 }));
            }
        }
        n_touched
    }

    /// How much of it is in use by now.
    fn grown(self, until: &Until) -> usize {
        let Some(step) = self.step else { return self.size };
        let so_far = self.start + until.since.elapsed().as_millis() as usize * (step / 1000);
        (so_far / PAGE * PAGE).clamp(PAGE.min(self.size), self.size)
    }
}
