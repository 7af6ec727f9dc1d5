//! The eBPF counters of one scope in one sample, as far as they were measured.

use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::stall::{CpuStall, GroupStall, KernelStalls, Lost, MemoryStall};

/// One scope's counters; `None` if not measured, which is not 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters<'a> {
    /// Contention per CPU.
    pub(super) cpus: Option<&'a [CpuStall]>,
    /// Waits in task time.
    pub(super) waits: Option<&'a GroupStall>,
    /// True if the programs tell throttling from contention.
    pub(super) split: bool,
    /// No wait for IO went uncounted in the interval.
    pub(super) has_io: bool,
    pub(super) memory: Option<&'a MemoryStall>,
}

/// One sample's eBPF counters.
#[derive(Debug)]
pub(super) struct Tables<'a> {
    kernel: &'a KernelStalls,
    /// Zeros, for a cgroup that never waited and so has no entry.
    never: GroupStall,
    /// Zeros, for its CPUs.
    calm: Vec<CpuStall>,
    /// No cgroup that waited in the interval found no room for an entry.
    has_all: bool,
    /// As [`Counters::has_io`].
    has_io: bool,
}

impl<'a> Tables<'a> {
    /// `lost_before`: what the kernel side had lost by the reading before.
    pub(super) fn new(kernel: &'a KernelStalls, lost_before: Lost) -> Self {
        let calm = vec![CpuStall::default(); kernel.cpus.len()];
        let has_all = kernel.lost.cgroups == lost_before.cgroups;
        let has_io = kernel.lost.io_waits == lost_before.io_waits;
        Self { kernel, never: GroupStall::default(), calm, has_all, has_io }
    }

    /// The node: the CPUs' own unions, because the root cgroup has none, and the waits of `root`.
    pub(super) fn node(&self, root: Option<CgroupId>) -> Counters<'_> {
        let waits = root.and_then(|id| self.kernel.groups.get(&id)).map(Arc::as_ref);
        self.covered(Some(&self.kernel.cpus), waits, Some(&self.kernel.memory))
    }

    /// `group` is what was counted of it; `None` if it has no entry.
    pub(super) fn group<'c>(
        &'c self,
        group: Option<&'c Arc<GroupStall>>,
        cgroup: &Cgroup,
    ) -> Counters<'c> {
        let group = match group {
            Some(group) => group,
            None if self.has_all => &self.never,
            // A cgroup without an entry may have waited, and found no room for one.
            None => return Counters::default(),
        };
        // Without the cpu controller a cgroup has no run queue: its tasks wait in an ancestor's. A
        // cgroup that never waited has no contention either.
        let cpus = match group.cpus.as_slice() {
            _ if !has_cpu_controller(cgroup) => None,
            [] if group.n_waits == 0 => Some(&*self.calm),
            [] => None,
            cpus => Some(cpus),
        };
        self.covered(cpus, Some(group), Some(&group.memory))
    }

    /// Drops what no attached program measures.
    fn covered<'c>(
        &self,
        cpus: Option<&'c [CpuStall]>,
        waits: Option<&'c GroupStall>,
        memory: Option<&'c MemoryStall>,
    ) -> Counters<'c> {
        let covers = self.kernel.covers;
        let split = covers.waits && covers.throttling;
        Counters {
            cpus: cpus.filter(|cpus| split && !cpus.is_empty()),
            waits: waits.filter(|_| covers.waits),
            split,
            has_io: self.has_io,
            memory: memory.filter(|_| covers.memory),
        }
    }
}

/// `cpu.weight` exists only where the controller is on.
fn has_cpu_controller(cgroup: &Cgroup) -> bool {
    cgroup.cpu.weight.is_some()
}
