//! A step that was only observed to its end is put aside while something else is short: it happens no
//! more, and keeps its own shortage alone from a second victim.

use super::pending::Pending;
use super::{Question, ReliefStanding};
use crate::model::decision::{Action, Met};

/// Whether something else is short than what this action is about.
pub(super) fn is_other(first: &Met, action: &Action) -> bool {
    first.threshold.resource() != action.reason.threshold.resource()
}

/// Goes on with the step that was put aside, if its shortage is due still and no other comes first.
pub(super) fn resume(question: &Question<'_>, standing: &mut ReliefStanding) {
    let is_due = |aside: &Pending| {
        let threshold = &aside.action.reason.threshold;
        let mut met = question.met.iter();
        met.any(|met| met.threshold == *threshold && met.is_due)
            || !question.is_measured(&threshold.name())
    };
    let aside = standing.aside.take().filter(is_due);
    let waits =
        |aside: &Pending| question.first.is_some_and(|first| is_other(&first, &aside.action));
    if standing.pending.is_some() || aside.as_ref().is_some_and(waits) {
        standing.aside = aside;
    } else {
        standing.pending = aside;
    }
}
