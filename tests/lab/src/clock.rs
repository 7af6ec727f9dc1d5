//! The lab's only reader of time: how long things take.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A point in time to measure from.
#[derive(Clone, Copy)]
pub struct Since(Instant);

impl Since {
    /// From here on.
    #[expect(clippy::disallowed_methods, reason = "the lab times loads and machines, not pressure")]
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// The time gone by.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// True until `limit` has gone by.
    pub fn within(self, limit: Duration) -> bool {
        self.elapsed() < limit
    }
}

/// The CPU time of all threads of this process.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// CLOCK_MONOTONIC, in nanoseconds: the same for all processes of a machine.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
