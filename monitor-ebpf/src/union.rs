// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Wall time in which at least one task waited for a CPU: per CPU, and per cgroup level.
//!
//! The kernel itself counts waiting tasks (`rq.nr_running`, `cfs_rq.h_nr_*`, without throttled
//! ones), so it is enough to read the counts at each context switch. When a task of a group starts
//! to wait, the group's next event on this CPU sets `waiting`, and from then on all time counts.
//! Only the interval in which the task was queued may be partly missed, and there is at most one
//! such interval at a time: `gap_start..gap_end`. A task that is picked later but was queued
//! earlier adds the missing part. On the fast path no task waited at the last switch and none waits
//! now, so the wait belongs to the picked task alone and may be summed over descendants.

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use isobar_ebpf::{Cpu, Group};

use crate::climb::{Climb, each_level};
use crate::layout::{
    CFS_RQ_CURR, CFS_RQ_RQ, HAS_GROUPS, Object, RQ_CLOCK, RQ_CPU, TASK_ON_RQ, cgroup_of_queue, has,
    id, is_throttled, later, load, runnable, waiters,
};
use crate::maps::{count_lost, cpu_on, group_by_id, group_on};

/// `TASK_ON_RQ_MIGRATING`, kernel/sched/sched.h.
const MIGRATING: u8 = 2;

/// In [`Cpu::chain`]: this level was handled with the next task. No run queue has this address.
const SHARED: u64 = 0;

/// [`account`]: the task that left belongs to this level, so the time was also run time.
const RAN: u64 = 1;
/// [`account`]: a task of this level is left waiting.
const WAITING: u64 = 2;

/// Adds the time since a level's last event, and stores whether a task waits now.
///
/// `queued` is the start of the wait of this level's picked task, 0 if none was picked;
/// `uncontended_at` the last time at which no task waited on this CPU. A global function, which the
/// verifier checks once; inlined sixteen times, it gives up at a million instructions (7.x).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn account(key: u64, queued: u64, now: u64, uncontended_at: u64, what: u64) -> u64 {
    let Some(level) = group_by_id(key) else {
        count_lost(|cpu| &raw mut cpu.lost_groups);
        return 0;
    };
    // SAFETY: a map value of this CPU.
    unsafe {
        let last = (*level).last;
        let mut add = 0;
        if (*level).waiting != 0 && last >= uncontended_at {
            if now > last {
                add = now - last;
            }
            if queued != 0 {
                let from = later(later((*level).gap_start, queued), uncontended_at);
                if (*level).gap_end > from {
                    add += (*level).gap_end - from;
                    (*level).gap_end = from;
                }
            }
        } else {
            let from = later(last, uncontended_at);
            let since = if queued >= from && queued != 0 && queued < now { queued } else { now };
            add = now - since;
            (*level).gap_start = from;
            (*level).gap_end = since;
        }
        (*level).slow += add;
        if what & RAN != 0 {
            (*level).both += add;
        }
        (*level).waiting = u64::from(what & WAITING != 0);
        (*level).last = now;
    }
    0
}

/// [`WAITING`] if a task besides the running ones could run and does not.
#[inline(always)]
unsafe fn left_waiting(cfs_rq: Object, runs: i32) -> u64 {
    // SAFETY: the caller guarantees it.
    unsafe { if is_throttled(cfs_rq) || runnable(cfs_rq) <= runs { 0 } else { WAITING } }
}

/// Accounts for the levels of both tasks; levels that they share once.
///
/// # Safety
/// `prev` and `next` are `task_struct`s; `queued` is the start of `next`'s unthrottled wait.
#[inline(always)]
pub(crate) unsafe fn levels(
    cpu: *mut Cpu,
    prev: Option<Object>,
    next: Option<Object>,
    queued: u64,
    now: u64,
) {
    if !has(&HAS_GROUPS) {
        return;
    }
    // SAFETY: the caller guarantees it; `cpu` is a map value.
    unsafe {
        let uncontended_at = (*cpu).uncontended_at;
        let mut left_depth = 0;
        if let Some(prev) = prev {
            let mut climb = Climb::from(prev);
            left_depth = climb.depth;
            each_level!('remember, {
                if climb.is_at_root() {
                    break 'remember;
                }
                (*cpu).chain[climb.slot()] = climb.cfs_rq as u64;
                climb.up();
            });
        }
        if let Some(next) = next {
            let mut climb = Climb::from(next);
            each_level!('coming, {
                if climb.is_at_root() {
                    break 'coming;
                }
                // Slots deeper than `prev` are left over from earlier events.
                let ran = climb.depth <= left_depth
                    && (*cpu).chain[climb.slot()] == climb.cfs_rq as u64;
                if ran {
                    (*cpu).chain[climb.slot()] = SHARED;
                }
                let what = left_waiting(climb.cfs_rq, 1) | if ran { RAN } else { 0 };
                account(id(cgroup_of_queue(climb.cfs_rq)), queued, now, uncontended_at, what);
                climb.up();
            });
            if !climb.is_at_root() {
                (*cpu).too_deep += 1;
            }
        }
        if let Some(prev) = prev {
            let mut climb = Climb::from(prev);
            each_level!('leaving, {
                // Shared from here up.
                if climb.is_at_root() || (*cpu).chain[climb.slot()] == SHARED {
                    break 'leaving;
                }
                let what = left_waiting(climb.cfs_rq, 0) | RAN;
                account(id(cgroup_of_queue(climb.cfs_rq)), 0, now, uncontended_at, what);
                climb.up();
            });
        }
    }
}

/// `sched_migrate_task(p, dest_cpu)`: a waiting task moves to another CPU. Without this, its old
/// CPU would count it until the next switch there. Wake-ups on another CPU fire this too and are
/// ignored.
#[btf_tracepoint(function = "sched_migrate_task")]
pub(crate) fn migrate(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument types are those in BTF; the old run queue's lock is held.
    unsafe { leave_cpu(ctx.arg(0)) };
    0
}

#[inline(always)]
unsafe fn leave_cpu(task: Object) {
    // SAFETY: member types as named. `on_rq` is an int up to 6.18 and a byte in 7.x.
    unsafe {
        if load::<u8>(task, &TASK_ON_RQ) != MIGRATING {
            return;
        }
        let mut climb = Climb::from(task);
        let rq: Object = load(climb.cfs_rq, &CFS_RQ_RQ);
        let now: u64 = load(rq, &RQ_CLOCK);
        let number: u32 = load(rq, &RQ_CPU);
        let Some(cpu) = cpu_on(number) else { return };
        if (*cpu).waiters == 0 {
            return;
        }
        if now > (*cpu).last {
            (*cpu).contention += now - (*cpu).last;
            (*cpu).last = now;
        }
        (*cpu).waiters = waiters(rq, (*cpu).idle != 0);
        if (*cpu).waiters == 0 {
            (*cpu).uncontended_at = now;
        }
        if !has(&HAS_GROUPS) {
            return;
        }
        each_level!('left, {
            if climb.is_at_root() {
                break 'left;
            }
            if let Some(level) = group_on(number, id(cgroup_of_queue(climb.cfs_rq))) {
                close(level, climb.cfs_rq, now);
            }
            climb.up();
        });
    }
}

/// Ends a level's wait if its last waiting task has just left.
#[inline(always)]
unsafe fn close(level: *mut Group, cfs_rq: Object, now: u64) {
    // SAFETY: a map value; `cfs_rq` is a `cfs_rq`.
    unsafe {
        if (*level).waiting == 0 {
            return;
        }
        if now > (*level).last {
            (*level).slow += now - (*level).last;
            (*level).last = now;
        }
        let runs = !load::<Object>(cfs_rq, &CFS_RQ_CURR).is_null();
        (*level).waiting = u64::from(left_waiting(cfs_rq, i32::from(runs)) != 0);
    }
}
