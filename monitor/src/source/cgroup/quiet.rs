//! Which files of a cgroup need not be read, because the same file of its parent stands still.
//!
//! Pressure totals and IO counters of a cgroup contain those of all cgroups below it, so nothing
//! grows in a child that does not grow in its parent, which is read first. On a node where nobody
//! waits for memory or IO, these files are half of what is read of a cgroup that runs. The root's `io.stat`
//! says nothing of those below: the kernel fills it from the disks' statistics, and counts none where
//! `queue/iostats` is 0, while each cgroup counts its own (`blkcg_fill_root_iostats`, block/blk-cgroup.c).
//!
//! The kernel counts a total up to the instant at which the file is read (`psi_show`, kernel/sched/psi.c).
//! What grows in a child after its parent was read shows in the parent at the next tick, and is read then.

use super::files::{File, FileSet};
use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::psi::Pressure;
use isobar_core::model::units::{Nanos, Percent};

#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// When the files were last read.
    read: Nanos,
    /// Those of [`File::INHERITED`] that said then what they had said the time before.
    still: FileSet,
}

impl Quiet {
    /// Compares two readings, the second of them made at `at`.
    pub(crate) fn note(&mut self, before: &Cgroup, now: &Cgroup, at: Nanos) {
        self.read = at;
        let files = File::INHERITED.into_iter();
        self.still = files.filter(|file| is_same(*file, before, now)).collect();
    }

    /// The files that were read `now` and stand still.
    pub(crate) fn files(&self, now: Nanos) -> FileSet {
        if self.read == now { self.still } else { FileSet::default() }
    }
}

/// Whether it is known that nothing was counted in between.
fn is_same(file: File, before: &Cgroup, now: &Cgroup) -> bool {
    let totals =
        |pressure: Pressure| [pressure.some, pressure.full].map(|line| line.map(|line| line.total));
    match (file.pressure(before), file.pressure(now)) {
        (Some(before), Some(now)) => totals(before) == totals(now),
        _ => file == File::IoStat && now.io.is_some() && before.io == now.io,
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
