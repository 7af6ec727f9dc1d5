//! What the programs cost, by the kernel's own statistics.
//!
//! Metering itself costs some 50 ns a run, so it is on for one tick in twenty.

use std::os::fd::OwnedFd;

use super::loader::{Loader, Runs};
use isobar_core::model::cost::ProgramCost;
use isobar_core::model::units::Nanos;

/// Ticks from one metering to the next.
const EVERY: u64 = 20;
/// The first metering: late enough for the start not to count, early enough to be seen.
const FIRST: u64 = 3;
/// How long it is on at least: nearly a second, so that two ticks a second apart are enough.
const AT_LEAST: Nanos = Nanos(900_000_000);

/// Meters the programs now and then, and remembers the last result.
#[derive(Default)]
pub(super) struct Meter {
    running: Option<Metering>,
    programs: Vec<ProgramCost>,
    is_asked: bool,
}

/// Statistics are on.
struct Metering {
    /// They are for as long as this is open.
    _statistics: OwnedFd,
    since: Nanos,
    /// What each program had done by then.
    before: Vec<(&'static str, Runs)>,
}

impl Meter {
    /// Called once a tick, at the end of its sample. True if it has just metered.
    pub(super) fn tick(
        &mut self,
        tick: u64,
        now: Nanos,
        names: impl Iterator<Item = &'static str>,
        loader: &Loader,
    ) -> bool {
        match &self.running {
            // When ticks come sooner, one of them would be a moment's figure.
            Some(metering) if now.since(metering.since) < AT_LEAST => {}
            Some(Metering { since, before, .. }) => {
                let interval = now.since(*since);
                let programs = before.iter();
                self.programs = programs
                    .filter_map(|(name, before)| cost(name, *before, loader.runs(name)?, interval))
                    .collect();
                self.running = None;
                return true;
            }
            None if std::mem::take(&mut self.is_asked) || tick % EVERY == FIRST => {
                self.running = start(now, names, loader);
            }
            None => {}
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
    names: impl Iterator<Item = &'static str>,
    loader: &Loader,
) -> Option<Metering> {
    let statistics = Loader::meter()
        .inspect_err(|error| tracing::debug!(%error, "the programs' cost stays unknown"))
        .ok()?;
    let before = names.map(|name| (name, loader.runs(name).unwrap_or_default())).collect();
    Some(Metering { _statistics: statistics, since: now, before })
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
