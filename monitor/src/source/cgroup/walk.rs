//! What one tick's walk through the tree has found, and what is still to be visited.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Tick;
use super::files::File;
use super::group::Group;
use crate::source::gap::Gaps;
use isobar_core::model::cgroup::{Cgroup, CgroupId};

/// The state of one tick's walk.
pub(super) struct Walk<'a> {
    pub(super) tick: &'a Tick,
    pub(super) to_visit: Vec<CgroupId>,
    pub(super) found: BTreeMap<CgroupId, Arc<Cgroup>>,
    /// Listed again because a child was found removed. At most once a tick: a process that creates
    /// and removes cgroups quickly must not keep the agent listing.
    pub(super) listed_again: BTreeSet<CgroupId>,
    pub(super) awake: Subtrees,
    /// In the last tick there were too few descriptors to keep.
    pub(super) is_short: bool,
    pub(super) gaps: &'a mut Gaps,
}

/// Cgroups in which something may have run since the last reading, or below which it may.
pub(super) enum Subtrees {
    All,
    These { roots: BTreeSet<CgroupId>, by_queue: bool },
}

impl Walk<'_> {
    /// Asked of parents first.
    pub(super) fn is_awake(&mut self, group: &Group) -> bool {
        let Subtrees::These { roots, by_queue } = &mut self.awake else { return true };
        let has_queue = !*by_queue || group.files.has(File::CpuWeight);
        let parent_is = || group.parent().is_some_and(|parent| roots.contains(&parent));
        let is_awake = roots.contains(&group.id) || !has_queue && parent_is();
        if is_awake {
            roots.insert(group.id);
        }
        is_awake
    }
}
