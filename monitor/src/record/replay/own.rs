//! Which steps in force the other settings have taken, too: of what the recorded agent took alone, they
//! know nothing. What was in force before they judged is the node's, and stays.

use std::collections::BTreeMap;

use isobar_core::model::decision::{Action, Decision, StepKind};
use isobar_core::model::sample::Sample;
use isobar_core::policy::engine::Engine;
use isobar_core::room;

/// For each step that both took, the number of the recorded one and that of the other settings. One may
/// have taken it sooner than the other.
pub(super) struct Own {
    /// Steps up to this number were taken before.
    known_to: u64,
    /// No tick was judged yet: all that is in force then is of before.
    is_new: bool,
    numbers: BTreeMap<u64, u64>,
    /// The last step of each kind on each target that one of them alone has taken so far: the recorded agent,
    /// and the other settings.
    last: BTreeMap<(StepKind, String), [Option<u64>; 2]>,
}

/// How a recorded decision has steps.
const SOME_STEP: &str = r#""actions":[{"#;

impl Own {
    /// For other settings that judge from the next tick on, with this engine.
    pub(super) fn of(engine: &Engine) -> Self {
        let known_to = engine.standing().relief.last_id();
        let (numbers, last) = Default::default();
        Self { known_to, is_new: true, numbers, last }
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
        // One that this version cannot read has nothing to compare.
        let recorded = recorded.contains(SOME_STEP).then(|| room::from_slice(recorded.as_bytes()));
        let recorded: Option<Decision> = recorded.and_then(Result::ok);
        let recorded = recorded.iter().flat_map(|decision| &decision.relief.actions);
        for (by, action) in recorded.map(|action| (0, action)).chain(own.iter().map(|own| (1, own)))
        {
            let key = (action.step, action.target.uid.clone());
            let last = self.last.entry(key).or_default();
            last[by] = Some(action.id);
            if let [Some(recorded), Some(own)] = *last {
                self.numbers.insert(recorded, own);
                *last = [None; 2];
            }
        }
    }
}
