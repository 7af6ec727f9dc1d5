//! Pods as the API describes them: the fields that a judgement may depend on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pod::QosClass;
use super::quantity::ResourceList;

/// One pod of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// `metadata.uid`, which its cgroup is named after.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// The controller among `metadata.ownerReferences`.
    pub owner: Option<Owner>,
    /// When it was made or, where the API says, started: seconds since 1970.
    pub started: Option<i64>,
    /// `spec.priority`; none counts as 0.
    pub priority: Option<i32>,
    /// `spec.priorityClassName`.
    pub priority_class: String,
    /// `spec.terminationGracePeriodSeconds`.
    pub termination_grace: Option<i64>,
    /// `spec.resources`: those of the pod as a whole.
    pub resources: Option<Resources>,
    /// `spec.overhead`.
    pub overhead: ResourceList,
    /// All containers: init containers first, in the order of the manifest.
    pub containers: Vec<Container>,
    /// `status.qosClass`, which stands once it is set.
    pub qos_class: Option<QosClass>,
    /// `spec.tolerations`, as far as admission looks at them.
    pub tolerations: Vec<Toleration>,
}

/// Who made a pod and would make another.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Owner {
    /// `ReplicaSet`, `Job`, ...
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// One container of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Its name.
    pub name: String,
    /// When it runs.
    pub kind: ContainerKind,
    /// What it asked for.
    pub resources: Resources,
    /// The runtime's id from the pod's status, without the runtime's name.
    pub id: Option<String>,
}

/// When a container runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerKind {
    /// Before the others, to its end.
    Init,
    /// An init container that goes on: `restartPolicy: Always`.
    Sidecar,
    /// With the others.
    #[default]
    Regular,
    /// For debugging.
    Ephemeral,
}

/// Requests and limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    /// What is set aside for it.
    pub requests: ResourceList,
    /// What it may not exceed.
    pub limits: ResourceList,
}

/// A taint that a pod puts up with. An empty `key` is any; an empty `effect` is any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// The taint's key.
    pub key: String,
    /// `Exists` or `Equal`, which an empty one is.
    pub operator: String,
    /// The taint's value, for `Equal`.
    pub value: String,
    /// The taint's effect.
    pub effect: String,
}
