//! Squeezes in force, and when each is taken back: none lasts longer than it serves.
//! Which are in force stands in the sample, as the actuator's ledger has it.

use super::Question;
use super::pending::{is_gone, is_unread};
use super::standing::ReliefStanding;
use crate::model::decision::{Action, InForce, Release, ReleaseReason};
use crate::model::units::Nanos;

/// No squeeze lasts longer. After ten minutes it has not helped against a shortage that lasts, and
/// a pod that is slowed for ever is as good as ended without anybody being told: its controller
/// starts no other one.
const LONGEST: Nanos = Nanos(600 * Nanos::SECOND.0);

/// The squeezes whose time is over. The actuator drops by itself those whose cgroups are gone.
pub(super) fn releases(question: &Question<'_>, standing: &ReliefStanding) -> Vec<Release> {
    let (sample, now) = (question.sample, question.sample.at.boot);
    let due = |InForce { action, since, .. }: &InForce| {
        if is_gone(&action.target, sample) && !is_unread(&action.target, sample) {
            return None;
        }
        let calm = standing.calm_for(&action.reason.threshold.name(), now);
        let why = match () {
            () if calm.is_some_and(|calm| calm >= question.relief.cool_down) => ReleaseReason::Over,
            () if standing.is_given_up(action.id) => ReleaseReason::NoEffect,
            () if now.since(*since) >= LONGEST => ReleaseReason::Expired,
            () => return None,
        };
        let Action { id, is_enforced, .. } = *action;
        Some(Release { action: id, target: action.target.clone(), why, is_enforced })
    };
    sample.squeezes().filter_map(due).collect()
}
