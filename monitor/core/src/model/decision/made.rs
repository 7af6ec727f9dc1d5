//! An action for tests, which say of it only what they are about.

use std::collections::BTreeMap;

use super::{Action, Met, StepKind, StepReason, Target};
use crate::model::settings::Deletion;
use crate::model::units::Nanos;

/// The first one, enforced, on no target, because of this.
pub(crate) fn action(step: StepKind, reason: Met) -> Action {
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
