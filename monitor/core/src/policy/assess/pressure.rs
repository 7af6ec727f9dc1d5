//! Which pressure thresholds are met: ours, where the kubelet has none.
//! In: thresholds, a snapshot, outlooks and what was remembered. Out: what is met, since when.
//! What is not measured is not met, and its grace begins anew. Rules: docs/policy.md.

use serde::{Deserialize, Serialize};

use super::scope;
use crate::model::condition::ScopeName;
use crate::model::decision::{Met, Outlook, Trigger};
use crate::model::snapshot::Snapshot;
use crate::model::threshold::{PressureSignal, PressureThreshold, Resource};
use crate::model::units::{Nanos, Percent};

/// Since when each pressure threshold that is met has been met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PressureStanding(Vec<(PressureThreshold, Nanos)>);

impl PressureStanding {
    /// Time that nobody watched counts for no grace period.
    pub(super) fn pass_over(&mut self, unseen: Nanos) {
        for (_, since) in &mut self.0 {
            *since = since.plus(unseen);
        }
    }
}

/// Judges all `thresholds`; what is met is in the order in which it is relieved: memory first, the
/// rest as configured. Of exhaustion nothing is due but in the scopes that are `low`: whoever takes
/// much memory at once, as a program that touches its heap when it starts, mostly stops in time.
#[must_use]
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
        let outlook = outlooks.iter().find(|outlook| outlook.scope == threshold.scope);
        let measured = measured(threshold, snapshot, outlook)?;
        let since = since(threshold);
        is_met(threshold.on, measured).then(|| Met {
            threshold: Trigger::Pressure(*threshold),
            since,
            is_due: now.since(since) >= threshold.grace
                && (!is_exhaustion(threshold.on) || low.contains(&threshold.scope)),
            measured,
            missing: None,
        })
    };
    let mut all: Vec<_> = thresholds.iter().filter_map(met).collect();
    all.sort_by_key(|met| met.threshold.resource() != Resource::Memory);
    let stands = |met: &Met| match met.threshold {
        Trigger::Pressure(threshold) => Some((threshold, met.since)),
        Trigger::Eviction(_) => None,
    };
    standing.0 = all.iter().filter_map(stands).collect();
    all
}

/// Those of `thresholds` that nobody can judge at this tick. What does not grow is measured, and
/// lasts for ever.
pub(super) fn unmeasured(
    thresholds: &[PressureThreshold],
    snapshot: &Snapshot,
    outlooks: &[Outlook],
) -> impl Iterator<Item = Trigger> {
    let is_measured = |threshold: &PressureThreshold| {
        let outlook = outlooks.iter().find(|outlook| outlook.scope == threshold.scope);
        match threshold.on {
            PressureSignal::Exhaustion(_) => {
                outlook.is_some_and(|one| one.left.is_some() && one.growth.is_some())
            }
            _ => measured(threshold, snapshot, outlook).is_some(),
        }
    };
    let all = thresholds.iter().filter(move |threshold| !is_measured(threshold));
    all.map(|threshold| Trigger::Pressure(*threshold))
}

/// The figure that a threshold looks at, in its own unit: hundredths of a percent, nanoseconds, or
/// pages a second.
fn measured(
    threshold: &PressureThreshold,
    snapshot: &Snapshot,
    outlook: Option<&Outlook>,
) -> Option<u64> {
    let scope = match threshold.scope {
        ScopeName::System => &snapshot.whole,
        ScopeName::Kubepods => scope::kubepods(snapshot)?.1,
    };
    let hundredths = |Percent(share): Percent| u64::from(share);
    match threshold.on {
        PressureSignal::Cpu(_) => scope.contention.map(|union| hundredths(union.avg10)),
        PressureSignal::Memory(_) => scope.shortage.map(|union| hundredths(union.avg10)),
        PressureSignal::Disk(_) => {
            scope.pressure.io.and_then(|io| io.full).map(|line| hundredths(line.avg10))
        }
        PressureSignal::Exhaustion(_) => outlook?.lasts.map(|lasts| lasts.0),
        PressureSignal::Refaults(_) => outlook?.refaults,
    }
}

/// At or above it; for exhaustion, at or below.
fn is_met(on: PressureSignal, measured: u64) -> bool {
    match on {
        PressureSignal::Cpu(at) | PressureSignal::Memory(at) | PressureSignal::Disk(at) => {
            measured >= u64::from(at.0)
        }
        PressureSignal::Exhaustion(within) => measured <= within.0,
        PressureSignal::Refaults(at) => measured >= at,
    }
}

/// Memory that lasts no longer than this leaves no time to ask anybody.
const EMERGENCY: Nanos = Nanos(2 * Nanos::SECOND.0);

/// True where memory is about to end.
pub(crate) fn is_emergency(trigger: &Trigger, measured: u64) -> bool {
    let Trigger::Pressure(threshold) = trigger else { return false };
    is_exhaustion(threshold.on) && Nanos(measured) <= EMERGENCY
}

fn is_exhaustion(on: PressureSignal) -> bool {
    matches!(on, PressureSignal::Exhaustion(_))
}

#[cfg(test)]
mod tests;
