//! Thresholds on containerfs. They are not configured, but follow from where images are stored.
//! Source: kubelet `pkg/kubelet/eviction/helpers.go`, `UpdateContainerFsThresholds`.

use crate::model::node::{DiskLayout, Filesystems};
use crate::model::threshold::{Signal, Threshold};

/// `thresholds` with containerfs copied from nodefs or, where images and writable layers share a
/// dedicated file system, from imagefs. None if there is no containerfs.
pub fn rewritten(thresholds: &[Threshold], filesystems: &Filesystems) -> Vec<Threshold> {
    let is_ours =
        |signal| !matches!(signal, Signal::ContainerfsAvailable | Signal::ContainerfsInodesFree);
    let mut all: Vec<_> = thresholds.iter().filter(|t| is_ours(t.signal)).copied().collect();
    if filesystems.containerfs.is_none() {
        return all;
    }
    let is_with_images = filesystems.layout() == DiskLayout::WithLayers;
    let copies: Vec<_> = all
        .iter()
        .filter_map(|threshold| {
            let signal = match (threshold.signal, is_with_images) {
                (Signal::NodefsAvailable, false) | (Signal::ImagefsAvailable, true) => {
                    Signal::ContainerfsAvailable
                }
                (Signal::NodefsInodesFree, false) | (Signal::ImagefsInodesFree, true) => {
                    Signal::ContainerfsInodesFree
                }
                _ => return None,
            };
            Some(Threshold { signal, ..*threshold })
        })
        .collect();
    all.extend(copies);
    all
}
