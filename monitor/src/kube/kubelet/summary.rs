//! `/stats/summary`, as far as it is about disks. Source: kubelet
//! `staging/src/k8s.io/kubelet/pkg/apis/stats/v1alpha1/types.go`.

use std::collections::BTreeMap;

use serde::Deserialize;

use isobar_core::model::disk::{ContainerDisk, DiskUse, PodDisk};
use isobar_core::model::units::Bytes;

#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    /// Go writes `null` for a list of which nothing was made, as for each list below.
    pods: Option<Vec<Pod>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pod {
    pod_ref: Reference,
    containers: Option<Vec<Container>>,
    /// The kubelet's name for this list is in the singular.
    volume: Option<Vec<Volume>>,
    #[serde(rename = "ephemeral-storage")]
    ephemeral_storage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Reference {
    #[serde(default)]
    uid: String,
}

#[derive(Debug, Deserialize)]
struct Container {
    name: String,
    rootfs: Option<Usage>,
    logs: Option<Usage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: String,
    /// A claim's volume is not the node's.
    pvc_ref: Option<serde::de::IgnoredAny>,
    #[serde(flatten)]
    usage: Usage,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    used_bytes: Option<u64>,
    inodes_used: Option<u64>,
}

impl Summary {
    /// By uid. What the kubelet has not measured stays unknown.
    pub(super) fn pods(self) -> BTreeMap<String, PodDisk> {
        let pods =
            self.pods.unwrap_or_default().into_iter().filter(|pod| !pod.pod_ref.uid.is_empty());
        pods.map(|pod| (pod.pod_ref.uid.clone(), pod.disk())).collect()
    }
}

impl Pod {
    fn disk(self) -> PodDisk {
        let container = |Container { name, rootfs, logs }| {
            (name, ContainerDisk { layer: used(rootfs), logs: used(logs) })
        };
        let volumes = self.volume.into_iter().flatten();
        let volumes = volumes.filter(|volume| volume.pvc_ref.is_none());
        PodDisk {
            containers: self.containers.into_iter().flatten().map(container).collect(),
            volumes: volumes.map(|volume| (volume.name, used(Some(volume.usage)))).collect(),
            whole: used(self.ephemeral_storage),
        }
    }
}

fn used(usage: Option<Usage>) -> DiskUse {
    let Some(Usage { used_bytes, inodes_used }) = usage else { return DiskUse::default() };
    DiskUse { bytes: used_bytes.map(Bytes), inodes: inodes_used }
}
