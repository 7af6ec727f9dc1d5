//! What starts an eviction: signals, and the thresholds that an operator set on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::condition::ScopeName;
use super::fraction::Fraction;
use super::quantity::Quantity;
use super::units::{Nanos, Percent};

/// What can be short on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Memory: working sets, in bytes.
    Memory,
    /// Disk space: ephemeral storage, in bytes.
    Storage,
    /// Inodes.
    Inodes,
    /// Process ids.
    Pids,
    /// CPU time: CPUs.
    Cpu,
    /// Disk time: bytes read and written a second.
    Io,
}

impl Resource {
    /// The kubelet's word in messages; `cpu` and `io` are isobar's own.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Storage => "ephemeral-storage",
            Self::Inodes => "inodes",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Io => "io",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kubelet's eviction signals, each an amount that must not fall below its threshold.
///
/// Source: kubelet `pkg/kubelet/eviction/api/types.go`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Signal {
    /// Memory of the node that could be had at once: `MemTotal` less the working set of the root.
    #[serde(rename = "memory.available")]
    MemoryAvailable,
    /// Memory left below the limit of kubepods.
    #[serde(rename = "allocatableMemory.available")]
    AllocatableMemoryAvailable,
    /// Bytes left on the file system of the kubelet.
    #[serde(rename = "nodefs.available")]
    NodefsAvailable,
    /// Inodes left there.
    #[serde(rename = "nodefs.inodesFree")]
    NodefsInodesFree,
    /// Bytes left on the file system of images.
    #[serde(rename = "imagefs.available")]
    ImagefsAvailable,
    /// Inodes left there.
    #[serde(rename = "imagefs.inodesFree")]
    ImagefsInodesFree,
    /// Bytes left on the file system of writable layers.
    #[serde(rename = "containerfs.available")]
    ContainerfsAvailable,
    /// Inodes left there.
    #[serde(rename = "containerfs.inodesFree")]
    ContainerfsInodesFree,
    /// Threads that could still be made.
    #[serde(rename = "pid.available")]
    PidAvailable,
}

impl Signal {
    /// Every signal.
    pub const ALL: [Self; 9] = [
        Self::MemoryAvailable,
        Self::AllocatableMemoryAvailable,
        Self::NodefsAvailable,
        Self::NodefsInodesFree,
        Self::ImagefsAvailable,
        Self::ImagefsInodesFree,
        Self::ContainerfsAvailable,
        Self::ContainerfsInodesFree,
        Self::PidAvailable,
    ];

    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::AllocatableMemoryAvailable => "allocatableMemory.available",
            Self::NodefsAvailable => "nodefs.available",
            Self::NodefsInodesFree => "nodefs.inodesFree",
            Self::ImagefsAvailable => "imagefs.available",
            Self::ImagefsInodesFree => "imagefs.inodesFree",
            Self::ContainerfsAvailable => "containerfs.available",
            Self::ContainerfsInodesFree => "containerfs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }

    /// The signal of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.name() == name)
    }

    /// What is short when the signal falls.
    #[must_use]
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

    /// An amount of what it counts, as it is printed: bytes in powers of 1024, others as counts.
    #[must_use]
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

/// An amount, or a share of the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Amount {
    /// So much.
    Quantity(Quantity),
    /// This share of the capacity.
    Percentage(Fraction),
}

impl Amount {
    /// How much it is, where there is `capacity` in all.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Quantity(quantity) => quantity.to_u64(),
            Self::Percentage(fraction) => fraction.of(capacity),
        }
    }
}

/// One eviction threshold. Met while what is available is strictly less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Threshold {
    /// On which signal.
    pub signal: Signal,
    /// Below which amount.
    pub value: Amount,
    /// How long it must be met; zero is hard.
    pub grace: Nanos,
    /// What must be available above the threshold before it counts as left.
    pub min_reclaim: Option<Amount>,
}

impl Threshold {
    /// Without a grace period.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.grace.0 == 0
    }
}

/// A threshold of ours: on how long work waits, where the kubelet looks at what is left.
/// Met while the measure is at or above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PressureThreshold {
    /// The whole node, or its pods.
    pub scope: ScopeName,
    /// What is measured.
    pub on: PressureSignal,
    /// How long it must be met.
    pub grace: Nanos,
}

/// What a [`PressureThreshold`] looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PressureSignal {
    /// CPU contention, ten seconds' average at or above this.
    Cpu(Percent),
    /// Memory shortage, ten seconds' average at or above this.
    Memory(Percent),
    /// Raw IO pressure `full`, ten seconds' average at or above this.
    Disk(Percent),
    /// Memory lasts for this long or less, at the rate at which it is charged now.
    Exhaustion(Nanos),
    /// Pages read back after eviction, per second, this many or more.
    Refaults(u64),
}

impl PressureSignal {
    /// What is short when it is met.
    #[must_use]
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

    /// What it is called where it is about `scope`, whatever the threshold.
    #[must_use]
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
    /// Its name in configurations and messages, such as `kubepods.memory.pressure`.
    #[must_use]
    pub fn name(&self) -> String {
        self.on.name(self.scope).into()
    }
}
