//! The price of a context switch: two threads on one CPU that wake each other through pipes.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::Until;
use crate::clock::{Since, cpu_time};

/// Two threads that wake each other; without --cpu, on CPU 0.
#[derive(clap::Args)]
pub(super) struct Pingpong {
    /// Switches between the two.
    #[arg(long)]
    switches: u64,
}

impl Pingpong {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let allowed = rustix::thread::sched_getaffinity(None)?;
        if allowed.count() != 1 {
            super::pin(0)?;
        }
        let (there, back) = (rustix::pipe::pipe()?, rustix::pipe::pipe()?);
        let n_rounds = self.switches / 2;
        // The thread inherits the CPU. It ends when the writing end that it reads from closes.
        let echo = thread::Builder::new().spawn(move || echo(&there.0, &back.1))?;
        let (since, used) = (Since::now(), cpu_time());
        let mut done = 0;
        let mut byte = [0u8];
        while done < n_rounds && until.goes_on() {
            rustix::io::write(&there.1, &byte)?;
            rustix::io::read(&back.0, &mut byte)?;
            done += 1;
        }
        let (took, used) = (since.elapsed(), cpu_time().saturating_sub(used));
        drop(there.1);
        if echo.join().is_err() {
            bail!("the other thread panicked");
        }
        if done == 0 {
            bail!("no time for a single switch");
        }
        let each = |time: Duration| time.as_nanos() as f64 / (done * 2) as f64;
        Ok(json!({
            "load": "pingpong",
            "switches": done * 2,
            "nsPerSwitch": each(took),
            // Other users of the CPU are not in it.
            "cpuNsPerSwitch": each(used),
        }))
    }
}

/// Sends back every byte.
fn echo(from: &OwnedFd, to: &OwnedFd) {
    let mut byte = [0u8];
    while matches!(rustix::io::read(from, &mut byte), Ok(1)) {
        if rustix::io::write(to, &byte).is_err() {
            return;
        }
    }
}
