//! Which parties are there.

use super::{Party, Tree};
use crate::model::cgroup::CgroupPath;

/// Uids of pods, and paths, both sorted.
pub(super) struct There<'a> {
    pods: Vec<&'a str>,
    outside: Vec<&'a CgroupPath>,
}

impl<'a> There<'a> {
    pub(super) fn of(tree: &'a Tree<'_>) -> Self {
        let (mut pods, mut outside): (Vec<&str>, Vec<&CgroupPath>) = Default::default();
        for party in tree.parties.values() {
            match party {
                // A pod's cgroups mostly follow one upon the other.
                Party::Pod(uid) if pods.last() == Some(&&**uid) => {}
                Party::Pod(uid) => pods.push(uid),
                Party::Outside(path) => outside.push(path),
            }
        }
        pods.sort_unstable();
        outside.sort_unstable();
        Self { pods, outside }
    }

    pub(super) fn has_pod(&self, uid: &str) -> bool {
        self.pods.binary_search(&uid).is_ok()
    }

    pub(super) fn has_outside(&self, path: &CgroupPath) -> bool {
        path.is_root() || self.outside.binary_search(&path).is_ok()
    }
}
