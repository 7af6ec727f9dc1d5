//! Two samples made comparable: rates, and averages over windows.
//! A rate exists only while the cgroup id is the same in both.
//! In: two samples and the `Averages` so far. Out: a `Snapshot`, the nouns of this file.
//! Derivation and limits of the measures: docs/policy.md.

mod averages;
mod between;
mod blame;
mod counters;
mod delta;
mod stalls;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cgroup::{Cgroup, CgroupId, CgroupPath};
use super::node::NodeReading;
use super::psi::Pressures;
use super::sample::{Gap, Moment};
use super::stall::{Coverage, Lost, MemoryCause, OomKill};
use super::units::{Bytes, MilliCpu, Nanos, Percent};
use crate::model::pod::Place;

pub use averages::Averages;

/// What happened between two samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The later sample's tick.
    pub tick: u64,
    /// The later sample's moment.
    pub at: Moment,
    /// From the earlier sample to the later; 0 for the very first.
    pub interval: Nanos,
    /// The node's own files, as read.
    pub node: NodeReading,
    /// The node as a scope: PSI from `/proc/pressure`, stalls of all tasks.
    pub whole: Scope,
    /// Every cgroup but the root.
    pub scopes: BTreeMap<CgroupId, Scope>,
    /// Who made whom wait in this interval, longest first.
    pub aggressions: Vec<Blame>,
    /// OOM kills in this interval.
    pub oom_kills: Vec<OomKill>,
    /// What the kernel side could tell; all false without it.
    pub covers: Coverage,
    /// What the kernel side could not count, in all.
    pub lost: Lost,
    /// What could not be read in the later sample.
    pub gaps: Vec<Gap>,
    /// What could not be believed.
    pub doubts: Doubts,
}

/// Readings that could not be true, clamped and counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Doubts {
    /// A counter ran backwards: its delta was taken as 0.
    pub backwards: u64,
    /// A share of time came out above the time there was: clamped.
    pub too_fast: u64,
    /// The wall clock moved against the boot clock by more than a second, or the boot clock
    /// did not move on.
    pub clock_jumps: u64,
}

/// One cgroup, or the node, over one interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// Where it is; `/` is the node.
    pub path: CgroupPath,
    /// What its path says it is.
    pub place: Place,
    /// The cgroup above it.
    pub parent: Option<CgroupId>,
    /// PSI as the kernel printed it.
    pub pressure: Pressures,
    /// The cgroup's files as read; `None` for the node.
    pub files: Option<Cgroup>,
    /// CPU use; `None` for the first sample of a cgroup.
    pub cpu_usage: Option<MilliCpu>,
    /// CPU waits; `None` without the kernel side, or before two samples.
    pub cpu: Option<CpuWait>,
    /// Union of CPU contention; `None` where it cannot be measured.
    pub contention: Option<Union>,
    /// Each CPU's own share, which no mean can hide; empty where it cannot be measured.
    pub contention_per_cpu: Vec<Percent>,
    /// Memory stalls; `None` without the kernel side, or before two samples.
    pub memory: Option<MemoryWait>,
    /// Union of memory stall for which the node or its allocatable is to blame; `None` where it
    /// cannot be measured. Without `Coverage::memory_causes` it is a lower bound: stalls at the
    /// allocatable limit cannot be told from those at a pod's own, and are left out.
    pub shortage: Option<Union>,
    /// Task time asleep in IO wait; `None` without the kernel side, or before two samples.
    pub io_wait: Option<Waited>,
}

/// Wall time in which at least one task waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Union {
    /// Over this interval.
    pub now: Percent,
    /// Over ten seconds, by the kernel's own maths.
    pub avg10: Percent,
    /// Over a minute.
    pub avg60: Percent,
    /// Over five minutes.
    pub avg300: Percent,
    /// Since the agent first measured the scope.
    pub total: Nanos,
}

/// Task time: summed over tasks, so it may outrun the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// In this interval.
    pub now: Nanos,
    /// Since the kernel side first saw the scope.
    pub total: Nanos,
}

/// Run-queue wait by cause, in task time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuWait {
    /// All of it.
    pub wait: Waited,
    /// Waited for others; `None`, as the two below, where throttling cannot be told apart.
    pub contention: Option<Waited>,
    /// Held back by the cgroup's own quota.
    pub throttled_own: Option<Waited>,
    /// Held back by an ancestor's quota.
    pub throttled_ancestor: Option<Waited>,
    /// Number of waits in this interval.
    pub n_waits: u64,
    /// Waits of this interval by length, throttling taken out; see `GroupStall::histogram`.
    /// Empty where it cannot be taken out.
    pub histogram: Vec<u64>,
}

/// Memory stall by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryWait {
    /// Wall time in which at least one task stalled, whatever the cause, kernel threads apart.
    pub any: Waited,
    /// By cause; a cause that never occurred is missing.
    pub causes: BTreeMap<MemoryCause, MemoryCauseWait>,
}

/// One cause of memory stall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryCauseWait {
    /// Wall time in which at least one task stalled for this cause.
    pub union: Waited,
    /// Task time.
    pub time: Waited,
    /// Stalls that ended in this interval.
    pub count: u64,
}

/// Who made whom wait for a CPU, by name, because either may be gone by now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blame {
    /// Who waited.
    pub victim: CgroupId,
    /// Its path; `None` if it went before it was ever seen.
    pub victim_path: Option<CgroupPath>,
    /// Who ran; id 0 is the idle task.
    pub aggressor: CgroupId,
    /// Its path.
    pub aggressor_path: Option<CgroupPath>,
    /// For how long.
    pub time: Waited,
}

/// Memory that the cgroup uses and could not give back at once: what the kubelet calls the
/// working set (`memory.current` less `inactive_file`, not below 0).
#[must_use]
pub fn working_set(files: &Cgroup) -> Option<Bytes> {
    let (current, stat) = (files.memory.current?, files.memory.stat?);
    Some(Bytes(current.0.saturating_sub(stat.inactive_file.0)))
}

#[cfg(test)]
mod tests;
