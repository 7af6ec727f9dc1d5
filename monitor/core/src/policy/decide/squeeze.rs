//! Squeezes in force, and when each is taken back: none lasts longer than it serves.
//! Which are in force stands in the sample, as the actuator's ledger has it.

use super::Question;
use super::pending::{is_gone, is_unread};
use super::standing::ReliefStanding;
use crate::model::decision::{Action, InForce, Phase, Release, ReleaseReason, Target};
use crate::model::sample::Sample;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;

/// No squeeze lasts longer. After ten minutes it has not helped against a shortage that lasts, and
/// a pod that is slowed for ever is as good as ended without anybody being told: its controller
/// starts no other one.
const LONGEST: Nanos = Nanos(600 * Nanos::SECOND.0);

/// The squeezes of the ledger.
pub(super) fn in_force(sample: &Sample) -> impl Iterator<Item = &InForce> {
    sample.in_force.iter().filter(|entry| entry.phase == Phase::Squeezed)
}

/// True if `target` is squeezed already for want of `resource`.
pub(super) fn is_squeezed(sample: &Sample, target: &Target, resource: Resource) -> bool {
    in_force(sample).any(|InForce { action, .. }| {
        let mut uids = action.target.uids();
        action.reason.threshold.resource() == resource
            && uids.any(|uid| target.uids().any(|other| other == uid))
    })
}

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
    in_force(sample).filter_map(due).collect()
}
