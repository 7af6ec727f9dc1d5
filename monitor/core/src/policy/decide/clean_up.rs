//! Dead containers and unused images: the kubelet deletes them before it ends a pod for a disk.
//! Source: kubelet `pkg/kubelet/eviction/helpers.go`, `buildSignalToNodeReclaimFuncs`.

use super::Question;
use crate::model::decision::{Met, Trigger};
use crate::model::disk::DiskSource;
use crate::model::node::DiskLayout;
use crate::model::threshold::{Resource, Signal};
use crate::model::units::Nanos;

/// Two of the kubelet's rounds, ten seconds apart, and as much again for deleting.
const PATIENCE: Nanos = Nanos(30 * Nanos::SECOND.0);

/// Until when the kubelet is left to clean up; `None` if there is no kubelet, or nothing that it
/// deletes is on the file system that is short.
pub(super) fn awaited(question: &Question<'_>, first: &Met) -> Option<Nanos> {
    // A kubelet that tells of disks is at work.
    question.sample.pod_disks.as_ref().filter(|disks| disks.source == DiskSource::Kubelet)?;
    let Trigger::Eviction(threshold) = first.threshold else { return None };
    let signal = threshold.signal;
    let is_disk = matches!(signal.resource(), Resource::Storage | Resource::Inodes);
    let is_nodefs = matches!(signal, Signal::NodefsAvailable | Signal::NodefsInodesFree);
    let layout = question.sample.node.filesystems.layout();
    let deletes = is_disk && (layout != DiskLayout::WithLayers || !is_nodefs);
    let until = first.since.plus(PATIENCE);
    (deletes && question.sample.at.boot < until).then_some(until)
}
