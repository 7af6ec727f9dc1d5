//! KEP-4205's node conditions and what one tick found for each.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::units::{Moment, Nanos, Percent};

/// Whose waiting a condition measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ScopeName {
    /// The whole node: the root cgroup.
    System,
    Kubepods,
}

named!(ScopeName {
    System => "system",
    Kubepods => "kubepods",
});

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "NodeResource"))]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    Cpu,
    Memory,
    /// PSI's `io`.
    Disk,
}

/// The figure that a condition compares with its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Measure {
    /// CPU only: run-queue wait that no quota explains.
    Contention,
    /// Memory only: stalls caused by the node or the allocatable limit.
    Shortage,
    /// PSI `some`.
    RawSome,
    /// PSI `full`.
    RawFull,
}

impl Measure {
    /// The figure's name in messages.
    pub fn figure(self, resource: Resource) -> &'static str {
        match (resource, self) {
            (_, Self::Contention) => "contention",
            (_, Self::Shortage) => "shortage",
            (Resource::Cpu, Self::RawSome) => "PSI cpu some",
            (Resource::Cpu, Self::RawFull) => "PSI cpu full",
            (Resource::Memory, Self::RawSome) => "PSI memory some",
            (Resource::Memory, Self::RawFull) => "PSI memory full",
            (Resource::Disk, Self::RawSome) => "PSI io some",
            (Resource::Disk, Self::RawFull) => "PSI io full",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConditionName {
    pub scope: ScopeName,
    pub resource: Resource,
}

impl ConditionName {
    /// In fixed order.
    pub const ALL: [Self; 6] = [
        Self { scope: ScopeName::System, resource: Resource::Cpu },
        Self { scope: ScopeName::System, resource: Resource::Memory },
        Self { scope: ScopeName::System, resource: Resource::Disk },
        Self { scope: ScopeName::Kubepods, resource: Resource::Cpu },
        Self { scope: ScopeName::Kubepods, resource: Resource::Memory },
        Self { scope: ScopeName::Kubepods, resource: Resource::Disk },
    ];

    /// KEP-4205's name, without a prefix.
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

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ConditionStatus"))]
pub enum Status {
    True,
    False,
    /// Not measured lately.
    #[default]
    Unknown,
}

named!(Status {
    True => "True",
    False => "False",
    Unknown => "Unknown",
});

/// What one tick found for a condition.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// avg60 is below the threshold.
    Calm,
    /// avg60 is at or above the threshold, but avg10 is not, or not yet for long enough.
    High,
    /// avg10 and avg60 are at or above the threshold.
    Contended,
    /// The condition holds, but avg10 is below the threshold, or avg60 is, not yet for long enough.
    Easing,
    /// The condition held, and avg60 fell below the threshold.
    Cleared,
    /// Not measured, or not long enough to decide.
    #[default]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(flatten)]
    pub name: ConditionName,
    /// The published type, prefix included.
    #[serde(rename = "type")]
    pub kind: String,
    pub status: Status,
    /// What this tick found.
    pub phase: Phase,
    /// The figure that was compared.
    pub measure: Measure,
    /// At or above it the figure is high.
    pub threshold: Percent,
    /// Both averages are `None` if not measured.
    pub avg10: Option<Percent>,
    pub avg60: Option<Percent>,
    /// How much time the averages have seen; `None` once it is five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Nanos>,
    /// When `status` last changed.
    pub since: Moment,
    /// When the condition was last measured.
    pub judged: Option<Moment>,
    /// Why this tick's measurement does not decide, or is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[cfg(test)]
impl Condition {
    /// A condition of this status, of which no average is known.
    pub(crate) fn unmeasured(name: ConditionName, status: Status) -> Self {
        Self {
            name,
            kind: name.name().into(),
            status,
            phase: Phase::Unknown,
            measure: Measure::RawSome,
            threshold: Percent(60_00),
            avg10: None,
            avg60: None,
            seen: None,
            since: Moment::default(),
            judged: None,
            why: None,
        }
    }
}
