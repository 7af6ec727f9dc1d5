//! One sample in, one decision out, and what is remembered from tick to tick.
//! The same samples, settings and standing give the same decisions, byte for byte.

use serde::{Deserialize, Serialize};

use crate::model::decision::Decision;
use crate::model::sample::Sample;
use crate::model::settings::Settings;
use crate::model::snapshot::{Averages, Snapshot};
use crate::policy::assess::AssessStanding;

/// What the policy remembers. Stored at the head of a recording, so that a replay can start in
/// mid-life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Standing {
    /// The sample before, which the next is compared with.
    pub before: Option<Sample>,
    /// Averages of the measured unions.
    pub averages: Averages,
    /// What the assessment remembers.
    pub assess: AssessStanding,
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
        let decision = Decision {
            tick: sample.tick,
            at: sample.at,
            generation: self.settings.generation,
            ..Decision::default()
        };
        standing.before = Some(sample);
        Step { snapshot, decision }
    }

    /// What it remembers now.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Goes by other settings from the next sample on, and forgets nothing.
    pub fn reload(&mut self, settings: Settings) {
        self.settings = settings;
    }
}
