//! The steps of relief: what is to be done, to whom, why this one, and what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Met;
use super::aftermath::Restart;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::is_default;
use crate::model::settings::Deletion;
use crate::model::units::{Bytes, Nanos, Percent};

/// One step of relief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// The highest `oom_score_adj`: if memory runs out after all, the kernel takes this target. If
    /// it does not, nothing has happened.
    Mark,
    /// `memory.reclaim`: take back page cache that is not in use.
    Reclaim,
    /// `memory.high` or `cpu.weight`: hold the aggressor back.
    Squeeze,
    /// The API's eviction, which respects disruption budgets.
    Evict,
    /// SIGTERM to its containers, and SIGKILL after the grace.
    StopContainers,
    /// `cgroup.kill` of its containers.
    KillContainers,
    /// `process_mrelease`: have the dead give back their memory now.
    ReleaseMemory,
}

// Gentlest first.
named!(StepKind {
    Mark => "mark",
    Reclaim => "reclaim",
    Squeeze => "squeeze",
    Evict => "evict",
    StopContainers => "stopContainers",
    KillContainers => "killContainers",
    ReleaseMemory => "releaseMemory",
});

impl StepKind {
    /// How long a step has by default to show an effect.
    pub fn usual_deadline_seconds(self) -> u64 {
        match self {
            Self::Mark => 5,
            Self::Reclaim => 2,
            Self::Squeeze => 5,
            Self::Evict => 30,
            Self::StopContainers => 10,
            Self::KillContainers => 5,
            Self::ReleaseMemory => 2,
        }
    }

    /// What recordings without [`Release::step`] took back.
    fn squeeze() -> Self {
        Self::Squeeze
    }

    /// True if it ends work.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Evict | Self::StopContainers | Self::KillContainers)
    }

    /// True if it ends the victim's containers on the node, of which the API server is not told.
    pub fn is_local_end(self) -> bool {
        matches!(self, Self::StopContainers | Self::KillContainers)
    }
}

/// One thing to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// Counts actions; outcomes name it.
    pub id: u64,
    pub step: StepKind,
    pub target: Target,
    /// Because of what.
    pub reason: Met,
    /// Why this step and no other.
    pub why: StepReason,
    /// How much memory is to be had by it, where that is known.
    pub want: Option<Bytes>,
    /// How long the pod is given to end.
    pub grace: Option<Nanos>,
    /// By when (boot clock) it must have shown an effect.
    pub deadline: Nanos,
    /// What follows if it has not.
    pub escalates_to: Option<StepKind>,
    /// It is really done; else it is only recorded.
    pub is_enforced: bool,
    /// Whether an eviction that is refused becomes a deletion.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deletion: Deletion,
    /// What the kubelet does next, where its pod's containers are ended on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// For people, in the kubelet's words.
    pub message: String,
    /// The annotations that the kubelet would put on the event.
    pub annotations: BTreeMap<String, String>,
}

/// Whom an action is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The pod's name, or the cgroup's path where no pod is known.
    pub name: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's uid.
    pub uid: String,
    /// The pods of a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    pub cgroup: Option<CgroupId>,
    /// The cgroup's path.
    pub path: Option<CgroupPath>,
    /// The cgroups of a group's pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<TargetGroup>,
    /// The runtime's ids of its containers, as the API has them: whatever else lies in the pod's
    /// cgroup is not the pod's work. Empty if no source of pods names them, or not all of them yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<String>,
    /// It took nothing, and pays for what a service or no cgroup took, because a hard threshold of the
    /// kubelet demands a victim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_payer: bool,
}

/// One cgroup of a target that has several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TargetGroup {
    /// Which: a path can be used again, an id cannot.
    pub id: CgroupId,
    pub path: CgroupPath,
}

impl Target {
    /// The uids that it stands for: of a group those of all its pods.
    pub fn uids(&self) -> impl Iterator<Item = &String> {
        let own = self.members.is_empty().then_some(&self.uid);
        self.members.iter().chain(own)
    }

    /// Its cgroups: its own, or those of a group's pods.
    pub fn cgroups(&self) -> impl Iterator<Item = (CgroupId, &CgroupPath)> {
        let own = self.cgroup.zip(self.path.as_ref());
        self.groups.iter().map(|group| (group.id, &group.path)).chain(own)
    }

    /// As [`full_name`] has it.
    pub fn full_name(&self) -> String {
        full_name(&self.namespace, &self.name, self.members.len())
    }
}

/// How people call a pod or, if it stands for several, a group: `namespace/name`, or the name alone
/// where no namespace is known, and of a group how many pods it has.
pub(crate) fn full_name(namespace: &str, name: &str, n_members: usize) -> String {
    let name = match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    };
    match n_members {
        0 => name,
        n => format!("{name} ({n} pods)"),
    }
}

/// Why a step was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum StepReason {
    /// The gentlest that can suffice.
    Gentlest,
    /// The one before it was done and did not help by its deadline.
    NoEffect,
    /// The one before it was refused or failed.
    Failed,
    /// What is short cannot be had by anything gentler.
    OnlyOne,
    /// There is no time for anything gentler.
    Emergency,
}

/// Why nothing is done although a threshold is met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Hold {
    /// An action runs; until this moment (boot clock) it has time.
    Settling { action: u64, until: Nanos },
    /// The last victim's memory has just come back.
    CoolingDown { until: Nanos },
    /// The kernel's OOM killer has just killed for the same memory.
    KernelKilled {
        /// Until when what it killed is given to give its memory back.
        until: Nanos,
    },
    /// A pod ends already whose memory suffices: the kubelet evicts it, or its deletion was ordered.
    Ending {
        /// `namespace/pod`.
        pod: String,
        /// Until when it is given to end.
        until: Nanos,
    },
    /// The kubelet deletes dead containers and unused images before it ends a pod.
    CleaningUp {
        /// Until when it is given.
        until: Nanos,
    },
    /// Enough was done lately.
    BudgetSpent {
        /// When there is room again.
        until: Nanos,
    },
    /// It was decided and, because isobar only observes, not done. What would have followed is not
    /// known.
    Observed { action: u64 },
    /// Memory is foretold to run out. Its taker is marked, so that the kernel's OOM killer would take
    /// it first, or squeezed: no work is ended for a forecast.
    Marked,
    /// Who took what is short is not known before ten seconds were watched, or
    /// the pod that took it has no name yet.
    NotYetKnown,
    /// No candidate took what is short, and no hard threshold demands a candidate's end.
    TakenByOther {
        /// Who took most of it; empty if it was the kernel, or cannot be told.
        taker: String,
    },
    /// Disk space, inodes or pids are short, and it is not known how much any candidate has; of a disk,
    /// not since it ran short or the last victim was chosen.
    UseUnknown,
    /// Nobody may be chosen.
    NobodyLeft,
    /// Nobody harms others enough.
    BelowHarmBudget,
    /// The party that harms others most may not be chosen: it is no candidate, or no cause.
    HarmedByOther {
        /// Which one that is.
        by: String,
    },
    /// Who harms others is not measured: for the moment, or of a disk because no `io.stat` is read.
    HarmUnknown,
    /// Every step was tried on every candidate.
    NothingHelps,
    /// The grace period of what is met is not over.
    InGrace,
    /// Readings have not changed since the last action.
    StaleReadings,
    /// What waited is over: the average remembers it, the last interval does not meet the threshold.
    Easing,
}

impl Hold {
    /// Its name, as in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Settling { .. } => "settling",
            Self::CoolingDown { .. } => "coolingDown",
            Self::KernelKilled { .. } => "kernelKilled",
            Self::Ending { .. } => "ending",
            Self::CleaningUp { .. } => "cleaningUp",
            Self::BudgetSpent { .. } => "budgetSpent",
            Self::Observed { .. } => "observed",
            Self::Marked => "marked",
            Self::NotYetKnown => "notYetKnown",
            Self::TakenByOther { .. } => "takenByOther",
            Self::UseUnknown => "useUnknown",
            Self::NobodyLeft => "nobodyLeft",
            Self::BelowHarmBudget => "belowHarmBudget",
            Self::HarmedByOther { .. } => "harmedByOther",
            Self::HarmUnknown => "harmUnknown",
            Self::NothingHelps => "nothingHelps",
            Self::InGrace => "inGrace",
            Self::StaleReadings => "staleReadings",
            Self::Easing => "easing",
        }
    }
}

/// One entry of the actuator's ledger: an action whose consequences still matter at this tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    /// The action as it was decided.
    pub action: Action,
    /// When the actuator took it, on the boot clock.
    pub since: Nanos,
    /// What the target held then; `None` where memory is not accounted.
    pub held: Option<Bytes>,
    pub phase: Phase,
    /// Of a mark: of what the target's processes have in memory and swap, the part of the largest, which
    /// the kernel compares; `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<Percent>,
}

impl InForce {
    /// True for a squeeze and a mark: what was written is put back one day.
    pub fn can_be_undone(&self) -> bool {
        matches!(self.phase, Phase::Squeezed | Phase::Marked)
    }
}

/// How far the consequences of an action have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// A squeeze: its limits stand. One that is only observed stands in the ledger alone.
    Squeezed,
    /// A mark: the OOM scores stand, or are observed as if they did.
    Marked,
    /// A stop or a kill: some of the victim's processes have not ended.
    Ending,
    /// A stop or a kill that is over. It counts against the eviction budget.
    Ended {
        /// When the last process was seen to be gone, on the boot clock.
        at: Nanos,
    },
}

/// A squeeze or a mark that is to be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Release {
    pub action: u64,
    /// What is taken back.
    #[serde(default = "StepKind::squeeze")]
    pub step: StepKind,
    /// Whom it held.
    pub target: Target,
    pub why: ReleaseReason,
    /// It is really done; else it is only recorded.
    pub is_enforced: bool,
}

/// Why a squeeze or a mark is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ReleaseReason {
    /// What it was for has been over for the cool-down.
    Over,
    /// It did not help.
    NoEffect,
    /// It has lasted as long as any squeeze may.
    Expired,
    /// The agent ends.
    Leaving,
    /// The settings protect its target now.
    Protected,
}
