//! What of a cgroup counts: memory that cannot be dropped, what its end gives back, page cache, threads.

use serde::{Deserialize, Serialize};

use crate::model::cgroup::{Cgroup, MemoryStat};
use crate::model::units::Bytes;

/// What a party held: bytes that cannot be dropped, bytes of page cache, and threads. At last, by how many
/// bytes it held more at most since the reading before: readings that are not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holding(
    pub(super) u64,
    pub(super) u64,
    #[serde(default)] pub(super) u64,
    #[serde(default)] pub(super) u64,
);

/// What counts as taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Memory that cannot be dropped.
    Held,
    /// Page cache too: what is dropped is read back at once, so it is in use.
    WithCache,
    Threads,
}

impl Holding {
    /// `last`: its reading before, for threads that cannot be read just now.
    pub(super) fn of(files: &Cgroup, last: Option<Self>) -> Option<Self> {
        let threads = files.pids_current.or(last.map(|last| last.2)).unwrap_or_default();
        Some(Self(held(files)?.0, cache(files)?.0, threads, 0))
    }

    pub(super) fn amount(self, counts: Counts) -> u64 {
        match counts {
            Counts::Held => self.0,
            Counts::WithCache => self.0.saturating_add(self.1),
            Counts::Threads => self.2,
        }
    }

    /// The most since the reading before.
    pub(super) fn most(self, counts: Counts) -> u64 {
        let more = if counts == Counts::Held { self.3 } else { 0 };
        self.amount(counts).saturating_add(more)
    }

    /// In place of one that is not kept.
    pub(super) fn after(&mut self, dropped: Self) {
        self.3 = self.most(Counts::Held).max(dropped.most(Counts::Held)).saturating_sub(self.0);
    }
}

/// What a cgroup holds, as far as it counts.
pub(crate) fn counted(files: &Cgroup, counts: Counts) -> Option<u64> {
    Some(Holding::of(files, None)?.amount(counts))
}

/// What a cgroup holds that cannot be dropped; `None` where memory is not accounted.
pub(crate) fn held(files: &Cgroup) -> Option<Bytes> {
    let stat = files.memory.stat?;
    let pages = [stat.anon.0, stat.shmem.0, locked(&stat).0, kernel(files), swapped(files).0];
    Some(Bytes(pages.into_iter().fold(0, u64::saturating_add)))
}

/// What a cgroup holds in swap and in no process's memory. A page that is read back keeps its place in
/// swap until it is written to, and is part of `anon` again. One that is on its way is part of it no
/// more, or not yet: it is on the lists of anonymous pages alone.
pub(crate) fn swapped(files: &Cgroup) -> Bytes {
    let stat = files.memory.stat.unwrap_or_default();
    let listed = stat.active_anon.0.saturating_add(stat.inactive_anon.0);
    let on_its_way = listed.saturating_sub(stat.anon.0.saturating_add(stat.shmem.0));
    let twice = stat.swapcached.0.saturating_sub(on_its_way);
    Bytes(files.memory.swap_current.map_or(0, |swap| swap.0.saturating_sub(twice)))
}

/// Pages of files that a process holds in memory by `mlock`: they can be dropped once it ends.
pub(crate) fn locked(stat: &MemoryStat) -> Bytes {
    let elsewhere = [stat.shmem.0, stat.inactive_file.0, stat.active_file.0];
    Bytes(elsewhere.into_iter().fold(stat.file.0, u64::saturating_sub))
}

/// What the end of its processes gives back, in bytes or threads. Shared memory and tmpfs outlive them.
pub(crate) fn freed_by_end(files: &Cgroup, counts: Counts) -> Option<u64> {
    let memory = || {
        let stat = files.memory.stat?;
        let pages = [stat.anon.0, locked(&stat).0, kernel(files), compressed(files)];
        Some(pages.into_iter().fold(0, u64::saturating_add))
    };
    match counts {
        Counts::Held => memory(),
        Counts::WithCache => Some(memory()?.saturating_add(cache(files)?.0)),
        Counts::Threads => files.pids_current,
    }
}

/// Page cache that can be dropped.
pub(crate) fn cache(files: &Cgroup) -> Option<Bytes> {
    let stat = files.memory.stat?;
    Some(Bytes(stat.inactive_file.0.saturating_add(stat.active_file.0)))
}

/// Kernel memory and network buffers, which cannot be dropped. Before Linux 5.18 slab is all that is
/// told of kernel memory. It does not count network buffers in it.
///
/// Source: `memory_stats`, mm/memcontrol.c.
fn kernel(files: &Cgroup) -> u64 {
    let stat = files.memory.stat.unwrap_or_default();
    let slab = stat.slab_reclaimable.0.saturating_add(stat.slab_unreclaimable.0);
    let elsewhere = stat.slab_reclaimable.0.saturating_add(compressed(files));
    let kernel = stat.kernel.0.max(slab).saturating_sub(elsewhere);
    kernel.saturating_add(stat.sock.0)
}

/// The part of kernel memory that holds pages of swap: they count in full as swap, where that is counted.
fn compressed(files: &Cgroup) -> u64 {
    files.memory.stat.filter(|_| files.memory.swap_current.is_some()).map_or(0, |stat| stat.zswap.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::node::Meminfo;

    #[test]
    fn held_is_all_that_cannot_be_dropped() {
        let none = MemoryStat::default();
        let all = MemoryStat { file: Bytes(100), inactive_file: Bytes(60), ..none };
        let tmpfs = |shmem| MemoryStat { shmem: Bytes(shmem), ..all };
        #[rustfmt::skip]
        let table = [
            // memory.stat; held, freed by the end, droppable
            (MemoryStat { anon: Bytes(7), ..none },                                        7,  7, 0),
            (MemoryStat { active_file: Bytes(40), ..all },                                 0,  0, 100),
            (all,                                                                         40, 40, 60), // locked
            (tmpfs(30),                                                                   40, 10, 60),
            (tmpfs(40),                                                                   40,  0, 60),
            (MemoryStat { kernel: Bytes(9), slab_reclaimable: Bytes(5), ..none },          4,  4, 0),
            (MemoryStat { slab_unreclaimable: Bytes(3), ..none },                          3,  3, 0),  // before 5.18
            (MemoryStat { kernel: Bytes(9), sock: Bytes(20), ..none },                    29, 29, 0),
            (MemoryStat { kernel: Bytes(9), zswap: Bytes(8), ..none },                     1,  9, 0),  // and in full as swap
        ];
        for (stat, held_, freed, droppable) in table {
            let mut files = Cgroup::default();
            files.memory.stat = Some(stat);
            files.memory.swap_current = Some(Bytes(0));
            let got = (held(&files), freed_by_end(&files, Counts::Held), cache(&files));
            let want = (Some(Bytes(held_)), Some(freed), Some(Bytes(droppable)));
            assert_eq!(got, want, "{stat:?}");
        }
        // Where swap is not accounted.
        let mut files = Cgroup::default();
        files.memory.stat = Some(MemoryStat { kernel: Bytes(9), zswap: Bytes(8), ..none });
        assert_eq!((held(&files), freed_by_end(&files, Counts::Held)), (Some(Bytes(9)), Some(9)));
    }

    #[test]
    fn held_stays_the_same_while_pages_are_swapped_out_and_read_back() {
        let mib = |mib: u64| Bytes(mib << 20);
        #[rustfmt::skip]
        let table = [
            // MiB in memory, in swap, and in both; of these, in no process's memory; what zswap takes
            (100, 0,  0,  0,  0),
            (60,  60, 20, 20, 0),  // on their way to swap
            (40,  60, 0,  0,  0),
            (40,  60, 0,  0,  25), // compressed, in memory
            (90,  60, 50, 0,  0),  // read, and not written to
            (95,  60, 55, 5,  0),  // some read ahead
            (90,  10, 0,  0,  0),  // written to
        ];
        for (listed, swap, both, unmapped, zswap) in table {
            let mut files = Cgroup::default();
            files.memory.swap_current = Some(mib(swap));
            files.memory.stat = Some(MemoryStat {
                anon: mib(listed - unmapped),
                active_anon: mib(10),
                inactive_anon: mib(listed - 10),
                swapcached: mib(both),
                kernel: mib(zswap),
                zswap: mib(zswap),
                ..MemoryStat::default()
            });
            assert_eq!(held(&files), Some(mib(100)), "{listed} {swap} {both} {unmapped}");
            let node = Meminfo {
                total: mib(500),
                available: mib(500 - listed - zswap),
                swap_total: mib(200),
                swap_free: mib(200 - swap),
                swap_cached: mib(both),
                zswap: mib(zswap),
                ..Meminfo::default()
            };
            assert_eq!(node.in_use(), mib(100), "{listed} {swap} {both}");
        }
    }

    #[test]
    fn of_keeps_threads_that_cannot_be_read() {
        let mut files = Cgroup::default();
        files.memory.stat = Some(MemoryStat::default());
        for (now, last, want) in [(Some(7), Some(5), 7), (None, Some(5), 5), (None, None, 0)] {
            files.pids_current = now;
            let last = last.map(|threads| Holding(0, 0, threads, 0));
            assert_eq!(Holding::of(&files, last).map(|one| one.2), Some(want), "{now:?}");
        }
    }
}
