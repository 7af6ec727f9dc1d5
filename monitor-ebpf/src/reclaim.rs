// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Whose limit a stall is about; and, where the kernel refuses fentry, stalls by tracepoint alone.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::bpf_get_current_task_btf;
use aya_ebpf::macros::{btf_tracepoint, fentry};
use aya_ebpf::programs::{BtfTracePointContext, FEntryContext};
use isobar_ebpf::Cause;

use crate::layout::{
    CSS_CGROUP, CSS_SET_MEMORY, MEMCG_CSS_CGROUP, MEMCG_HIGH, MEMCG_USAGE, Object, TASK_CGROUPS,
    TASK_FLAGS, at, id, load,
};
use crate::maps::{ALLOCATABLE, STALLS};
use crate::stall::{begin, change_cause, end, thread};

/// `PF_KTHREAD`, include/linux/sched.h.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// The memory cgroup that the current task is charged to: not its own directory where the memory
/// controller is not enabled all the way down.
#[inline(always)]
unsafe fn own_css() -> Object {
    // SAFETY: `current` is a `task_struct`; member types as named.
    unsafe {
        let task: Object = bpf_get_current_task_btf().cast::<u8>().cast_const();
        load(load(task, &TASK_CGROUPS), &CSS_SET_MEMORY)
    }
}

/// `try_to_free_mem_cgroup_pages(memcg, ..)`: the cgroup that must shrink. Called within the stall
/// whose caller only said that some limit was reached.
#[fentry(function = "try_to_free_mem_cgroup_pages")]
pub(crate) fn reclaim_target(ctx: FEntryContext) -> i32 {
    // SAFETY: the kernel passes what BTF says; a map value of the current task.
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
            above(target)
        };
        change_cause(stall, cause);
    }
    0
}

/// A limit above the task's own cgroup.
#[inline(always)]
fn above(limit: u64) -> Cause {
    if ALLOCATABLE.get_ptr(limit).is_some() {
        Cause::AllocatableLimit
    } else {
        Cause::AncestorLimit
    }
}

/// A task is put to sleep for `memory.high`: its own, if that is exceeded, else one above.
#[inline(always)]
pub(crate) unsafe fn whose_high() -> Cause {
    // SAFETY: a css is the first member of its `mem_cgroup`; a failed read blames its own.
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
    // kcompactd waits for nobody; what is nested belongs to the outer.
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
