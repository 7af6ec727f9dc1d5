//! Times in which the machine was frozen: its emulator had to wait for the host. A thread that needs
//! no memory and runs before nearly all others notices; what waited then did not wait for the node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::clock::monotonic_ns;
use crate::facts::Frozen;

/// How often it looks at the clock.
const EVERY: Duration = Duration::from_millis(20);
/// A look that comes later than this was held up by the host.
const LATE_NS: u64 = 100_000_000;

/// Looks at the clock until it is ended.
pub(super) struct Clock {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Frozen>>,
}

impl Clock {
    /// Starts to look.
    pub(super) fn start() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new().spawn(move || {
            // Of this thread alone, and before nearly all others.
            let ahead = rustix::process::setpriority_process(None, -20);
            // The receiver is gone only if the guest has ended.
            let _ = tell.send(ahead);
            let (mut seen, mut last) = (Vec::new(), monotonic_ns());
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(EVERY);
                let now = monotonic_ns();
                if now - last > LATE_NS {
                    seen.push(Frozen { from_ns: last, to_ns: now });
                }
                last = now;
            }
            seen
        })?;
        told.recv()?.context("cannot put the clock before other work")?;
        Ok(Self { stop, thread })
    }

    /// Ends it; what it has seen.
    pub(super) fn end(self) -> Vec<Frozen> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
