//! Whose work was ended a while ago, in sentences: where nothing is short any more, that may be why.
//! In: the ledger's entries of such steps. Out: a sentence for each victim.

use std::collections::BTreeSet;

use super::time;
use crate::model::decision::{InForce, Phase, StepKind};
use crate::model::units::Nanos;

/// The latest victim first, each with the last step that was taken on it.
pub(super) fn sentences(ended: &[InForce], now: Nanos) -> Vec<String> {
    let mut told = BTreeSet::new();
    let last = ended.iter().rev().filter(|entry| told.insert(&entry.action.target.uid));
    let mut all: Vec<_> = last.map(|entry| sentence(entry, now)).collect();
    if !all.is_empty() {
        all.push("what led there, and what came of it: `isobar incidents ls`".into());
    }
    all
}

fn sentence(InForce { action, since, held, phase, .. }: &InForce, now: Nanos) -> String {
    let done = match action.step {
        StepKind::Evict => "evicted",
        StepKind::KillContainers => "killed the containers of",
        _ => "stopped the containers of",
    };
    let (name, against) = (action.target.full_name(), action.reason.threshold.name());
    let held = held.map(|held| format!("; it held {held}")).unwrap_or_default();
    let is_over = matches!(phase, Phase::Ended { .. });
    let end = if is_over { "" } else { ", and has not ended yet" };
    format!("{} ago: {done} {name} for {against}{held}{end}", time(now.since(*since)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::condition::ScopeName;
    use crate::model::decision::{Action, Target, Trigger, made};
    use crate::model::threshold::{PressureSignal, PressureThreshold};
    use crate::model::units::Bytes;

    #[test]
    fn lately_tells_the_last_step_on_each_victim() {
        let second = Nanos::SECOND.0;
        let on = PressureSignal::Exhaustion(Nanos(10 * second));
        let threshold = PressureThreshold { scope: ScopeName::System, on, grace: Nanos(0) };
        let entry = |name: &str, step, since, held: Option<u64>, phase| {
            let target = Target {
                namespace: "shop".into(),
                name: name.into(),
                uid: name.into(),
                ..Target::default()
            };
            let reason = made::met(Trigger::Pressure(threshold));
            let action = Action { target, is_enforced: true, ..made::action(step, reason) };
            let held = held.map(|mib| Bytes(mib << 20));
            InForce { action, since: Nanos(since * second), held, phase, largest: None }
        };
        let over = |at| Phase::Ended { at: Nanos(at * second) };
        let ended = [
            entry("web", StepKind::Evict, 10, Some(1_900), over(20)),
            entry("db", StepKind::StopContainers, 70, Some(300), over(72)),
            entry("db", StepKind::KillContainers, 73, Some(200), Phase::Ending),
            entry("pids", StepKind::StopContainers, 95, None, over(96)),
        ];
        let want = [
            "5s ago: stopped the containers of shop/pids for system.memory.exhaustion",
            "27s ago: killed the containers of shop/db for system.memory.exhaustion; it held 200Mi, and has \
             not ended yet",
            "1m30s ago: evicted shop/web for system.memory.exhaustion; it held 1.8Gi",
            "what led there, and what came of it: `isobar incidents ls`",
        ];
        assert_eq!(sentences(&ended, Nanos(100 * second)), want);
        assert!(sentences(&[], Nanos(0)).is_empty());
    }
}
