//! Parts of decisions for tests, which say of them only what they are about.

use std::collections::BTreeMap;

use super::{Action, Met, Outcome, OutcomeResult, StepKind, StepReason, Target, Trigger};
use crate::model::condition::ScopeName;
use crate::model::settings::Deletion;
use crate::model::threshold::{PressureSignal, PressureThreshold};
use crate::model::units::{Nanos, Percent};

/// A threshold that is due, whatever was measured.
pub fn met(threshold: Trigger) -> Met {
    Met { threshold, since: Nanos(0), is_due: true, measured: 0, missing: None }
}

/// The same for pressure on the whole node.
pub fn pressed(on: PressureSignal) -> Met {
    let (scope, grace) = (ScopeName::System, Nanos(0));
    met(Trigger::Pressure(PressureThreshold { scope, on, grace }))
}

/// The first one, enforced, on no target, because of this.
pub fn action(step: StepKind, reason: Met) -> Action {
    Action {
        id: 1,
        step,
        target: Target::default(),
        reason,
        why: StepReason::Gentlest,
        want: None,
        grace: None,
        deadline: Nanos(0),
        escalates_to: None,
        is_enforced: true,
        deletion: Deletion::Never,
        restart: None,
        message: String::new(),
        annotations: BTreeMap::new(),
    }
}

/// One that took no time and of which nothing was seen.
pub fn outcome(action: u64, result: OutcomeResult) -> Outcome {
    let (detail, took, freed) = (String::new(), Nanos(0), None);
    Outcome { action, result, detail, took, freed, ended: None, never_begun: false }
}

/// The pressure thresholds without configuration.
pub fn usual_pressure_thresholds() -> Vec<PressureThreshold> {
    let seconds = |n: u64| Nanos(n * Nanos::SECOND.0);
    let of = |scope| {
        let shortage = PressureSignal::Memory(Percent(60_00));
        let exhaustion = PressureSignal::Exhaustion(seconds(10));
        [
            PressureThreshold { scope, on: shortage, grace: seconds(20) },
            PressureThreshold { scope, on: exhaustion, grace: seconds(2) },
        ]
    };
    [ScopeName::System, ScopeName::Kubepods].into_iter().flat_map(of).collect()
}
