//! Who would go first, by which keys, and who may not be chosen.

use serde::{Deserialize, Serialize};

use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;

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
