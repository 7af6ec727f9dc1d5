//! Which files of a cgroup need not be read, because the same file of its parent stands still.
//!
//! Pressure totals and IO counters of a cgroup contain those of all cgroups below it, so nothing
//! grows in a child that does not grow in its parent, which is read first. On a node where nobody
//! waits for memory or IO, these files are half of what is read of a cgroup that runs. The root's `io.stat`
//! says nothing of those below: the kernel fills it from the disks' statistics, and counts none where
//! `queue/iostats` is 0, while each cgroup counts its own (`blkcg_fill_root_iostats`, block/blk-cgroup.c).
//!
//! The kernel counts a total up two seconds late, in each cgroup at another time
//! (`update_averages`, kernel/sched/psi.c): a child is read until its parent's has stood still for
//! longer, and growth is seen as late.

use super::files::{File, FileSet};
use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::psi::Pressure;
use isobar_core::model::units::{Nanos, Percent};

#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// When the files were last read.
    read: Nanos,
    /// When each file of [`File::INHERITED`] was first seen as it is.
    since: [Option<Nanos>; File::INHERITED.len()],
}

impl Quiet {
    const SETTLED: Nanos = Nanos(4 * Nanos::SECOND.0);

    /// Compares two readings, the second of them made at `at`.
    pub(crate) fn note(&mut self, before: &Cgroup, now: &Cgroup, at: Nanos) {
        self.read = at;
        for (file, since) in File::INHERITED.into_iter().zip(&mut self.since) {
            *since = match is_same(file, before, now) {
                Some(true) => Some(since.unwrap_or(at)),
                Some(false) => Some(at),
                None => None,
            };
        }
    }

    /// The files that were read `now` and stand still.
    pub(crate) fn files(&self, now: Nanos) -> FileSet {
        let files = File::INHERITED.into_iter().zip(self.since);
        let is_settled = |since: Nanos| self.read == now && now.since(since) >= Self::SETTLED;
        files.filter(|(_, since)| since.is_some_and(is_settled)).map(|(file, _)| file).collect()
    }
}

/// Whether nothing was counted in between; `None` if it is not known.
fn is_same(file: File, before: &Cgroup, now: &Cgroup) -> Option<bool> {
    let Some((before, now)) = file.pressure(before).zip(file.pressure(now)) else {
        return (file == File::IoStat)
            .then(|| before.io.zip(now.io))
            .flatten()
            .map(|(a, b)| a == b);
    };
    let totals =
        |pressure: Pressure| [pressure.some, pressure.full].map(|line| line.map(|line| line.total));
    Some(totals(before) == totals(now))
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
