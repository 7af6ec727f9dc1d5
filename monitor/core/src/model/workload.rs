//! Pods as the API describes them: the fields that the policy may depend on.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decision::full_name;
use super::pod::{Place, QosClass};
use super::quantity::{Quantity, ResourceList};
use super::threshold::Resource;

/// The pods of a node by uid, shared: they change far less often than samples are taken.
pub type Pods = Arc<BTreeMap<String, Pod>>;

/// Set on the mirror pod, the API's copy of a static pod: the static pod's uid, as its cgroup has it;
/// the mirror pod has another one. The kubelet runs no pod that the API server has this of.
/// Source: kubelet `pkg/kubelet/pod/mirror_client.go`, `CreateMirrorPod`.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// The same of a static pod itself. Of an ordinary pod it says nothing: its owner may write it.
/// Source: kubelet `pkg/kubelet/types/pod_update.go`, `ConfigHashAnnotationKey`.
pub const HASH: &str = "kubernetes.io/config.hash";

/// A static pod's uid is 32 hex digits without dashes; the API uses UUIDs.
/// Source: kubelet `pkg/kubelet/config/common.go`, `applyDefaults`.
pub fn is_static_uid(uid: &str) -> bool {
    uid.len() == 32 && uid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Pods by the uid that their cgroups are named after.
pub fn by_cgroup_uid(pods: &Pods) -> BTreeMap<&str, &Pod> {
    let mirrors = pods.values().filter_map(|pod| Some((pod.mirrored()?, pod)));
    // A pod's own uid wins over what another says of it.
    mirrors.chain(pods.values().map(|pod| (pod.uid.as_str(), pod))).collect()
}

/// The pod whose cgroup is named after this uid.
pub fn of_cgroup_uid<'a>(pods: &'a Pods, uid: &str) -> Option<&'a Pod> {
    // All are looked through for a static pod alone, and for one that no source told of.
    pods.get(uid).or_else(|| pods.values().rfind(|pod| pod.mirrored() == Some(uid)))
}

/// What the API calls the pod or the container at `place`; `pods` by the uid of their cgroups.
pub fn name_at(place: &Place, pods: &BTreeMap<&str, &Pod>) -> Option<String> {
    match place {
        Place::Pod { uid, .. } => pods.get(&**uid).map(|pod| pod.full_name()),
        Place::Container { pod, id, .. } => pods.get(&**pod).map(|pod| within(pod, id)),
        _ => None,
    }
}

/// A container by its runtime's id. One that the API does not list is the pod's sandbox, or has just
/// been started; while the API tells no id of a pod's only container, the pod says as much.
fn within(pod: &Pod, id: &str) -> String {
    match (pod.container(id), &*pod.containers) {
        (Some(Container { name, .. }), _) => format!("container {name} of {}", pod.full_name()),
        (None, [Container { id: None, .. }]) => pod.full_name(),
        (None, _) => nameless(&pod.full_name(), id),
    }
}

/// A container whose name is not known.
pub fn nameless(pod: &str, id: &str) -> String {
    format!("a container of {pod} (id {})", id.get(..12).unwrap_or(id))
}

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
    /// Seconds that it is given to end, once its end was ordered: `metadata.deletionTimestamp` is set,
    /// its phase is Succeeded or Failed, or the kubelet evicts it.
    pub ends_within: Option<i64>,
    /// `status.reason` is Evicted: the kubelet ended it. While its containers run, an event of the
    /// kubelet's says that it ends it.
    pub is_evicted: bool,
    /// What was short, if the message of its status says that the kubelet evicted it for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evicted_for: Option<Resource>,
    /// `spec.restartPolicy`; `None` in recordings of before it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// Those of `spec.volumes` whose use of the node is counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    pub name: String,
    /// On the node's disks: emptyDir that is not in memory, hostPath, configMap, gitRepo.
    pub is_local: bool,
    /// `emptyDir.sizeLimit`; `None` if it has none.
    pub limit: Option<Quantity>,
}

impl Pod {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        full_name(&self.namespace, &self.name, 0)
    }

    /// The uid of the static pod that this one mirrors. An ordinary pod has no mirror, so another uid
    /// counts for nothing.
    pub fn mirrored(&self) -> Option<&str> {
        self.annotations.get(MIRROR).map(String::as_str).filter(|uid| is_static_uid(uid))
    }

    /// The container with the runtime's `id`.
    pub fn container(&self, id: &str) -> Option<&Container> {
        self.containers.iter().find(|container| container.id.as_deref() == Some(id))
    }
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
    /// `restartCount` of its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_restarts: Option<u32>,
    /// Its own `restartPolicy`, which goes before the pod's; Kubernetes 1.34. A sidecar's is its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    /// `restartPolicyRules`: the first that holds goes before `restart_policy`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restart_rules: Vec<RestartRule>,
}

/// Exit codes after which the kubelet starts a container again.
///
/// Source: kubelet `pkg/api/v1/pod/util.go`, `findMatchingContainerRestartRule`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RestartRule {
    /// `RestartAllContainers` in place of `Restart`: all of the pod's; Kubernetes 1.35.
    pub is_for_all: bool,
    /// `NotIn` in place of `In`: all codes but these.
    pub is_for_others: bool,
    pub exit_codes: Vec<i32>,
}

impl RestartRule {
    pub fn holds(&self, exit_code: i32) -> bool {
        self.exit_codes.contains(&exit_code) != self.is_for_others
    }
}

/// Which containers the kubelet starts again that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RestartPolicy {
    Never,
    /// Those that ended with an error, as after a signal.
    OnFailure,
    Always,
}

named!(RestartPolicy {
    Never => "Never",
    OnFailure => "OnFailure",
    Always => "Always",
});

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
