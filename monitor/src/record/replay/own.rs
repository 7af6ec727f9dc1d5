//! Which steps in force the other settings have taken, too: of what the recorded agent took alone, they
//! know nothing. What was in force before they judged is the node's, and stays.

use std::collections::BTreeMap;

use isobar_core::model::decision::{Action, Decision};
use isobar_core::model::sample::Sample;
use isobar_core::policy::engine::Engine;
use isobar_core::room;

/// For each step that both took, the number of the recorded one and that of the other settings.
pub(super) struct Own {
    /// Steps up to this number were taken before.
    known_to: u64,
    /// No tick was judged yet: all that is in force then is of before.
    is_new: bool,
    numbers: BTreeMap<u64, u64>,
}

impl Own {
    /// For other settings that judge from the next tick on, with this engine.
    pub(super) fn of(engine: &Engine) -> Self {
        let known_to = engine.standing().relief.last_id();
        Self { known_to, is_new: true, numbers: BTreeMap::new() }
    }

    /// Leaves of the steps in force, and of their outcomes, those that the other settings know, by their
    /// own numbers.
    pub(super) fn put_in(&mut self, sample: &mut Sample) {
        let is_new = std::mem::take(&mut self.is_new);
        let in_force = sample.in_force.iter().filter(|_| is_new);
        self.known_to = in_force.map(|entry| entry.action.id).fold(self.known_to, u64::max);
        let own = |id: &mut u64| match (*id <= self.known_to, self.numbers.get(id)) {
            (true, _) => true,
            (false, Some(own)) => {
                *id = *own;
                true
            }
            (false, None) => false,
        };
        sample.in_force.retain_mut(|entry| own(&mut entry.action.id));
        sample.outcomes.retain_mut(|outcome| own(&mut outcome.action));
    }

    /// Takes note of the steps that were recorded at the tick at which `own` ones were taken.
    pub(super) fn note(&mut self, recorded: &str, own: &[Action]) {
        if own.is_empty() {
            return;
        }
        // One that this version cannot read has nothing to compare.
        let Ok(recorded) = room::from_slice::<Decision>(recorded.as_bytes()) else { return };
        for action in recorded.relief.actions {
            let key = |action: &Action| (action.step, action.target.uid.clone());
            let same = own.iter().find(|own| key(own) == key(&action));
            self.numbers.extend(same.map(|own| (action.id, own.id)));
        }
    }
}
