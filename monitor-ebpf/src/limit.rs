// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Which limit a task stalls for: its own cgroup's, the node's allocatable, or another ancestor's.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::bpf_get_current_task_btf;
use isobar_ebpf::Cause;

use crate::layout::{CSS_SET_MEMORY, MEMCG_HIGH, MEMCG_USAGE, Object, TASK_CGROUPS, at, load};
use crate::maps::ALLOCATABLE;

/// The memory cgroup that the current task is charged to: an ancestor of its cgroup where the
/// memory controller is not enabled all the way down.
#[inline(always)]
pub(crate) unsafe fn own_css() -> Object {
    // SAFETY: `current` is a `task_struct`; member types as named.
    unsafe {
        let task: Object = bpf_get_current_task_btf().cast::<u8>().cast_const();
        load(load(task, &TASK_CGROUPS), &CSS_SET_MEMORY)
    }
}

/// The cause of a stall for an ancestor's limit.
#[inline(always)]
pub(crate) fn ancestor_limit(limit: u64) -> Cause {
    if ALLOCATABLE.get_ptr(limit).is_some() {
        Cause::AllocatableLimit
    } else {
        Cause::AncestorLimit
    }
}

/// The cause of a stall for `memory.high`: its own cgroup's if that is exceeded, else an
/// ancestor's.
#[inline(always)]
pub(crate) unsafe fn high_limit() -> Cause {
    // SAFETY: a css is the first member of its `mem_cgroup`; a failed read means its own limit.
    unsafe {
        let memcg = own_css();
        let usage = bpf_probe_read_kernel(memcg.add(at(&MEMCG_USAGE)).cast::<u64>());
        let high = bpf_probe_read_kernel(memcg.add(at(&MEMCG_HIGH)).cast::<u64>());
        match (usage, high) {
            (Ok(usage), Ok(high)) if usage <= high => Cause::AncestorLimit,
            _ => Cause::OwnHigh,
        }
    }
}
