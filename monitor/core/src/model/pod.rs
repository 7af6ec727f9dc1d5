//! What a cgroup is, from its path alone, without API server or container runtime.
//! Knows both cgroup drivers, static pods, containerd, CRI-O and docker, and nested roots as in
//! kind.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cgroup::CgroupPath;
use super::units::Bytes;

/// No sandbox holds so much memory: `pause` has less than one MiB, and `conmon` a few.
pub const LARGER_THAN_SANDBOX: Bytes = Bytes(16 << 20);

/// A pod's QoS class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

named!(QosClass {
    Guaranteed => "Guaranteed",
    Burstable => "Burstable",
    BestEffort => "BestEffort",
});

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// `cri-containerd-<id>.scope`
    Containerd,
    /// `crio-<id>.scope`
    CriO,
    /// `docker-<id>.scope`
    Docker,
    /// A bare id: the cgroupfs driver does not name the runtime.
    Unknown,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Place {
    /// The root cgroup.
    Node,
    /// The cgroup of all pods. Its limits are the enforced allocatable.
    Kubepods,
    /// The slice of all Burstable or all BestEffort pods.
    Qos { class: QosClass },
    /// A pod's cgroup.
    Pod {
        /// With dashes, as in the API; a static pod's uid is a bare hash.
        uid: Arc<str>,
        class: QosClass,
    },
    /// A container or a sandbox: the path does not tell them apart.
    Container { pod: Arc<str>, class: QosClass, id: Arc<str>, runtime: Runtime },
    /// Any other cgroup: a systemd slice, service or scope.
    #[default]
    Other,
}

impl Place {
    /// What the cgroup at `path` is.
    ///
    /// The first `kubepods` from the top counts, at any depth, so nested roots are found (kind's
    /// `/kubelet.slice/kubelet-kubepods.slice`, a node in a container). Cgroups inside a container
    /// belong to the container, whatever their names.
    ///
    /// A path is no proof: a user who may create cgroups can name them like a pod's.
    /// Source: kubelet `pkg/kubelet/cm/cgroup_manager_linux.go` and the runtimes' naming.
    pub fn of(path: &CgroupPath) -> Self {
        if path.is_root() {
            return Self::Node;
        }
        let mut segments = path.segments();
        let Some(mut names) = segments.by_ref().find_map(Names::below_kubepods) else {
            return Self::Other;
        };
        let Some(below) = segments.next() else { return Self::Kubepods };
        let (class, pod) = match names.step_into(below) {
            Some("burstable") => (QosClass::Burstable, segments.next()),
            Some("besteffort") => (QosClass::BestEffort, segments.next()),
            // Guaranteed pods have no slice: they are directly below kubepods.
            Some(name) => return Self::in_pod(QosClass::Guaranteed, names.pod_uid(name), segments),
            None => return Self::Other,
        };
        let Some(pod) = pod else { return Self::Qos { class } };
        let uid = names.step_into(pod).and_then(|name| names.pod_uid(name));
        Self::in_pod(class, uid, segments)
    }

    /// A pod, or the container `below` it.
    fn in_pod<'a>(
        class: QosClass,
        uid: Option<Arc<str>>,
        mut below: impl Iterator<Item = &'a str>,
    ) -> Self {
        match (uid, below.next().map(container)) {
            (Some(uid), None) => Self::Pod { uid, class },
            (Some(pod), Some(Some((runtime, id)))) => {
                Self::Container { pod, class, id: id.into(), runtime }
            }
            _ => Self::Other,
        }
    }
}

/// How the kubelet's cgroup driver spells names below the cgroup of all pods.
enum Names<'a> {
    /// cgroupfs driver: each directory has its plain name.
    Plain,
    /// systemd driver: a slice repeats the names of its ancestors, joined with dashes, and its own
    /// dashes become underscores. Holds the slice reached so far.
    Slices(&'a str),
}

impl<'a> Names<'a> {
    /// `None` if `segment` is not the cgroup of all pods.
    fn below_kubepods(segment: &'a str) -> Option<Self> {
        if segment == "kubepods" {
            return Some(Self::Plain);
        }
        let above = segment.strip_suffix("kubepods.slice")?;
        let is_its = above.is_empty() || above.ends_with('-');
        is_its.then(|| Self::Slices(&segment[..segment.len() - ".slice".len()]))
    }

    /// The plain name of the child directory `segment`; `None` if the driver would not spell it so.
    fn step_into(&mut self, segment: &'a str) -> Option<&'a str> {
        match self {
            Self::Plain => Some(segment),
            Self::Slices(above) => {
                let slice = segment.strip_suffix(".slice")?;
                let name = slice.strip_prefix(*above)?.strip_prefix('-')?;
                *above = slice;
                (!name.contains('-')).then_some(name)
            }
        }
    }

    /// The uid in a pod's plain name. Usually a UUID, 32 hex digits for a static pod, and free
    /// text in a manifest, so any shape is accepted.
    fn pod_uid(&self, name: &str) -> Option<Arc<str>> {
        let uid = name.strip_prefix("pod").filter(|uid| !uid.is_empty())?;
        match self {
            Self::Plain => Some(uid.into()),
            Self::Slices(_) => Some(uid.replace('_', "-").into()),
        }
    }
}

/// Runtime and id from a cgroup name below a pod; `None` for others, such as CRI-O's monitor
/// (`crio-conmon-<id>`).
fn container(segment: &str) -> Option<(Runtime, &str)> {
    const ID: usize = 64;
    let name = segment.strip_suffix(".scope").unwrap_or(segment);
    let (prefix, id) = name.split_at_checked(name.len().checked_sub(ID)?)?;
    if !id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    match prefix {
        "cri-containerd-" => Some((Runtime::Containerd, id)),
        "crio-" => Some((Runtime::CriO, id)),
        "docker-" => Some((Runtime::Docker, id)),
        "" => Some((Runtime::Unknown, id)),
        // A sandboxed runtime's prefix, such as `kata_<id>`.
        other => (!other.ends_with("conmon-")).then_some((Runtime::Unknown, id)),
    }
}

#[cfg(test)]
mod tests;
