//! Pods that a disruption budget kept from being evicted: budgets change, so they are asked for again
//! while the shortage lasts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::decision::StepKind;
use crate::model::units::Nanos;

/// Steps that were tried: threshold, uid, step.
pub(super) type Tried = BTreeSet<(String, String, StepKind)>;

/// When an eviction that a budget refused is asked for again. A pod that takes the other's place is
/// ready after some ten seconds; a request that is in vain costs the candidate after it nothing.
const ASKED_AGAIN: Nanos = Nanos(30 * Nanos::SECOND.0);

/// By threshold and uid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Kept(BTreeMap<String, BTreeMap<String, Refused>>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Refused {
    at: Nanos,
    /// What is not tried on it until it is asked for again.
    untried: BTreeSet<StepKind>,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing is tried on it until its time has come.
    pub(super) fn keep(&mut self, tried: &mut Tried, against: &str, uid: &str, now: Nanos) {
        let steps = StepKind::ALL.into_iter();
        let untried = steps.filter(|step| tried.insert(entry(against, uid, *step))).collect();
        let kept = self.0.entry(against.into()).or_default();
        kept.insert(uid.into(), Refused { at: now, untried });
    }

    /// Lets those be evicted again whose time has come; the other steps on them still wait for that.
    pub(super) fn ask_again(&mut self, tried: &mut Tried, now: Nanos) {
        for (against, kept) in &mut self.0 {
            kept.retain(|uid, Refused { at, untried }| {
                if now.since(*at) < ASKED_AGAIN {
                    return true;
                }
                tried.remove(&entry(against, uid, StepKind::Evict));
                // Else what was tried is forgotten.
                untried.iter().any(|step| tried.contains(&entry(against, uid, *step)))
            });
        }
        self.0.retain(|_, kept| !kept.is_empty());
    }

    /// It is asked for its eviction again.
    pub(super) fn asked(&mut self, tried: &mut Tried, against: &str, uid: &str) {
        let refused = self.0.get_mut(against).and_then(|kept| kept.remove(uid));
        for step in refused.into_iter().flat_map(|refused| refused.untried) {
            tried.remove(&entry(against, uid, step));
        }
    }
}

fn entry(against: &str, uid: &str, step: StepKind) -> (String, String, StepKind) {
    (against.to_owned(), uid.to_owned(), step)
}
