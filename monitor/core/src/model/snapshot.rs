//! The difference of two samples: rates, and averages over windows.
//! A rate exists only if the cgroup id is the same in both.
//! In: two samples and the `Averages` so far. Out: a `Snapshot`.
//! Derivation and limits of the measures: docs/measurements.md.

mod along;
mod averages;
mod between;
mod blame;
mod bounds;
mod counters;
mod delta;
mod io;
mod stalls;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cgroup::{Cgroup, CgroupId, CgroupPath};
use super::node::NodeReading;
use super::psi::Pressures;
use super::sample::{Gap, Moment, Runner};
use super::stall::{Coverage, Lost, MemoryCause, OomKill};
use super::units::{Bytes, MilliCpu, Nanos, Percent};
use super::workload::Pods;
use crate::model::pod::Place;

pub(crate) use along::Along;
pub use averages::{Averages, Meters};
pub use bounds::{Averaged, Bounds};
pub use io::IoRate;

/// The difference of two samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Of the later sample.
    pub tick: u64,
    /// Of the later sample.
    pub at: Moment,
    /// From the earlier sample to the later; 0 for the first sample.
    pub interval: Nanos,
    /// The node's own files, as read.
    pub node: NodeReading,
    /// The node: PSI from `/proc/pressure`, stalls of all tasks.
    pub whole: Scope,
    /// Every cgroup except the root.
    pub scopes: BTreeMap<CgroupId, Scope>,
    /// Waits for a CPU by sufferer and aggressor, longest first; in a view, those that cost most.
    pub aggressions: Vec<Blame>,
    /// Of the later sample: processes of the cgroup that the headline names or, where it can name none,
    /// of the machine.
    #[serde(default)]
    pub runners: Vec<Runner>,
    /// In this interval.
    pub oom_kills: Vec<OomKill>,
    /// What the eBPF programs measure; all false without them. Causes of memory stalls are not covered
    /// either in an interval in which stalls found no room to be counted.
    pub covers: Coverage,
    /// What the eBPF programs could not count, since they were attached.
    pub lost: Lost,
    /// Of the later sample.
    pub gaps: Vec<Gap>,
    pub doubts: Doubts,
    /// Of the later sample: they have the names of the scopes.
    #[serde(skip)]
    pub pods: Option<Pods>,
}

/// Impossible readings since the agent's start. Each was clamped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Doubts {
    /// A counter decreased: its difference counts as 0.
    pub backwards: u64,
    /// A difference exceeded the time that had passed.
    pub too_fast: u64,
    /// The wall clock moved against the boot clock by more than a second, or the boot clock did
    /// not advance.
    pub clock_jumps: u64,
}

/// One cgroup, or the node, over one interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// `/` is the node.
    pub path: CgroupPath,
    /// What the cgroup is, according to its path.
    pub place: Place,
    /// `namespace/pod`, and which of its containers; `None` if no source of pods names it, and
    /// before a view is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub parent: Option<CgroupId>,
    /// PSI as the kernel printed it.
    pub pressure: Pressures,
    /// As read; `None` for the node.
    pub files: Option<Arc<Cgroup>>,
    /// `None` in a cgroup's first sample.
    pub cpu_usage: Option<MilliCpu>,
    /// Of the CPU time that the node could have used, the part that a hypervisor gave to others in this
    /// interval; `None` for cgroups, and where it gave none to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<Percent>,
    /// The CPU time that a pod or container requests, where its pod is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_request: Option<MilliCpu>,
    /// `None` without eBPF, or before two samples.
    pub cpu: Option<CpuWait>,
    /// Time in which at least one task waited for a CPU; `None` if not measured.
    pub contention: Option<Union>,
    /// The part of it in intervals in which the pod or container used less than the CPU time that it
    /// requests; `None` if it requests none, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_request: Option<Union>,
    /// Contention of each CPU, because a mean hides a single busy CPU; empty if not measured.
    pub contention_per_cpu: Vec<Percent>,
    /// `None` without eBPF, or before two samples.
    pub memory: Option<MemoryWait>,
    /// Time in which at least one task stalled because the node or its allocatable was short;
    /// `None` if not measured. Unless memory causes are covered it is a lower bound: stalls at
    /// the allocatable limit look like those at a pod's own limit, and are left out.
    pub shortage: Option<Union>,
    /// Task time in IO wait; `None` without eBPF, before two samples, or if the table of sleepers had no
    /// room for some.
    pub io_wait: Option<Waited>,
    /// Share of the time between two readings of the pressure file in which the disk stalled every task;
    /// `None` if it was not read twice, or not again in this tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_stalled: Option<Percent>,
    /// By `io.stat`; `None` without the io controller, or before two samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoRate>,
    /// It got from a device what its own `io.max` allows: it waits for that limit, and for no other cgroup.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_at_io_limit: bool,
}

impl Scope {
    /// How long tasks stalled for memory at limits of its own, or of its pod or slice.
    pub fn stalled_at_limits(&self) -> Nanos {
        let causes = self.memory.iter().flat_map(|memory| &memory.causes);
        let own = causes.filter(|(cause, _)| cause.is_own_limit());
        own.fold(Nanos(0), |sum, (_, wait)| sum.plus(wait.union.now))
    }

    /// The uid of the pod that it is.
    pub(crate) fn pod_uid(&self) -> Option<&str> {
        match &self.place {
            Place::Pod { uid, .. } => Some(uid),
            _ => None,
        }
    }

    /// How a party is told from others: a pod by its uid, any other by its path.
    pub(crate) fn party(&self) -> &str {
        self.pod_uid().unwrap_or(&self.path.0)
    }
}

/// Union of waits: wall time in which at least one task waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Union {
    /// In this interval.
    pub now: Percent,
    /// Of the time that has been measured, where that is less than the window.
    pub avg10: Percent,
    pub avg60: Percent,
    pub avg300: Percent,
    /// Since the agent first measured the scope.
    pub total: Nanos,
    /// How much measured time the averages have seen; `None` once it is five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Nanos>,
}

/// Task time, summed over tasks: may exceed wall time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// In this interval.
    pub now: Nanos,
    /// Since the eBPF programs first saw the scope.
    pub total: Nanos,
}

/// Run-queue wait by cause, in task time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CpuWait {
    pub wait: Waited,
    /// Wait that no quota explains; `None`, as the next two, if throttling cannot be told apart.
    pub contention: Option<Waited>,
    /// Throttled by the cgroup's own quota.
    pub throttled_own: Option<Waited>,
    /// Throttled by an ancestor's quota.
    pub throttled_ancestor: Option<Waited>,
    pub n_waits: u64,
    /// Waits in this interval by length, without throttling: bucket 0 is below 1,024 ns, bucket `i`
    /// from `2^(9+i)` to `2^(10+i)` ns, the last has no upper bound. Empty if throttling cannot be
    /// told apart.
    pub histogram: Vec<u64>,
}

/// Memory stall by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryWait {
    /// Wall time in which at least one task stalled for any cause, kernel threads excluded.
    pub any: Waited,
    /// A cause that never occurred is missing.
    pub causes: BTreeMap<MemoryCause, MemoryCauseWait>,
}

/// Memory stall of one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryCauseWait {
    /// Wall time in which at least one task stalled for this cause.
    pub union: Waited,
    pub time: Waited,
    /// Stalls that ended in this interval.
    pub count: u64,
}

/// How long one cgroup waited for a CPU while another ran. Paths are kept because either cgroup may
/// be gone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Blame {
    pub victim: CgroupId,
    /// `None` if the cgroup was gone before a sample saw it.
    pub victim_path: Option<CgroupPath>,
    /// The cgroup that ran; id 0 is the idle task, 2^64-1 not known any more.
    pub aggressor: CgroupId,
    pub aggressor_path: Option<CgroupPath>,
    /// In this interval.
    pub time: Nanos,
    /// What the sufferer lost of it; `None` before a view is made, and where it was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Nanos>,
}

/// The kubelet's working set: `memory.current` less `inactive_file`, at least 0.
pub fn working_set(files: &Cgroup) -> Option<Bytes> {
    let (current, stat) = (files.memory.current?, files.memory.stat?);
    Some(Bytes(current.0.saturating_sub(stat.inactive_file.0)))
}

#[cfg(test)]
mod tests;
