//! Whether an order that waited in the queue still holds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::never_begun;
use isobar_core::model::decision::{Action, Outcome, OutcomeResult, StepKind};
use isobar_core::model::units::Nanos;

pub(super) const LATE: &str = "not begun: its deadline had passed";

/// Atomic numbers bypass the queue, so that newer decisions cancel queued orders: only the agent's loop
/// writes those; and so that the loop knows which order the thread has come to.
#[derive(Debug)]
pub(super) struct StandingOrders {
    /// The last order for an enforced step that ends work: it replaces those before it.
    last_final: AtomicU64,
    /// The last order for a step that the thread has come to. Only the thread writes it.
    taken_up: AtomicU64,
    /// The last of these that it refused.
    refused: AtomicU64,
    /// A bit for each step that is enforced.
    enforced: AtomicU64,
}

impl Default for StandingOrders {
    fn default() -> Self {
        let [last_final, taken_up, refused] = [0; 3].map(AtomicU64::new);
        Self { last_final, taken_up, refused, enforced: AtomicU64::new(u64::MAX) }
    }
}

impl StandingOrders {
    /// An order is given.
    pub(super) fn note(&self, action: &Action) {
        if action.is_enforced && action.step.is_final() {
            self.last_final.fetch_max(action.id, Ordering::SeqCst);
        }
    }

    /// These steps are enforced, and no others.
    pub(super) fn enforce_only(&self, steps: &BTreeSet<StepKind>) {
        let bits = steps.iter().fold(0, |bits, step| bits | bit(*step));
        self.enforced.store(bits, Ordering::SeqCst);
    }

    pub(super) fn enforces(&self, step: StepKind) -> bool {
        self.enforced.load(Ordering::SeqCst) & bit(step) != 0
    }

    /// The thread has come to an order: it begins it, or refuses it.
    pub(super) fn take_up(&self, action: u64) {
        self.taken_up.fetch_max(action, Ordering::SeqCst);
    }

    /// Whether the thread has begun this order, as far as it has come to it.
    pub(super) fn has_begun(&self, action: u64) -> bool {
        self.taken_up.load(Ordering::SeqCst) >= action
            && self.refused.load(Ordering::SeqCst) != action
    }

    /// Why the thread does not begin a step that waited, at `now`; `None` if it may.
    pub(super) fn refusal(&self, action: &Action, now: Nanos) -> Option<Outcome> {
        let Action { id, step, deadline, is_enforced, .. } = *action;
        let is_superseded = self.last_final.load(Ordering::SeqCst) > id;
        let (result, detail) = match is_enforced {
            true if !self.enforces(step) => {
                (OutcomeResult::Refused, "not begun: it is no longer enforced")
            }
            _ if now >= deadline => (OutcomeResult::Failed, LATE),
            true if is_superseded => {
                (OutcomeResult::Failed, "not begun: a later step has replaced it")
            }
            _ => return None,
        };
        self.refused.store(id, Ordering::SeqCst);
        Some(Outcome { result, ..never_begun(id, detail.into()) })
    }
}

fn bit(step: StepKind) -> u64 {
    1 << step as u64
}
