//! Keeps what isobar did in a span, what came of it, and why it held back.

use super::{Account, KEPT, is_met};
use crate::record::incident::Deed;
use isobar_core::model::decision::{Decision, Hold};
use isobar_core::model::sample::{Moment, Sample};
use isobar_core::model::threshold::Resource;
use isobar_core::policy::explain::relief;

/// What isobar did last for want of memory, or why it held back since.
#[derive(Debug)]
pub(super) enum Stance {
    Acted {
        text: String,
        is_enforced: bool,
    },
    /// With the moment at which it was said.
    Held(Hold, Moment),
}

/// Whether it tells no more than that a step has been taken.
fn is_of_step(hold: &Hold) -> bool {
    use Hold::{CoolingDown, Marked, Observed, Settling, StaleReadings};
    matches!(hold, Settling { .. } | CoolingDown { .. } | Observed { .. } | Marked | StaleReadings)
}

impl Account {
    pub(super) fn deeds(&mut self, sample: &Sample, decision: &Decision) {
        let (at, done) = (decision.at, &decision.relief);
        for outcome in &sample.outcomes {
            let is_it = |deed: &&Deed| deed.is_step && deed.action == outcome.action;
            let is_enforced = self.deeds.iter().rfind(is_it).is_none_or(|step| step.is_enforced);
            self.did(at, is_enforced, outcome.action, relief::outcome(outcome));
        }
        if !is_met(decision, Resource::Memory) {
            self.stance = None;
        }
        if let Some(hold) = &done.held {
            self.holds(hold, decision);
        }
        for action in &done.actions {
            let text = relief::action(action, at.boot);
            if action.reason.threshold.resource() == Resource::Memory {
                let (text, is_enforced) = (text.clone(), action.is_enforced);
                self.stance = Some(Stance::Acted { text, is_enforced });
            }
            let (is_enforced, action) = (action.is_enforced, action.id);
            self.keep(Deed { at, is_enforced, action, is_step: true, text });
        }
        for effect in &done.effects {
            self.did(at, true, effect.action, relief::effect(effect));
        }
        for release in &done.releases {
            if !self.released.contains(&release.action) && self.released.len() < KEPT {
                self.released.push(release.action);
                self.did(at, release.is_enforced, release.action, relief::release(release));
            }
        }
        // The first reason only: the log has each of them.
        if let Some(hold) = &done.held
            && self.has_begun
            && !std::mem::replace(&mut self.has_told_hold, true)
        {
            self.did(at, true, 0, relief::no_action(hold, at.boot));
        }
    }

    /// Takes note of why it holds back, where memory is what it holds back about.
    fn holds(&mut self, hold: &Hold, decision: &Decision) {
        let first = decision.assessment.first.as_ref();
        // Where none is due, memory may be foretold to run out.
        let is_of_memory = first.map_or_else(
            || is_met(decision, Resource::Memory),
            |first| first.threshold.resource() == Resource::Memory,
        );
        let has_acted = matches!(self.stance, Some(Stance::Acted { .. }));
        if is_of_memory && !(has_acted && is_of_step(hold)) {
            self.stance = Some(Stance::Held(hold.clone(), decision.at));
        }
    }

    pub(super) fn did(&mut self, at: Moment, is_enforced: bool, action: u64, text: String) {
        self.keep(Deed { at, is_enforced, action, is_step: false, text });
    }

    /// A step has a place before all that is said of others. What was done before the incident belongs to
    /// an earlier one.
    pub(super) fn keep(&mut self, deed: Deed) {
        if !self.has_begun {
            return;
        }
        if self.deeds.len() >= KEPT {
            match self.deeds.iter().rposition(|one| !one.is_step).filter(|_| deed.is_step) {
                Some(place) => drop(self.deeds.remove(place)),
                None => return,
            }
        }
        self.deeds.push(deed);
    }
}
