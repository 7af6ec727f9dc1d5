//! Squeezes in force, and when each is to be taken back: nobody is held back for longer than it
//! serves.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Question;
use super::effect::{is_gone, is_unread};
use super::ladder::Kind;
use crate::model::decision::{Action, Release, ReleaseReason, StepKind, Target};
use crate::model::units::Nanos;

/// No squeeze lasts longer. Whoever is still short after ten minutes is not helped by it, and a
/// pod that is held back for ever is as good as ended, with nobody told: its controller makes no
/// other one.
const LONGEST: Nanos = Nanos(600 * Nanos::SECOND.0);

/// Everybody who is held back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Squeezes(Vec<Squeeze>);

/// One squeeze in force, or observed as if it were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Squeeze {
    action: u64,
    target: Target,
    /// The threshold that it is for, by name: another figure for the same is the same shortage.
    against: String,
    kind: Kind,
    since: Nanos,
    /// Since when that threshold has not been met.
    calm_since: Option<Nanos>,
    is_enforced: bool,
    /// Its deadline has passed without an effect, or it could not be taken.
    is_useless: bool,
}

impl Squeezes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Remembers a squeeze, and nothing else.
    pub(super) fn note(&mut self, action: &Action, now: Nanos) {
        if action.step != StepKind::Squeeze {
            return;
        }
        self.0.push(Squeeze {
            action: action.id,
            target: action.target.clone(),
            against: action.reason.threshold.name(),
            kind: Kind::of(&action.reason.threshold, action.reason.measured),
            since: now,
            calm_since: None,
            is_enforced: action.is_enforced,
            is_useless: false,
        });
    }

    /// The actions of those that are really in force.
    pub(super) fn actions(&self) -> BTreeSet<u64> {
        self.0.iter().filter(|squeeze| squeeze.is_enforced).map(|squeeze| squeeze.action).collect()
    }

    /// Forgets those that were taken back without it. Returns of each that may have helped against
    /// what it was, and the uid.
    pub(super) fn keep(&mut self, in_force: &BTreeSet<u64>) -> Vec<(String, String)> {
        let is_undone =
            |squeeze: &mut Squeeze| squeeze.is_enforced && !in_force.contains(&squeeze.action);
        let undone = self.0.extract_if(.., is_undone).filter(|squeeze| !squeeze.is_useless);
        undone.map(|squeeze| (squeeze.against, squeeze.target.uid)).collect()
    }

    /// This action did not help.
    pub(super) fn give_up(&mut self, action: u64) {
        let its = self.0.iter_mut().filter(|squeeze| squeeze.action == action);
        its.for_each(|squeeze| squeeze.is_useless = true);
    }

    /// True if `target` is held back already for want of the same thing.
    pub(super) fn hold(&self, target: &Target, kind: Kind) -> bool {
        let is_same = |of: Kind| of == kind || (of.is_memory() && kind.is_memory());
        let mut held = self.0.iter().filter(|squeeze| is_same(squeeze.kind));
        held.any(|squeeze| uids(&squeeze.target).any(|uid| uids(target).any(|its| its == uid)))
    }

    /// Takes those out that have had their time. One whose cgroups are gone is only forgotten.
    pub(super) fn due(&mut self, question: &Question<'_>) -> Vec<Release> {
        let (now, cool_down) = (question.sample.at.boot, question.relief.cool_down);
        let mut releases = Vec::new();
        self.0.retain_mut(|squeeze| {
            let sample = question.sample;
            if is_gone(&squeeze.target, sample) && !is_unread(&squeeze.target, sample) {
                return false;
            }
            squeeze.calm_since = if question.is_calm(&squeeze.against) {
                Some(squeeze.calm_since.unwrap_or(now))
            } else {
                None
            };
            let is_over = squeeze.calm_since.is_some_and(|since| now.since(since) >= cool_down);
            let why = match squeeze {
                _ if is_over => ReleaseReason::Over,
                Squeeze { is_useless: true, .. } => ReleaseReason::NoEffect,
                _ if now.since(squeeze.since) >= LONGEST => ReleaseReason::Expired,
                _ => return true,
            };
            let Squeeze { action, ref target, is_enforced, .. } = *squeeze;
            releases.push(Release { action, target: target.clone(), why, is_enforced });
            false
        });
        releases
    }
}

/// Of a group all its pods', else its own.
fn uids(target: &Target) -> impl Iterator<Item = &String> {
    let own = target.members.is_empty().then_some(&target.uid);
    target.members.iter().chain(own)
}
