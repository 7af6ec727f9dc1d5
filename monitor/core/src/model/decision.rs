//! What one tick came to: the conditions, who would go first, and what is to be done, each with
//! the numbers that it rests on.

mod action;
mod aftermath;
mod assessment;
#[cfg(any(test, feature = "made"))]
pub mod made;
mod ranking;

use serde::{Deserialize, Serialize};

use super::threshold::{PressureSignal, PressureThreshold, Resource, Signal, Threshold};
use super::units::{Moment, Nanos};

pub(crate) use action::full_name;
pub use action::{
    Action, Hold, InForce, Phase, Release, ReleaseReason, StepKind, StepReason, Target, TargetGroup,
};
pub use aftermath::{Eased, Effect, Outcome, OutcomeResult, Restart, RestartFate};
pub use assessment::{Assessment, Outlook, Overrun, OverrunOf, Taint, Unobserved};
pub use ranking::{
    Candidate, Key, KeyValue, Loss, MeritKey, Order, Outsider, Ranking, Spared, SparedReason, Taker,
};

/// Everything that the policy made of one sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Decision {
    /// The sample's tick.
    pub tick: u64,
    pub at: Moment,
    /// The generation of the settings that it was judged by.
    pub generation: u64,
    pub assessment: Assessment,
    /// The head of the ranking; `None` if no threshold is due.
    pub ranking: Option<Ranking>,
    pub relief: Relief,
}

impl Decision {
    /// What changed: of the assessment first, then of relief.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.assessment.events.iter().chain(&self.relief.events)
    }

    /// What was lost of memory, and who took it. `None` while relief waits for what it has done and
    /// most belongs to no cgroup: what a victim had is no longer its own, and is not free yet.
    pub fn loss(&self) -> Option<&Loss> {
        let waits = matches!(
            self.relief.held,
            Some(Hold::Settling { .. } | Hold::CoolingDown { .. } | Hold::KernelKilled { .. })
        );
        let loss = self.ranking.as_ref()?.loss.as_ref()?;
        (!waits || loss.unattributed.0 <= loss.lost.0 / 2).then_some(loss)
    }
}

/// What is done about a shortage, and what came of what was done before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Relief {
    /// The steps to take; at most one victim.
    pub actions: Vec<Action>,
    /// Why there is no action although a threshold is met.
    pub held: Option<Hold>,
    /// Squeezes to take back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<Release>,
    /// What earlier actions have come to by now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    pub events: Vec<Event>,
}

/// The kubelet's own conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum NodePressure {
    /// Memory is short.
    MemoryPressure,
    /// Disk space or inodes are short.
    DiskPressure,
    /// Pids are short.
    #[serde(rename = "PIDPressure")]
    PidPressure,
}

named!(NodePressure {
    MemoryPressure => "MemoryPressure",
    DiskPressure => "DiskPressure",
    PidPressure => "PIDPressure",
});

/// What one signal said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    pub signal: Signal,
    /// How much is left.
    pub available: u64,
    /// Of how much.
    pub capacity: u64,
    /// When it was read.
    pub at: Nanos,
}

/// A threshold that is met, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Met {
    pub threshold: Trigger,
    /// Since when without a break.
    pub since: Nanos,
    /// It has been met for its grace period.
    pub is_due: bool,
    /// What was measured, in the threshold's own unit: what is left, hundredths of a percent,
    /// nanoseconds, or a rate.
    pub measured: u64,
    /// How much more must be left before it is no longer met; `None` where it is no amount.
    pub missing: Option<u64>,
}

impl Met {
    /// Whether it is a hard threshold of the kubelet.
    pub fn is_hard(&self) -> bool {
        matches!(self.threshold, Trigger::Eviction(threshold) if threshold.is_hard())
    }

    /// Whether memory will be gone soon, or is below a hard threshold: there is no time to be told no.
    pub fn presses_for_memory(&self) -> bool {
        let is_memory = self.threshold.resource() == Resource::Memory;
        is_memory && (self.is_hard() || self.threshold.is_forecast())
    }

    /// When its grace period was over, or will be.
    pub fn due_since(&self) -> Nanos {
        self.since.plus(self.threshold.grace())
    }
}

/// What can start relief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Trigger {
    /// Something runs out, as the kubelet sees it.
    Eviction(Threshold),
    /// Work waits too long, or soon will.
    Pressure(PressureThreshold),
}

/// Something that changed, for people and for the API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// In one word, as an Event's `reason`.
    pub reason: String,
    /// In a sentence with the numbers, as an Event's `message`.
    pub message: String,
    /// It wants attention.
    pub is_warning: bool,
}

impl Trigger {
    /// What is short.
    pub fn resource(&self) -> Resource {
        match self {
            Self::Eviction(threshold) => threshold.signal.resource(),
            Self::Pressure(threshold) => threshold.on.resource(),
        }
    }

    /// How long it must be met until it is due.
    pub fn grace(&self) -> Nanos {
        match self {
            Self::Eviction(threshold) => threshold.grace,
            Self::Pressure(threshold) => threshold.grace,
        }
    }

    /// True if it looks at an average, which goes on telling for a while of what is over.
    pub fn is_average(&self) -> bool {
        matches!(self, Self::Pressure(_)) && !self.is_forecast()
    }

    /// True if it tells how long memory lasts.
    pub fn is_forecast(&self) -> bool {
        matches!(self, Self::Pressure(one) if matches!(one.on, PressureSignal::Exhaustion(_)))
    }

    /// Its name: the kubelet's signal, or ours as `kubepods.memory.pressure`.
    pub fn name(&self) -> String {
        match self {
            Self::Eviction(threshold) => threshold.signal.name().into(),
            Self::Pressure(threshold) => threshold.name(),
        }
    }
}
