//! Pods that a disruption budget kept from being evicted: budgets change, so they are asked for again
//! while the shortage lasts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::decision::{InForce, Phase, StepKind};
use crate::model::threshold::Resource;
use crate::model::units::Nanos;

/// A step on a target: threshold, uid, step.
pub(super) type Entry = (String, String, StepKind);
/// Steps that were tried.
pub(super) type Tried = BTreeSet<Entry>;

/// Whether a step of the ledger counts as tried on its target. An end for want of memory or pids does so
/// only for a while after the last process was gone: what was started again since may be ended again.
pub(super) fn is_tried(InForce { action, phase, .. }: &InForce, now: Nanos, rest: Nanos) -> bool {
    let comes_back =
        matches!(action.reason.threshold.resource(), Resource::Memory | Resource::Pids);
    match phase {
        Phase::Ended { at } => !(action.step.is_final() && comes_back && now.since(*at) > rest),
        // A kill that was entered in the ledger may never have been done.
        Phase::Ending => action.step != StepKind::KillContainers,
        Phase::Squeezed | Phase::Marked => true,
    }
}

/// When an eviction that a budget refused is asked for again, at first and at most; the time is doubled
/// by each refusal. A pod that takes the other's place is ready after some ten seconds; a request that
/// is in vain costs the candidate after it nothing, but the API server reads the budgets for it.
const ASKED_AGAIN: (Nanos, Nanos) = (Nanos(30 * Nanos::SECOND.0), Nanos(300 * Nanos::SECOND.0));

/// By threshold and uid, for as long as the eviction counts as tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Kept(BTreeMap<String, BTreeMap<String, Refused>>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Refused {
    /// When that was heard; `None` once the eviction was asked for again.
    at: Option<Nanos>,
    /// Its eviction may be asked for again.
    is_due: bool,
    /// Refusals before this one.
    n_before: u32,
}

impl Kept {
    /// Nothing is tried on it until its time has come.
    pub(super) fn keep(&mut self, against: String, uid: String, now: Nanos) {
        let kept = self.0.entry(against).or_default();
        let n_before = kept.get(&uid).map_or(0, |before| before.n_before.saturating_add(1));
        kept.insert(uid, Refused { at: Some(now), is_due: false, n_before });
    }

    /// Whether this step is not to be tried: it was, or it has to wait until the eviction is asked for
    /// again. A step that is not asked for does not wait where there is no time to be told no.
    pub(super) fn shuts_out(&self, tried: &Tried, entry: &Entry, is_pressing: bool) -> bool {
        let (against, uid, step) = entry;
        let refused = self.0.get(against).and_then(|kept| kept.get(uid));
        match refused.filter(|refused| refused.at.is_some()) {
            Some(refused) if *step == StepKind::Evict => !refused.is_due,
            Some(_) if !is_pressing => true,
            _ => tried.contains(entry),
        }
    }

    /// Lets those be evicted again whose time has come, and forgets those of whom `tried` knows no more.
    pub(super) fn ask_again(&mut self, tried: &Tried, now: Nanos) {
        for (against, kept) in &mut self.0 {
            kept.retain(|uid, _| tried.contains(&(against.clone(), uid.clone(), StepKind::Evict)));
            for refused in kept.values_mut() {
                let doubled = 1_u64.checked_shl(refused.n_before).unwrap_or(u64::MAX);
                let wait = ASKED_AGAIN.1.0.min(ASKED_AGAIN.0.0.saturating_mul(doubled));
                refused.is_due = refused.at.is_some_and(|at| now.since(at) >= Nanos(wait));
            }
        }
        self.0.retain(|_, kept| !kept.is_empty());
    }

    /// It is asked for its eviction again.
    pub(super) fn asked(&mut self, against: &str, uid: &str) {
        if let Some(refused) = self.0.get_mut(against).and_then(|kept| kept.get_mut(uid)) {
            (refused.at, refused.is_due) = (None, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decision::{Trigger, made};
    use crate::model::quantity::Quantity;
    use crate::model::threshold::{Amount, PressureSignal, Signal, Threshold};
    use crate::model::units::Percent;

    #[test]
    fn an_end_counts_as_tried_until_what_was_short_came_back_long_ago() {
        use StepKind::{Evict, KillContainers, Squeeze};
        let memory = made::pressed(PressureSignal::Memory(Percent(60_00)));
        let value = Amount::Quantity(Quantity::bytes(1));
        let (signal, grace) = (Signal::NodefsAvailable, Nanos(0));
        let disk = Threshold { signal, value, grace, min_reclaim: None };
        let disk = made::met(Trigger::Eviction(disk));
        let ended = |at| Phase::Ended { at: Nanos(at) };
        #[rustfmt::skip]
        let table = [
            // step, what it was against, its phase; whether it was tried, 10 ns later being long ago
            (KillContainers, memory, Phase::Ending,   false), // it may never have been done
            (Evict,          memory, Phase::Ending,   true),
            (Squeeze,        memory, Phase::Squeezed, true),
            (KillContainers, memory, ended(90),       true),
            (KillContainers, memory, ended(89),       false),
            (Evict,          memory, ended(89),       false),
            (Evict,          disk,   ended(89),       true), // of a disk little comes back so fast
        ];
        for (step, against, phase, want) in table {
            let action = made::action(step, against);
            let entry = InForce { action, since: Nanos(0), held: None, phase, largest: None };
            assert_eq!(is_tried(&entry, Nanos(100), Nanos(10)), want, "{step:?} {phase:?}");
        }
    }
}
