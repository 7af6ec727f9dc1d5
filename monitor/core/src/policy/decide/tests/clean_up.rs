//! What the kubelet deletes before it ends a pod.

use std::sync::Arc;

use super::*;
use crate::model::disk::DiskReading;
use crate::model::node::Filesystem;

#[test]
fn clean_up_by_the_kubelet_comes_first() {
    #[rustfmt::skip]
    let table = [
        // signal, device of images and of layers (nodefs has 1), a kubelet tells, waited for
        (Signal::NodefsAvailable,  1, 1, true,  true),
        (Signal::ImagefsAvailable, 1, 1, true,  true),
        (Signal::NodefsInodesFree, 1, 1, true,  true),
        (Signal::NodefsAvailable,  1, 1, false, false),
        (Signal::NodefsAvailable,  2, 2, true,  false), // what it deletes is on the other disk
        (Signal::ImagefsAvailable, 2, 2, true,  true),
        (Signal::NodefsAvailable,  2, 1, true,  true),  // dead containers
        (Signal::PidAvailable,     1, 1, true,  false),
        (Signal::MemoryAvailable,  1, 1, true,  false),
    ];
    for (signal, images, layers, tells, is_awaited) in table {
        let mut node = Node::new();
        let on = |device| Some(Filesystem { device, ..Filesystem::default() });
        let files = &mut node.sample.node.filesystems;
        (files.nodefs, files.imagefs, files.containerfs) = (on(1), on(images), on(layers));
        node.sample.pod_disks = tells.then(|| Arc::new(DiskReading::default()));
        let short_of = [met(threshold(signal, Nanos(0)))];
        let held = node.at(1, &short_of).held;
        let want = is_awaited.then(|| Hold::CleaningUp { until: seconds(30) });
        assert_eq!(held, want, "{signal} {images} {layers} {tells}");
        if is_awaited {
            assert!(node.at(29, &short_of).actions.is_empty(), "{signal}");
            assert!(!node.at(30, &short_of).actions.is_empty(), "{signal}: its time is over");
        }
    }
}
