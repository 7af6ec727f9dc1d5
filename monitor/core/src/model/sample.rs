//! Everything that the agent read for one tick. The policy depends on nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cgroup::{Cgroup, CgroupId, CgroupPath};
use super::decision::{InForce, Outcome, Phase, StepKind};
use super::disk::PodDisks;
use super::node::NodeReading;
use super::places::Places;
use super::stall::KernelStalls;
pub use super::units::Moment;
use super::units::{Bytes, MilliCpu, Nanos};
use super::workload::{Pod, Pods, of_cgroup_uid};

/// Nothing is known of a longer time without a tick.
pub const PAUSE: Nanos = Nanos(10 * Nanos::SECOND.0);

/// Why the sampler took a sample.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    #[default]
    Timer,
    /// A PSI trigger fired.
    Pressure,
    /// An eBPF program reported an urgent event, such as an OOM kill.
    Event,
}

named!(Cause {
    Timer => "timer",
    Pressure => "pressure",
    Event => "event",
});

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Counts from 1.
    pub tick: u64,
    /// When the sampler began.
    pub at: Moment,
    pub cause: Cause,
    pub node: NodeReading,
    /// Shared with the snapshot and with other ticks: most files of a node say what they said before.
    pub cgroups: BTreeMap<CgroupId, Arc<Cgroup>>,
    /// Where the configuration puts the cgroup of all pods, in the spelling of this node's cgroup
    /// driver; `None` in older recordings, and then it is where a kubelet usually makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubepods: Option<CgroupPath>,
    /// What `memory.min` of a cgroup keeps, and those below it do not claim, is theirs all the same: the tree
    /// is mounted with `memory_recursiveprot`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_recursively: bool,
    /// `None` without eBPF.
    pub kernel: Option<KernelStalls>,
    /// By uid; `None` if no source of pods answered.
    #[serde(default)]
    pub pods: Option<Pods>,
    /// There is a source of pods that may yet name those that it has not named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_names: bool,
    /// What pods have on disk; `None` if no source told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disks: Option<PodDisks>,
    /// Results of earlier actions.
    #[serde(default)]
    pub outcomes: Vec<Outcome>,
    /// The actuator's ledger: what isobar has done on this node that is in force, under way, or
    /// counts against the eviction budget, also by an agent before this one. Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_force: Vec<InForce>,
    /// Steps that the actuator can take; `None` if it was not asked, and then no step is excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_steps: Option<BTreeSet<StepKind>>,
    /// Of the cgroup that was named before, or of the machine where none can be: the processes that
    /// used most CPU time, those that took or have most memory, those that do most IO.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runners: Vec<Runner>,
    /// The agent's own cgroup, which is never evicted; `None` if it is not in the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<CgroupId>,
    /// The generation of the configuration in force.
    #[serde(default)]
    pub generation: u64,
    /// What could not be read, and why.
    pub gaps: Vec<Gap>,
}

impl Sample {
    /// Squeezes in force, or observed as if they were.
    pub fn squeezes(&self) -> impl Iterator<Item = &InForce> {
        self.in_force.iter().filter(|entry| entry.phase == Phase::Squeezed)
    }

    /// The pod whose cgroup is named after this uid; `None` if no source told of it.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        of_cgroup_uid(self.pods.as_ref()?, uid)
    }

    /// What its cgroups are.
    pub fn places(&self) -> Places<'_> {
        Places::of(&self.cgroups, self.kubepods.as_ref())
    }

    /// Marks in force, or observed as if they were.
    pub fn marks(&self) -> impl Iterator<Item = &InForce> {
        self.in_force.iter().filter(|entry| entry.phase == Phase::Marked)
    }

    /// Whether the processes of this cgroup were really marked by then.
    pub fn was_marked(&self, path: &CgroupPath, by: Nanos) -> bool {
        let marks = self.marks().filter(|entry| entry.since <= by).map(|entry| &entry.action);
        let mut marks = marks.filter(|mark| mark.is_enforced);
        marks.any(|mark| mark.target.cgroups().any(|(_, above)| path.is_within(above)))
    }
}

/// A process that uses much of what is short: CPU time or, where it says so, memory or IO.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Runner {
    pub pid: u32,
    /// `comm`, as the process itself chose it: at most 15 bytes, of any kind.
    pub name: String,
    pub used: MilliCpu,
    /// `None` for the root cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupId>,
    /// It is one of all processes of the machine, whatever its cgroup: which cgroup makes others wait,
    /// has the memory or does the IO is not measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_machine: bool,
    /// What it has, if it is named for its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Resident>,
    /// What it read and wrote per second between the two looks, if it is named for its IO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Bytes>,
}

/// Resident memory of a process. What it shares with others counts in each of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Resident {
    pub held: Bytes,
    /// Per second between the two looks; 0 if it has become less.
    pub growth: Bytes,
}

/// Something that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampleGap"))]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// The file, cgroup or program.
    pub object: String,
    /// The class of failure.
    pub why: GapReason,
    /// The error as it was seen.
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum GapReason {
    /// It disappeared between listing and reading. Routine.
    Gone,
    /// The kernel does not offer it: controller off, old kernel, `psi=0`.
    Unsupported,
    Denied,
    /// Unexpected content.
    Torn,
    /// Any other failure to read.
    Failed,
    /// A table of fixed size was full.
    Full,
}

named!(GapReason {
    Gone => "gone",
    Unsupported => "unsupported",
    Denied => "denied",
    Torn => "torn",
    Failed => "failed",
    Full => "full",
});
