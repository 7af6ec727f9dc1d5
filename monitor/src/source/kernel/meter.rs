//! Measures the CPU time of the programs by the kernel's own statistics.
//!
//! Statistics cost some 50 ns a run, so they are on in one tick of twenty.

use std::os::fd::OwnedFd;

use super::loader::{Loader, Runs};
use isobar_core::model::cost::ProgramCost;
use isobar_core::model::units::Nanos;

/// Ticks between measurements.
const EVERY: u64 = 20;
/// The tick of the first: late enough to leave out the start.
const FIRST: u64 = 3;
/// Shortest measurement: nearly a second, so that two ticks a second apart are enough.
const AT_LEAST: Nanos = Nanos(900_000_000);

/// Measures now and then, and keeps the last result.
#[derive(Default)]
pub(super) struct Meter {
    running: Option<Measurement>,
    /// The last result.
    pub(super) programs: Vec<ProgramCost>,
    is_requested: bool,
}

/// Statistics are on.
struct Measurement {
    /// Statistics stay on while it is open.
    _statistics: OwnedFd,
    since: Nanos,
    /// Each program's statistics at `since`.
    before: Vec<(&'static str, Runs)>,
}

impl Meter {
    /// Called once a tick, at the end of its sample. True if a measurement has just ended.
    pub(super) fn tick(
        &mut self,
        tick: u64,
        now: Nanos,
        names: impl Iterator<Item = &'static str>,
        loader: &Loader,
    ) -> bool {
        match &self.running {
            // Ticks may come sooner than once a second.
            Some(running) if now.since(running.since) < AT_LEAST => {}
            Some(Measurement { since, before, .. }) => {
                let interval = now.since(*since);
                let programs = before.iter();
                self.programs = programs
                    .filter_map(|(name, before)| cost(name, *before, loader.runs(name)?, interval))
                    .collect();
                self.running = None;
                return true;
            }
            None if std::mem::take(&mut self.is_requested) || tick % EVERY == FIRST => {
                self.running = start(now, names, loader);
            }
            None => {}
        }
        false
    }

    /// Measures again with the next tick.
    pub(super) fn request(&mut self) {
        self.is_requested = true;
    }
}

fn start(
    now: Nanos,
    names: impl Iterator<Item = &'static str>,
    loader: &Loader,
) -> Option<Measurement> {
    let statistics = Loader::meter()
        .inspect_err(|error| tracing::debug!(%error, "the cost of the eBPF programs is unknown"))
        .ok()?;
    let before = names.map(|name| (name, loader.runs(name).unwrap_or_default())).collect();
    Some(Measurement { _statistics: statistics, since: now, before })
}

fn cost(name: &str, before: Runs, after: Runs, interval: Nanos) -> Option<ProgramCost> {
    let time = after.time.checked_sub(before.time)?;
    let runs = after.count.checked_sub(before.count)?;
    let per_second = u128::from(time) * u128::from(Nanos::SECOND.0);
    let per_second = per_second.checked_div(u128::from(interval.0))?;
    Some(ProgramCost {
        name: name.to_owned(),
        runs,
        per_run: Nanos(time.checked_div(runs).unwrap_or(0)),
        per_second: Nanos(u64::try_from(per_second).ok()?),
    })
}
