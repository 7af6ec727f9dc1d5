//! Work that comes and goes.

use std::time::Duration;

use serde_json::{Value, json};

use super::Until;
use crate::clock::Since;

/// Busy, then asleep, in turns.
#[derive(clap::Args)]
pub(super) struct Burst {
    /// Busy for so long, in milliseconds.
    #[arg(long)]
    on_ms: u64,
    /// Asleep for so long, in milliseconds.
    #[arg(long)]
    off_ms: u64,
}

impl Burst {
    pub(super) fn work(&self, until: &Until) -> Value {
        let (on, off) = (Duration::from_millis(self.on_ms), Duration::from_millis(self.off_ms));
        let mut n_bursts = 0u64;
        while until.goes_on() {
            let since = Since::now();
            while since.within(on) && until.goes_on() {
                std::hint::black_box((0..1_000u64).fold(0, |sum, n| sum ^ n));
            }
            n_bursts += 1;
            until.sleep(off);
        }
        json!({ "load": "burst", "bursts": n_bursts })
    }
}
