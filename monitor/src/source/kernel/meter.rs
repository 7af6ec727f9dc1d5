//! Measures the CPU time of the programs by the kernel's own statistics.
//!
//! Statistics cost some 50 ns a run, so they are on for a second of twenty.

use std::os::fd::OwnedFd;

use super::loader::{Loader, Runs};
use isobar_core::model::cost::ProgramCost;
use isobar_core::model::units::Nanos;

/// From the beginning of one measurement to that of the next.
const EVERY: Nanos = Nanos(20 * Nanos::SECOND.0);
/// From the first tick to the first measurement: late enough to leave out the start.
const FIRST: Nanos = Nanos(2 * Nanos::SECOND.0);
/// Shortest measurement: nearly a second, so that two ticks a second apart are enough.
const AT_LEAST: Nanos = Nanos(900_000_000);

/// Measures now and then, and keeps the last result.
#[derive(Default)]
pub(super) struct Meter {
    running: Option<Measurement>,
    /// The last result.
    pub(super) programs: Vec<ProgramCost>,
    /// When the next one begins.
    next: Option<Nanos>,
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
        now: Nanos,
        names: impl Iterator<Item = &'static str>,
        loader: &Loader,
    ) -> bool {
        let is_due = self.running.is_none() && self.is_due(now);
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
            None if is_due => self.running = start(now, names, loader),
            None => {}
        }
        false
    }

    /// By time, because alarms and urgency bring ticks ten times a second.
    fn is_due(&mut self, now: Nanos) -> bool {
        let is_due = *self.next.get_or_insert(now.plus(FIRST)) <= now;
        if is_due {
            self.next = Some(now.plus(EVERY));
        }
        is_due
    }

    /// Measures again with the next tick.
    pub(super) fn request(&mut self) {
        self.next = Some(Nanos(0));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_due_goes_by_time() {
        let mut meter = Meter::default();
        let due: Vec<u64> = (0..500)
            .map(|tenth| tenth * 100)
            .filter(|ms| meter.is_due(Nanos(1_000_000_000 + ms * 1_000_000)))
            .collect();
        assert_eq!(due, [2_000, 22_000, 42_000], "in ms, of ten ticks a second");
        meter.request();
        assert!(meter.is_due(Nanos(51_000_000_000)));
    }
}
