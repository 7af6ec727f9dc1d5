//! Pods as the API describes them: the fields that the policy may depend on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pod::QosClass;
use super::quantity::ResourceList;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// `metadata.uid`, which is in the name of its cgroup.
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The controller among `metadata.ownerReferences`.
    pub owner: Option<Owner>,
    /// `status.startTime`, else `metadata.creationTimestamp`, in seconds since 1970.
    pub started: Option<i64>,
    /// `spec.priority`; `None` counts as 0.
    pub priority: Option<i32>,
    pub priority_class: String,
    pub termination_grace: Option<i64>,
    /// `spec.resources`: pod-level requests and limits.
    pub resources: Option<Resources>,
    pub overhead: ResourceList,
    /// Init containers first, in the order of the manifest.
    pub containers: Vec<Container>,
    /// `status.qosClass`, which never changes.
    pub qos_class: Option<QosClass>,
    /// `status.phase` is Succeeded or Failed: none of its containers runs again.
    pub is_over: bool,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
}

/// The controller that created a pod and would replace it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Owner {
    /// `ReplicaSet`, `Job`, ...
    pub kind: String,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    /// When the container runs.
    pub kind: ContainerKind,
    pub resources: Resources,
    /// The runtime's container id, without the runtime's name.
    pub id: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerKind {
    /// Runs to completion before the regular containers.
    Init,
    /// Init container with `restartPolicy: Always`: keeps running.
    Sidecar,
    /// Runs with the other regular containers.
    #[default]
    Regular,
    /// Added to a running pod for debugging.
    Ephemeral,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    /// Guaranteed by the scheduler.
    pub requests: ResourceList,
    /// Enforced by cgroups.
    pub limits: ResourceList,
}

/// A pod's toleration. An empty `key` or `effect` matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    pub key: String,
    /// `Exists` or `Equal`; empty is `Equal`.
    pub operator: String,
    pub value: String,
    pub effect: String,
}
