//! A scraper beside the agent, as a Prometheus is one: it keeps what the alert rules ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::alerts::{INTERVAL, Scrapes};
use crate::clock::Since;

/// What Prometheus waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Scrapes until it is ended, also while there is no answer.
pub(super) struct Scraper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Scrapes>>,
}

impl Scraper {
    pub(super) fn start(address: &str) -> Result<Self> {
        let url = format!("http://{address}/metrics");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().spawn(move || {
            let mut scrapes = Scrapes::default();
            while !stopped.load(Ordering::Relaxed) {
                let since = Since::now();
                scrapes.add(scrape(&url).as_deref());
                while since.within(INTERVAL) && !stopped.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(200));
                }
            }
            scrapes
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// What was scraped.
    pub(super) fn end(mut self) -> Result<Scrapes> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join).and_then(Result::ok);
        ended.ok_or_else(|| anyhow!("the scraper panicked"))
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// `None` without an answer in time.
fn scrape(url: &str) -> Option<String> {
    let request = ureq::get(url).config().timeout_global(Some(PATIENCE)).build();
    request.call().ok()?.body_mut().read_to_string().ok()
}
