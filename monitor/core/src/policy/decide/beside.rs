//! Another threshold that is due, where nothing can be done about the first.

use super::pending::{Pending, is_other};
use super::{Question, ReliefStanding, without_pending};
use crate::model::decision::{Hold, Met, Relief};

/// Whether what the first threshold came to leaves room for another one: nothing is done, and that
/// will not change in a moment.
pub(in crate::policy) fn leaves_room(relief: &Relief) -> bool {
    let is_momentary = |held: &Hold| {
        matches!(
            held,
            Hold::InGrace
                | Hold::StaleReadings
                | Hold::Easing
                | Hold::CoolingDown { .. }
                | Hold::KernelKilled { .. }
                | Hold::Ending { .. }
                | Hold::CleaningUp { .. }
                | Hold::Settling { .. }
                | Hold::NotYetKnown
        )
    };
    relief.actions.is_empty() && relief.held.as_ref().is_some_and(|held| !is_momentary(held))
}

/// Decides on another threshold than the first: it is the first of this question. `None`, and nothing
/// of `standing` is worth keeping, if that comes to no action.
pub(in crate::policy) fn decide_beside(
    question: &Question<'_>,
    standing: &mut ReliefStanding,
    relief: &Relief,
) -> Option<Relief> {
    let mut relief = Relief { held: None, ..relief.clone() };
    without_pending(question, standing, &mut relief);
    (!relief.actions.is_empty()).then_some(relief)
}

/// Whether no step is waited for that keeps a threshold from being looked at. One that was only observed
/// to its end is put aside for that.
pub(in crate::policy) fn makes_way(standing: &mut ReliefStanding, met: &Met) -> bool {
    if standing.aside.is_none() {
        let is_idle = |pending: &mut Pending| pending.is_last && is_other(met, &pending.action);
        standing.aside = standing.pending.take_if(is_idle);
    }
    let is_own = |aside: &Pending| !is_other(met, &aside.action);
    standing.pending.is_none() && !standing.aside.as_ref().is_some_and(is_own)
}
