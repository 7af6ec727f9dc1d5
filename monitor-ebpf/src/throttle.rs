// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Quotas: which part of a wait was throttled.
//!
//! A throttle clock counts the time that a group was throttled, by its own quota or an ancestor's.
//! From Linux 6.6 on the kernel has one (`cfs_rq.throttled_clock_self_time`, which grows at each
//! unthrottle). Before that two fentry programs count it, on the callbacks that run once for every
//! descendant of a throttled group. Either way the clock is read when a task of the group is
//! picked: if it has grown, a throttling has ended since the last reading.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::macros::fentry;
use aya_ebpf::programs::FEntryContext;
use isobar_ebpf::{Anchor, Group};

use crate::climb::{Climb, each_level};
use crate::layout::{
    CFS_RQ_TG, CFS_RQ_THROTTLE_CLOCK, CFS_RQ_THROTTLED, CFS_RQ_THROTTLED_MASK, HAS_GROUPS,
    HAS_THROTTLE_CLOCK, HAS_THROTTLE_PROGRAMS, Object, RQ_CLOCK, RQ_CPU, TASK_CFS_RQ, TG_CGROUP,
    TG_QUOTA, at, earlier, has, id, later, load,
};
use crate::maps::group_on;

/// `RUNTIME_INF`: no quota.
const NO_QUOTA: u64 = u64::MAX;
/// Spacing of the anchors.
const ANCHOR: u64 = 1_000_000_000;
/// A throttling open for longer has lost its end.
const LOST: u64 = 60_000_000_000;

/// Reads the throttle clock when a task queued at `queued` is picked; true if it has grown.
///
/// # Safety
/// `task` is a `task_struct`, `group` the entry of its queue's group on this CPU.
#[inline(always)]
pub(crate) unsafe fn read_clock(group: *mut Group, task: Object, queued: u64, now: u64) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe {
        let cfs_rq: Object = load(task, &TASK_CFS_RQ);
        let clock: u64 = if has(&HAS_THROTTLE_CLOCK) {
            load(cfs_rq, &CFS_RQ_THROTTLE_CLOCK)
        } else if has(&HAS_THROTTLE_PROGRAMS) {
            (*group).throttle_clock
        } else {
            return false;
        };
        if !has(&HAS_GROUPS) && (*group).throttle_queue != cfs_rq as u64 {
            // With cgroup v1, tasks of one v2 cgroup may be in several groups: this is another
            // clock.
            (*group).throttle_queue = cfs_rq as u64;
            (*group).throttle_seen = clock + 1;
            return false;
        }
        let seen = (*group).throttle_seen;
        if seen == clock + 1 {
            return false;
        }
        (*group).throttle_seen = clock + 1;
        if seen == 0 {
            return false;
        }
        let length = clock + 1 - seen;
        if has(&HAS_THROTTLE_CLOCK) {
            // It began at the group's last event, or when this task joined the throttled group.
            // Then the end is too late, but no throttled time counts as contention.
            let began = later(queued, (*group).last);
            (*group).throttle_end = earlier(now, began + length);
        } // Else the programs have stored the end.
        (*group).throttle_length = length;
        (*group).throttle_level = quota_level(group, task);
        (*group).throttle_mark = 0;
        move_anchor(group, clock);
        true
    }
}

/// Levels up to the quota that throttled, as noted when a task left the CPU. If no task of the
/// group ran then, it was queued or throttled at wake-up, and the nearest quota is taken.
#[inline(always)]
unsafe fn quota_level(group: *mut Group, task: Object) -> u32 {
    // SAFETY: member types as named.
    unsafe {
        let mark = (*group).throttle_mark;
        if mark != 0 {
            return mark - 1;
        }
        nearest(task, |queue| load::<u64>(load(queue, &CFS_RQ_TG), &TG_QUOTA) != NO_QUOTA)
    }
}

/// Notes which level's quota throttles a task that leaves the CPU.
///
/// # Safety
/// `task` is of a throttled queue, `group` its entry.
#[inline(always)]
pub(crate) unsafe fn mark(group: *mut Group, task: Object) {
    // SAFETY: an int on some kernels, a bit of a shared byte on others.
    let level = unsafe {
        nearest(task, |queue| {
            load::<u8>(queue, &CFS_RQ_THROTTLED) & at(&CFS_RQ_THROTTLED_MASK) as u8 != 0
        })
    };
    // SAFETY: a map value.
    unsafe { (*group).throttle_mark = level + 1 };
}

/// Levels from the task's own run queue up to the first that `matches`; the topmost if none does.
#[inline(always)]
unsafe fn nearest(task: Object, matches: impl Fn(Object) -> bool) -> u32 {
    let mut level = 0;
    // SAFETY: the caller guarantees it.
    unsafe {
        let mut climb = Climb::from(task);
        each_level!('nearest, {
            if climb.is_at_root() || matches(climb.cfs_rq) {
                break 'nearest;
            }
            climb.up();
            level += 1;
        });
    }
    level
}

/// Keeps a reading one to two seconds old, so that a wait longer than the last throttling can be
/// split by the rate of the clock.
#[inline(always)]
unsafe fn move_anchor(group: *mut Group, clock: u64) {
    // SAFETY: a map value.
    unsafe {
        let end = (*group).throttle_end;
        if end < (*group).next_anchor.at + ANCHOR {
            return;
        }
        (*group).anchor = (*group).next_anchor;
        (*group).next_anchor = Anchor { at: end, clock };
    }
}

/// The throttled part of a wait since `queued`.
///
/// Exact for the last throttling. For earlier ones it is estimated by the rate of the clock since
/// the anchor: one of a hundred throttled threads waits through dozens of periods.
#[inline(always)]
pub(crate) unsafe fn throttled_since(group: *mut Group, queued: u64) -> u64 {
    // SAFETY: a map value.
    unsafe {
        let end = (*group).throttle_end;
        if end <= queued {
            return 0;
        }
        let span = end - queued;
        let length = (*group).throttle_length;
        if span <= length {
            return span;
        }
        let (before, began) = (span - length, end - length);
        let anchor = (*group).anchor;
        let clock = (*group).throttle_seen - 1 - length;
        if anchor.at == 0 || anchor.at >= began || clock < anchor.clock {
            return length;
        }
        // 1/1024 of the rate, which is at most 1: no overflow for waits below 200 days.
        let rate = earlier(((clock - anchor.clock) << 10) / (began - anchor.at), 1 << 10);
        length + ((before * rate) >> 10)
    }
}

/// `tg_throttle_down(tg, rq)`: a group or an ancestor has used up its quota on a CPU.
#[fentry(function = "tg_throttle_down")]
pub(crate) fn throttle_down(ctx: FEntryContext) -> i32 {
    // SAFETY: the argument types are those in BTF.
    let Some((group, now)) = (unsafe { throttled_group(&ctx) }) else { return 0 };
    // SAFETY: a map value, written under the run queue lock.
    unsafe {
        if (*group).throttle_depth == 0 || now - (*group).throttle_open > LOST {
            (*group).throttle_open = now;
            (*group).throttle_depth = 1;
        } else {
            (*group).throttle_depth += 1;
        }
    }
    0
}

/// `tg_unthrottle_up(tg, rq)`: the group or ancestor has quota again.
#[fentry(function = "tg_unthrottle_up")]
pub(crate) fn throttle_up(ctx: FEntryContext) -> i32 {
    // SAFETY: the argument types are those in BTF.
    let Some((group, now)) = (unsafe { throttled_group(&ctx) }) else { return 0 };
    // SAFETY: as above.
    unsafe {
        match (*group).throttle_depth {
            0 => {} // Throttled before the program was attached.
            1 => {
                (*group).throttle_depth = 0;
                (*group).throttle_clock += now - (*group).throttle_open;
                (*group).throttle_end = now;
            }
            _ => (*group).throttle_depth -= 1,
        }
    }
    0
}

/// The group's entry on the run queue's CPU (perhaps not this CPU), and the run queue's clock. A
/// group that never ran there has no entry and no waiting task.
#[inline(always)]
unsafe fn throttled_group(ctx: &FEntryContext) -> Option<(*mut Group, u64)> {
    // SAFETY: `tg` is typed; the queue comes as `void *`, so it is read by probe.
    unsafe {
        let tg: Object = ctx.arg(0);
        let rq: Object = ctx.arg(1);
        let cpu = bpf_probe_read_kernel(rq.add(at(&RQ_CPU)).cast::<u32>()).ok()?;
        let now = bpf_probe_read_kernel(rq.add(at(&RQ_CLOCK)).cast::<u64>()).ok()?;
        Some((group_on(cpu, id(load(tg, &TG_CGROUP)))?, now))
    }
}
