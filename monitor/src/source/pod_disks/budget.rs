//! How much a walk may cost: entries, and a share of one CPU.

use std::thread::sleep;
use std::time::Duration;

use crate::clock;
use isobar_core::model::units::Nanos;

/// Entries between two looks at the clock: some milliseconds of CPU time.
const AT_ONCE: u64 = 256;
/// For each second of CPU time the thread sleeps so many: 2 % of one core.
const REST: u32 = 49;

/// What is left of it.
#[derive(Debug)]
pub struct Budget {
    /// Entries of all pods.
    left: u64,
    /// Entries of the pod that is walked, and of each.
    of_pod: u64,
    a_pod: u64,
    /// Since the last rest.
    n_entries: u64,
    rested: Nanos,
}

impl Budget {
    /// For `total` entries, at most `a_pod` of each pod.
    pub fn new(total: u64, a_pod: u64) -> Self {
        let rested = clock::used_by_this_thread();
        Self { left: total, of_pod: 0, a_pod, n_entries: 0, rested }
    }

    /// Begins with the next pod; false once nothing is left.
    pub(super) fn next_pod(&mut self) -> bool {
        self.of_pod = self.a_pod.min(self.left);
        self.of_pod > 0
    }

    /// Takes one entry, and rests when it is time; false once nothing is left for this pod.
    pub(super) fn take(&mut self) -> bool {
        if self.of_pod == 0 {
            return false;
        }
        (self.of_pod, self.left) = (self.of_pod - 1, self.left.saturating_sub(1));
        self.n_entries += 1;
        if self.n_entries.is_multiple_of(AT_ONCE) {
            let used = clock::used_by_this_thread().since(self.rested);
            sleep(Duration::from_nanos(used.0) * REST);
            self.rested = clock::used_by_this_thread();
        }
        true
    }
}
