//! What an action has come to one, five and thirty seconds later, whatever was decided since.

use serde::{Deserialize, Serialize};

use super::Question;
use super::pending::{held, is_gone, sum};
use crate::model::decision::{Action, Effect, InForce, Target};
use crate::model::sample::Sample;
use crate::model::units::{Bytes, Nanos};

/// When it is looked at: what a kill gives back at once, what comes back with exiting processes,
/// and what is left when averages over ten seconds have followed.
const AFTER: [Nanos; 3] =
    [Nanos(Nanos::SECOND.0), Nanos(5 * Nanos::SECOND.0), Nanos(30 * Nanos::SECOND.0)];
/// As many are looked at, of more the latest: a node takes a few steps in half a minute, and each
/// that fails at once is not worth a look.
const MOST: usize = 32;

/// Actions whose effect is still to be seen. Those that were only observed have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Effects(Vec<Watch>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Watch {
    action: u64,
    target: Target,
    /// The threshold that it was for, by name.
    against: String,
    since: Nanos,
    /// What the target held then.
    held: Option<Bytes>,
    /// Looks that were taken.
    n_looks: usize,
}

impl Effects {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks after an action from now on, if it is really done.
    pub(super) fn note(&mut self, action: &Action, sample: &Sample) {
        if action.is_enforced {
            self.follow(action, sample.at.boot, held(&action.target, sample), 0);
        }
    }

    /// Goes on looking after an action of the agent before; it has taken the looks that were due.
    pub(super) fn adopt(&mut self, entry: &InForce, now: Nanos) {
        let InForce { action, since, held, .. } = entry;
        let n_looks = n_due(now.since(*since));
        if n_looks < AFTER.len() {
            self.follow(action, *since, *held, n_looks);
        }
    }

    fn follow(&mut self, action: &Action, since: Nanos, held: Option<Bytes>, n_looks: usize) {
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        let (target, against) = (action.target.clone(), action.reason.threshold.name());
        self.0.push(Watch { action: action.id, target, against, since, held, n_looks });
    }

    /// What is seen of those whose moment has come. A moment that no tick fell into is not made
    /// up for: one look stands for all that were due.
    pub(super) fn look(&mut self, question: &Question<'_>) -> Vec<Effect> {
        let now = question.sample.at.boot;
        let mut effects = Vec::new();
        self.0.retain_mut(|watch| {
            let after = now.since(watch.since);
            let n_due = n_due(after);
            if n_due > watch.n_looks {
                watch.n_looks = n_due;
                effects.push(watch.seen(question, after));
            }
            watch.n_looks < AFTER.len()
        });
        effects
    }
}

/// How many looks are due so long after an action.
fn n_due(after: Nanos) -> usize {
    AFTER.iter().filter(|moment| **moment <= after).count()
}

impl Watch {
    fn seen(&self, question: &Question<'_>, after: Nanos) -> Effect {
        let (target, sample) = (&self.target, question.sample);
        let (holds, left) = match is_gone(target, sample) {
            true => (Some(Bytes(0)), Some(0)),
            false => (held(target, sample), sum(target, sample, |group| group.pids_current)),
        };
        let freed = self.held.zip(holds).map(|(before, now)| Bytes(before.0.saturating_sub(now.0)));
        let its = question.met.iter().find(|met| met.threshold.name() == self.against);
        let measured = its.map(|met| met.measured);
        Effect { action: self.action, after, freed, left, measured }
    }
}
