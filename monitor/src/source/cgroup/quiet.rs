//! Which files of a cgroup need not be read, because the same file of its parent stands still.
//!
//! Pressure totals and IO counters of a cgroup contain those of all cgroups below it, so nothing
//! grows in a child that does not grow in its parent, which is read first. On a node where nobody
//! waits for memory or IO, these files are half of what is read of a cgroup that runs. The root's `io.stat`
//! says nothing of those below: the kernel fills it from the disks' statistics, and counts none where
//! `queue/iostats` is 0, while each cgroup counts its own (`blkcg_fill_root_iostats`, block/blk-cgroup.c).
//!
//! The kernel counts a total up to the instant at which the file is read (`psi_show`, kernel/sched/psi.c), so
//! a child's last reading is still true if the parent has stood still since an earlier one. A parent's total is
//! a mean over its busy CPUs in whole microseconds: of hundreds it may grow some ticks late.

use super::files::{File, FileSet};
use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::psi::Pressure;
use isobar_core::model::units::{Nanos, Percent};

#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// When the files were last read.
    read: Nanos,
    /// When each file of [`File::INHERITED`] was first read as it is.
    since: [Option<Nanos>; File::INHERITED.len()],
}

impl Quiet {
    /// Compares two readings, the second of them made at `at`.
    pub(crate) fn note(&mut self, before: &Cgroup, now: &Cgroup, at: Nanos) {
        self.read = at;
        for (file, since) in File::INHERITED.into_iter().zip(&mut self.since) {
            let is_same = is_same(file, before, now);
            *since = is_same.map(|is_same| since.filter(|_| is_same).unwrap_or(at));
        }
    }

    /// The files that were read `now` and have stood still since the last reading of a cgroup `below`.
    pub(crate) fn files(&self, now: Nanos, below: &Self) -> FileSet {
        let files = File::INHERITED.into_iter().zip(self.since);
        let stands = |since: Nanos| self.read == now && since <= below.read;
        files.filter(|(_, since)| since.is_some_and(stands)).map(|(file, _)| file).collect()
    }
}

/// Whether nothing was counted in between; `None` if it is not known.
fn is_same(file: File, before: &Cgroup, now: &Cgroup) -> Option<bool> {
    let totals =
        |pressure: Pressure| [pressure.some, pressure.full].map(|line| line.map(|line| line.total));
    match (file.pressure(before), file.pressure(now)) {
        (Some(before), Some(now)) => Some(totals(before) == totals(now)),
        _ if file == File::IoStat => Some(before.io? == now.io?),
        _ => None,
    }
}

/// Whether the last reading still tells all, if nothing was counted since: averages fall.
pub(crate) fn is_settled(file: File, last: &Cgroup) -> bool {
    match file.pressure(last) {
        Some(Pressure { some, full }) => {
            some.into_iter().chain(full).all(|line| line.avg10 == Percent(0))
        }
        None => file == File::IoStat && last.io.is_some(),
    }
}
