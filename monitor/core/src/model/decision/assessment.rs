//! Whether a resource is short, in which scope (the node or all pods), and since when.

use serde::{Deserialize, Serialize};

use super::{Event, Met, NodePressure, Observation, Trigger};
use crate::model::condition::{Condition, ConditionName, ScopeName, Status};
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::settings::TaintEffect;
use crate::model::threshold::Signal;
use crate::model::units::{Bytes, Nanos, Percent};

/// What one sample says about shortages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Assessment {
    /// KEP-4205's six, or those that have a rule.
    pub conditions: Vec<Condition>,
    /// The taints that follow from the conditions.
    pub taints: Vec<Taint>,
    /// The kubelet's conditions that hold: `MemoryPressure`, `DiskPressure`, `PIDPressure`.
    pub node_pressure: Vec<NodePressure>,
    /// QoS classes whose ordinary pods the kubelet refuses under these conditions.
    pub refused: Vec<QosClass>,
    /// The readings of the eviction signals.
    pub observations: Vec<Observation>,
    /// Signals that a threshold watches and that could not be read.
    pub unobserved: Vec<Unobserved>,
    /// How long memory lasts, node first.
    pub outlooks: Vec<Outlook>,
    /// Pods that have more on disk than they are allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overruns: Vec<Overrun>,
    /// Thresholds that are met, in the order in which they are relieved: memory first, of each
    /// resource the kubelet's before isobar's.
    pub met: Vec<Met>,
    /// Thresholds that this tick could not measure: neither met nor calm.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<Trigger>,
    /// The threshold to relieve: the first that is due and was read anew since the last tick, else
    /// the first that is due; `None` if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Met>,
    /// What is `first` was not read anew (the kubelet starts nothing then), or is an average that only
    /// remembers what is over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_stale: bool,
    pub events: Vec<Event>,
}

impl Assessment {
    /// The conditions that are True, and the kubelet's that hold, by their names.
    pub fn holding(&self) -> impl Iterator<Item = &str> {
        let conditions = self.conditions.iter().filter(|one| one.status == Status::True);
        let pressure = self.node_pressure.iter().map(|pressure| pressure.name());
        conditions.map(|one| &*one.kind).chain(pressure)
    }
}

/// A taint that the node should carry now. It has no value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// One per resource, shared by both scopes.
    pub key: String,
    /// How it keeps pods away.
    pub effect: TaintEffect,
    /// The conditions that hold.
    pub because: Vec<ConditionName>,
}

/// A signal that a threshold watches and that said nothing. Such a threshold is not met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Unobserved {
    pub signal: Signal,
    pub why: String,
}

/// A pod that has more on the node's disks than it is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Overrun {
    /// `namespace/name`.
    pub pod: String,
    pub uid: String,
    /// Whose limit it is.
    pub of: OverrunOf,
    /// Of the volume, the pod or the container.
    pub name: String,
    pub used: Bytes,
    pub limit: Quantity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OverrunOf {
    /// An emptyDir with a size limit.
    Volume,
    /// The limits of all containers together.
    Pod,
    Container,
}

/// How long a scope's memory lasts, and what reclaim still makes of it. Over about ten seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    pub scope: ScopeName,
    /// What could still be had; `None` for pods without a limit.
    pub left: Option<Bytes>,
    /// Net growth of what is in use, swap included, in bytes a second; 0 if it shrinks. `None`
    /// before there are readings over two seconds.
    pub growth: Option<Bytes>,
    /// Until nothing is left at that rate; `None` if it does not grow, or is not known.
    pub lasts: Option<Nanos>,
    /// Pages reclaimed of those scanned; `None` if too few were scanned to tell.
    pub efficiency: Option<Percent>,
    /// Pages read back after eviction, per second.
    pub refaults: Option<u64>,
}
