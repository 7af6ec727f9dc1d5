//! Cgroups between their birth and the first reading of the tree that shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use isobar_core::model::cgroup::{Cgroup, CgroupId};

/// Cgroups that no tree has shown yet. One that still is not there when the tree was read twice is
/// gone, and its end was lost.
#[derive(Debug, Default)]
pub(super) struct Created {
    pub(super) new: BTreeSet<u64>,
    old: BTreeSet<u64>,
}

impl Created {
    pub(super) fn contains(&self, id: u64) -> bool {
        self.new.contains(&id) || self.old.contains(&id)
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.new.remove(&id);
        self.old.remove(&id);
    }

    /// `tree` was read before the events.
    pub(super) fn seen(&mut self, tree: &BTreeMap<CgroupId, Arc<Cgroup>>) {
        self.old = std::mem::take(&mut self.new);
        self.old.retain(|id| !tree.contains_key(&CgroupId(*id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_forgets_a_birth_whose_end_was_lost() {
        let tree = |ids: &[u64]| -> BTreeMap<CgroupId, Arc<Cgroup>> {
            ids.iter().map(|id| (CgroupId(*id), Arc::default())).collect()
        };
        let mut created = Created::default();
        created.new.extend([7, 8, 9]);
        created.seen(&tree(&[7])); // read before the three were made, but for one
        assert!(!created.contains(7) && created.contains(8) && created.contains(9));
        created.remove(9);
        created.new.insert(10);
        created.seen(&tree(&[7]));
        assert!(!created.contains(8), "a whole tree was read since, and it is not there");
        assert!(!created.contains(9) && created.contains(10));
    }
}
