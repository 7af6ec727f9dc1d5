//! When something may be written again: at most once a second, and more seldom while it fails.

use std::time::Duration;

use super::jitter::about;
use crate::clock;
use isobar_core::model::units::Nanos;

/// Between two writes.
const APART: Duration = Duration::from_secs(1);
/// After a write that failed, at first and at most.
const RETRIED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// On the boot clock.
    not_before: Nanos,
    n_failures: u32,
}

impl Pace {
    pub(super) fn is_due(&self) -> bool {
        clock::now().boot >= self.not_before
    }

    pub(super) fn note(&mut self, done: Result<(), ()>) {
        self.n_failures = if done.is_ok() { 0 } else { self.n_failures.saturating_add(1) };
        let wait = match self.n_failures {
            0 => APART,
            n => about(RETRIED.1.min(RETRIED.0 * 2_u32.saturating_pow(n - 1))),
        };
        self.not_before = after(wait);
    }
}

/// On the boot clock.
pub(super) fn after(wait: Duration) -> Nanos {
    clock::now().boot.plus(wait.into())
}
