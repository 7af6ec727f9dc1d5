//! What an action has come to one, five and thirty seconds later, whatever was decided since.

use serde::{Deserialize, Serialize};

use super::Question;
use super::pending::{harm, held, is_gone, sum};
use crate::model::decision::{Action, Eased, Effect, InForce, Target};
use crate::model::sample::Sample;
use crate::model::threshold::Resource;
use crate::model::units::{Bytes, Nanos};
use crate::policy::rank::REAL_PART;

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
    /// The most shared memory that was seen of it: files on a tmpfs may outlive it.
    #[serde(default, skip_serializing_if = "is_zero")]
    shared: Bytes,
    /// Of a squeeze for a CPU or a disk: which of them, and how long others waited because of the target
    /// when it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    harm: Option<(Resource, Nanos)>,
    /// Looks that were taken.
    n_looks: usize,
}

impl Effects {
    /// Looks after an action from now on, if it is really done.
    pub(super) fn note(&mut self, action: &Action, question: &Question<'_>) {
        if action.is_enforced {
            let (target, sample) = (action.target.clone(), question.sample);
            let resource = action.reason.threshold.resource();
            let harm = harm(action, question).map(|harm| (resource, harm));
            let held = held(&target, sample);
            let (against, since) = (action.reason.threshold.name(), sample.at.boot);
            let (action, shared, n_looks) = (action.id, shared(&target, sample), 0);
            self.follow(Watch { action, target, against, since, held, shared, harm, n_looks });
        }
    }

    /// Goes on looking after an action of the agent before; it has taken the looks that were due.
    pub(super) fn adopt(&mut self, entry: &InForce, now: Nanos) {
        let InForce { action, since, held, .. } = entry;
        let n_looks = n_due(now.since(*since));
        if n_looks < AFTER.len() {
            let (target, against) = (action.target.clone(), action.reason.threshold.name());
            let (action, since, held, harm) = (action.id, *since, *held, None);
            let shared = Bytes(0);
            self.follow(Watch { action, target, against, since, held, shared, harm, n_looks });
        }
    }

    fn follow(&mut self, watch: Watch) {
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push(watch);
    }

    /// What is seen of those whose moment has come. A moment that no tick fell into is not made
    /// up for: one look stands for all that were due.
    pub(super) fn look(&mut self, question: &Question<'_>) -> Vec<Effect> {
        let now = question.sample.at.boot;
        let mut effects = Vec::new();
        self.0.retain_mut(|watch| {
            if !is_gone(&watch.target, question.sample) {
                watch.shared = watch.shared.max(shared(&watch.target, question.sample));
            }
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

fn shared(target: &Target, sample: &Sample) -> Bytes {
    let all = sum(target, sample, |group| group.memory.stat.map(|stat| stat.shmem.0));
    Bytes(all.unwrap_or_default())
}

fn is_zero(bytes: &Bytes) -> bool {
    bytes.0 == 0
}

impl Watch {
    fn seen(&self, question: &Question<'_>, after: Nanos) -> Effect {
        let (target, sample) = (&self.target, question.sample);
        let is_known = self.held.is_none_or(|held| self.shared.0 <= held.0 / REAL_PART);
        let (holds, left) = match is_gone(target, sample) {
            true => (is_known.then_some(Bytes(0)), Some(0)),
            false => (held(target, sample), sum(target, sample, |group| group.pids_current)),
        };
        let freed = self.held.zip(holds).map(|(before, now)| Bytes(before.0.saturating_sub(now.0)));
        let its = question.met.iter().find(|met| met.threshold.name() == self.against);
        let measured = its.map(|met| met.measured);
        let harm = self.harm.and_then(|(resource, before)| {
            Some(Eased { before, now: question.harm.in_reach(resource, target)? })
        });
        // A squeeze for a CPU or a disk takes nothing from its target that could come back.
        let (freed, left) = if self.harm.is_some() { (None, None) } else { (freed, left) };
        Effect { action: self.action, after, freed, left, harm, measured }
    }
}
