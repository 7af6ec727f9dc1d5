//! One cgroup from tick to tick: its open files, which files it has, and its last reading.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;

use super::descriptors::{Budget, Reader};
use super::files::{File, FileSet};
use super::listing::Listing;
use super::quiet::{Quiet, is_settled};
use super::{Tick, due, idle, xattr};
use crate::source::gap::{Gaps, ReadError, unknown_line};
use crate::source::mounts::{Extent, Root};
use crate::source::pressure::LastRead;
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath, CpuFiles, IoLimit, MemoryFiles};
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::units::{Micros, Nanos};

#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) id: CgroupId,
    /// Path from the root of the tree, as the file system spells it.
    pub(crate) at: CString,
    pub(crate) children: BTreeMap<CString, Child>,
    /// The open directory.
    pub(crate) dir: Option<Arc<OwnedFd>>,
    /// The owner of the directory.
    pub(crate) uid: u32,
    /// A user other than root owns it, or one above it.
    pub(crate) is_delegated: bool,
    /// Must be listed again, whatever its link count.
    pub(crate) relist: bool,
    pub(crate) files: FileSet,
    pub(crate) has_pressure_switch: bool,
    /// Listed, but the kernel answers `EOPNOTSUPP`.
    pub(crate) unsupported: FileSet,
    /// Gave no reading when last read.
    failed: FileSet,
    /// Had a line with an unknown key when last read.
    unknown: FileSet,
    descriptors: [Option<OwnedFd>; File::N_KEPT],
    last_pressure: LastRead,
    /// What need not be read in the cgroups below.
    pub(crate) quiet: Quiet,
    /// See [`idle::idle_since`].
    idle_since: Option<Micros>,
    /// Memory was reclaimed from it or from a cgroup below since the reading before the last.
    is_reclaimed: bool,
    /// The kernel's OOM killer has killed in it or below since the reading before the last.
    pub(crate) is_killed: bool,
    /// See [`MemoryFiles::oom_at`].
    oom_at: Option<Nanos>,
    /// The tick in which the settings were read; `None` if the set of files has changed since.
    settings_at: Option<u64>,
    last: Arc<Cgroup>,
}

/// A directory below a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) id: CgroupId,
    /// The inode number in the listing; on overlay file systems the directory's own differs.
    pub(crate) listed_as: u64,
}

/// The parameters of one reading of a cgroup.
pub(crate) struct Reading<'a> {
    pub(crate) dir: BorrowedFd<'a>,
    pub(crate) root: &'a Root,
    pub(crate) tick: &'a Tick,
    pub(crate) reader: &'a mut Reader,
    pub(crate) gaps: &'a mut Gaps,
    /// The owner may set an eviction preference: root, or the owner of the parent.
    pub(crate) takes_preference: bool,
    /// Files that stand still in the parent.
    pub(crate) quiet_above: FileSet,
    /// The parent counts OOM kills that it did not count before.
    pub(crate) is_killed_above: bool,
}

impl Group {
    /// Settings, and all files of an idle cgroup, are read once in this many ticks.
    const ALL_EVERY: u64 = 10;
    /// The same for one that has slept. Once awake, it is read at once, settings included.
    const ASLEEP_EVERY: u64 = 30;

    pub(crate) fn new(
        id: CgroupId,
        at: CString,
        path: CgroupPath,
        parent: Option<CgroupId>,
    ) -> Self {
        Self {
            id,
            at,
            relist: true,
            last: Arc::new(Cgroup { path, parent, ..Cgroup::default() }),
            ..Self::default()
        }
    }

    pub(crate) fn path(&self) -> &CgroupPath {
        &self.last.path
    }

    pub(crate) fn parent(&self) -> Option<CgroupId> {
        self.last.parent
    }

    /// The directory's name; `.` for the root.
    pub(crate) fn name(&self) -> &CStr {
        let at = self.at.to_bytes_with_nul();
        let start = at.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        CStr::from_bytes_with_nul(&at[start..]).expect("the end of a C string is a C string")
    }

    /// Takes over the listed files: controllers and PSI may have been switched on or off.
    pub(crate) fn set_files(&mut self, listing: &Listing, budget: &mut Budget) {
        for file in self.files.without(listing.files).files() {
            self.close(file, budget);
        }
        let is_same = self.files == listing.files;
        self.settings_at = self.settings_at.filter(|_| is_same);
        if !is_same || self.unsupported != FileSet::default() {
            self.idle_since = None;
        }
        self.files = listing.files;
        self.has_pressure_switch = listing.has_pressure_switch;
        self.unsupported = FileSet::default();
        self.relist = false;
    }

    pub(crate) fn close_all(&mut self, budget: &mut Budget) {
        self.close_files(budget);
        budget.close(&mut self.dir);
    }

    fn close_files(&mut self, budget: &mut Budget) {
        self.descriptors.iter_mut().for_each(|slot| budget.close(slot));
    }

    /// Whether the last reading is still true of a cgroup that has slept since: it was idle then, no
    /// memory was taken from it, and no process of it was killed; `above` is its parent.
    pub(crate) fn may_sleep_on(&self, above: &Self, tick: &Tick) -> bool {
        let none = FileSet::default();
        // A gap is reported in every sample, so its file is read for each.
        let is_whole = self.failed == none && self.unknown == none && self.settings_at.is_some();
        let is_touched = tick.is_reclaimed || above.is_reclaimed || above.is_killed;
        let is_due = self.relist || due(tick.number, self.id, Self::ASLEEP_EVERY);
        self.idle_since.is_some() && is_whole && !is_touched && !is_due
    }

    /// The last reading again. Where descriptors are short, those that run need its files' more.
    pub(crate) fn sleep_on(&mut self, is_short: bool, budget: &mut Budget) -> Arc<Cgroup> {
        (self.is_reclaimed, self.is_killed) = (false, false);
        if is_short {
            self.close_files(budget);
        }
        if self.last.is_delegated != self.is_delegated {
            Arc::make_mut(&mut self.last).is_delegated = self.is_delegated;
        }
        Arc::clone(&self.last)
    }

    /// What is known of it in a tick that cannot read it: its settings, and no figures.
    pub(crate) fn unread(&mut self) -> Arc<Cgroup> {
        (self.idle_since, self.settings_at) = (None, None);
        let Cgroup { path, parent, .. } = &*self.last;
        let mut now = Cgroup { path: path.clone(), parent: *parent, ..Cgroup::default() };
        now.is_delegated = self.is_delegated;
        now.io_limits = self.io_limits();
        carry_settings(&self.last, &mut now);
        Arc::new(now)
    }

    /// Those of the last reading, each with what was done on its device by then.
    fn io_limits(&self) -> Vec<IoLimit> {
        if self.files.has(File::IoMax) { self.last.io_limits.clone() } else { Vec::new() }
    }

    /// Reads the files that are due. A file that cannot be read becomes a gap.
    ///
    /// # Errors
    /// [`ReadError::Gone`] if the cgroup no longer exists.
    pub(crate) fn read(&mut self, on: &mut Reading<'_>) -> Result<Arc<Cgroup>, ReadError> {
        let mut now = Cgroup {
            path: self.last.path.clone(),
            parent: self.last.parent,
            is_delegated: self.is_delegated,
            io_limits: self.io_limits(),
            ..Cgroup::default()
        };
        let is_due = due(on.tick.number, self.id, Self::ALL_EVERY);
        // First, so that a task that runs during this reading shows in the next tick's usage.
        self.read_files(File::COUNTERS, &mut now, on)?;
        let is_idle = self.idle_since.is_some() && self.idle_since == now.cpu.usage;
        if is_due || self.relist || on.is_killed_above || !is_idle {
            self.read_events(is_due, &mut now, on)?;
        } else {
            idle::carry(&self.last, &mut now);
        }
        let must_retry = File::SETTINGS.iter().any(|file| self.failed.has(*file));
        let tick = on.tick.number;
        let is_recent = |at: u64| tick.saturating_sub(at) <= Self::ALL_EVERY;
        if !self.settings_at.is_some_and(is_recent) || must_retry || is_due {
            self.settings_at = Some(tick);
            self.read_files(File::SETTINGS, &mut now, on)?;
            now.preference = on.takes_preference.then(|| xattr::preference(on.dir)).flatten();
        } else {
            carry_settings(&self.last, &mut now);
        }
        let scanned = |cgroup: &Cgroup| cgroup.memory.stat.map(|stat| stat.pgscan);
        self.is_reclaimed = scanned(&self.last) != scanned(&now);
        self.is_killed = false;
        now.memory.oom_at = self.oom_at;
        self.note_oom(&now, on.tick.now);
        self.last = Arc::new(now);
        Ok(Arc::clone(&self.last))
    }

    /// Compares the last reading with the next.
    fn note_oom(&mut self, now: &Cgroup, at: Nanos) {
        let Some((before, now)) = self.last.memory.events.zip(now.memory.events) else { return };
        if before.oom_kill < now.oom_kill {
            (self.is_killed, self.oom_at) = (true, None);
        } else if before.oom < now.oom {
            self.oom_at = Some(at);
        }
    }

    /// The last reading with `memory.events` read once more.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn read_kills(&mut self, on: &mut Reading<'_>) -> Result<Arc<Cgroup>, ReadError> {
        let mut now = Cgroup::clone(&self.last);
        self.read_files([File::MemoryEvents], &mut now, on)?;
        self.note_oom(&now, on.tick.now);
        self.last = Arc::new(now);
        Ok(Arc::clone(&self.last))
    }

    /// Reads what does not change in an idle cgroup, and decides whether it is idle.
    fn read_events(
        &mut self,
        is_due: bool,
        now: &mut Cgroup,
        on: &mut Reading<'_>,
    ) -> Result<(), ReadError> {
        let quiet = if is_due || self.relist { FileSet::default() } else { self.carried(on) };
        let is_fresh = self.read_pressure(quiet, now, on)?;
        self.read_files(File::EVENTS.into_iter().filter(|file| !quiet.has(*file)), now, on)?;
        quiet.files().for_each(|file| file.carry(&self.last, now));
        let is_root = self.last.parent.is_none() && on.root.extent == Extent::Whole;
        if is_fresh || is_root && on.tick.is_pressure_new {
            self.quiet.note(&self.last, now, on.tick.now);
        }
        // A file with a gap must be read every tick, because every sample must report the gap.
        let is_whole = |file: &File| !self.failed.has(*file) && !self.unknown.has(*file);
        let all_whole = File::PRESSURE.iter().chain(&File::EVENTS).all(is_whole);
        self.idle_since =
            (is_fresh && all_whole).then(|| idle::idle_since(&self.last, now)).flatten();
        Ok(())
    }

    /// The files that say what they said in the last reading.
    fn carried(&self, on: &Reading<'_>) -> FileSet {
        let is_whole = |file: &File| !self.failed.has(*file) && !self.unknown.has(*file);
        let files = on.quiet_above.files().filter(is_whole);
        files.filter(|file| is_settled(*file, &self.last)).collect()
    }

    /// Reads the cgroup's own pressure files, but for those that are `quiet`; false if it may not.
    fn read_pressure(
        &mut self,
        quiet: FileSet,
        now: &mut Cgroup,
        on: &mut Reading<'_>,
    ) -> Result<bool, ReadError> {
        // The root's files show the same counters as /proc/pressure, which was just read: reading
        // them too would read one scope twice a second.
        if self.last.parent.is_none() && on.root.extent == Extent::Whole {
            now.pressure = on.tick.pressure;
            return Ok(false);
        }
        if self.last_pressure.may_read(on.tick.now) {
            self.read_files(File::PRESSURE.into_iter().filter(|file| !quiet.has(*file)), now, on)?;
            return Ok(true);
        }
        now.pressure = self.last.pressure;
        for file in File::PRESSURE.into_iter().filter(|file| self.failed.has(*file)) {
            let detail = "could not be read less than a second ago, and is not read again so soon";
            on.gaps.add_of(file.name(), self.gap(file, GapReason::Failed, detail, on.root));
        }
        Ok(false)
    }

    fn read_files(
        &mut self,
        files: impl IntoIterator<Item = File>,
        now: &mut Cgroup,
        on: &mut Reading<'_>,
    ) -> Result<(), ReadError> {
        for file in files {
            if self.files.has(file) && !self.unsupported.has(file) {
                self.read_file(file, now, on)?;
            }
        }
        Ok(())
    }

    fn read_file(
        &mut self,
        file: File,
        now: &mut Cgroup,
        on: &mut Reading<'_>,
    ) -> Result<(), ReadError> {
        self.failed.remove(file);
        self.unknown.remove(file);
        let text = match self.descriptors.get_mut(file as usize) {
            Some(slot) => on.reader.read_kept(on.dir, file, slot),
            None => on.reader.read_once(on.dir, file.c_name()),
        };
        match text.map(|text| file.fill(text, now)) {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(line))) => {
                self.unknown.add(file);
                on.gaps.add_of(file.name(), unknown_line(&self.path_of(file, on.root), line));
            }
            Ok(Err(torn)) => self.fail(file, |path| ReadError::format(path, torn), on),
            Err(errno) => return self.unreadable(file, errno, on),
        }
        Ok(())
    }

    /// Decides what it means that a file cannot be read.
    fn unreadable(
        &mut self,
        file: File,
        errno: Errno,
        on: &mut Reading<'_>,
    ) -> Result<(), ReadError> {
        self.close(file, &mut on.reader.budget);
        match errno {
            Errno::NOENT | Errno::NODEV if !on.root.holds(&self.at, self.id) => {
                return Err(ReadError::Gone(self.last.path.clone()));
            }
            // Switched off since the directory was listed. The old descriptor stays dead even if
            // the file comes back. `Missing` reports the gap.
            Errno::NOENT | Errno::NODEV => {
                self.files.remove(file);
                self.relist = true;
            }
            Errno::OPNOTSUPP => self.unsupported.add(file),
            errno => self.fail(file, |path| ReadError::io(path, errno), on),
        }
        Ok(())
    }

    fn fail(
        &mut self,
        file: File,
        error: impl FnOnce(&std::path::Path) -> ReadError,
        on: &mut Reading<'_>,
    ) {
        self.failed.add(file);
        on.gaps.add_of(file.name(), error(&self.path_of(file, on.root)).gap());
    }

    fn close(&mut self, file: File, budget: &mut Budget) {
        if let Some(slot) = self.descriptors.get_mut(file as usize) {
            budget.close(slot);
        }
    }

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
    let MemoryFiles { max, high, low, min, swap_max, .. } = last.memory;
    now.memory = MemoryFiles { max, high, low, min, swap_max, ..now.memory };
    now.pids_max = last.pids_max;
    now.n_procs = last.n_procs;
    now.preference = last.preference;
}
