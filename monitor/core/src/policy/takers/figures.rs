//! What of a cgroup's memory counts: what cannot be dropped, what its end gives back, page cache.

use serde::{Deserialize, Serialize};

use crate::model::cgroup::Cgroup;
use crate::model::units::Bytes;

/// What a party held: what cannot be dropped, and page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holding(pub(super) u64, pub(super) u64);

/// What counts as taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// What cannot be dropped.
    Held,
    /// Page cache too: what is dropped is read back at once, so it is in use.
    WithCache,
}

impl Holding {
    pub(super) fn of(files: &Cgroup) -> Option<Self> {
        Some(Self(held(files)?.0, cache(files)?.0))
    }

    pub(super) fn amount(self, counts: Counts) -> u64 {
        match counts {
            Counts::Held => self.0,
            Counts::WithCache => self.0.saturating_add(self.1),
        }
    }
}

/// What a cgroup holds that cannot be dropped; `None` where memory is not accounted.
pub(crate) fn held(files: &Cgroup) -> Option<Bytes> {
    let stat = files.memory.stat?;
    let swap = files.memory.swap_current.map_or(0, |swap| swap.0);
    let pages = stat.anon.0.saturating_add(stat.file.0);
    let droppable = stat.inactive_file.0.saturating_add(stat.active_file.0);
    let pages = pages.saturating_sub(droppable.min(stat.file.0));
    Some(Bytes(pages.saturating_add(kernel(files)).saturating_add(swap)))
}

/// What the end of its processes gives back. Shared memory and tmpfs outlive them.
pub(crate) fn freed_by_end(files: &Cgroup, counts: Counts) -> Option<Bytes> {
    let stat = files.memory.stat?;
    let freed = stat.anon.0.saturating_add(kernel(files));
    Some(match counts {
        Counts::Held => Bytes(freed),
        Counts::WithCache => Bytes(freed.saturating_add(cache(files)?.0)),
    })
}

/// Page cache that can be dropped.
pub(crate) fn cache(files: &Cgroup) -> Option<Bytes> {
    let stat = files.memory.stat?;
    Some(Bytes(stat.inactive_file.0.saturating_add(stat.active_file.0)))
}

/// Kernel memory that cannot be dropped. Before Linux 5.18 slab is all that is told.
fn kernel(files: &Cgroup) -> u64 {
    let stat = files.memory.stat.unwrap_or_default();
    let slab = stat.slab_reclaimable.0.saturating_add(stat.slab_unreclaimable.0);
    stat.kernel.0.max(slab).saturating_sub(stat.slab_reclaimable.0)
}
