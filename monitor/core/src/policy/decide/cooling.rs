//! The rest after a step that helped: until figures show what it gave back, nothing new is begun.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::endings::CLEANED_UP;
use super::is_gentle;
use super::steps::Kind;
use crate::model::decision::{Action, Met};
use crate::model::settings::Relief;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;

/// How long after a victim's memory is back a figure that is no average shows what is left: until
/// the next readings.
const READ_ANEW: Nanos = Nanos(2 * Nanos::SECOND.0);
/// The same in an emergency, in which ticks come faster.
const EMERGENCY_REST: Nanos = Nanos::SECOND;

/// When the last steps that helped did so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Cooling {
    /// Of those that ended work: that may give back anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Nanos>,
    /// Of those that ended none: they give back what they were against alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    eased: BTreeMap<Resource, Nanos>,
}

impl Cooling {
    pub(super) fn begin(&mut self, Action { step, reason, .. }: &Action, at: Nanos) {
        if is_gentle(*step) {
            self.eased.insert(reason.threshold.resource(), at);
        } else {
            self.ended = self.ended.max(Some(at));
        }
    }

    /// Until when nothing new is begun against this.
    pub(super) fn until(&self, relief: &Relief, first: &Met) -> Option<Nanos> {
        let rest = match Kind::of(first) {
            kind if kind.is_emergency() => EMERGENCY_REST.min(relief.cool_down),
            Kind::Storage => CLEANED_UP,
            _ if first.threshold.is_average() => relief.cool_down,
            _ => READ_ANEW.min(relief.cool_down),
        };
        let eased = self.eased.get(&first.threshold.resource()).copied();
        self.ended.max(eased).map(|at| at.plus(rest))
    }
}
