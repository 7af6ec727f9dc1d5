//! One tick's raw input: everything that any later judgement may depend on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::cgroup::{Cgroup, CgroupId};
use super::decision::{InForce, Outcome, StepKind};
use super::node::NodeReading;
use super::stall::KernelStalls;
use super::units::Nanos;
use super::workload::Pod;

/// A moment on two clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// `CLOCK_BOOTTIME`: never jumps, runs through suspend. All intervals are taken from it.
    pub boot: Nanos,
    /// `CLOCK_REALTIME`, since 1970: for people. May jump.
    pub wall: Nanos,
}

/// What made this tick come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The second was over.
    #[default]
    Timer,
    /// A PSI trigger fired: somebody waits more than is usual.
    Pressure,
    /// The kernel side reported something urgent: an OOM kill.
    Event,
}

/// One tick's raw input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Counts samples from 1.
    pub tick: u64,
    /// When the sample was begun.
    pub at: Moment,
    /// Why.
    pub cause: Cause,
    /// The node's own files.
    pub node: NodeReading,
    /// The cgroup tree.
    pub cgroups: BTreeMap<CgroupId, Cgroup>,
    /// The kernel side's counters; `None` without eBPF.
    pub kernel: Option<KernelStalls>,
    /// The pods of this node by uid; `None` if nobody told.
    #[serde(default)]
    pub pods: Option<BTreeMap<String, Pod>>,
    /// What came of earlier actions.
    #[serde(default)]
    pub outcomes: Vec<Outcome>,
    /// The actuator's ledger: what isobar has done on this node that is in force, under way, or
    /// counts against the eviction budget, also by an agent before this one. Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_force: Vec<InForce>,
    /// Steps that whoever acts here is able to take; `None` if nobody was asked, and then none is
    /// ruled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_steps: Option<BTreeSet<StepKind>>,
    /// The agent's own cgroup, which is never a victim's; `None` if the tree does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<CgroupId>,
    /// The configuration that holds from this tick on.
    #[serde(default)]
    pub generation: u64,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

/// Something that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// The file, cgroup or program: what an operator would look at.
    pub object: String,
    /// What kind of gap.
    pub why: GapReason,
    /// What was seen, in words.
    pub detail: String,
}

/// Why something could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GapReason {
    /// It went away between being listed and being read. Routine.
    Gone,
    /// The kernel does not offer it: a controller off, an old kernel, `psi=0`.
    Unsupported,
    /// Not permitted.
    Denied,
    /// Its text was not understood.
    Torn,
    /// Any other failure to read.
    Failed,
    /// A fixed-size table was full.
    Full,
}
