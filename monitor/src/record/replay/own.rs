//! Which steps in force the other settings have taken, too: of what the recorded agent took alone, they
//! know nothing. What was in force before they judged is the node's, and stays. A mark or a squeeze that
//! they alone took counts as in force, as one does that is only observed.

use std::collections::BTreeMap;

use isobar_core::model::decision::{Action, Decision, InForce, Phase, Relief, StepKind};
use isobar_core::model::sample::Sample;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Engine;
use isobar_core::room;

/// For each step that both took, the number of the recorded one and that of the other settings. One may
/// have taken it sooner than the other.
pub(super) struct Own {
    /// Steps up to this number were taken before.
    known_to: u64,
    /// No tick was judged yet: all that is in force then is of before.
    is_new: bool,
    /// By the number of the recorded step, that of the other settings.
    both: BTreeMap<u64, Action>,
    /// Marks and squeezes of the other settings alone, by their numbers.
    alone: BTreeMap<u64, InForce>,
    /// The last step of each kind on each target that one of them alone has taken so far: the recorded agent,
    /// and the other settings.
    last: BTreeMap<(StepKind, String), [Option<Action>; 2]>,
}

/// How a recorded decision has steps.
const SOME_STEP: &str = r#""actions":[{"#;

impl Own {
    /// For other settings that judge from the next tick on, with this engine.
    pub(super) fn of(engine: &Engine) -> Self {
        let known_to = engine.standing().relief.last_id();
        let (both, alone, last) = Default::default();
        Self { known_to, is_new: true, both, alone, last }
    }

    /// Leaves of the steps in force, and of their outcomes, those that the other settings know, by their
    /// own numbers, and adds those that they took alone.
    pub(super) fn put_in(&mut self, sample: &mut Sample) {
        let Self { known_to, is_new, both, alone, .. } = self;
        let is_new = std::mem::take(is_new);
        let in_force = sample.in_force.iter().filter(|_| is_new);
        *known_to = in_force.map(|entry| entry.action.id).fold(*known_to, u64::max);
        sample.in_force.retain_mut(|entry| {
            let own = both.get(&entry.action.id);
            own.into_iter().for_each(|own| entry.action = own.clone());
            own.is_some() || entry.action.id <= *known_to
        });
        sample.outcomes.retain_mut(|outcome| {
            let own = both.get(&outcome.action);
            own.into_iter().for_each(|own| outcome.action = own.id);
            own.is_some() || outcome.action <= *known_to
        });
        let is_there = |entry: &InForce| {
            let mut cgroups = entry.action.target.cgroups();
            cgroups.any(|(id, _)| sample.cgroups.contains_key(&id))
        };
        alone.retain(|_, entry| is_there(entry));
        sample.in_force.extend(alone.values().cloned());
        sample.in_force.sort_by_key(|entry| entry.since);
    }

    /// Takes note of the steps that were recorded at the tick at which the other settings came to `own`.
    pub(super) fn note(&mut self, recorded: &str, own: &Relief, now: Nanos) {
        // One that this version cannot read has nothing to compare.
        let recorded = recorded.contains(SOME_STEP).then(|| room::from_slice(recorded.as_bytes()));
        let recorded: Option<Decision> = recorded.and_then(Result::ok);
        let recorded = recorded.into_iter().flat_map(|decision| decision.relief.actions);
        own.releases.iter().for_each(|release| _ = self.alone.remove(&release.action));
        for action in &own.actions {
            let phase = match action.step {
                StepKind::Mark => Phase::Marked,
                StepKind::Squeeze => Phase::Squeezed,
                _ => continue,
            };
            let (action, since, held, largest) = (action.clone(), now, None, None);
            self.alone.insert(action.id, InForce { action, since, held, phase, largest });
        }
        let own = own.actions.iter().map(|action| (1, action.clone()));
        for (by, action) in recorded.map(|action| (0, action)).chain(own) {
            let last = self.last.entry((action.step, action.target.uid.clone())).or_default();
            last[by] = Some(action);
            if let [Some(recorded), Some(own)] = last {
                self.alone.remove(&own.id);
                self.both.insert(recorded.id, own.clone());
                *last = [None, None];
            }
        }
    }
}
