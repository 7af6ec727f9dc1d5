//! How steps of relief went. An outcome names an action by its id and comes seconds later, and an
//! action may have several: each of its results counts once.

use std::collections::{BTreeMap, BTreeSet};

use isobar_core::model::decision::{OutcomeResult, Phase, Relief, StepKind};
use isobar_core::model::sample::Sample;
use isobar_core::model::units::Bytes;

/// Of so many actions the step is remembered.
const REMEMBERED: usize = 64;
/// The step under which what became of a release is counted.
const RELEASE: &str = "release";
/// The result of a step that was done but for its last write.
const OBSERVED: &str = "observed";

/// Every result.
pub(in crate::serve) const RESULTS: [&str; 4] = [OBSERVED, "done", "refused", "failed"];
/// Every step, and what takes one back.
pub(in crate::serve) fn steps_and_release() -> impl Iterator<Item = &'static str> {
    StepKind::NAMES.into_iter().chain([RELEASE])
}

#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct Steps {
    /// By step and result.
    pub(in crate::serve) taken: BTreeMap<(&'static str, &'static str), u64>,
    /// Memory that came back.
    pub(in crate::serve) freed: Bytes,
    /// Processes that ended.
    pub(in crate::serve) ended: u64,
    /// Now in force or under way.
    pub(in crate::serve) in_force: BTreeMap<StepKind, u64>,
    /// By the action's id.
    known: BTreeMap<u64, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    step: &'static str,
    is_enforced: bool,
    counted: BTreeSet<OutcomeResult>,
}

impl Steps {
    /// What came of earlier steps, then what is ordered now.
    pub(super) fn tick(&mut self, sample: &Sample, relief: &Relief) {
        // Those of an agent before this one are known by the ledger alone.
        for entry in &sample.in_force {
            let (id, step) = (entry.action.id, entry.action.step.name());
            self.learn(id, step, entry.action.is_enforced);
        }
        for outcome in &sample.outcomes {
            let Some(known) = self.known.get_mut(&outcome.action) else { continue };
            self.freed = Bytes(self.freed.0.saturating_add(outcome.freed.unwrap_or_default().0));
            self.ended += outcome.ended.unwrap_or_default();
            if known.counted.insert(outcome.result) {
                let result = match outcome.result {
                    OutcomeResult::Done if !known.is_enforced => OBSERVED,
                    result => result.name(),
                };
                *self.taken.entry((known.step, result)).or_default() += 1;
            }
        }
        for action in &relief.actions {
            self.learn(action.id, action.step.name(), action.is_enforced);
        }
        for release in &relief.releases {
            // It is ordered in each tick until it is done.
            if self.known.get(&release.action).is_none_or(|known| known.step != RELEASE) {
                self.known.remove(&release.action);
                self.learn(release.action, RELEASE, release.is_enforced);
            }
        }
        while self.known.len() > REMEMBERED {
            self.known.pop_first();
        }
        self.in_force.clear();
        let is_over = |phase| matches!(phase, Phase::Ended { .. });
        for entry in sample.in_force.iter().filter(|entry| !is_over(entry.phase)) {
            *self.in_force.entry(entry.action.step).or_default() += 1;
        }
    }

    fn learn(&mut self, id: u64, step: &'static str, is_enforced: bool) {
        let counted = BTreeSet::new();
        self.known.entry(id).or_insert(Known { step, is_enforced, counted });
    }
}
