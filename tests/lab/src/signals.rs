//! Ending on ctrl-c and SIGTERM without leaving cgroups and machines behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether this process was asked to stop.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From here on ctrl-c and SIGTERM only ask; a second one ends the process at once.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn listen() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Self(stop))
    }

    /// SIGTERM is ignored, and nothing is ever requested.
    ///
    /// # Errors
    /// The signal handler cannot be installed.
    pub fn ignored() -> Result<Self> {
        flag::register(SIGTERM, Arc::default())?;
        Ok(Self(Arc::default()))
    }

    /// True once a signal has come.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
