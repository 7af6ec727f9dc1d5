//! Pods that come and go while something else is the matter.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;

use super::set::{Set, sleeper};
use crate::v2::Group;

/// How many live at a time.
const ALIVE: usize = 10;

/// The coming and going.
pub(super) struct Churn {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Churn {
    /// Makes and removes so many pods a second.
    pub(super) fn start(per_second: u32, set: &Set) -> Result<Self> {
        let slice = set.below("/kubepods.slice/kubepods-besteffort.slice");
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let pause = Duration::from_secs(1) / per_second.max(1);
        let thread = thread::Builder::new().spawn(move || {
            let mut alive: Vec<(Group, Child)> = Vec::new();
            let mut troubles = Vec::new();
            for number in 0u64.. {
                if told.load(Ordering::Relaxed) {
                    break;
                }
                match pod(&slice, number) {
                    Ok(pod) => alive.push(pod),
                    Err(why) => troubles.push(format!("{why:#}")),
                }
                if alive.len() > ALIVE {
                    // Removes it and all in it; the orphan is reaped by whoever watches.
                    drop(alive.remove(0));
                }
                thread::sleep(pause);
            }
            troubles
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends it; what went wrong.
    pub(super) fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| vec!["the coming and going of pods panicked".into()])
    }
}

fn pod(slice: &Path, number: u64) -> Result<(Group, Child)> {
    let name = format!("kubepods-besteffort-pod{number:08x}_2222_4222_8222_{number:012x}.slice");
    let group = Group::make(slice.join(name))?;
    let scope = group.dir().join(format!("cri-containerd-{number:064x}.scope"));
    fs::create_dir(&scope)?;
    let process = sleeper(&scope, 1000)?;
    Ok((group, process))
}
