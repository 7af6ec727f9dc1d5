//! Which of isobar's own pressure thresholds are met.
//! In: thresholds, a snapshot, outlooks and the state of the last tick. Out: met thresholds.
//! A threshold without a measurement is not met; what had passed of its grace period shrinks by the
//! time without one.
//! Rules: docs/policy.md.

use serde::{Deserialize, Serialize};

use crate::model::condition::ScopeName;
use crate::model::decision::{Met, Outlook, Trigger};
use crate::model::snapshot::{Averaged, Bounds, Snapshot, Union};
use crate::model::threshold::{PressureSignal, PressureThreshold};
use crate::model::units::{Nanos, Percent};
use crate::model::unsampled::unsampled;
use crate::policy::scope;

use super::growth::GrowthStanding;

/// Since when each met pressure threshold has been met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PressureStanding(Vec<(PressureThreshold, Nanos)>);

impl PressureStanding {
    /// Time without samples does not count towards a grace period.
    pub(super) fn pass_over(&mut self, unsampled: Nanos) {
        for (_, since) in &mut self.0 {
            *since = since.plus(unsampled);
        }
    }
}

/// Judges `thresholds`; the result is in their order. Exhaustion is due only in scopes that are
/// `low`: a program that touches its heap at start takes much memory at once and usually stops in
/// time.
pub fn judge(
    thresholds: &[PressureThreshold],
    snapshot: &Snapshot,
    outlooks: &[Outlook],
    low: &[ScopeName],
    standing: &mut PressureStanding,
) -> Vec<Met> {
    let now = snapshot.at.boot;
    let since = |threshold: &PressureThreshold| {
        let known = standing.0.iter().find(|(t, _)| t == threshold);
        known.map_or(now, |(_, since)| *since).min(now)
    };
    let met = |threshold: &PressureThreshold| {
        let measured = measured_now(threshold, snapshot, outlooks)?;
        let since = since(threshold);
        let trigger = Trigger::Pressure(*threshold);
        // In an emergency no time is left for a grace.
        let is_over = now.since(since) >= threshold.grace || is_emergency(&trigger, measured);
        let is_due = is_over && (!trigger.is_forecast() || low.contains(&threshold.scope));
        let met = Met { threshold: trigger, since, is_due, measured, missing: None };
        is_met(threshold.on, measured).then_some((*threshold, met))
    };
    let all: Vec<_> = thresholds.iter().filter_map(met).collect();
    // What was not measured may still be met: of each second without a measurement one that was met
    // is taken back.
    let seen = snapshot.interval.since(unsampled(snapshot.interval));
    let shrunk = |since: Nanos| since.plus(seen).plus(seen);
    let unknown = thresholds.iter().filter(|one| !is_measured(one, snapshot, outlooks));
    let unknown: Vec<_> = unknown.map(|one| (*one, shrunk(since(one)))).collect();
    standing.0 = all.iter().map(|(threshold, met)| (*threshold, met.since)).collect();
    standing.0.extend(unknown.into_iter().filter(|(_, since)| *since < now));
    all.into_iter().map(|(_, met)| met).collect()
}

/// Thresholds without a measurement in this tick. A scope that does not grow is measured: its
/// memory lasts forever.
pub(super) fn unmeasured(
    thresholds: &[PressureThreshold],
    snapshot: &Snapshot,
    outlooks: &[Outlook],
) -> impl Iterator<Item = Trigger> {
    let all = thresholds.iter().filter(|threshold| !is_measured(threshold, snapshot, outlooks));
    all.map(|threshold| Trigger::Pressure(*threshold))
}

/// Whether it is certain that the threshold is met, or that it is not.
fn is_measured(threshold: &PressureThreshold, snapshot: &Snapshot, outlooks: &[Outlook]) -> bool {
    let outlook = outlooks.iter().find(|outlook| outlook.scope == threshold.scope);
    match threshold.on {
        PressureSignal::Exhaustion(_) => {
            outlook.is_some_and(|one| one.left.is_some() && one.growth.is_some())
        }
        on => measured(threshold, snapshot, outlooks)
            .is_some_and(|found| is_met(on, found.certain) || !is_met(on, found.possible)),
    }
}

/// A measured value in the threshold's unit: hundredths of a percent, nanoseconds, or pages per
/// second. `certain` and `possible` differ while an average has not seen its window.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// What the value is at least.
    certain: u64,
    /// What it may be at most.
    possible: u64,
    /// The value of the last interval alone; `None` if it is not measured, or is no average of a scope.
    latest: Option<u64>,
}

impl Measured {
    fn exact(value: u64) -> Self {
        Self { certain: value, possible: value, latest: None }
    }

    fn average(averaged: Bounds, latest: Option<Percent>) -> Self {
        let (certain, possible) = (averaged.low.0.into(), averaged.high.0.into());
        Self { certain, possible, latest: latest.map(|share| share.0.into()) }
    }
}

/// What is certain of a threshold's figure now; `None` if it was not measured.
pub(crate) fn measured_now(
    threshold: &PressureThreshold,
    snapshot: &Snapshot,
    outlooks: &[Outlook],
) -> Option<u64> {
    measured(threshold, snapshot, outlooks).map(|found| found.certain)
}

fn measured(
    threshold: &PressureThreshold,
    snapshot: &Snapshot,
    outlooks: &[Outlook],
) -> Option<Measured> {
    let outlook = outlooks.iter().find(|outlook| outlook.scope == threshold.scope);
    let scope = scope::named(snapshot, threshold.scope)?;
    let union = |averaged: Averaged, union: Option<Union>| {
        Measured::average(averaged.avg10, union.map(|union| union.now))
    };
    match threshold.on {
        PressureSignal::Cpu(_) => Some(union(scope.averaged_contention()?, scope.contention)),
        PressureSignal::Memory(_) => Some(union(scope.averaged_shortage()?, scope.shortage)),
        PressureSignal::Disk(_) => {
            let averaged = Averaged::from(scope.pressure.io?.full?);
            Some(Measured::average(averaged.avg10, scope.disk_stalled))
        }
        PressureSignal::Exhaustion(_) => outlook?.lasts.map(|lasts| Measured::exact(lasts.0)),
        PressureSignal::Refaults(_) => outlook?.refaults.map(Measured::exact),
    }
}

/// Whether what was averaged over ten seconds is over: the last interval alone does not meet the
/// threshold. False where that is not measured.
pub(super) fn has_eased(
    threshold: &PressureThreshold,
    snapshot: &Snapshot,
    growth: &GrowthStanding,
) -> bool {
    let latest = match threshold.on {
        PressureSignal::Refaults(_) => growth.latest_refaults(threshold.scope),
        _ => measured(threshold, snapshot, &[]).and_then(|found| found.latest),
    };
    latest.is_some_and(|latest| !is_met(threshold.on, latest))
}

/// At or above the threshold; exhaustion at or below.
fn is_met(on: PressureSignal, measured: u64) -> bool {
    match on {
        PressureSignal::Cpu(at) | PressureSignal::Memory(at) | PressureSignal::Disk(at) => {
            measured >= u64::from(at.0)
        }
        PressureSignal::Exhaustion(within) => measured <= within.0,
        PressureSignal::Refaults(at) => measured >= at,
    }
}

/// Memory that runs out this soon leaves no time for an eviction through the API.
const EMERGENCY: Nanos = Nanos(2 * Nanos::SECOND.0);

/// True if memory is about to run out.
pub(crate) fn is_emergency(trigger: &Trigger, measured: u64) -> bool {
    trigger.is_forecast() && Nanos(measured) <= EMERGENCY
}

#[cfg(test)]
mod tests;
