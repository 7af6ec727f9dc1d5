//! OOM kills are counted by a cgroup and by all above it, which are read before it. Read as of two
//! moments, a kill in between would count below in one tick and above in the next, as two kills.
//! So where a cgroup counts a kill, all below it are read, also what sleeps, and then all above it once
//! more.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use super::files::FileSet;
use super::group::{Group, Reading};
use super::{Tick, Tree};
use crate::source::gap::{Gaps, ReadError};
use isobar_core::model::cgroup::{Cgroup, CgroupId};

impl Tree {
    /// Reads `memory.events` again of what lies above cgroups in which the kernel has killed.
    pub(super) fn catch_up(
        &mut self,
        found: &mut BTreeMap<CgroupId, Arc<Cgroup>>,
        tick: &Tick,
        gaps: &mut Gaps,
    ) {
        let parent = |id: &CgroupId| self.groups.get(id).and_then(Group::parent);
        let killed = self.groups.values().filter(|group| group.is_killed);
        let above: BTreeSet<_> =
            killed.flat_map(|group| successors(group.parent(), parent)).collect();
        // What could not be read in this tick stays without figures.
        let is_read = |id: &CgroupId| found.get(id).is_some_and(|one| one.memory.events.is_some());
        let above: Vec<_> = above.into_iter().filter(is_read).collect();
        for id in above {
            match self.read_kills(id, tick, gaps) {
                Ok(cgroup) => {
                    found.entry(id).and_modify(|known| *known = cgroup);
                }
                // It was read before it was removed, and counts for this tick.
                Err(ReadError::Gone(_)) => {}
                Err(error) => gaps.add_of("cgroup", error.gap()),
            }
        }
    }

    fn read_kills(
        &mut self,
        id: CgroupId,
        tick: &Tick,
        gaps: &mut Gaps,
    ) -> Result<Arc<Cgroup>, ReadError> {
        let dir = self.dir(id)?;
        let Self { root, groups, reader } = self;
        let group = groups.get_mut(&id).expect("its directory is known");
        group.read_kills(&mut Reading {
            dir: dir.as_fd(),
            root,
            tick,
            reader,
            gaps,
            takes_preference: false,
            quiet_above: FileSet::default(),
            is_killed_above: true,
        })
    }
}
