//! Node conditions: which there are, what they rest on, and what one tick made of each.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::units::Moment;
use super::units::Percent;

/// Whose waiting a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScopeName {
    /// The whole node.
    System,
    /// Its pods.
    Kubepods,
}

/// What work waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    /// A processor.
    Cpu,
    /// Memory.
    Memory,
    /// A disk: PSI's `io`.
    Disk,
}

/// What a condition is judged on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Measure {
    /// Waits for a CPU that no quota explains; CPU alone.
    Contention,
    /// Memory stalls for which the node or its allocatable is to blame; memory alone.
    Shortage,
    /// PSI, line `some`.
    RawSome,
    /// PSI, line `full`.
    RawFull,
}

/// Which condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionName {
    /// Whose waiting.
    pub scope: ScopeName,
    /// For what.
    pub resource: Resource,
}

impl ConditionName {
    /// All six, in fixed order.
    pub const ALL: [Self; 6] = [
        Self { scope: ScopeName::System, resource: Resource::Cpu },
        Self { scope: ScopeName::System, resource: Resource::Memory },
        Self { scope: ScopeName::System, resource: Resource::Disk },
        Self { scope: ScopeName::Kubepods, resource: Resource::Cpu },
        Self { scope: ScopeName::Kubepods, resource: Resource::Memory },
        Self { scope: ScopeName::Kubepods, resource: Resource::Disk },
    ];

    /// As KEP-4205 names it, without a prefix.
    #[must_use]
    pub fn name(self) -> &'static str {
        match (self.scope, self.resource) {
            (ScopeName::System, Resource::Cpu) => "SystemCPUContentionPressure",
            (ScopeName::System, Resource::Memory) => "SystemMemoryContentionPressure",
            (ScopeName::System, Resource::Disk) => "SystemDiskContentionPressure",
            (ScopeName::Kubepods, Resource::Cpu) => "KubepodsCPUContentionPressure",
            (ScopeName::Kubepods, Resource::Memory) => "KubepodsMemoryContentionPressure",
            (ScopeName::Kubepods, Resource::Disk) => "KubepodsDiskContentionPressure",
        }
    }
}

impl fmt::Display for ConditionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A condition's status, in the API's words.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Status {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be judged.
    #[default]
    Unknown,
}

/// What one tick made of a condition.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// The minute is below the threshold.
    Calm,
    /// The minute is at the threshold and the condition does not hold: the ten seconds are not, or
    /// not yet for long enough.
    High,
    /// Both are at the threshold.
    Contended,
    /// The condition holds and the ten seconds have fallen below the threshold, or the minute has,
    /// not yet for long enough.
    Easing,
    /// The condition held, and the minute has fallen below the threshold.
    Cleared,
    /// Not measured.
    #[default]
    Unknown,
}

/// One condition at one tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which.
    #[serde(flatten)]
    pub name: ConditionName,
    /// The type as it is published, prefix included.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// What this tick made of it.
    pub phase: Phase,
    /// What it was judged on.
    pub measure: Measure,
    /// At or above which.
    pub threshold: Percent,
    /// Over ten seconds; `None` if not measured.
    pub avg10: Option<Percent>,
    /// Over a minute.
    pub avg60: Option<Percent>,
    /// Since when it has had its status.
    pub since: Moment,
    /// When it was last judged on a measurement.
    pub judged: Option<Moment>,
    /// Why it was not measured at this tick; `None` if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
