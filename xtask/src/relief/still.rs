//! Times in which the machine stood still: its emulator had to wait for the host. A thread that
//! needs no memory and comes before nearly everybody notices, and whoever waited then did not wait for the node.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::facts::Still;
use crate::clock::monotonic_ns;

/// How often it looks at the clock.
const EVERY: Duration = Duration::from_millis(20);
/// Later than this is still.
const LATE_NS: u64 = 100_000_000;

/// Looks at the clock as long as the machine runs.
#[derive(Clone)]
pub(super) struct Clock(Arc<Mutex<Vec<Still>>>);

impl Clock {
    /// Starts to look.
    pub(super) fn start() -> Result<Self> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let clock = Self(Arc::clone(&seen));
        let (tell, told) = mpsc::channel();
        thread::Builder::new().spawn(move || {
            // Of this thread alone, and before nearly everybody else.
            let ahead = rustix::process::setpriority_process(None, -20);
            // Nobody is left to be told only if the guest has ended.
            let _ = tell.send(ahead);
            let mut last = monotonic_ns();
            loop {
                thread::sleep(EVERY);
                let now = monotonic_ns();
                if now - last > LATE_NS
                    && let Ok(mut seen) = seen.lock()
                {
                    seen.push(Still { from_ns: last, to_ns: now });
                }
                last = now;
            }
        })?;
        told.recv()?.context("cannot put the clock before other work")?;
        Ok(clock)
    }

    /// What it has seen since it was last asked.
    pub(super) fn take(&self) -> Vec<Still> {
        self.0.lock().map(|mut seen| std::mem::take(&mut *seen)).unwrap_or_default()
    }
}
