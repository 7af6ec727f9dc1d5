//! Being told to end, so that cgroups and machines are not left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether this process has been told to end.
#[derive(Clone)]
pub(crate) struct Told(Arc<AtomicBool>);

impl Told {
    /// From here on ctrl-c and SIGTERM only tell; a second one ends the process at once.
    pub(crate) fn listen() -> Result<Self> {
        let told = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&told))?;
            flag::register(signal, Arc::clone(&told))?;
        }
        Ok(Self(told))
    }

    /// Nobody is ever told: SIGTERM changes nothing.
    pub(crate) fn deaf() -> Result<Self> {
        flag::register(SIGTERM, Arc::default())?;
        Ok(Self(Arc::default()))
    }

    /// True once it has been.
    pub(crate) fn to_end(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
