//! Answers pings on a terminal line, as a service answers its users: each answer touches memory,
//! so an answer is late when that was taken away.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Until;
use crate::clock::monotonic_ns;

const PAGE: usize = 4096;
/// Pings come every ten milliseconds: after so long without one, no probe is listening.
const SILENCE_NS: u64 = 500_000_000;

/// Answer each line of a terminal with itself and the time, having touched some memory.
#[derive(clap::Args)]
pub(super) struct Echo {
    /// The terminal, which must be raw.
    #[arg(long)]
    tty: PathBuf,
    /// Memory that is used.
    #[arg(long, default_value_t = 16)]
    mib: usize,
    /// How much of it for each answer.
    #[arg(long, default_value_t = 256)]
    touch_kib: usize,
}

impl Echo {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let open = || {
            let both = File::options().read(true).write(true).open(&self.tty);
            both.with_context(|| format!("cannot open {}", self.tty.display()))
        };
        let (lines, mut answers) = (open()?, open()?);
        let asked = Arc::new(AtomicU64::new(0));
        let (heard, ends, mut hello) = (Arc::clone(&asked), until.clone(), open()?);
        // While no pings come, invites them: those before may have been for another bystander.
        let greeter = thread::Builder::new().spawn(move || {
            while ends.goes_on() {
                if monotonic_ns().saturating_sub(heard.load(Ordering::Relaxed)) > SILENCE_NS {
                    // Fails only while no probe listens: then the next one is heard.
                    let _ = hello.write_all(b"hello\n");
                }
                thread::sleep(Duration::from_millis(200));
            }
        })?;
        let mut memory = vec![1u8; self.mib << 20];
        let (mut at, mut n_answers) = (0, 0u64);
        for line in BufReader::new(lines).lines() {
            if !until.goes_on() {
                break;
            }
            let line = line.context("cannot read pings")?;
            asked.store(monotonic_ns(), Ordering::Relaxed);
            for _ in 0..(self.touch_kib << 10) / PAGE {
                memory[at] = memory[at].wrapping_add(1);
                at = (at + PAGE) % memory.len().max(PAGE);
            }
            let answer = format!("{} {:x}\n", line.trim(), monotonic_ns());
            answers.write_all(answer.as_bytes()).context("cannot answer")?;
            n_answers += 1;
        }
        // Fails only if it panicked, and what it says does not matter any more.
        let _ = greeter.join();
        Ok(json!({ "load": "echo", "answers": n_answers }))
    }
}
