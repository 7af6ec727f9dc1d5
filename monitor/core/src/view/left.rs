//! What is left of memory, where the kubelet's figure or how long tasks wait misleads. For people; no
//! rule depends on it.

use crate::model::decision::{Assessment, Met, Observation};
use crate::model::snapshot::Snapshot;
use crate::model::threshold::{Resource, Signal};
use crate::model::units::{Bytes, Percent};
use crate::policy::rank::Purpose;
use crate::view::verdict::{Mood, some};

/// Memory is little below this part of it.
const LITTLE: u64 = 10;

/// Where `memory.available` says that much is left, and the kernel that there is not: the formula of
/// the kubelet leaves the kernel's own memory out.
pub(super) fn left_by_the_kernel(
    snapshot: &Snapshot,
    observations: &[Observation],
) -> Option<String> {
    let mut observed = observations.iter();
    let kubelets = observed.find(|seen| seen.signal == Signal::MemoryAvailable)?.available;
    let memory = snapshot.node.memory?;
    let is_told = memory.available < Bytes(memory.total.0 / LITTLE).min(Bytes(kubelets / 2));
    is_told.then(|| {
        let (kubelets, kernels) = (Bytes(kubelets), memory.available);
        format!(
            "; the kubelet's memory.available is {kubelets} without what the kernel itself uses, \
             MemAvailable is {kernels}"
        )
    })
}

/// A threshold of memory that is met, and is not about waiting.
pub(super) fn short_of_memory(assessment: &Assessment) -> Option<&Met> {
    let is_short = |met: &&Met| {
        met.threshold.resource() == Resource::Memory
            && !Purpose::of(&met.threshold).is_about_waiting
    };
    assessment.met.iter().find(is_short)
}

/// Memory can be short before a task waits for it.
pub(super) fn short_before_waits(snapshot: &Snapshot, mood: Mood, met: &Met) -> Option<String> {
    let is_waited_for = some(snapshot.whole.pressure.memory).is_some_and(|raw| raw > Percent(0));
    let waits = if is_waited_for { "tasks hardly wait yet" } else { "no task waits yet" };
    (mood == Mood::Calm).then(|| format!("; {waits}, although {} is met", met.threshold.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decision::Trigger;
    use crate::model::node::Meminfo;
    use crate::model::psi::{Line, Pressure};
    use crate::model::quantity::Quantity;
    use crate::model::threshold::{Amount, Threshold};
    use crate::model::units::Nanos;

    #[test]
    fn left_by_the_kernel_where_the_kubelet_sees_more() {
        #[rustfmt::skip]
        let table = [
            // MiB in all, MemAvailable, memory.available; it is told
            (1_000, Some(12),  Some(100), true),
            (1_000, Some(49),  Some(100), true),
            (1_000, Some(50),  Some(100), false), // not so different
            (1_000, Some(100), Some(900), false), // enough is left
            (1_000, Some(12),  None,      false),
            (1_000, None,      Some(100), false),
        ];
        let mib = |n: u64| Bytes(n << 20);
        for (total, kernels, kubelets, is_told) in table {
            let mut snapshot = Snapshot::default();
            snapshot.node.memory = kernels.map(|available| Meminfo {
                total: mib(total),
                available: mib(available),
                ..Meminfo::default()
            });
            let seen = kubelets.map(|available| Observation {
                signal: Signal::MemoryAvailable,
                available: mib(available).0,
                capacity: mib(total).0,
                at: Nanos(0),
            });
            let told = left_by_the_kernel(&snapshot, seen.as_slice());
            assert_eq!(told.is_some(), is_told, "{kernels:?} {kubelets:?} {told:?}");
        }
    }

    #[test]
    fn short_before_waits_names_the_threshold() {
        let threshold = |signal| Threshold {
            signal,
            value: Amount::Quantity(Quantity::bytes(1)),
            grace: Nanos(0),
            min_reclaim: None,
        };
        let met = |signal| Met {
            threshold: Trigger::Eviction(threshold(signal)),
            since: Nanos(0),
            is_due: true,
            measured: 0,
            missing: None,
        };
        let [memory, disk] = [Signal::MemoryAvailable, Signal::NodefsAvailable].map(met);
        #[rustfmt::skip]
        let table = [
            // word for memory, raw PSI, what is met; what is told
            (Mood::Calm,    0,    vec![disk, memory], Some("; no task waits yet, although memory.available is met")),
            (Mood::Calm,    1_63, vec![memory],       Some("; tasks hardly wait yet, although memory.available is met")),
            (Mood::Calm,    0,    vec![disk],         None),
            (Mood::Pressed, 0,    vec![memory],       None),
        ];
        for (mood, raw, met, want) in table {
            let assessment = Assessment { met, ..Assessment::default() };
            let mut snapshot = Snapshot::default();
            let some = Line { avg10: Percent(raw), ..Line::default() };
            snapshot.whole.pressure.memory = Some(Pressure { some: Some(some), full: None });
            let short = short_of_memory(&assessment);
            let told = short.and_then(|met| short_before_waits(&snapshot, mood, met));
            assert_eq!(told.as_deref(), want, "{mood:?}");
        }
    }
}
