// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Reclaim: which cgroup must shrink; and stalls by tracepoint where the kernel refuses fentry.

use aya_ebpf::helpers::generated::bpf_get_current_task_btf;
use aya_ebpf::macros::{btf_tracepoint, fentry};
use aya_ebpf::programs::{BtfTracePointContext, FEntryContext};
use isobar_ebpf::Cause;

use crate::layout::{CSS_CGROUP, MEMCG_CSS_CGROUP, TASK_FLAGS, id, load};
use crate::limit::{ancestor_limit, own_css};
use crate::maps::STALLS;
use crate::stall::{begin, change_cause, end, thread};

/// `PF_KTHREAD`, include/linux/sched.h.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// `try_to_free_mem_cgroup_pages(memcg, ..)`: the cgroup that must shrink. Called within a stall
/// whose cause so far is an unknown limit.
#[fentry(function = "try_to_free_mem_cgroup_pages")]
pub(crate) fn reclaim_target(ctx: FEntryContext) -> i32 {
    // SAFETY: the argument types are those in BTF; a map value of the current task.
    unsafe {
        let Some(stall) = STALLS.get_ptr_mut(thread()) else { return 0 };
        let by_high = (*stall).cause == Cause::OwnHigh as u32;
        if !by_high && (*stall).cause != Cause::SomeLimit as u32 {
            return 0;
        }
        let target = id(load(ctx.arg(0), &MEMCG_CSS_CGROUP));
        let own = id(load(own_css(), &CSS_CGROUP));
        let cause = if target == own {
            if by_high { Cause::OwnHigh } else { Cause::OwnLimit }
        } else {
            ancestor_limit(target)
        };
        change_cause(stall, cause);
    }
    0
}

#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_begin")]
pub(crate) fn memcg_reclaim(_: BtfTracePointContext) -> i32 {
    enter(Cause::SomeLimit)
}

#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_end")]
pub(crate) fn memcg_reclaimed(_: BtfTracePointContext) -> i32 {
    leave(Cause::SomeLimit)
}

#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_begin")]
pub(crate) fn direct_reclaim(_: BtfTracePointContext) -> i32 {
    enter(Cause::Global)
}

#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_end")]
pub(crate) fn direct_reclaimed(_: BtfTracePointContext) -> i32 {
    leave(Cause::Global)
}

#[btf_tracepoint(function = "mm_compaction_begin")]
pub(crate) fn compaction(_: BtfTracePointContext) -> i32 {
    enter(Cause::Compaction)
}

#[btf_tracepoint(function = "mm_compaction_end")]
pub(crate) fn compacted(_: BtfTracePointContext) -> i32 {
    leave(Cause::Compaction)
}

#[inline(always)]
fn enter(cause: Cause) -> i32 {
    // SAFETY: `current` is a `task_struct`.
    let flags: u32 =
        unsafe { load(bpf_get_current_task_btf().cast::<u8>().cast_const(), &TASK_FLAGS) };
    let pid = thread();
    // kcompactd keeps no task waiting; a nested stall belongs to the outer one.
    if flags & KERNEL_THREAD == 0 && STALLS.get_ptr(pid).is_none() {
        begin(pid, cause);
    }
    0
}

#[inline(always)]
fn leave(cause: Cause) -> i32 {
    let pid = thread();
    // SAFETY: a map value.
    if STALLS.get_ptr(pid).is_some_and(|stall| unsafe { (*stall).cause } == cause as u32) {
        end(pid);
    }
    0
}
