//! Events for changes of the kubelet's node conditions, in its words.
//! Source: kubelet `pkg/kubelet/nodestatus/setters.go`.

use std::collections::BTreeSet;

use super::condition;
use crate::model::decision::{Event, NodePressure, Observation};
use crate::model::sample::Sample;
use crate::model::threshold::{Signal, Threshold};
use crate::model::units::Nanos;
use crate::policy::scope;

/// The changes from `before` to `now`. The numbers stand where the kubelet has the node's name,
/// which the event names anyway.
pub(super) fn of(
    before: &BTreeSet<NodePressure>,
    now: &BTreeSet<NodePressure>,
    met: &[(Threshold, Nanos)],
    observations: &[Observation],
    sample: &Sample,
) -> Vec<Event> {
    let raised = now.difference(before).map(|pressure| {
        let reason = reason(*pressure, true);
        let threshold = met.iter().find(|(t, _)| condition(t.signal) == *pressure);
        let numbers = threshold.and_then(|(threshold, _)| numbers(threshold, observations, sample));
        event(reason, &numbers.map_or_else(String::new, |numbers| format!(": {numbers}")))
    });
    let left = before.difference(now).map(|pressure| event(reason(*pressure, false), ""));
    raised.chain(left).collect()
}

fn event(reason: &str, numbers: &str) -> Event {
    let message = format!("Node status is now: {reason}{numbers}");
    Event { reason: reason.into(), message, is_warning: false }
}

fn reason(pressure: NodePressure, holds: bool) -> &'static str {
    match (pressure, holds) {
        (NodePressure::MemoryPressure, true) => "NodeHasInsufficientMemory",
        (NodePressure::MemoryPressure, false) => "NodeHasSufficientMemory",
        (NodePressure::DiskPressure, true) => "NodeHasDiskPressure",
        (NodePressure::DiskPressure, false) => "NodeHasNoDiskPressure",
        (NodePressure::PidPressure, true) => "NodeHasInsufficientPID",
        (NodePressure::PidPressure, false) => "NodeHasSufficientPID",
    }
}

/// The available amount and the threshold.
fn numbers(threshold: &Threshold, observations: &[Observation], sample: &Sample) -> Option<String> {
    let seen = observations.iter().find(|seen| seen.signal == threshold.signal)?;
    let signal = threshold.signal;
    let amount = |n| signal.quantity(n);
    let limit = threshold.value.of(seen.capacity);
    let mut told =
        format!("{signal} is {}, the threshold is {}", amount(seen.available), amount(limit));
    let missing = limit.saturating_sub(seen.available);
    if let Some(left) = left_of_cache(seen, missing, sample) {
        let left = amount(left);
        told.push_str(&format!("; what is missing is mostly page cache, MemAvailable is {left}"));
    }
    Some(told)
}

/// `MemAvailable`, where more than half of what is missing is page cache that the kubelet's formula
/// counts as used and the kernel as available.
fn left_of_cache(seen: &Observation, missing: u64, sample: &Sample) -> Option<u64> {
    let left = sample.node.memory.filter(|_| seen.signal == Signal::MemoryAvailable)?.available.0;
    let active = scope::root(sample)?.memory.stat?.active_file.0;
    let clean = active.min(left.saturating_sub(seen.available));
    (clean > missing / 2).then_some(left)
}
