//! Memory that is used over and over, so that what is taken away is missed at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::mm::Advice;
use serde_json::{Value, json};

use super::{Until, threads};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// Pages from one look at the clock to the next.
const LOOK_UP: usize = 64;

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
    /// Rest so long after each round, as a working set is used now and then.
    #[arg(long, default_value_t = 0, conflicts_with = "once")]
    rest_ms: u64,
    /// Half of each page is noise, so that it compresses as real memory does.
    #[arg(long, conflicts_with = "same")]
    noise: bool,
    /// In huge pages, which is as fast as memory can be taken.
    #[arg(long)]
    huge: bool,
    /// The same in every page, so that it compresses to nothing.
    #[arg(long)]
    same: bool,
    /// End so long after the beginning, however long the load may last.
    #[arg(long)]
    hold_seconds: Option<u64>,
    /// What it starts with, in use already.
    #[arg(skip)]
    prepared: Vec<u8>,
}

/// What each thread does.
#[derive(Clone, Copy)]
struct Plan {
    size: usize,
    start: usize,
    /// Bytes a second.
    step: Option<usize>,
    once: bool,
    rest: Duration,
    noise: bool,
    huge: bool,
    same: bool,
    n_touched: u64,
}

impl Memory {
    /// Takes the memory that it starts with, before its time begins.
    pub(super) fn prepare(&mut self) {
        let mut plan = self.plan();
        let mut memory = plan.promised();
        plan.write(&mut memory[..plan.start.min(plan.size)], || true);
        self.prepared = memory;
    }

    pub(super) fn work(&mut self, until: &Until) -> Result<Value> {
        if self.threads == 0 || self.mib == 0 {
            bail!("memory needs at least one thread and one MiB");
        }
        if self.start_mib > 0 && self.threads > 1 {
            bail!("several threads cannot start with memory");
        }
        let plan = self.plan();
        let mut until = until.clone();
        if let Some(seconds) = self.hold_seconds {
            until.limit = until.limit.min(Duration::from_secs(seconds));
        }
        let touched = Arc::new(AtomicU64::new(0));
        let prepared = std::mem::take(&mut self.prepared);
        if prepared.is_empty() {
            let (ends, count) = (until.clone(), Arc::clone(&touched));
            threads(self.threads, &until, move || {
                count.fetch_add(plan.touch(plan.promised(), &ends), Ordering::Relaxed);
            })?;
        } else {
            touched.store(plan.touch(prepared, &until), Ordering::Relaxed);
        }
        let touched = touched.load(Ordering::Relaxed);
        Ok(json!({ "load": "memory", "mib": self.mib, "pagesTouched": touched }))
    }

    fn plan(&self) -> Plan {
        let each = |mib: usize| mib * MIB / self.threads.max(1);
        Plan {
            size: each(self.mib),
            start: each(self.start_mib),
            step: self.step_mib_per_s.map(each),
            once: self.once,
            rest: Duration::from_millis(self.rest_ms),
            noise: self.noise,
            huge: self.huge,
            same: self.same,
            n_touched: 0,
        }
    }
}

impl Plan {
    /// Zeroed memory is only promised: each page comes when it is first written to.
    fn promised(&self) -> Vec<u8> {
        let mut memory = vec![0u8; self.size];
        if self.huge {
            let start = memory.as_mut_ptr();
            let within = start.align_offset(PAGE);
            let length = self.size.saturating_sub(within) / PAGE * PAGE;
            // SAFETY: whole pages of memory that is ours; the advice changes how it is backed
            // and not what is in it. A kernel without huge pages refuses: then it is slower.
            let _ = unsafe {
                rustix::mm::madvise(
                    start.wrapping_add(within).cast(),
                    length,
                    Advice::LinuxHugepage,
                )
            };
        }
        memory
    }

    /// Writes to one page after the other; returns how often.
    fn touch(mut self, mut memory: Vec<u8>, until: &Until) -> u64 {
        let mut done = 0;
        while until.goes_on() {
            let grown = self.grown(until);
            self.write(&mut memory[done..grown], || until.goes_on());
            if self.once {
                done = grown;
                until.sleep(Duration::from_millis(if grown == self.size { 100 } else { 5 }));
            } else if !self.rest.is_zero() {
                until.sleep(self.rest);
            }
        }
        self.n_touched
    }

    /// Writes to each page, as long as it goes on.
    fn write(&mut self, memory: &mut [u8], goes_on: impl Fn() -> bool) {
        for pages in memory.chunks_mut(LOOK_UP * PAGE) {
            // A machine without a good clock takes longer to ask for the time than for a page.
            if !goes_on() {
                return;
            }
            for page in pages.chunks_exact_mut(PAGE) {
                self.n_touched += 1;
                // A page that never changes would be stored once by compressed swap.
                let mark = if self.same { 1 } else { self.n_touched };
                page[..8].copy_from_slice(&mark.to_ne_bytes());
                if self.noise {
                    fill(&mut page[..PAGE / 2], self.n_touched);
                }
            }
        }
    }

    /// How much of it is in use by now.
    fn grown(&self, until: &Until) -> usize {
        let Some(step) = self.step else { return self.size };
        let so_far = self.start + until.since.elapsed().as_millis() as usize * (step / 1000);
        (so_far / PAGE * PAGE).clamp(PAGE.min(self.size), self.size)
    }
}

/// Numbers that no compressor finds a pattern in.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut random = seed;
    for word in bytes.chunks_exact_mut(8) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        word.copy_from_slice(&random.to_ne_bytes());
    }
}
