//! What pods have on the node's disks: writable layers, logs and volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::is_default;
use super::node::DiskLayout;
use super::quantity::Quantity;
use super::threshold::{Resource, Signal};
use super::units::{Bytes, Nanos};
use super::workload::Pod;

/// Shared: it is read less often than samples are taken.
pub type PodDisks = Arc<DiskReading>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DiskReading {
    /// When it was read, on the clock of [`super::sample::Moment::boot`].
    pub at: Nanos,
    /// By the uid of the pod's cgroup.
    pub pods: BTreeMap<String, PodDisk>,
    /// What told of them.
    #[serde(skip_serializing_if = "is_default")]
    pub source: DiskSource,
}

/// See [`DiskReading::source`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DiskSource {
    /// Its `/stats/summary`, so there is one at work.
    #[default]
    Kubelet,
    /// The agent's own walk of their directories.
    Walk,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisk {
    /// By the container's name.
    pub containers: BTreeMap<String, ContainerDisk>,
    /// By the volume's name.
    pub volumes: BTreeMap<String, DiskUse>,
    /// What counts as ephemeral storage, as the source adds it up.
    pub whole: DiskUse,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerDisk {
    /// What it has written over its image.
    pub layer: DiskUse,
    pub logs: DiskUse,
}

/// `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DiskUse {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
}

impl DiskUse {
    /// Both together; what is unknown of one is left out.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        let bytes = |of: Self| of.bytes.map(|Bytes(n)| n);
        Self {
            bytes: sum(bytes(self), bytes(other)).map(Bytes),
            inodes: sum(self.inodes, other.inodes),
        }
    }

    /// As a quantity of disk space or of inodes.
    pub fn of(self, resource: Resource) -> Option<Quantity> {
        match resource {
            Resource::Inodes => self.inodes.map(Quantity::count),
            _ => self.bytes.map(|Bytes(n)| Quantity::bytes(n)),
        }
    }
}

impl PodDisk {
    /// What counts for `signal`. Volumes count that are on the node's disks by the pod's spec; all
    /// that the source names if the spec is not known.
    /// Source: kubelet `pkg/kubelet/eviction/helpers.go`, `buildSignalToRankFunc`.
    pub fn counted(&self, signal: Signal, layout: DiskLayout, pod: Option<&Pod>) -> DiskUse {
        self.parts(signal, layout, pod).into_iter().fold(DiskUse::default(), DiskUse::plus)
    }

    /// The layers, logs and volumes of which [`Self::counted`] is the sum.
    pub fn parts(&self, signal: Signal, layout: DiskLayout, pod: Option<&Pod>) -> Vec<DiskUse> {
        use Signal::{ImagefsAvailable, ImagefsInodesFree, NodefsAvailable, NodefsInodesFree};
        let is_of_node = matches!(signal, NodefsAvailable | NodefsInodesFree);
        let is_of_images = matches!(signal, ImagefsAvailable | ImagefsInodesFree);
        let (has_layers, has_rest) = match layout {
            DiskLayout::Single => (true, true),
            DiskLayout::WithLayers => (!is_of_node, is_of_node),
            DiskLayout::ImagesAlone => (!is_of_images, !is_of_images),
        };
        if !has_layers && !has_rest {
            return vec![DiskUse { bytes: Some(Bytes(0)), inodes: Some(0) }];
        }
        let is_local = |name: &str| {
            pod.is_none_or(|pod| pod.volumes.iter().any(|v| v.name == name && v.is_local))
        };
        let layers = self.containers.values().map(|container| container.layer);
        let logs = self.containers.values().map(|container| container.logs);
        let volumes = self.volumes.iter().filter(|(name, _)| is_local(name)).map(|(_, used)| *used);
        let layers = layers.filter(|_| has_layers);
        let rest = logs.chain(volumes).filter(|_| has_rest);
        layers.chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::workload::Volume;

    fn used(bytes: u64, inodes: u64) -> DiskUse {
        DiskUse { bytes: Some(Bytes(bytes)), inodes: Some(inodes) }
    }

    #[test]
    fn counted_follows_the_kubelets_table() {
        use DiskLayout::{ImagesAlone, Single, WithLayers};
        let container = ContainerDisk { layer: used(1, 10), logs: used(2, 20) };
        let disk = PodDisk {
            containers: BTreeMap::from([("app".into(), container)]),
            volumes: BTreeMap::from([("cache".into(), used(4, 40)), ("ram".into(), used(8, 80))]),
            whole: used(7, 70),
        };
        let volume = |name: &str, is_local| Volume { name: name.into(), is_local, limit: None };
        let pod =
            Pod { volumes: vec![volume("cache", true), volume("ram", false)], ..Pod::default() };
        #[rustfmt::skip]
        let table = [
            // signal,                      layout,      counted
            (Signal::NodefsAvailable,       Single,      used(7, 70)),
            (Signal::ImagefsInodesFree,     Single,      used(7, 70)),
            (Signal::NodefsAvailable,       WithLayers,  used(6, 60)),
            (Signal::ImagefsAvailable,      WithLayers,  used(1, 10)),
            (Signal::ContainerfsInodesFree, WithLayers,  used(1, 10)),
            (Signal::NodefsInodesFree,      ImagesAlone, used(7, 70)),
            (Signal::ContainerfsAvailable,  ImagesAlone, used(7, 70)),
            (Signal::ImagefsAvailable,      ImagesAlone, used(0, 0)),
        ];
        for (signal, layout, want) in table {
            assert_eq!(disk.counted(signal, layout, Some(&pod)), want, "{signal} {layout:?}");
        }
        let unknown = disk.counted(Signal::NodefsAvailable, Single, None);
        assert_eq!(unknown, used(15, 150), "without the spec all volumes count");
        let nothing = PodDisk::default().counted(Signal::NodefsAvailable, Single, None);
        assert_eq!(nothing, DiskUse::default(), "unknown, not 0");
    }
}
