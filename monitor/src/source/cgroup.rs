//! Reads the cgroup v2 tree, once a tick, on descriptors kept from tick to tick.
//!
//! New and removed cgroups are found without listing every directory: the kernel keeps a cgroup
//! directory's link count at 2 plus its number of children (`kernfs_refresh_inode`,
//! fs/kernfs/inode.c), so one `fstat` is enough. If one child is created and another removed, the
//! count stays the same; the removed child is found when it is read, and its parent is then
//! listed. Where the count means something else (1 on btrfs and overlay) it never matches, and
//! each directory is listed each tick.

mod descriptors;
pub(super) mod files;
mod group;
mod idle;
mod kills;
mod listing;
mod missing;
pub(crate) mod parse;
mod quiet;
mod walk;
mod xattr;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, fstat, openat};
use rustix::io::Errno;

pub(crate) use self::descriptors::Budget;
use self::descriptors::Reader;
use self::files::File;
use self::group::{Child, Group, Reading};
use self::listing::Listing;
use self::missing::Missing;
use self::walk::{Subtrees, Walk};
use super::awake::Awake;
use super::gap::{Gaps, ReadError};
use super::mounts::{DIRECTORY, Root};
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::psi::Pressures;
use isobar_core::model::units::Nanos;

/// The longest path, twice what the kernel opens: who may nest cgroups makes longer ones, and each level holds
/// the names above it.
const LONGEST: usize = 8 << 10;

/// What the tree must know of the current tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tick {
    pub(crate) number: u64,
    /// On the clock of `Moment::boot`.
    pub(crate) now: Nanos,
    /// `/proc/pressure`.
    pub(crate) pressure: Pressures,
    /// It was read in this tick.
    pub(crate) is_pressure_new: bool,
    /// The node reclaimed memory since the last tick, from whomever.
    pub(crate) is_reclaimed: bool,
}

/// The cgroup tree from tick to tick.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Root,
    groups: BTreeMap<CgroupId, Group>,
    reader: Reader,
}

impl Tree {
    /// Each directory is listed once in this many ticks, whatever its link count, unless it sleeps:
    /// to notice that controllers or PSI are switched, and in case the count misleads.
    const LIST_EVERY: u64 = 30;
    /// A leaf that sleeps is looked at once in this many ticks: what is removed with a task in it
    /// has run, and what is removed without one changes its parent's count.
    const LOOK_EVERY: u64 = 4;

    pub(crate) fn new(root: Root, budget: Budget) -> Self {
        let top = Group::new(root.id, c".".into(), CgroupPath::root(), None);
        Self { groups: BTreeMap::from([(root.id, top)]), root, reader: Reader::new(budget) }
    }

    /// Number of descriptors kept.
    pub(crate) fn n_kept(&self) -> usize {
        self.reader.budget.kept()
    }

    /// Reads every cgroup, parents first. One that cannot be read is there, too, with a gap and without
    /// figures; only one that was removed is left out.
    pub(crate) fn read(
        &mut self,
        tick: &Tick,
        awake: &Awake,
        gaps: &mut Gaps,
    ) -> BTreeMap<CgroupId, Arc<Cgroup>> {
        let mut missing = Missing::at_root(&self.root, &mut self.reader, gaps);
        let mut walk = Walk {
            tick,
            to_visit: vec![self.root.id],
            found: BTreeMap::new(),
            listed_again: BTreeSet::new(),
            awake: self.subtrees(awake),
            is_short: self.reader.budget.was_short(),
            gaps,
        };
        while let Some(id) = walk.to_visit.pop() {
            // It may have been removed with its parent since it was put on the list.
            if !self.groups.contains_key(&id) {
                continue;
            }
            let read = self.visit(id, &mut walk);
            let is_read = read.is_ok();
            let cgroup = match read {
                Ok(cgroup) => cgroup,
                Err(error) => {
                    let is_gone = matches!(error, ReadError::Gone(_));
                    walk.gaps.add_of("cgroup", error.gap());
                    if is_gone {
                        self.leave_out(id, &mut walk);
                        continue;
                    }
                    self.groups.get_mut(&id).expect("it was there").unread()
                }
            };
            walk.found.insert(id, cgroup);
            let group = &self.groups[&id];
            walk.to_visit.extend(group.children.values().rev().map(|child| child.id));
            let parent = group.parent().and_then(|parent| self.groups.get(&parent));
            if let Some(parent) = parent.filter(|_| is_read) {
                missing.note(group, parent, &self.root, tick, walk.gaps);
            }
        }
        missing.finish(&self.root, walk.gaps);
        let Walk { mut found, gaps, .. } = walk;
        self.catch_up(&mut found, tick, gaps);
        found
    }

    /// The cgroups that are awake, and all above them.
    fn subtrees(&self, awake: &Awake) -> Subtrees {
        let Awake::These { cgroups, by_queue } = awake else { return Subtrees::All };
        let mut roots = BTreeSet::new();
        for id in cgroups {
            let mut at = Some(*id);
            while let Some(id) = at.filter(|id| roots.insert(*id)) {
                at = self.groups.get(&id).and_then(Group::parent);
            }
        }
        Subtrees::These { roots, by_queue: *by_queue }
    }

    /// Whether its last reading is still true. Asked of all, parents first: the answer for those below
    /// may depend on it.
    fn may_sleep_on(&self, id: CgroupId, walk: &mut Walk<'_>) -> bool {
        let group = &self.groups[&id];
        let is_awake = walk.is_awake(group);
        let parent = group.parent().and_then(|parent| self.groups.get(&parent));
        !is_awake && parent.is_some_and(|above| group.may_sleep_on(above, walk.tick))
    }

    /// Reads one cgroup, and lists it if its children may have changed.
    fn visit(&mut self, id: CgroupId, walk: &mut Walk<'_>) -> Result<Arc<Cgroup>, ReadError> {
        let may_sleep_on = self.may_sleep_on(id, walk);
        if may_sleep_on
            && !due(walk.tick.number, id, Self::LOOK_EVERY)
            && let Some(leaf) = self.groups.get_mut(&id).filter(|group| group.children.is_empty())
        {
            return Ok(leaf.sleep_on(walk.is_short, &mut self.reader.budget));
        }
        let dir = self.dir(id)?;
        let dir = dir.as_fd();
        let stat = fstat(dir).map_err(|errno| self.error(id, errno))?;
        let group = &self.groups[&id];
        let is_same = usize::try_from(stat.st_nlink) == Ok(2 + group.children.len());
        let parent = group.parent().and_then(|parent| self.groups.get(&parent));
        // Another owner may write the attributes too, and would then decide for the node.
        let is_delegated = stat.st_uid != 0 || parent.is_some_and(|parent| parent.is_delegated);
        let takes_preference =
            stat.st_uid == 0 || parent.is_some_and(|parent| parent.uid == stat.st_uid);
        let is_killed_above = parent.is_some_and(|parent| parent.is_killed);
        let mut quiet_above =
            parent.map(|up| up.quiet.files(walk.tick.now, &group.quiet)).unwrap_or_default();
        // The root's is filled from the disks' own statistics, which a queue may not keep.
        if parent.is_some_and(|parent| parent.parent().is_none()) {
            quiet_above.remove(File::IoStat);
        }
        let sleeps_on = is_same && may_sleep_on;
        let is_due = !sleeps_on && due(walk.tick.number, id, Self::LIST_EVERY);
        if !is_same || group.relist || is_due {
            self.list(id, dir, walk.gaps)?;
        }
        let Self { root, groups, reader } = self;
        let group = groups.get_mut(&id).expect("listing a cgroup removes only those below it");
        (group.uid, group.is_delegated) = (stat.st_uid, is_delegated);
        if sleeps_on {
            return Ok(group.sleep_on(walk.is_short, &mut reader.budget));
        }
        let (tick, gaps) = (walk.tick, &mut *walk.gaps);
        group.read(&mut Reading {
            dir,
            root,
            tick,
            reader,
            gaps,
            takes_preference,
            quiet_above,
            is_killed_above,
        })
    }

    /// Leaves a cgroup that was removed out of this tick. Another may have taken its place without
    /// changing the parent's link count, so the parent is listed at once.
    fn leave_out(&mut self, id: CgroupId, walk: &mut Walk<'_>) {
        let Some(parent) = self.forget(id) else { return };
        if !walk.listed_again.insert(parent) {
            return;
        }
        match self.dir(parent).and_then(|dir| self.list(parent, dir.as_fd(), walk.gaps)) {
            Ok(new) => walk.to_visit.extend(new),
            // Removed as well. It was read before its child and counts for this tick.
            Err(ReadError::Gone(_)) => {}
            Err(error) => walk.gaps.add_of("cgroup", error.gap()),
        }
    }

    /// Compares a directory with its known children. Returns those that are new.
    fn list(
        &mut self,
        id: CgroupId,
        dir: BorrowedFd<'_>,
        gaps: &mut Gaps,
    ) -> Result<Vec<CgroupId>, ReadError> {
        let listing = Listing::of(dir).map_err(|errno| self.error(id, errno))?;
        let Some(group) = self.groups.get_mut(&id) else { return Ok(Vec::new()) };
        group.set_files(&listing, &mut self.reader.budget);
        let mut before = mem::take(&mut group.children);
        let (mut removed, mut unknown) = (Vec::new(), Vec::new());
        for (name, listed_as) in listing.children {
            match before.remove(&name) {
                Some(child) if child.listed_as == listed_as => {
                    group.children.insert(name, child);
                }
                replaced => {
                    removed.extend(replaced);
                    unknown.push((name, listed_as));
                }
            }
        }
        for child in removed.into_iter().chain(before.into_values()) {
            self.forget(child.id);
        }
        let mut new = Vec::with_capacity(unknown.len());
        for (name, listed_as) in unknown {
            match self.adopt(id, dir, &name) {
                Ok(child) => {
                    new.push(child);
                    if let Some(group) = self.groups.get_mut(&id) {
                        group.children.insert(name, Child { id: child, listed_as });
                    }
                }
                // Removed before the first reading: no loss.
                Err(ReadError::Gone(_)) => {}
                // It is not added as a child, so the count differs and the next tick tries again.
                Err(error) => gaps.add_of("cgroup", error.gap()),
            }
        }
        Ok(new)
    }

    /// Adds the directory `name` below `parent`.
    fn adopt(
        &mut self,
        parent: CgroupId,
        dir: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<CgroupId, ReadError> {
        let above = &self.groups[&parent];
        let is_above_delegated = above.is_delegated;
        let path = above.path().child(&name.to_string_lossy());
        let at = match above.parent() {
            None => name.into(),
            Some(_) => join(&above.at, name),
        };
        let failed = |errno| self.error_at(&path, errno);
        if at.to_bytes().len() >= LONGEST {
            return Err(failed(Errno::NAMETOOLONG));
        }
        let fd = openat(dir, name, DIRECTORY, Mode::empty()).map_err(failed)?;
        let stat = fstat(&fd).map_err(failed)?;
        let id = CgroupId(stat.st_ino);
        // Kernfs never reuses an id, but ordinary file systems do, and at once.
        if let Some(former) = self.groups.get(&id) {
            if self.root.holds(&former.at, id) {
                return Err(failed(Errno::LOOP));
            }
            self.forget(id);
        }
        let mut group = Group::new(id, at, path, Some(parent));
        (group.uid, group.is_delegated) = (stat.st_uid, stat.st_uid != 0 || is_above_delegated);
        self.reader.budget.keep(Arc::new(fd), &mut group.dir);
        self.groups.insert(id, group);
        Ok(id)
    }

    /// Drops a cgroup and its descendants, and closes their descriptors. Returns its parent.
    fn forget(&mut self, id: CgroupId) -> Option<CgroupId> {
        let group = self.groups.get(&id)?;
        let (parent, name) = (group.parent(), group.name().to_owned());
        if let Some(above) = parent.and_then(|parent| self.groups.get_mut(&parent))
            && above.children.get(&name).is_some_and(|child| child.id == id)
        {
            above.children.remove(&name);
        }
        let mut removed = vec![id];
        while let Some(id) = removed.pop() {
            let Some(mut group) = self.groups.remove(&id) else { continue };
            group.close_all(&mut self.reader.budget);
            removed.extend(group.children.into_values().map(|child| child.id));
        }
        parent
    }

    /// The open directory of a known cgroup, kept if the budget allows.
    fn dir(&mut self, id: CgroupId) -> Result<Arc<OwnedFd>, ReadError> {
        let Some(group) = self.groups.get_mut(&id) else {
            return Err(ReadError::Gone(CgroupPath::default()));
        };
        if let Some(dir) = &group.dir {
            return Ok(dir.clone());
        }
        let open = || {
            let dir = openat(&self.root.dir, &group.at, DIRECTORY, Mode::empty())?;
            let is_same = fstat(&dir)?.st_ino == id.0;
            is_same.then(|| Arc::new(dir)).ok_or(Errno::NOENT)
        };
        match open() {
            Ok(dir) => {
                self.reader.budget.keep(dir.clone(), &mut group.dir);
                Ok(dir)
            }
            Err(errno) => Err(self.error(id, errno)),
        }
    }

    /// What it means that a known cgroup's directory cannot be used.
    fn error(&self, id: CgroupId, errno: Errno) -> ReadError {
        let path = self.groups.get(&id).map(|group| group.path().clone()).unwrap_or_default();
        self.error_at(&path, errno)
    }

    fn error_at(&self, path: &CgroupPath, errno: Errno) -> ReadError {
        match errno {
            Errno::NOENT | Errno::NODEV => ReadError::Gone(path.clone()),
            errno => ReadError::io(&self.root.path_of(path, ""), errno),
        }
    }
}

fn join(above: &CStr, name: &CStr) -> CString {
    let bytes = [above.to_bytes(), b"/", name.to_bytes()].concat();
    CString::new(bytes).expect("neither part has a zero byte")
}

/// Whether the cgroup `id` is due in this tick; it is due once in `every` ticks.
fn due(tick: u64, id: CgroupId, every: u64) -> bool {
    // Kernfs numbers a directory and its files together, so the ids of similar cgroups lie a
    // constant apart and might all be due in the same tick.
    let spread = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    tick.wrapping_add(spread).is_multiple_of(every)
}

#[cfg(test)]
mod tests;
