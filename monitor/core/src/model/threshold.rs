//! Eviction signals and the thresholds that an operator sets on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::condition::ScopeName;
use super::fraction::Fraction;
use super::quantity::Quantity;
use super::units::{Nanos, Percent};

/// What can be short on a node. Their names are the kubelet's words in messages; `cpu` and `io` are
/// isobar's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    /// Memory: working sets, in bytes.
    Memory,
    /// Disk space: ephemeral storage, in bytes.
    Storage,
    Inodes,
    Pids,
    /// CPU time: CPUs.
    Cpu,
    /// Disk time: bytes read and written a second.
    Io,
}

named!(Resource {
    Memory => "memory",
    Storage => "ephemeral-storage",
    Inodes => "inodes",
    Pids => "pids",
    Cpu => "cpu",
    Io => "io",
});

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kubelet's eviction signals, each an amount that must not fall below its threshold.
///
/// Source: kubelet `pkg/kubelet/eviction/api/types.go`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Signal {
    /// `MemTotal` less the working set of the root cgroup.
    #[serde(rename = "memory.available")]
    MemoryAvailable,
    /// The limit of kubepods less its working set.
    #[serde(rename = "allocatableMemory.available")]
    AllocatableMemoryAvailable,
    #[serde(rename = "nodefs.available")]
    NodefsAvailable,
    #[serde(rename = "nodefs.inodesFree")]
    NodefsInodesFree,
    #[serde(rename = "imagefs.available")]
    ImagefsAvailable,
    #[serde(rename = "imagefs.inodesFree")]
    ImagefsInodesFree,
    #[serde(rename = "containerfs.available")]
    ContainerfsAvailable,
    #[serde(rename = "containerfs.inodesFree")]
    ContainerfsInodesFree,
    #[serde(rename = "pid.available")]
    PidAvailable,
}

named!(Signal {
    MemoryAvailable => "memory.available",
    AllocatableMemoryAvailable => "allocatableMemory.available",
    NodefsAvailable => "nodefs.available",
    NodefsInodesFree => "nodefs.inodesFree",
    ImagefsAvailable => "imagefs.available",
    ImagefsInodesFree => "imagefs.inodesFree",
    ContainerfsAvailable => "containerfs.available",
    ContainerfsInodesFree => "containerfs.inodesFree",
    PidAvailable => "pid.available",
});

impl Signal {
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.name() == name)
    }

    /// The kubelet's word for what is short.
    pub fn resource(self) -> Resource {
        match self {
            Self::MemoryAvailable | Self::AllocatableMemoryAvailable => Resource::Memory,
            Self::NodefsAvailable | Self::ImagefsAvailable | Self::ContainerfsAvailable => {
                Resource::Storage
            }
            Self::NodefsInodesFree | Self::ImagefsInodesFree | Self::ContainerfsInodesFree => {
                Resource::Inodes
            }
            Self::PidAvailable => Resource::Pids,
        }
    }

    /// `amount` in the signal's unit: bytes in powers of 1024, others as counts.
    pub fn quantity(self, amount: u64) -> Quantity {
        match self.resource() {
            Resource::Inodes | Resource::Pids => Quantity::count(amount),
            _ => Quantity::bytes(amount),
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Amount {
    /// Bytes or a count.
    Quantity(Quantity),
    /// A share of the capacity.
    Percentage(Fraction),
}

impl Amount {
    /// In units of `capacity`.
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Quantity(quantity) => quantity.to_u64(),
            Self::Percentage(fraction) => fraction.of(capacity),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(quantity) => quantity.fmt(f),
            Self::Percentage(fraction) => fraction.fmt(f),
        }
    }
}

/// An eviction threshold: met while strictly less is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Threshold {
    pub signal: Signal,
    /// Met below this amount.
    pub value: Amount,
    /// How long the threshold must be met; 0 is a hard threshold.
    pub grace: Nanos,
    /// How much more must be available before the signal counts as relieved.
    pub min_reclaim: Option<Amount>,
}

impl Threshold {
    pub fn is_hard(&self) -> bool {
        self.grace.0 == 0
    }
}

/// One of isobar's own thresholds, on waiting instead of available amounts. Met at or above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PressureThreshold {
    pub scope: ScopeName,
    pub on: PressureSignal,
    pub grace: Nanos,
}

/// The measure of a [`PressureThreshold`], and its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum PressureSignal {
    /// avg10 of CPU contention.
    Cpu(Percent),
    /// avg10 of memory shortage.
    Memory(Percent),
    /// avg10 of raw IO pressure `full`.
    Disk(Percent),
    /// Time until memory runs out at its present growth: met at or below.
    Exhaustion(Nanos),
    /// Refaulted pages per second.
    Refaults(u64),
}

impl PressureSignal {
    /// What is short when it is met.
    pub fn resource(self) -> Resource {
        match self {
            Self::Cpu(_) => Resource::Cpu,
            Self::Disk(_) => Resource::Io,
            Self::Memory(_) | Self::Exhaustion(_) | Self::Refaults(_) => Resource::Memory,
        }
    }

    /// One of each, with a threshold of nothing: for lists of names.
    pub const ALL: [Self; 5] = [
        Self::Cpu(Percent(0)),
        Self::Memory(Percent(0)),
        Self::Disk(Percent(0)),
        Self::Exhaustion(Nanos(0)),
        Self::Refaults(0),
    ];

    /// The name in configurations and messages, such as `kubepods.memory.pressure`.
    pub fn name(self, scope: ScopeName) -> &'static str {
        match (scope, self) {
            (ScopeName::System, Self::Cpu(_)) => "system.cpu.pressure",
            (ScopeName::System, Self::Memory(_)) => "system.memory.pressure",
            (ScopeName::System, Self::Disk(_)) => "system.disk.pressure",
            (ScopeName::System, Self::Exhaustion(_)) => "system.memory.exhaustion",
            (ScopeName::System, Self::Refaults(_)) => "system.memory.refaults",
            (ScopeName::Kubepods, Self::Cpu(_)) => "kubepods.cpu.pressure",
            (ScopeName::Kubepods, Self::Memory(_)) => "kubepods.memory.pressure",
            (ScopeName::Kubepods, Self::Disk(_)) => "kubepods.disk.pressure",
            (ScopeName::Kubepods, Self::Exhaustion(_)) => "kubepods.memory.exhaustion",
            (ScopeName::Kubepods, Self::Refaults(_)) => "kubepods.memory.refaults",
        }
    }
}

impl PressureThreshold {
    pub fn name(&self) -> String {
        self.on.name(self.scope).into()
    }
}
