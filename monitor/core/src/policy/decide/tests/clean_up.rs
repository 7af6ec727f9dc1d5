//! What the kubelet deletes before it ends a pod.

use std::sync::Arc;

use super::*;
use crate::model::disk::{DiskReading, DiskSource};
use crate::model::node::Filesystem;

#[test]
fn clean_up_by_the_kubelet_comes_first() {
    use DiskSource::{Kubelet, Walk};
    #[rustfmt::skip]
    let table = [
        // signal, device of images and of layers (nodefs has 1), what tells of disks, waited for; twice: at a
        // hard threshold, and at one with a grace of two minutes
        (Signal::NodefsAvailable,  1, 1, Some(Kubelet), true),
        (Signal::ImagefsAvailable, 1, 1, Some(Kubelet), true),
        (Signal::NodefsInodesFree, 1, 1, Some(Kubelet), true),
        (Signal::NodefsAvailable,  1, 1, Some(Walk),    false), // nothing cleans up
        (Signal::NodefsAvailable,  1, 1, None,          false),
        (Signal::NodefsAvailable,  2, 2, Some(Kubelet), false), // what it deletes is on the other disk
        (Signal::ImagefsAvailable, 2, 2, Some(Kubelet), true),
        (Signal::NodefsAvailable,  2, 1, Some(Kubelet), true),  // dead containers
        (Signal::PidAvailable,     1, 1, Some(Kubelet), false),
        (Signal::MemoryAvailable,  1, 1, Some(Kubelet), false),
    ];
    let rows = table.into_iter().flat_map(|row| [(row, 0), (row, 120)]);
    for ((signal, images, layers, tells, is_awaited), grace) in rows {
        let mut node = Node::new();
        let on = |device| Some(Filesystem { device, ..Filesystem::default() });
        let files = &mut node.sample.node.filesystems;
        (files.nodefs, files.imagefs, files.containerfs) = (on(1), on(images), on(layers));
        node.sample.pod_disks =
            tells.map(|source| Arc::new(DiskReading { source, ..DiskReading::default() }));
        let short_of = [met(threshold(signal, seconds(grace)))];
        let held = node.at(grace + 1, &short_of).held;
        let want = is_awaited.then(|| Hold::CleaningUp { until: seconds(grace + 30) });
        assert_eq!(held, want, "{signal} {grace} {images} {layers} {tells:?}");
        if is_awaited {
            assert!(node.at(grace + 29, &short_of).actions.is_empty(), "{signal}");
            assert!(!node.at(grace + 30, &short_of).actions.is_empty(), "{signal}: too long");
        }
    }
}
