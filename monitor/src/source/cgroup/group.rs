//! One cgroup from tick to tick: its open files, which of them it has, and what they said last.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;

use super::files::{File, FileSet};
use super::kept::{Budget, Reader};
use super::listing::Listing;
use super::{Turn, due, quiet, xattr};
use crate::source::gap::{Gaps, ReadError, unknown_line};
use crate::source::mounts::{Extent, Root};
use crate::source::pressure::LastRead;
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath, CpuFiles, MemoryFiles};
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::units::Micros;

/// One cgroup.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: CgroupId,
    /// Where it is, from the root of the tree, as the filesystem spells it.
    pub(crate) at: CString,
    /// The directories below it, by name.
    pub(crate) children: BTreeMap<CString, Child>,
    /// Its directory.
    pub(crate) dir: Option<OwnedFd>,
    /// The owner of its directory.
    pub(crate) owner: u32,
    /// Must be listed again, whatever its link count says.
    pub(crate) relist: bool,
    pub(crate) files: FileSet,
    pub(crate) has_pressure_switch: bool,
    /// There, but the kernel answers `EOPNOTSUPP`.
    pub(crate) unsupported: FileSet,
    /// Gave no reading when they were last read.
    failed: FileSet,
    /// Had a line that this version does not know when they were last read.
    strange: FileSet,
    kept: [Option<OwnedFd>; File::N_KEPT],
    last_pressure: LastRead,
    /// See [`quiet::still_at`].
    still_at: Option<Micros>,
    /// The settings were read since the directory was last seen to change.
    settled: bool,
    last: Cgroup,
}

/// A directory below a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) id: CgroupId,
    /// The inode number in the listing, which on overlay filesystems is another than the
    /// directory's own.
    pub(crate) listed_as: u64,
}

/// What one reading of a cgroup needs.
pub(crate) struct Reading<'a> {
    pub(crate) dir: BorrowedFd<'a>,
    pub(crate) root: &'a Root,
    pub(crate) turn: &'a Turn,
    pub(crate) reader: &'a mut Reader,
    pub(crate) gaps: &'a mut Gaps,
    /// Its owner's word counts: root's, or that of the owner of the cgroup above.
    pub(crate) is_heard: bool,
}

impl Group {
    /// Settings, and all that a quiet cgroup has, are read in turns of this many ticks.
    const ALL_EVERY: u64 = 10;

    pub(crate) fn new(
        id: CgroupId,
        at: CString,
        path: CgroupPath,
        parent: Option<CgroupId>,
    ) -> Self {
        Self {
            id,
            at,
            children: BTreeMap::new(),
            dir: None,
            owner: 0,
            relist: true,
            files: FileSet::default(),
            has_pressure_switch: false,
            unsupported: FileSet::default(),
            failed: FileSet::default(),
            strange: FileSet::default(),
            kept: Default::default(),
            last_pressure: LastRead::default(),
            still_at: None,
            settled: false,
            last: Cgroup { path, parent, ..Cgroup::default() },
        }
    }

    pub(crate) fn path(&self) -> &CgroupPath {
        &self.last.path
    }

    pub(crate) fn parent(&self) -> Option<CgroupId> {
        self.last.parent
    }

    /// Its own name; `.` for the root.
    pub(crate) fn name(&self) -> &CStr {
        let at = self.at.to_bytes_with_nul();
        let start = at.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        CStr::from_bytes_with_nul(&at[start..]).expect("the end of a C string is a C string")
    }

    /// Takes over which files there are, and so learns of controllers and of PSI that were
    /// switched on or off.
    pub(crate) fn see(&mut self, listing: &Listing, budget: &mut Budget) {
        for file in self.files.without(listing.files).files() {
            self.close(file, budget);
        }
        let is_as_known = self.files == listing.files;
        self.settled &= is_as_known;
        if !is_as_known || self.unsupported != FileSet::default() {
            self.still_at = None;
        }
        self.files = listing.files;
        self.has_pressure_switch = listing.has_pressure_switch;
        self.unsupported = FileSet::default();
        self.relist = false;
    }

    /// Closes everything.
    pub(crate) fn close_all(&mut self, budget: &mut Budget) {
        for slot in self.kept.iter_mut().chain([&mut self.dir]) {
            drop(budget.release(slot));
        }
    }

    /// Reads the files whose turn it is. What cannot be read is a gap.
    ///
    /// # Errors
    /// [`ReadError::Gone`] if the cgroup no longer exists.
    pub(crate) fn read(&mut self, on: &mut Reading<'_>) -> Result<Cgroup, ReadError> {
        let mut now =
            Cgroup { path: self.last.path.clone(), parent: self.last.parent, ..Cgroup::default() };
        let is_due = due(on.turn.tick, self.id, Self::ALL_EVERY);
        // Before the rest, so that whoever runs while that is read shows in the next tick's usage.
        for file in File::COUNTERS {
            self.read_file(file, &mut now, on)?;
        }
        if is_due || self.relist || self.still_at.is_none() || self.still_at != now.cpu.usage {
            self.read_waiting(&mut now, on)?;
        } else {
            quiet::carry(&self.last, &mut now);
        }
        let to_retry = File::SETTINGS.iter().any(|file| self.failed.has(*file));
        if !self.settled || to_retry || is_due {
            self.settled = true;
            for file in File::SETTINGS {
                self.read_file(file, &mut now, on)?;
            }
            now.preference = if on.is_heard { xattr::preference(on.dir) } else { None };
        } else {
            carry_settings(&self.last, &mut now);
        }
        self.last = now.clone();
        Ok(now)
    }

    /// Reads what stands still while the cgroup is quiet, and finds out whether it is.
    fn read_waiting(&mut self, now: &mut Cgroup, on: &mut Reading<'_>) -> Result<(), ReadError> {
        let is_fresh = self.read_pressure(now, on)?;
        for file in File::EVENTS {
            self.read_file(file, now, on)?;
        }
        // What gave a gap gives it anew in each sample, so it must be read.
        let is_whole = |file: &File| !self.failed.has(*file) && !self.strange.has(*file);
        let all_whole = File::PRESSURE.iter().chain(&File::EVENTS).all(is_whole);
        self.still_at = if is_fresh && all_whole { quiet::still_at(&self.last, now) } else { None };
        Ok(())
    }

    /// Returns whether the cgroup's own files were read.
    fn read_pressure(&mut self, now: &mut Cgroup, on: &mut Reading<'_>) -> Result<bool, ReadError> {
        // The root's files show the same counters as /proc/pressure, which was just read: to read
        // them again is to read one scope twice a second.
        if self.last.parent.is_none() && on.root.extent() == Extent::Whole {
            now.pressure = on.turn.node;
            return Ok(false);
        }
        if self.last_pressure.may_read(on.turn.now) {
            for file in File::PRESSURE {
                self.read_file(file, now, on)?;
            }
            return Ok(true);
        }
        now.pressure = self.last.pressure;
        for file in File::PRESSURE.into_iter().filter(|file| self.failed.has(*file)) {
            let detail = "could not be read less than a second ago, and is not read again so soon";
            on.gaps.note(file.name(), self.gap(file, GapReason::Failed, detail, on.root));
        }
        Ok(false)
    }

    fn read_file(
        &mut self,
        file: File,
        now: &mut Cgroup,
        on: &mut Reading<'_>,
    ) -> Result<(), ReadError> {
        if !self.files.has(file) || self.unsupported.has(file) {
            return Ok(());
        }
        self.failed.remove(file);
        self.strange.remove(file);
        let text = match self.kept.get_mut(file as usize) {
            Some(slot) => on.reader.read_kept(on.dir, file, slot),
            None => on.reader.read_once(on.dir, file.c_name()),
        };
        let understood = match text {
            Ok(text) => file.fill(text, now),
            Err(errno) => return self.miss(file, errno, on),
        };
        match understood {
            Ok(None) => {}
            Ok(Some(line)) => {
                self.strange.add(file);
                on.gaps.note(file.name(), unknown_line(&self.path_of(file, on.root), line));
            }
            Err(torn) => {
                self.failed.add(file);
                let error = ReadError::torn(&self.path_of(file, on.root), torn);
                on.gaps.note(file.name(), error.gap());
            }
        }
        Ok(())
    }

    /// Decides what it means that a file could not be read.
    fn miss(&mut self, file: File, errno: Errno, on: &mut Reading<'_>) -> Result<(), ReadError> {
        self.close(file, &mut on.reader.budget);
        match errno {
            Errno::NOENT | Errno::NODEV if !on.root.holds(&self.at, self.id) => {
                return Err(ReadError::Gone(self.last.path.clone()));
            }
            // Switched off since the directory was listed. A descriptor of that time stays dead
            // even if the file comes back. The gap is told with those of other missing files.
            Errno::NOENT | Errno::NODEV => {
                self.files.remove(file);
                self.relist = true;
            }
            Errno::OPNOTSUPP => self.unsupported.add(file),
            errno => {
                self.failed.add(file);
                let error = ReadError::io(&self.path_of(file, on.root), errno);
                on.gaps.note(file.name(), error.gap());
            }
        }
        Ok(())
    }

    fn close(&mut self, file: File, budget: &mut Budget) {
        if let Some(slot) = self.kept.get_mut(file as usize) {
            drop(budget.release(slot));
        }
    }

    /// A gap about one of its files.
    pub(crate) fn gap(&self, file: File, why: GapReason, detail: &str, root: &Root) -> Gap {
        let object = self.path_of(file, root).display().to_string();
        Gap { object, why, detail: detail.into() }
    }

    fn path_of(&self, file: File, root: &Root) -> PathBuf {
        root.path_of(self.path(), file.name())
    }
}

fn carry_settings(last: &Cgroup, now: &mut Cgroup) {
    let CpuFiles { quota, period, weight, .. } = last.cpu;
    now.cpu = CpuFiles { quota, period, weight, ..now.cpu };
    let MemoryFiles { max, high, low, min, .. } = last.memory;
    now.memory = MemoryFiles { max, high, low, min, ..now.memory };
    now.pids_max = last.pids_max;
    now.n_procs = last.n_procs;
    now.preference = last.preference;
}
