//! What the programs cost, by the kernel's own statistics.
//!
//! Metering itself costs some 50 ns a run, so it is on for one tick in twenty.

use std::os::fd::OwnedFd;

use super::loader::{Loader, Runs};
use crate::model::cost::ProgramCost;
use crate::model::units::Nanos;

/// Ticks from one metering to the next.
const EVERY: u64 = 20;
/// The first metering: late enough for the start not to count, early enough to be seen.
const FIRST: u64 = 3;

/// Meters the programs now and then, and remembers the last result.
#[derive(Default)]
pub(super) struct Meter {
    /// Since when, and what the programs had done by then.
    running: Option<(OwnedFd, Nanos, Vec<Runs>)>,
    programs: Vec<ProgramCost>,
    is_asked: bool,
}

impl Meter {
    /// Called once a tick, at the end of its sample. True if it has just metered.
    pub(super) fn tick(
        &mut self,
        tick: u64,
        now: Nanos,
        names: &[&'static str],
        loader: &Loader,
    ) -> bool {
        if let Some((fd, since, before)) = self.running.take() {
            let interval = now.since(since);
            self.programs = names
                .iter()
                .zip(before)
                .filter_map(|(name, before)| cost(name, before, loader.runs(name)?, interval))
                .collect();
            drop(fd);
            return true;
        }
        if std::mem::take(&mut self.is_asked) || tick % EVERY == FIRST {
            self.running = start(now, names, loader);
        }
        false
    }

    /// Meters again with the next tick.
    pub(super) fn again(&mut self) {
        self.is_asked = true;
    }

    /// What was metered last.
    pub(super) fn programs(&self) -> &[ProgramCost] {
        &self.programs
    }
}

fn start(
    now: Nanos,
    names: &[&'static str],
    loader: &Loader,
) -> Option<(OwnedFd, Nanos, Vec<Runs>)> {
    let fd = Loader::meter()
        .inspect_err(|error| tracing::debug!(%error, "the programs' cost stays unknown"))
        .ok()?;
    Some((fd, now, names.iter().map(|name| loader.runs(name).unwrap_or_default()).collect()))
}

fn cost(name: &str, before: Runs, after: Runs, interval: Nanos) -> Option<ProgramCost> {
    let (time, runs) =
        (after.time.checked_sub(before.time)?, after.count.checked_sub(before.count)?);
    Some(ProgramCost {
        name: name.to_owned(),
        runs,
        per_run: Nanos(time.checked_div(runs).unwrap_or(0)),
        per_second: Nanos(per_second(time, interval)?),
    })
}

fn per_second(time: u64, interval: Nanos) -> Option<u64> {
    let share = u128::from(time) * u128::from(Nanos::SECOND.0);
    u64::try_from(share.checked_div(u128::from(interval.0))?).ok()
}
