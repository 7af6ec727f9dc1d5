//! How an action stands to the kubelet's own eviction: before its hard threshold is met, or while the
//! kubelet may evict for the same shortage.
//! In: the configuration, the pods of the node and a decision. For people; no rule depends on it.

use super::{amount, line};
use crate::model::decision::{Action, Decision, Met, Observation, Trigger};
use crate::model::settings::Settings;
use crate::model::snapshot::Snapshot;
use crate::model::threshold::{PressureSignal, Signal, Threshold};

/// One sentence for each action where there is a kubelet; none where it does not evict for that.
pub(super) fn sentences(
    settings: &Settings,
    snapshot: &Snapshot,
    decision: &Decision,
) -> Vec<String> {
    // A node whose pods no source names has no kubelet, as far as isobar knows.
    if snapshot.pods.is_none() {
        return Vec::new();
    }
    let told = |action: &Action| {
        let signal = signal(&action.reason)?;
        let Some(threshold) = hard(settings, signal) else {
            return Some(format!(
                "the kubelet does not evict for it: it has no hard threshold on {signal}"
            ));
        };
        let seen = decision.assessment.observations.iter().find(|seen| seen.signal == signal)?;
        Some(beside(action, threshold, seen))
    };
    decision.relief.actions.iter().filter_map(told).collect()
}

/// The kubelet's signal for the same shortage.
fn signal(reason: &Met) -> Option<Signal> {
    match &reason.threshold {
        Trigger::Eviction(threshold) => Some(threshold.signal),
        Trigger::Pressure(threshold) => match threshold.on {
            PressureSignal::Memory(_)
            | PressureSignal::Exhaustion(_)
            | PressureSignal::Refaults(_) => Some(Signal::MemoryAvailable),
            // The kubelet never evicts for work that waits for CPUs or disks.
            PressureSignal::Cpu(_) | PressureSignal::Disk(_) => None,
        },
    }
}

fn hard(settings: &Settings, signal: Signal) -> Option<&Threshold> {
    let mut hard = settings.eviction.thresholds.iter().filter(|one| one.is_hard());
    hard.find(|one| one.signal == signal)
}

fn beside(action: &Action, threshold: &Threshold, seen: &Observation) -> String {
    let Observation { signal, available, capacity, .. } = *seen;
    let is = amount(signal, available);
    let line = line(&Trigger::Eviction(*threshold));
    if available >= threshold.value.of(capacity) {
        let verb = if action.is_enforced { "acts" } else { "would act" };
        return format!(
            "isobar {verb} before the kubelet: {signal} is {is}, its hard threshold is {line}"
        );
    }
    let met = format!("hard threshold of {line} on {signal} is met");
    match action.is_enforced {
        false => format!("left to the kubelet: its own {met}"),
        true => format!(
            "the kubelet's own {met}, too: it may evict a pod at the same time; while a pod that it has evicted ends, \
             isobar waits"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::model::condition::ScopeName;
    use crate::model::decision::{Assessment, Relief, StepKind, made};
    use crate::model::threshold::{Amount, PressureThreshold};
    use crate::model::units::{Nanos, Percent};

    fn memory(limit: &str, grace: Nanos) -> Threshold {
        let value = Amount::Quantity(limit.parse().unwrap());
        Threshold { signal: Signal::MemoryAvailable, value, grace, min_reclaim: None }
    }

    fn action(threshold: Trigger, is_enforced: bool) -> Action {
        Action { is_enforced, ..made::action(StepKind::Evict, made::met(threshold)) }
    }

    #[test]
    fn sentences_say_which_of_the_two_acts() {
        let scope = ScopeName::System;
        let pressure = |on| Trigger::Pressure(PressureThreshold { scope, on, grace: Nanos(0) });
        let stall = || pressure(PressureSignal::Memory(Percent(60_00)));
        let soft = || Trigger::Eviction(memory("500Mi", Nanos::SECOND));
        let hard = || Trigger::Eviction(memory("100Mi", Nanos(0)));
        let before = "before the kubelet: memory.available is 300Mi, its hard threshold is 100Mi";
        let met = "hard threshold of 100Mi on memory.available is met";
        let beside = format!(
            "the kubelet's own {met}, too: it may evict a pod at the same time; while a pod that it has \
             evicted ends, isobar waits"
        );
        #[rustfmt::skip]
        let table = [
            // what is due, enforced, MiB left, pods are known, the kubelet has a hard threshold, told
            (stall(), true,  300, true,  true,  vec![format!("isobar acts {before}")]),
            (soft(),  true,  300, true,  true,  vec![format!("isobar acts {before}")]),
            (stall(), false, 300, true,  true,  vec![format!("isobar would act {before}")]),
            (hard(),  true,  80,  true,  true,  vec![beside.clone()]),
            (stall(), true,  80,  true,  true,  vec![beside]),
            (hard(),  false, 80,  true,  true,  vec![format!("left to the kubelet: its own {met}")]),
            (stall(), true,  80,  true,  false, vec!["the kubelet does not evict for it: it has no hard threshold on memory.available".into()]),
            (stall(), true,  300, false, true,  vec![]), // a host without a kubelet
            (pressure(PressureSignal::Cpu(Percent(1))), true, 300, true, true, vec![]),
        ];
        for (due, is_enforced, left, has_pods, is_hard, want) in table {
            let mut settings = Settings::default();
            settings.eviction.thresholds = vec![memory("500Mi", Nanos::SECOND)];
            if is_hard {
                settings.eviction.thresholds.push(memory("100Mi", Nanos(0)));
            }
            let pods = has_pods.then(|| Arc::new(BTreeMap::new()));
            let snapshot = Snapshot { pods, ..Snapshot::default() };
            let signal = Signal::MemoryAvailable;
            let (available, capacity, at) = (left << 20, 1 << 30, Nanos(0));
            let seen = Observation { signal, available, capacity, at };
            let assessment = Assessment { observations: vec![seen], ..Assessment::default() };
            let row = format!("{due:?} {is_enforced} {left} {has_pods} {is_hard}");
            let relief = Relief { actions: vec![action(due, is_enforced)], ..Relief::default() };
            let decision = Decision { assessment, relief, ..Decision::default() };
            assert_eq!(sentences(&settings, &snapshot, &decision), want, "{row}");
        }
    }
}
