//! The disk use of pods, where a kubelet or the agent's own walk told of it.

use std::collections::BTreeMap;

use isobar_core::model::disk::{DiskReading, DiskUse, PodDisk};
use isobar_core::model::node::{Filesystem, Filesystems};
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::workload::Pod;

use super::{FsStats, VolumeStats, filesystem, time};

/// What pods have on disks, with the file systems that it is on.
pub(super) struct Disks<'a> {
    pods: Option<&'a BTreeMap<String, PodDisk>>,
    /// When it was read.
    at: String,
    pub(super) nodefs: Option<Filesystem>,
    pub(super) layers: Option<Filesystem>,
}

impl<'a> Disks<'a> {
    pub(super) fn of(snapshot: &Snapshot, disks: Option<&'a DiskReading>) -> Self {
        let Filesystems { nodefs, imagefs, containerfs, .. } = snapshot.node.filesystems;
        let age = snapshot.at.boot.since(disks.map(|disks| disks.at).unwrap_or_default());
        Self {
            pods: disks.map(|disks| &disks.pods),
            at: time(snapshot.at.wall.since(age)),
            nodefs,
            layers: containerfs.or(imagefs),
        }
    }

    pub(super) fn pod(&self, uid: &str) -> Option<&'a PodDisk> {
        self.pods?.get(uid)
    }

    /// As the kubelet, with what is left on the file system for all that are on it.
    pub(super) fn used(
        &self,
        fs: Option<Filesystem>,
        DiskUse { bytes, inodes }: DiskUse,
    ) -> FsStats {
        // Where its own use is not known, nothing is told.
        let fs = fs.filter(|_| bytes.is_some() || inodes.is_some());
        let whole = fs.map(|fs| filesystem(fs, &self.at)).unwrap_or_default();
        FsStats { time: self.at.clone(), used_bytes: bytes, inodes_used: inodes, ..whole }
    }

    /// `None` if it has none of which anything is known.
    pub(super) fn volumes(&self, disk: &PodDisk, pod: &Pod) -> Option<Vec<VolumeStats>> {
        let known = disk.volumes.iter().filter(|(_, used)| **used != DiskUse::default());
        let volumes = known.map(|(name, used)| {
            let is_local = pod.volumes.iter().any(|one| one.name == *name && one.is_local);
            let fs = self.used(self.nodefs.filter(|_| is_local), *used);
            VolumeStats { name: name.clone(), fs }
        });
        let volumes: Vec<_> = volumes.collect();
        (!volumes.is_empty()).then_some(volumes)
    }
}
