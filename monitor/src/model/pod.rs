//! What a cgroup is, told from its path alone: no API server, no container runtime.
//! Both cgroup drivers, static pods, containerd, CRI-O and docker, nested roots as in kind.

use serde::{Deserialize, Serialize};

/// A pod's class of service, as its cgroup's path tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QosClass {
    /// Every container's requests equal its limits.
    Guaranteed,
    /// Some request or limit is set.
    Burstable,
    /// None is set.
    BestEffort,
}

/// Which runtime named a container's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// `cri-containerd-<id>.scope`.
    Containerd,
    /// `crio-<id>.scope`.
    CriO,
    /// `docker-<id>.scope`.
    Docker,
    /// A bare id, as the cgroupfs driver has it: any of them.
    Unknown,
}

/// What a cgroup is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Place {
    /// The root: the whole node.
    Node,
    /// The cgroup of all pods: its limits are the enforced allocatable.
    Kubepods,
    /// The slice of all Burstable or of all BestEffort pods.
    Qos {
        /// Whose slice.
        class: QosClass,
    },
    /// One pod.
    Pod {
        /// Dashes as in the API; a static pod's is a bare hash.
        uid: String,
        /// Its class.
        class: QosClass,
    },
    /// One container (or sandbox: the path does not tell) of a pod.
    Container {
        /// Its pod.
        pod: String,
        /// Its class.
        class: QosClass,
        /// The runtime's id.
        id: String,
        /// Which runtime.
        runtime: Runtime,
    },
    /// Anything else: a systemd slice, service or scope, or a cgroup of somebody's own.
    #[default]
    Other,
}
