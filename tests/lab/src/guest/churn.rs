//! Pods that come and go while something else is the matter.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::CgroupDriver;

use super::driver;
use super::testbed::{Testbed, sleeper};
use crate::cgroup::Group;

/// How many live at a time.
const ALIVE: usize = 10;

/// Processes of pods that live, and of those that are being removed.
#[derive(Default)]
pub(super) struct Known {
    pub(super) alive: BTreeSet<u32>,
    pub(super) ending: BTreeSet<u32>,
}

/// The thread that makes and removes pods.
pub(super) struct Churn {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Churn {
    /// Makes and removes so many pods a second.
    pub(super) fn start(
        per_second: u32,
        testbed: &Testbed,
        known: Arc<Mutex<Known>>,
    ) -> Result<Self> {
        let (mount, driver) = (testbed.mount().to_owned(), testbed.driver());
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
                match pod(&mount, driver, number) {
                    Ok(pod) => {
                        if let Ok(mut known) = known.lock() {
                            known.alive.insert(pod.1.id());
                        }
                        alive.push(pod);
                    }
                    Err(why) => troubles.push(format!("{why:#}")),
                }
                if alive.len() > ALIVE {
                    remove(alive.remove(0), &known);
                }
                thread::sleep(pause);
            }
            alive.into_iter().for_each(|pod| remove(pod, &known));
            troubles
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends it; what went wrong.
    pub(super) fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| vec!["the thread that makes and removes pods panicked".into()])
    }
}

/// Removes a pod and all in it. The watch reaps its process and knows that it was removed here.
fn remove((group, process): (Group, Child), known: &Mutex<Known>) {
    if let Ok(mut known) = known.lock() {
        known.ending.insert(process.id());
    }
    // The container's cgroup first: the pod's goes with `group`.
    for entry in fs::read_dir(group.dir()).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            drop(Group::there(entry.path()));
        }
    }
}

fn pod(mount: &Path, driver: CgroupDriver, number: u64) -> Result<(Group, Child)> {
    let uid = format!("{number:08x}-2222-4222-8222-{number:012x}");
    let pod = driver::pod(driver, QosClass::BestEffort, &uid);
    let scope = driver::container(driver, &pod, &format!("{number:064x}"));
    let below = |path: &str| mount.join(path.trim_start_matches('/'));
    let (group, scope) = (Group::make(below(&pod))?, below(&scope));
    fs::create_dir(&scope)?;
    let process = sleeper(&scope, 1000)?;
    Ok((group, process))
}
