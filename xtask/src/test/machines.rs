//! The scenarios that a test run plays: some machines at a time, and what fails once more.

use std::collections::VecDeque;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, available_parallelism};

use anyhow::{Result, bail};
use isobar_lab::host::{Lab, Plays, expected_seconds};
use isobar_lab::machine::{Kernel, Series};
use isobar_lab::{Play, Scenario};

use super::tally::Tally;
use crate::{build, setup};

/// Machines at a time, at least and at most; between these as many as the host has CPUs, because each
/// keeps one busy. Each takes a GiB of memory or two.
const MACHINES: (usize, usize) = (2, 4);

/// How much is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// On each kernel what differs there.
    Ordinary,
    /// Everything that can be played.
    All,
}

/// Plays that need a machine of one kernel.
struct Job {
    kernel: Kernel,
    is_overload: bool,
    plays: Vec<Play>,
    seconds: f64,
}

/// Plays them and counts how they went.
pub(super) fn play(object: &Path, which: Which, tally: &mut Tally) -> Result<()> {
    let scenarios = isobar_lab::scenarios()?;
    let machine = setup::machine().and_then(|machine| {
        let programs = build::for_guests(object)?;
        Lab::open(machine, programs, false)
    });
    let lab = match machine {
        Ok(lab) => lab,
        Err(why) => {
            tally.missing("virtual machines", &format!("{why:#}"));
            return Ok(());
        }
    };
    let mut jobs = Vec::new();
    for series in Series::ALL {
        match setup::kernel(series) {
            Ok(kernel) => jobs.extend(jobs_of(&kernel, which, &scenarios, tally)),
            Err(why) => tally.missing(&format!("kernel {series}"), &format!("{why:#}")),
        }
    }
    // The longest first, so that no machine is left alone with it at the end.
    jobs.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    // How slow a bystander becomes is measured in milliseconds: those overloads have the host alone.
    let is_alone = |job: &Job| which == Which::All && job.is_overload;
    let (alone, beside): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is_alone);
    let (queue, tally) = (Mutex::new(VecDeque::from(beside)), Mutex::new(tally));
    thread::scope(|scope| {
        let n_cpus = available_parallelism().map_or(1, NonZero::get);
        for _ in 0..n_cpus.clamp(MACHINES.0, MACHINES.1) {
            scope.spawn(|| {
                while let Some(job) = next(&queue) {
                    one(&lab, &scenarios, job, &tally);
                }
            });
        }
    });
    alone.into_iter().for_each(|job| one(&lab, &scenarios, job, &tally));
    if lab.is_stopped() {
        bail!("stopped by a signal");
    }
    Ok(())
}

fn next(queue: &Mutex<VecDeque<Job>>) -> Option<Job> {
    queue.lock().ok()?.pop_front()
}

/// The plays of one kernel: what is measured apart from overloads, which leave a machine worn.
fn jobs_of(kernel: &Kernel, which: Which, scenarios: &[Scenario], tally: &mut Tally) -> Vec<Job> {
    let series = kernel.series;
    let mut jobs = [false, true].map(|is_overload| {
        let (kernel, plays) = (kernel.clone(), Vec::new());
        Job { kernel, is_overload, plays, seconds: 0.0 }
    });
    for scenario in scenarios {
        match (which, scenario.not_on(series)) {
            (Which::Ordinary, _) if !scenario.is_ordinary_on(series) => {}
            // An overload is about the agent, and the kernel that it is tuned on will do.
            (Which::All, None) if scenario.is_overload() && series != Series::V6_12 => {}
            (_, Some(why)) => tally.skipped(&format!("kernel {series} {}", scenario.name), why),
            (_, None) => {
                let job = &mut jobs[usize::from(scenario.is_overload())];
                let (scenario, seconds) = (scenario.name.clone(), expected_seconds(scenario));
                job.plays.push(Play { scenario, agent: "isobar".into(), run: 1 });
                job.seconds += seconds;
            }
        }
    }
    jobs.into_iter().filter(|job| !job.plays.is_empty()).collect()
}

/// An emulated machine is frozen whenever the host has something else to do, and what is measured
/// meanwhile is wrong: what fails is played once more. What fails twice fails; what passes then is
/// flaky, and is counted as that.
fn one(lab: &Lab, scenarios: &[Scenario], job: Job, tally: &Mutex<&mut Tally>) {
    let kernel = &job.kernel;
    let mut again = Vec::new();
    lab.play(&Plays { kernel, scenarios, plays: job.plays }, &mut |played| {
        if played.counts_as_failed() {
            println!("{}\n(is played once more)", played.text());
            again.push(played.play);
        } else {
            println!("{}", played.text());
            lock(tally).passed_one();
        }
    });
    lab.play(&Plays { kernel, scenarios, plays: again }, &mut |played| {
        println!("{}", played.text());
        match played.counts_as_failed() {
            true => lock(tally).failed_one(&played.name()),
            false => lock(tally).flaky_one(&played.name()),
        }
    });
}

fn lock<'a, 'b>(tally: &'a Mutex<&'b mut Tally>) -> MutexGuard<'a, &'b mut Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
