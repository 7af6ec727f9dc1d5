//! One sample in, one decision out, and what is remembered from tick to tick.
//! The same samples, settings and standing give the same decisions, byte for byte.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::decision::{Decision, Ranking};
use crate::model::sample::Sample;
use crate::model::settings::Settings;
use crate::model::snapshot::{Averages, Snapshot};
use crate::model::unsampled::unsampled;
use crate::policy::assess::{AssessStanding, Assessment, assess};
use crate::policy::decide::{Question, ReliefStanding, Verdict, decide};
use crate::policy::rank::harm::HarmStanding;
use crate::policy::rank::workload::Workloads;
use crate::policy::rank::{Field, HEAD, Purpose, contenders};

/// What the policy remembers. Stored at the head of a recording, so that a replay can start in
/// mid-life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Standing {
    /// The sample before, which the next is compared with.
    pub before: Option<Sample>,
    /// Averages of the measured unions.
    pub averages: Averages,
    /// Who has made others wait lately.
    pub harm: HarmStanding,
    /// What has been short, and since when.
    pub assess: AssessStanding,
    /// What is being done about it.
    pub relief: ReliefStanding,
}

impl Standing {
    /// Nothing remembered yet of a node with this many CPUs.
    #[must_use]
    pub fn new(n_cpus: u32) -> Self {
        Self { averages: Averages::new(n_cpus), ..Self::default() }
    }
}

/// The judge.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    settings: Settings,
    standing: Standing,
}

/// What one tick came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// What happened.
    pub snapshot: Snapshot,
    /// What was made of it.
    pub decision: Decision,
}

impl Engine {
    /// A judge who takes up where another left off.
    #[must_use]
    pub fn new(settings: Settings, standing: Standing) -> Self {
        Self { settings, standing }
    }

    /// What it goes by.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Judges one sample. Cannot fail.
    pub fn step(&mut self, sample: Sample) -> Step {
        let standing = &mut self.standing;
        let snapshot = Snapshot::between(standing.before.as_ref(), &sample, &mut standing.averages);
        let workloads = Workloads::of(&self.settings.workloads, &snapshot);
        standing.harm.update(standing.before.as_ref(), &sample, &snapshot, &workloads);
        let assessment = assess(&self.settings, &sample, &snapshot, &mut standing.assess);
        let contenders = assessment.first.as_ref().map(|first| {
            let purpose = Purpose::of(&first.threshold);
            let kind = (purpose, self.settings.ranking.order);
            let harm = &standing.harm;
            (purpose, contenders::of_node(&sample, &snapshot, harm, kind, &self.settings))
        });
        let field = contenders.as_ref().map(|(purpose, all)| {
            let rules = &self.settings.ranking;
            (Field::new(all, *purpose, rules.order, rules), purpose, all)
        });
        let ranking = field.as_ref().map(|(field, purpose, all)| {
            let outsiders = contenders::outsiders(&standing.harm, **purpose, all);
            Ranking { outsiders, ..field.ranking(HEAD) }
        });
        let question = Question {
            relief: &self.settings.relief,
            eviction: &self.settings.eviction,
            sample: &sample,
            unseen: unsampled(snapshot.interval),
            met: &assessment.met,
            unmeasured: &assessment.unmeasured,
            first: assessment.first,
            is_stale: assessment.is_stale,
            ranking: ranking.as_ref(),
            field: field.as_ref().map(|(field, ..)| field),
            is_harm_paused: contenders
                .as_ref()
                .is_some_and(|(purpose, _)| standing.harm.is_paused(purpose.need())),
            observations: &assessment.observations,
        };
        let verdict = decide(&question, &mut standing.relief);
        let decision =
            written_down(&sample, self.settings.generation, assessment, ranking, verdict);
        standing.before = Some(sample);
        Step { snapshot, decision }
    }

    /// What it remembers now.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Goes on with the relief that another one had under way.
    pub fn resume(&mut self, relief: ReliefStanding) {
        self.standing.relief = relief;
    }

    /// Learns which squeezes are in force, from who knows.
    pub fn learn_squeezed(&mut self, in_force: &BTreeSet<u64>) {
        self.standing.relief.learn_squeezed(in_force);
    }

    /// Goes by other settings from the next sample on, and forgets nothing.
    pub fn reload(&mut self, settings: Settings) {
        self.settings = settings;
    }
}

/// The decision with everything that it rests on.
fn written_down(
    sample: &Sample,
    generation: u64,
    assessment: Assessment,
    ranking: Option<Ranking>,
    verdict: Verdict,
) -> Decision {
    let mut events = assessment.events;
    events.extend(verdict.events);
    Decision {
        tick: sample.tick,
        at: sample.at,
        generation,
        conditions: assessment.conditions,
        taints: assessment.taints,
        node_pressure: assessment.node_pressure,
        refused: assessment.refused,
        observations: assessment.observations,
        unobserved: assessment.unobserved,
        outlooks: assessment.outlooks,
        met: assessment.met,
        events,
        ranking,
        actions: verdict.action.into_iter().collect(),
        held: verdict.held,
        releases: verdict.releases,
        effects: verdict.effects,
    }
}

#[cfg(test)]
mod tests;
