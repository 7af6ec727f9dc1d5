//! Reads the cgroup v2 tree, once a tick, on descriptors kept from tick to tick.
//!
//! New and dead cgroups are found without listing every directory: the kernel keeps a cgroup
//! directory's link count at 2 and the number of its children (`kernfs_refresh_inode`,
//! fs/kernfs/inode.c), so one `fstat` tells. A birth and a death that cancel out leave a dead child
//! known; it is found dead when it is read, and its parent is then listed. Where the count means
//! something else (btrfs and overlay say 1) it never fits, and each directory is listed each tick.

pub(super) mod files;
mod group;
mod kept;
mod lacking;
mod listing;
pub(crate) mod parse;
mod quiet;
mod xattr;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, fstat, openat};
use rustix::io::Errno;

use self::group::{Child, Group, Reading};
pub(crate) use self::kept::Budget;
use self::kept::Reader;
use self::lacking::Lacking;
use self::listing::Listing;
use super::gap::{Gaps, ReadError};
use super::mounts::{DIRECTORY, Root};
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::psi::Pressures;
use isobar_core::model::units::Nanos;

/// One tick, as far as the tree is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) tick: u64,
    /// On the clock of `Moment::boot`.
    pub(crate) now: Nanos,
    /// `/proc/pressure`, just read.
    pub(crate) node: Pressures,
}

/// The cgroup tree from tick to tick.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Root,
    groups: BTreeMap<CgroupId, Group>,
    reader: Reader,
}

/// One tick's way through the tree.
struct Walk<'a> {
    turn: &'a Turn,
    to_visit: Vec<CgroupId>,
    found: BTreeMap<CgroupId, Cgroup>,
    /// Listed once more because a child was found dead. Once a tick: whoever makes and removes
    /// cgroups quickly must not keep the agent listing.
    listed_again: BTreeSet<CgroupId>,
    gaps: &'a mut Gaps,
}

impl Tree {
    /// Each directory is listed in turns of this many ticks, whatever its link count says, to see
    /// controllers and PSI being switched, and in case the count ever misleads.
    const LIST_EVERY: u64 = 10;

    pub(crate) fn new(root: Root, budget: Budget) -> Self {
        let top = Group::new(root.id(), c".".into(), CgroupPath::root(), None);
        Self { groups: BTreeMap::from([(root.id(), top)]), root, reader: Reader::new(budget) }
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Descriptors kept.
    pub(crate) fn n_kept(&self) -> usize {
        self.reader.budget.kept()
    }

    /// Reads every cgroup, parents first. What could not be read goes to `gaps`.
    pub(crate) fn read(&mut self, turn: &Turn, gaps: &mut Gaps) -> BTreeMap<CgroupId, Cgroup> {
        let mut lacking = Lacking::from(&self.root, self.root.dir(), &mut self.reader, gaps);
        let mut walk = Walk {
            turn,
            to_visit: vec![self.root.id()],
            found: BTreeMap::new(),
            listed_again: BTreeSet::new(),
            gaps,
        };
        while let Some(id) = walk.to_visit.pop() {
            // It may have gone with its parent since it was put on the list.
            if !self.groups.contains_key(&id) {
                continue;
            }
            match self.visit(id, &mut walk) {
                Ok(cgroup) => {
                    walk.found.insert(id, cgroup);
                    self.note_lacking(id, &mut lacking, &mut walk);
                }
                Err(error) => self.lose(id, &error, &mut walk),
            }
        }
        let Walk { found, gaps, .. } = walk;
        lacking.finish(&self.root, gaps);
        found
    }

    fn note_lacking(&self, id: CgroupId, lacking: &mut Lacking, walk: &mut Walk<'_>) {
        let Some(group) = self.groups.get(&id) else { return };
        walk.to_visit.extend(group.children.values().rev().map(|child| child.id));
        if let Some(parent) = group.parent().and_then(|parent| self.groups.get(&parent)) {
            lacking.note(group, parent, &self.root, walk.turn, walk.gaps);
        }
    }

    /// Reads one cgroup, and lists it if its children may have changed.
    fn visit(&mut self, id: CgroupId, walk: &mut Walk<'_>) -> Result<Cgroup, ReadError> {
        let dir = self.take_dir(id)?;
        let read = self.look(id, dir.as_fd(), walk);
        self.put_back(id, dir);
        read
    }

    fn look(
        &mut self,
        id: CgroupId,
        dir: BorrowedFd<'_>,
        walk: &mut Walk<'_>,
    ) -> Result<Cgroup, ReadError> {
        let stat = fstat(dir).map_err(|errno| self.error(id, errno))?;
        let group = &self.groups[&id];
        let as_known = stat.st_nlink == 2 + group.children.len() as u64;
        let above = group.parent().and_then(|parent| self.groups.get(&parent));
        // Whoever else owns a cgroup may write its attributes, and would choose for the node.
        let is_heard = stat.st_uid == 0 || above.is_some_and(|above| above.owner == stat.st_uid);
        if !as_known || group.relist || due(walk.turn.tick, id, Self::LIST_EVERY) {
            self.list(id, dir, walk.gaps)?;
        }
        let Self { root, groups, reader } = self;
        let group = groups.get_mut(&id).expect("listing a cgroup removes only those below it");
        group.owner = stat.st_uid;
        group.read(&mut Reading { dir, root, turn: walk.turn, reader, gaps: walk.gaps, is_heard })
    }

    /// Leaves a cgroup out of this tick. If it is gone, another may have taken its place without
    /// changing the parent's link count, so the parent is listed at once.
    fn lose(&mut self, id: CgroupId, error: &ReadError, walk: &mut Walk<'_>) {
        walk.gaps.note("cgroup", error.gap());
        let ReadError::Gone(_) = error else { return };
        let Some(parent) = self.forget(id) else { return };
        if !walk.listed_again.insert(parent) {
            return;
        }
        let listed = self.take_dir(parent).and_then(|dir| {
            let born = self.list(parent, dir.as_fd(), walk.gaps);
            self.put_back(parent, dir);
            born
        });
        match listed {
            Ok(born) => walk.to_visit.extend(born),
            // Gone as well. It was read before its child was, and counts for this tick.
            Err(ReadError::Gone(_)) => {}
            Err(error) => walk.gaps.note("cgroup", error.gap()),
        }
    }

    /// Compares a directory with what is known of it. Returns the children that are new.
    fn list(
        &mut self,
        id: CgroupId,
        dir: BorrowedFd<'_>,
        gaps: &mut Gaps,
    ) -> Result<Vec<CgroupId>, ReadError> {
        let listing = Listing::of(dir).map_err(|errno| self.error(id, errno))?;
        let Some(group) = self.groups.get_mut(&id) else { return Ok(Vec::new()) };
        group.see(&listing, &mut self.reader.budget);
        let mut before = mem::take(&mut group.children);
        let (mut gone, mut unknown) = (Vec::new(), Vec::new());
        for (name, listed_as) in listing.children {
            match before.remove(&name) {
                Some(child) if child.listed_as == listed_as => {
                    group.children.insert(name, child);
                }
                Some(replaced) => {
                    gone.push(replaced.id);
                    unknown.push((name, listed_as));
                }
                None => unknown.push((name, listed_as)),
            }
        }
        for dead in gone.into_iter().chain(before.into_values().map(|child| child.id)) {
            self.forget(dead);
        }
        let mut born = Vec::with_capacity(unknown.len());
        for (name, listed_as) in unknown {
            match self.adopt(id, dir, &name) {
                Ok(child) => {
                    born.push(child);
                    if let Some(group) = self.groups.get_mut(&id) {
                        group.children.insert(name, Child { id: child, listed_as });
                    }
                }
                // Gone before anybody saw it: no loss.
                Err(ReadError::Gone(_)) => {}
                // Not entered as a child, so the count does not fit and the next tick tries again.
                Err(error) => gaps.note("cgroup", error.gap()),
            }
        }
        Ok(born)
    }

    /// Takes in the directory `name` below `parent`.
    fn adopt(
        &mut self,
        parent: CgroupId,
        dir: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<CgroupId, ReadError> {
        let above = &self.groups[&parent];
        let path = above.path().child(&name.to_string_lossy());
        let at = match above.parent() {
            None => name.into(),
            Some(_) => join(&above.at, name),
        };
        let failed = |errno| match errno {
            Errno::NOENT | Errno::NODEV => ReadError::Gone(path.clone()),
            errno => ReadError::io(&self.root.path_of(&path, ""), errno),
        };
        let fd = openat(dir, name, DIRECTORY, Mode::empty()).map_err(failed)?;
        let id = CgroupId(fstat(&fd).map_err(failed)?.st_ino);
        // Kernfs never gives a number twice, but ordinary filesystems do, and at once.
        if let Some(namesake) = self.groups.get(&id) {
            if self.root.holds(&namesake.at, id) {
                return Err(failed(Errno::LOOP));
            }
            self.forget(id);
        }
        let mut group = Group::new(id, at, path, Some(parent));
        self.reader.budget.keep(fd, &mut group.dir);
        self.groups.insert(id, group);
        Ok(id)
    }

    /// Drops a cgroup and everything below it, and closes its descriptors. Returns its parent.
    fn forget(&mut self, id: CgroupId) -> Option<CgroupId> {
        let mut group = self.groups.remove(&id)?;
        group.close_all(&mut self.reader.budget);
        let parent = group.parent();
        if let Some(above) = parent.and_then(|parent| self.groups.get_mut(&parent))
            && above.children.get(group.name()).is_some_and(|child| child.id == id)
        {
            above.children.remove(group.name());
        }
        let mut below: Vec<_> = group.children.into_values().map(|child| child.id).collect();
        while let Some(id) = below.pop() {
            let Some(mut group) = self.groups.remove(&id) else { continue };
            group.close_all(&mut self.reader.budget);
            below.extend(group.children.into_values().map(|child| child.id));
        }
        parent
    }

    /// The open directory of a known cgroup: the kept one, or one opened for this tick.
    fn take_dir(&mut self, id: CgroupId) -> Result<OwnedFd, ReadError> {
        let Some(group) = self.groups.get_mut(&id) else {
            return Err(ReadError::Gone(CgroupPath::default()));
        };
        if let Some(dir) = self.reader.budget.release(&mut group.dir) {
            return Ok(dir);
        }
        let at = group.at.clone();
        let opened = openat(self.root.dir(), &at, DIRECTORY, Mode::empty());
        let dir = opened.map_err(|errno| self.error(id, errno))?;
        match fstat(&dir) {
            Ok(stat) if stat.st_ino == id.0 => Ok(dir),
            Ok(_) => Err(self.error(id, Errno::NOENT)),
            Err(errno) => Err(self.error(id, errno)),
        }
    }

    fn put_back(&mut self, id: CgroupId, dir: OwnedFd) {
        if let Some(group) = self.groups.get_mut(&id) {
            self.reader.budget.keep(dir, &mut group.dir);
        }
    }

    /// What it means that a known cgroup's directory cannot be used.
    fn error(&self, id: CgroupId, errno: Errno) -> ReadError {
        let path = self.groups.get(&id).map(|group| group.path().clone()).unwrap_or_default();
        match errno {
            Errno::NOENT | Errno::NODEV => ReadError::Gone(path),
            errno => ReadError::io(&self.root.path_of(&path, ""), errno),
        }
    }
}

fn join(above: &CStr, name: &CStr) -> CString {
    let bytes = [above.to_bytes(), b"/", name.to_bytes()].concat();
    CString::new(bytes).expect("neither part has a zero byte")
}

/// Whether it is the turn of the cgroup `id`, which comes once in `every` ticks.
fn due(tick: u64, id: CgroupId, every: u64) -> bool {
    // Kernfs numbers a directory and its files in one go, so ids of like cgroups lie a constant
    // apart and, taken as they are, might all have the same turn.
    let spread = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    tick.wrapping_add(spread).is_multiple_of(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_spread_evenly_whatever_lies_between_the_ids() {
        for apart in [1, 10, 13, 20, 80, 1 << 32] {
            let ids = (0..1_000).map(|n| CgroupId(1 + n * apart));
            let mut per_tick = [0_u32; 10];
            for id in ids {
                let turns: Vec<_> = (0..10).filter(|tick| due(*tick, id, 10)).collect();
                assert_eq!(turns.len(), 1, "each has one turn in ten ticks: {id:?}");
                per_tick[usize::try_from(turns[0]).unwrap()] += 1;
            }
            let most = per_tick.into_iter().max();
            assert!(most < Some(200), "{apart} apart: {per_tick:?}");
        }
    }
}
