// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The member offsets of the running kernel.
//!
//! rustc emits no CO-RE relocations, so the agent reads the offsets from the kernel's BTF and
//! writes them into these read-only globals before loading. The verifier then sees constants: a
//! load through them is an ordinary typed field access, a faulting load reads 0, and a branch on a
//! flag that is 0 is not verified. The names are those of `source/kernel/layout.rs` in the agent,
//! which does not load a program whose members are missing.

use core::ptr::read_volatile;

/// Declares globals, 0 until the agent sets them.
macro_rules! globals {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $( $(#[$doc])* #[unsafe(no_mangle)] pub(crate) static $name: u32 = 0; )*
    };
}

globals!(
    TASK_PID,
    TASK_COMM,
    TASK_FLAGS,
    TASK_CGROUPS,
    TASK_LAST_QUEUED,
    TASK_CFS_RQ,
    TASK_SE_PARENT,
    TASK_SE_DEPTH,
    TASK_ON_RQ,
    TASK_IN_IOWAIT,
    TASK_IN_IOWAIT_MASK,
    TASK_IN_MEMSTALL,
    TASK_IN_MEMSTALL_MASK,
    CSS_SET_DFL_CGRP,
    /// `css_set.subsys[memory_cgrp_id]`.
    CSS_SET_MEMORY,
    CGROUP_KN,
    CGROUP_ROOT,
    CGROUP_ROOT_HIERARCHY,
    /// `cgroup.self.parent`: the css of the parent.
    CGROUP_PARENT,
    KERNFS_ID,
    CSS_CGROUP,
    MEMCG_CSS_CGROUP,
    MEMCG_USAGE,
    MEMCG_HIGH,
    OOM_MEMCG,
    SE_PARENT,
    SE_CFS_RQ,
    CFS_RQ_RQ,
    CFS_RQ_TG,
    CFS_RQ_CURR,
    CFS_RQ_THROTTLED,
    CFS_RQ_THROTTLED_MASK,
    CFS_RQ_THROTTLE_COUNT,
    CFS_RQ_THROTTLE_CLOCK,
    /// `cfs_rq.h_nr_runnable`, else `h_nr_queued`, else `h_nr_running`.
    CFS_RQ_WAITERS,
    /// `cfs_rq.h_nr_delayed`, where it must be subtracted from [`CFS_RQ_WAITERS`].
    CFS_RQ_DELAYED,
    TG_CGROUP,
    TG_QUOTA,
    RQ_CLOCK,
    RQ_CPU,
    RQ_NR_RUNNING,
    RQ_NR_IOWAIT,
    RQ_CFS_QUEUED,
    RQ_CFS_RUNNABLE,
    /// 1: the cpu controller is on cgroup v2, so groups have unions.
    HAS_GROUPS,
    /// 1: [`CFS_RQ_DELAYED`] must be subtracted.
    HAS_DELAYED,
    /// 1: sleeping tasks may stay queued: [`RQ_CFS_QUEUED`] less [`RQ_CFS_RUNNABLE`] of them.
    HAS_DELAYED_DEQUEUE,
    /// 1: `cfs_rq.throttled_clock_self_time` exists.
    HAS_THROTTLE_CLOCK,
    /// 1: the throttle programs count [`isobar_ebpf::Group::throttle_clock`].
    HAS_THROTTLE_PROGRAMS,
    /// 1: PSI is on, so the kernel sets `in_memstall` and `*flags`.
    HAS_PSI,
    /// 1: `mark_victim` passes the victim's task, not its pid.
    VICTIM_IS_TASK,
    /// Shorter waits (ns) are charged to no aggressor.
    BLAME_FROM,
);

/// The value of a global; volatile, or the compiler would assume 0.
#[inline(always)]
pub(crate) fn at(global: &'static u32) -> usize {
    // SAFETY: a reference is readable.
    unsafe { read_volatile(global) as usize }
}

/// Whether a flag is set.
#[inline(always)]
pub(crate) fn has(global: &'static u32) -> bool {
    at(global) != 0
}

/// A kernel object. The verifier knows its type and checks every load.
pub(crate) type Object = *const u8;

/// Loads a member.
///
/// # Safety
/// `object` is of the type to which the offset in `member` belongs.
#[inline(always)]
pub(crate) unsafe fn load<T: Copy>(object: Object, member: &'static u32) -> T {
    // SAFETY: the verifier turns this into a load that reads 0 where the address is bad.
    unsafe { read_volatile(object.add(at(member)).cast()) }
}

/// The cgroup v2 directory of a task.
///
/// # Safety
/// `task` is a `task_struct`.
#[inline(always)]
pub(crate) unsafe fn cgroup_of_task(task: Object) -> Object {
    // SAFETY: member types as named.
    unsafe { load(load(task, &TASK_CGROUPS), &CSS_SET_DFL_CGRP) }
}

/// The cgroup of a run queue's group.
///
/// # Safety
/// `cfs_rq` is a `cfs_rq`.
#[inline(always)]
pub(crate) unsafe fn cgroup_of_queue(cfs_rq: Object) -> Object {
    // SAFETY: member types as named.
    unsafe { load(load(cfs_rq, &CFS_RQ_TG), &TG_CGROUP) }
}

/// A cgroup's id: the inode number of its directory.
///
/// # Safety
/// `cgroup` is a `cgroup`.
#[inline(always)]
pub(crate) unsafe fn id(cgroup: Object) -> u64 {
    // SAFETY: member types as named.
    unsafe { load(load(cgroup, &CGROUP_KN), &KERNFS_ID) }
}

/// The parent's id; 0 for the root.
///
/// # Safety
/// `cgroup` is a `cgroup`.
#[inline(always)]
pub(crate) unsafe fn parent_id(cgroup: Object) -> u64 {
    // SAFETY: member types as named; a NULL css reads 0 all the way down.
    unsafe {
        let css: Object = load(cgroup, &CGROUP_PARENT);
        if css.is_null() { 0 } else { id(load(css, &CSS_CGROUP)) }
    }
}

/// A task's pid; 0 is the idle task of any CPU.
///
/// # Safety
/// `task` is a `task_struct`.
#[inline(always)]
pub(crate) unsafe fn pid(task: Object) -> u32 {
    // SAFETY: member type as named.
    unsafe { load(task, &TASK_PID) }
}

/// Tasks of a group that wait or run, without sleepers that stay queued.
///
/// # Safety
/// `cfs_rq` is a `cfs_rq`.
#[inline(always)]
pub(crate) unsafe fn runnable(cfs_rq: Object) -> i32 {
    // SAFETY: member types as named.
    unsafe {
        let queued: i32 = load(cfs_rq, &CFS_RQ_WAITERS);
        if has(&HAS_DELAYED) { queued - load::<i32>(cfs_rq, &CFS_RQ_DELAYED) } else { queued }
    }
}

/// Whether the run queue is throttled, by its own group's or an ancestor's quota.
///
/// # Safety
/// `cfs_rq` is a `cfs_rq`.
#[inline(always)]
pub(crate) unsafe fn is_throttled(cfs_rq: Object) -> bool {
    // SAFETY: member type as named.
    unsafe { load::<i32>(cfs_rq, &CFS_RQ_THROTTLE_COUNT) != 0 }
}

/// Tasks that wait for this CPU, without the running one and without throttled ones.
///
/// # Safety
/// `rq` is a `rq`.
#[inline(always)]
pub(crate) unsafe fn waiters(rq: Object, idle: bool) -> u64 {
    // SAFETY: member types as named.
    unsafe {
        let mut n: i32 = load(rq, &RQ_NR_RUNNING);
        if has(&HAS_DELAYED_DEQUEUE) {
            n -= load::<i32>(rq, &RQ_CFS_QUEUED) - load::<i32>(rq, &RQ_CFS_RUNNABLE);
        }
        if !idle {
            n -= 1;
        }
        if n > 0 { n as u64 } else { 0 }
    }
}

/// The larger of two times.
#[inline(always)]
pub(crate) fn later(a: u64, b: u64) -> u64 {
    if a > b { a } else { b }
}

/// The smaller of two times.
#[inline(always)]
pub(crate) fn earlier(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}
