//! Which eviction thresholds are met, and since when: the kubelet's `synchronize`, steps 5 to 11
//! and 13.
//! In: thresholds, observations of a sample and the state of the last tick. Out: a `Verdict`.
//! Source: kubelet `pkg/kubelet/eviction/eviction_manager.go` and `helpers.go`.
//! Deviations: docs/kubelet.md, "Eviction signals".

mod containerfs;
mod events;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::containerfs::rewritten;
use crate::model::decision::{Event, Met, NodePressure, Observation, Trigger};
use crate::model::sample::Sample;
use crate::model::settings::Eviction;
use crate::model::threshold::{Resource, Signal, Threshold};
use crate::model::units::Nanos;

/// The state of all thresholds from tick to tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ThresholdStanding {
    /// Since when each met threshold has been met.
    first_observed: Vec<(Threshold, Nanos)>,
    /// Thresholds that were met for their grace period at the last tick: `thresholdsMet`. They
    /// stay met until their minimum reclaim is available too.
    met: Vec<Threshold>,
    /// When each node condition was last met.
    last_observed: BTreeMap<NodePressure, Nanos>,
    /// Node conditions that held at the last tick.
    held: BTreeSet<NodePressure>,
    /// When each signal of the last tick was read.
    read: BTreeMap<Signal, Nanos>,
}

/// The result of one tick.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Met thresholds, in the order in which they are relieved.
    pub met: Vec<Met>,
    /// Node conditions that hold.
    pub pressure: Vec<NodePressure>,
    /// Signals with a new reading since the last tick.
    pub fresh: BTreeSet<Signal>,
    /// Changes of node conditions.
    pub events: Vec<Event>,
}

impl ThresholdStanding {
    /// Time without samples does not count towards a grace period.
    pub(super) fn pass_over(&mut self, unsampled: Nanos) {
        for (_, since) in &mut self.first_observed {
            *since = since.plus(unsampled);
        }
    }
}

/// Judges `thresholds`, whose containerfs entries were [`rewritten`], by observations of `sample`.
pub fn judge(
    settings: &Eviction,
    thresholds: &[Threshold],
    observations: &[Observation],
    sample: &Sample,
    standing: &mut ThresholdStanding,
) -> Verdict {
    let now = sample.at.boot;
    let seen = |signal| observations.iter().find(|seen| seen.signal == signal);
    let is_met =
        |threshold: &&Threshold| seen(threshold.signal).is_some_and(|s| below(threshold, s));
    let mut met: Vec<Threshold> = thresholds.iter().filter(is_met).copied().collect();

    // A threshold that was removed from the configuration is dropped.
    let still = |threshold: &&Threshold| thresholds.iter().any(|t| is_same(t, threshold));
    for threshold in standing.met.iter().filter(still) {
        let unresolved = seen(threshold.signal).is_some_and(|s| wanted(threshold, s) > s.available);
        if unresolved && !met.iter().any(|t| is_same(t, threshold)) {
            met.push(*threshold);
        }
    }

    let since = |threshold: &Threshold| {
        let known = standing.first_observed.iter().find(|(t, _)| is_same(t, threshold));
        known.map_or(now, |(_, since)| *since).min(now)
    };
    let first_observed: Vec<_> = met.iter().map(|t| (*t, since(t))).collect();
    let pressure = pressure(&met, settings.transition_period, now, &mut standing.last_observed);
    let events = events::of(&standing.held, &pressure, &first_observed, observations, sample);

    let is_memory = |(t, _): &(Threshold, Nanos)| t.signal.resource() == Resource::Memory;
    let (memory, rest): (Vec<_>, Vec<_>) = first_observed.iter().copied().partition(is_memory);
    let relieved = memory.into_iter().chain(rest).filter_map(|(threshold, since)| {
        let seen = seen(threshold.signal)?;
        Some(Met {
            threshold: Trigger::Eviction(threshold),
            since,
            is_due: now.since(since) >= threshold.grace,
            measured: seen.available,
            missing: Some(wanted(&threshold, seen).saturating_sub(seen.available)),
        })
    });
    let relieved = relieved.collect();
    let is_fresh =
        |seen: &&Observation| is_newer(seen.at, standing.read.get(&seen.signal).copied());
    let fresh = observations.iter().filter(is_fresh).map(|seen| seen.signal).collect();

    let due = first_observed.iter().filter(|(t, since)| now.since(*since) >= t.grace);
    standing.met = due.map(|(threshold, _)| *threshold).collect();
    standing.first_observed = first_observed;
    standing.held.clone_from(&pressure);
    standing.read = observations.iter().map(|seen| (seen.signal, seen.at)).collect();
    Verdict { met: relieved, pressure: pressure.into_iter().collect(), fresh, events }
}

/// Strictly less than the threshold is available: `thresholdsMet`.
fn below(threshold: &Threshold, seen: &Observation) -> bool {
    threshold.value.of(seen.capacity) > seen.available
}

/// The amount at which a threshold that was due is no longer met. A minimum reclaim in percent is
/// a share of the same capacity.
fn wanted(threshold: &Threshold, seen: &Observation) -> u64 {
    let min_reclaim = threshold.min_reclaim.map_or(0, |amount| amount.of(seen.capacity));
    threshold.value.of(seen.capacity).saturating_add(min_reclaim)
}

/// The kubelet compares signal, operator, grace period and value.
fn is_same(one: &Threshold, other: &Threshold) -> bool {
    let key = |t: &Threshold| (t.signal, t.grace, t.value);
    key(one) == key(other)
}

/// The node condition of a signal.
pub fn condition(signal: Signal) -> NodePressure {
    match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => {
            NodePressure::MemoryPressure
        }
        Signal::PidAvailable => NodePressure::PidPressure,
        _ => NodePressure::DiskPressure,
    }
}

/// Conditions of met thresholds, in grace or not, and those last met within the transition period
/// (strictly less).
fn pressure(
    met: &[Threshold],
    transition: Nanos,
    now: Nanos,
    last_observed: &mut BTreeMap<NodePressure, Nanos>,
) -> BTreeSet<NodePressure> {
    last_observed.extend(met.iter().map(|threshold| (condition(threshold.signal), now)));
    // A time in the future is from before a reboot: it would hold the condition until then.
    last_observed.retain(|_, last| *last <= now && now.since(*last) < transition);
    let met = met.iter().map(|threshold| condition(threshold.signal));
    last_observed.keys().copied().chain(met).collect()
}

/// First reading, undated, or strictly newer: `thresholdsUpdatedStats`.
fn is_newer(read: Nanos, last: Option<Nanos>) -> bool {
    read == Nanos(0) || last.is_none_or(|last| read > last)
}

#[cfg(test)]
mod tests;
