//! What one tick came to: the conditions, who would go first, and what is to be done, each with
//! the numbers that it rests on.

use serde::{Deserialize, Serialize};

use super::cgroup::{CgroupId, CgroupPath};
use super::condition::Condition;
use super::pod::QosClass;
use super::quantity::Quantity;
use super::sample::{Moment, Sample};
use super::threshold::{PressureThreshold, Signal, Threshold};
use super::units::{Bytes, Nanos};

/// Everything that the policy made of one sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Decision {
    /// The sample's tick.
    pub tick: u64,
    /// The sample's moment.
    pub at: Moment,
    /// The settings that it was judged by.
    pub generation: u64,
    /// KEP-4205's six.
    pub conditions: Vec<Condition>,
    /// The kubelet's three: `MemoryPressure`, `DiskPressure`, `PIDPressure`; those that hold.
    pub node_pressure: Vec<NodePressure>,
    /// What the eviction signals said.
    pub observations: Vec<Observation>,
    /// Thresholds that are met.
    pub met: Vec<Met>,
    /// What changed.
    pub events: Vec<Event>,
    /// Who would go first, if somebody had to; the head of the list.
    pub ranking: Option<Ranking>,
    /// What is to be done; at most one victim.
    pub actions: Vec<Action>,
    /// Why nothing is done although a threshold is met.
    pub held: Option<Hold>,
}

/// A sample and what was made of it: what is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frame {
    /// What was read.
    pub sample: Sample,
    /// What was decided.
    pub decision: Decision,
}

/// The kubelet's own conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodePressure {
    /// Memory is short.
    MemoryPressure,
    /// Disk space or inodes are short.
    DiskPressure,
    /// Pids are short.
    #[serde(rename = "PIDPressure")]
    PidPressure,
}

/// What one signal said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// Which.
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
#[serde(rename_all = "camelCase")]
pub struct Met {
    /// Which.
    pub threshold: Trigger,
    /// Since when without a break.
    pub since: Nanos,
    /// It has been met for its grace period.
    pub is_due: bool,
    /// What was measured, in the threshold's own unit.
    pub measured: u64,
}

/// What can start relief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trigger {
    /// Something runs out, as the kubelet sees it.
    Eviction(Threshold),
    /// Work waits too long, or soon will.
    Pressure(PressureThreshold),
}

/// Something that changed, for people and for the API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// In one word, as an Event's `reason`.
    pub reason: String,
    /// In a sentence with the numbers, as an Event's `message`.
    pub message: String,
    /// It wants attention.
    pub is_warning: bool,
}

/// By which keys candidates are ordered.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// Class of service, priority, harm to others, excess, youngest.
    #[default]
    Qos,
    /// As the kubelet: exceeds its request, priority, excess.
    Kubelet,
}

/// Candidates, first to go first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ranking {
    /// For which shortage.
    pub signal: String,
    /// By which keys.
    pub order: Order,
    /// The first of them; `n_candidates` counts all.
    pub candidates: Vec<Candidate>,
    /// How many there are.
    pub n_candidates: usize,
    /// Who may not be chosen; as many as of candidates.
    pub spared: Vec<Spared>,
    /// How many there are.
    pub n_spared: usize,
}

/// One pod, or a group of small ones, that could be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The pod's name, or what the group is called.
    pub name: String,
    /// `metadata.namespace`; empty if not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The pod's uid; of a group, its first member's.
    pub uid: String,
    /// Every uid of a group; empty for a single pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// What decided, in the order in which it decided.
    pub keys: Vec<MeritKey>,
}

/// One key of a candidate's merit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeritKey {
    /// Which.
    pub key: Key,
    /// Its value.
    pub value: KeyValue,
}

/// What candidates are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Key {
    /// Whether there are statistics of it at all; one without goes first.
    HasStats,
    /// It uses more than it asked for.
    ExceedsRequest,
    /// `spec.priority`.
    Priority,
    /// Use above its request.
    Excess,
    /// Class of service.
    Qos,
    /// Time that others waited because of it, per second.
    Harm,
    /// Processes.
    Processes,
    /// When it started; the youngest goes first.
    Started,
    /// The uid, so that the order is total.
    Uid,
}

/// A key's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyValue {
    /// Yes or no.
    Bool(bool),
    /// A number.
    Number(i64),
    /// A class of service.
    Class(QosClass),
    /// An amount.
    Quantity(Quantity),
    /// A text.
    Text(String),
    /// Not known.
    Unknown,
}

/// A pod that may not be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spared {
    /// The pod's name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Why.
    pub why: SparedReason,
}

/// Why a pod may not be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SparedReason {
    /// The kubelet runs it from a file or URL.
    Static,
    /// The API's picture of a static pod.
    Mirror,
    /// Priority 2000000000 or more.
    Critical,
    /// The agent.
    Isobar,
    /// Its label or extended attribute says so.
    OptedOut,
    /// Whoever waits because of it is itself: evicting it would help nobody.
    HarmsOnlyItself,
}

/// One step of relief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// `memory.reclaim`: take back what nobody needs.
    Reclaim,
    /// `memory.high` or `cpu.weight`: hold the aggressor back.
    Squeeze,
    /// The API's eviction, which respects disruption budgets.
    Evict,
    /// The runtime stops its containers.
    StopContainers,
    /// `cgroup.kill` of its containers.
    KillContainers,
    /// `process_mrelease`: have the dead give back their memory now.
    ReleaseMemory,
}

impl StepKind {
    /// Every step, gentlest first.
    pub const ALL: [Self; 6] = [
        Self::Reclaim,
        Self::Squeeze,
        Self::Evict,
        Self::StopContainers,
        Self::KillContainers,
        Self::ReleaseMemory,
    ];

    /// How long a step has by default to show an effect.
    #[must_use]
    pub fn usual_deadline_seconds(self) -> u64 {
        match self {
            Self::Reclaim => 2,
            Self::Squeeze => 5,
            Self::Evict => 30,
            Self::StopContainers => 10,
            Self::KillContainers => 5,
            Self::ReleaseMemory => 2,
        }
    }

    /// True if it ends work.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Evict | Self::StopContainers | Self::KillContainers)
    }
}

/// One thing to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// Counts actions; outcomes name it.
    pub id: u64,
    /// What.
    pub step: StepKind,
    /// To whom.
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
    /// For people, in the kubelet's words.
    pub message: String,
}

/// Whom an action is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Its cgroup.
    pub cgroup: Option<CgroupId>,
    /// The cgroup's path.
    pub path: Option<CgroupPath>,
}

/// Why a step was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[serde(rename_all = "camelCase")]
pub enum Hold {
    /// An action runs; until this moment (boot clock) it has time.
    Settling {
        /// Which action.
        action: u64,
        /// Until when.
        until: Nanos,
    },
    /// The last victim's memory has just come back.
    CoolingDown {
        /// Until when.
        until: Nanos,
    },
    /// Enough was done lately.
    BudgetSpent {
        /// When there is room again.
        until: Nanos,
    },
    /// Nobody may be chosen.
    NobodyLeft,
    /// Nobody harms others enough.
    BelowHarmBudget,
    /// Every step was tried on everybody.
    NothingHelps,
    /// The grace period of what is met is not over.
    InGrace,
    /// Readings have not changed since the last action.
    StaleReadings,
}

/// What came of an action; part of the next sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Which action.
    pub action: u64,
    /// How it went.
    pub result: OutcomeResult,
    /// In words, what was seen.
    pub detail: String,
    /// How long it took.
    pub took: Nanos,
    /// Memory that came back, where it was measured.
    pub freed: Option<Bytes>,
}

/// How an action went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OutcomeResult {
    /// Done.
    Done,
    /// Somebody who may do so said no: a disruption budget.
    Refused,
    /// It could not be done.
    Failed,
}
