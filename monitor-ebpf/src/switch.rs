// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! `sched_switch(preempt, prev, next, prev_state)`: a CPU switches from one task to the next.
//!
//! The kernel stores the time at which a task was queued (`sched_info.last_queued`, on the run
//! queue's clock), and this tracepoint fires before it clears that stamp. So one program measures
//! every wait, without a wake-up hook or a per-task map. A CPU's state is written under its run
//! queue's lock, so plain additions are safe.

use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use isobar_ebpf::{BUCKETS, Cpu, Group, LEVELS, SLICES, SLICES_LOG, Slice, Slices, UNKNOWN};

use crate::layout::{
    BLAME_FROM, CFS_RQ_RQ, HAS_GROUPS, Object, RQ_CLOCK, RQ_NR_IOWAIT, TASK_CFS_RQ, TASK_IN_IOWAIT,
    TASK_IN_IOWAIT_MASK, TASK_LAST_QUEUED, at, cgroup_of_queue, cgroup_of_task, has, id,
    is_throttled, later, load, pid, waiters,
};
use crate::maps::{CPUS, IO_SLEEPERS, RECENT, blame, group, group_here};
use crate::throttle;
use crate::union::levels;

/// Slices of a wait that are charged one by one.
const WALKED: u64 = 8;
/// Instants of a longer wait.
const INSTANTS: u64 = 8;

/// How long `next` waited.
struct Picked {
    /// The group of its run queue.
    group: u64,
    /// Start of its wait without throttled time. 0 for the idle task.
    queued: u64,
    /// Another task waited too, or a quota throttled.
    slow: bool,
}

#[btf_tracepoint(function = "sched_switch")]
pub(crate) fn switch(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument types are those in BTF.
    unsafe { switched(ctx.arg(1), ctx.arg(2)) };
    0
}

#[inline(always)]
unsafe fn switched(prev: Object, next: Object) {
    // SAFETY: member types as named; map values live as long as the program runs.
    unsafe {
        let Some(cpu) = CPUS.get_ptr_mut(0) else { return };
        let queue: Object = load(next, &TASK_CFS_RQ);
        let rq: Object = load(queue, &CFS_RQ_RQ);
        let now: u64 = load(rq, &RQ_CLOCK);
        let prev_pid = pid(prev);
        let next_pid = pid(next);
        (*cpu).switches += 1;

        let mut throttled = false;
        let left = if prev_pid == 0 { 0 } else { leave(cpu, prev, prev_pid, now, &mut throttled) };
        let Some(recent) = RECENT.get_ptr_mut(0) else { return };
        end_slice(recent, left, now);

        let waited = (*cpu).waiters;
        let waiting = waiters(rq, next_pid == 0);
        let slow = waited != 0 || waiting != 0 || throttled;
        let picked = if next_pid == 0 {
            Picked { group: 0, queued: 0, slow }
        } else {
            pick(cpu, recent, next, next_pid, queue, now, slow)
        };
        account(cpu, waited, picked.queued, now);
        if picked.slow {
            let prev = if prev_pid == 0 { None } else { Some(prev) };
            let next = if next_pid == 0 { None } else { Some(next) };
            levels(cpu, prev, next, picked.queued, now);
        }

        if waiting == 0 {
            (*cpu).uncontended_at = now;
        }
        (*cpu).waiters = waiting;
        (*cpu).last = now;
        (*cpu).last_switch = now;
        (*cpu).current = picked.group;
        (*cpu).idle = u64::from(next_pid == 0);
        (*cpu).iowait = if next_pid == 0 { u64::from(load::<u32>(rq, &RQ_NR_IOWAIT)) } else { 0 };
    }
}

/// `prev` leaves the CPU: adds its run time, notes the quota if it is throttled, and the time if it
/// falls asleep for IO. Returns its cgroup.
#[inline(always)]
unsafe fn leave(cpu: *mut Cpu, prev: Object, prev_pid: u32, now: u64, throttled: &mut bool) -> u64 {
    // SAFETY: member types as named.
    unsafe {
        let queue: Object = load(prev, &TASK_CFS_RQ);
        let cgroup = id(cgroup_of_task(prev));
        let key = if has(&HAS_GROUPS) { id(cgroup_of_queue(queue)) } else { cgroup };
        let ran = if (*cpu).last_switch == 0 { 0 } else { now - (*cpu).last_switch };
        if (*cpu).pending_group == key {
            (*cpu).pending_run += ran;
        } else {
            if let Some(group) = group_here((*cpu).pending_group) {
                (*group).run += (*cpu).pending_run;
            }
            (*cpu).pending_group = key;
            (*cpu).pending_run = ran;
        }
        if is_throttled(queue) {
            *throttled = true;
            if let Some(group) = group_here(key) {
                throttle::mark(group, prev);
            }
        }
        if sleeps_for_io(prev) && IO_SLEEPERS.insert(prev_pid, now, BPF_ANY.into()).is_err() {
            (*cpu).lost_io += 1;
        }
        cgroup
    }
}

/// Ends the slice of the cgroup that ran until now; consecutive slices of one cgroup are merged.
#[inline(always)]
unsafe fn end_slice(recent: *mut Slices, cgroup: u64, now: u64) {
    // SAFETY: a map value; the mask keeps the index inside.
    unsafe {
        if (*recent).ring[index((*recent).newest)].cgroup != cgroup {
            (*recent).newest += 1;
        }
        (*recent).ring[index((*recent).newest)] = Slice { cgroup, end: now };
    }
}

#[inline(always)]
fn index(slice: u64) -> usize {
    (slice as usize) & (SLICES - 1)
}

/// `next` gets the CPU: adds its wait to its cgroup, and charges it to the cgroups that ran
/// meanwhile.
#[inline(always)]
unsafe fn pick(
    cpu: *mut Cpu,
    recent: *const Slices,
    next: Object,
    next_pid: u32,
    queue: Object,
    now: u64,
    mut slow: bool,
) -> Picked {
    // SAFETY: member types as named; map values.
    unsafe {
        let own = cgroup_of_task(next);
        let own_id = id(own);
        let (above, key) = if has(&HAS_GROUPS) {
            let above = cgroup_of_queue(queue);
            (above, id(above))
        } else {
            (own, own_id)
        };
        let stamp: u64 = load(next, &TASK_LAST_QUEUED);
        if stamp == 0 {
            forget_io(next, next_pid);
            return Picked { group: key, queued: 0, slow };
        }
        let stamp = if stamp > now { now } else { stamp };
        let Some(group_entry) = group(above) else {
            (*cpu).lost_groups += 1;
            forget_io(next, next_pid);
            return Picked { group: key, queued: stamp, slow };
        };
        if throttle::read_clock(group_entry, next, stamp, now) {
            slow = true;
        }
        // No task waited at the last switch, so none can have been queued before it: the stamp is
        // left over from an earlier sleep (seen on 6.12: 5.6 s of "wait" after 5.6 s of sleep).
        if !slow && stamp < (*cpu).last_switch {
            (*cpu).stale_stamps += 1;
            forget_io(next, next_pid);
            return Picked { group: key, queued: now, slow: true };
        }
        let queued = later(stamp, (*group_entry).throttle_end);
        if !slow {
            (*group_entry).fast += now - queued;
            if (*cpu).pending_group == key {
                (*group_entry).fast_both += now - queued;
            }
        }
        // The cgroup of the task lies below that of its queue where the cpu controller is not
        // enabled all the way down.
        let entry = if own_id == key { Some(group_entry) } else { group(own) };
        let Some(entry) = entry else {
            (*cpu).lost_groups += 1;
            forget_io(next, next_pid);
            return Picked { group: key, queued, slow };
        };
        let throttled = throttle::throttled_since(group_entry, stamp);
        let level = (*group_entry).throttle_level + u32::from(own_id != key);
        record(entry, stamp, throttled, level, now);
        if sleeps_for_io(next) {
            wake_from_io(entry, next_pid, stamp);
        }
        if now - queued >= at(&BLAME_FROM) as u64 {
            charge_runners(cpu, recent, own_id, queued, now);
        }
        Picked { group: key, queued, slow }
    }
}

/// Adds a wait to its cgroup.
#[inline(always)]
unsafe fn record(group: *mut Group, stamp: u64, throttled: u64, level: u32, now: u64) {
    // SAFETY: a map value; the mask keeps the bucket inside.
    unsafe {
        let wait = now - stamp;
        let throttled = if throttled > wait { wait } else { throttled };
        (*group).wait += wait;
        (*group).n_waits += 1;
        if throttled != 0 {
            (*group).throttled[level as usize & (LEVELS - 1)] += throttled;
        }
        (*group).histogram[bucket(wait - throttled)] += 1;
    }
}

/// Bucket 0 is below 1,024 ns, bucket `i` starts at `2^(9+i)` ns.
#[inline(always)]
fn bucket(ns: u64) -> usize {
    let mut rest = ns >> 10;
    let mut bucket = 0;
    // A binary search for the highest bit: the target has no instruction for it.
    if rest == 0 {
        return 0;
    }
    if rest >> 32 != 0 {
        return BUCKETS - 1;
    }
    if rest >> 16 != 0 {
        rest >>= 16;
        bucket += 16;
    }
    if rest >> 8 != 0 {
        rest >>= 8;
        bucket += 8;
    }
    if rest >> 4 != 0 {
        rest >>= 4;
        bucket += 4;
    }
    if rest >> 2 != 0 {
        rest >>= 2;
        bucket += 2;
    }
    bucket += (rest >> 1) as usize;
    (bucket + 1) & (BUCKETS - 1)
}

#[inline(always)]
unsafe fn sleeps_for_io(task: Object) -> bool {
    // SAFETY: `in_iowait` is a bit of the byte at that offset.
    unsafe { load::<u8>(task, &TASK_IN_IOWAIT) & at(&TASK_IN_IOWAIT_MASK) as u8 != 0 }
}

/// IO wait lasts from falling asleep to being queued; the wait on the run queue is not part of it,
/// as in PSI.
#[inline(always)]
unsafe fn wake_from_io(group: *mut Group, next_pid: u32, stamp: u64) {
    // SAFETY: a map value.
    unsafe {
        let Some(asleep) = IO_SLEEPERS.get_ptr(next_pid) else { return };
        let asleep = *asleep;
        let _ = IO_SLEEPERS.remove(next_pid);
        if stamp > asleep {
            (*group).io += stamp - asleep;
            (*group).n_io += 1;
        }
    }
}

/// Removes the entry of a task whose IO wait cannot be counted: it would stay after the task's end,
/// and entries that stay fill the map.
#[inline(always)]
unsafe fn forget_io(next: Object, next_pid: u32) {
    // SAFETY: the caller guarantees it.
    if unsafe { sleeps_for_io(next) } {
        let _ = IO_SLEEPERS.remove(next_pid);
    }
}

/// Charges the wait to the cgroups that ran since `queued`: exactly, if at most [`WALKED`] slices
/// lie in it, and else by the cgroups that ran at [`INSTANTS`] random instants, one in each equal part
/// of it. Over many waits that is right whatever runs in what rhythm, and a wait costs the same
/// however many slices it has.
#[inline(always)]
unsafe fn charge_runners(cpu: *mut Cpu, recent: *const Slices, victim: u64, queued: u64, now: u64) {
    // SAFETY: a map value; the mask keeps the index inside.
    unsafe {
        let newest = (*recent).newest;
        if (*recent).ring[index(newest.wrapping_sub(WALKED))].end <= queued {
            let mut until = now;
            for back in 0..WALKED {
                let began = (*recent).ring[index(newest.wrapping_sub(back + 1))].end;
                let from = later(began, queued);
                let ran = (*recent).ring[index(newest.wrapping_sub(back))].cgroup;
                // The first slice of all has no known beginning.
                let ran = if began == 0 { UNKNOWN } else { ran };
                charge(cpu, victim, ran, until - from);
                if began <= queued {
                    return;
                }
                until = began;
            }
            return;
        }
        let part = (now - queued) / INSTANTS;
        let (mut ran, mut time) = (UNKNOWN, 0);
        for n in 0..INSTANTS {
            let offset = (part * u64::from(bpf_get_prandom_u32() & 0xffff)) >> 16;
            let then = running_at(recent, queued + part * n + offset);
            if then != ran {
                charge(cpu, victim, ran, time);
                (ran, time) = (then, 0);
            }
            time += part;
        }
        charge(cpu, victim, ran, time + (now - queued) % INSTANTS);
    }
}

#[inline(always)]
unsafe fn charge(cpu: *mut Cpu, victim: u64, aggressor: u64, time: u64) {
    if time != 0 && !blame(victim, aggressor, time) {
        // SAFETY: a map value.
        unsafe {
            (*cpu).lost_pairs += 1;
            (*cpu).lost_pair_time += time;
        }
    }
}

/// The cgroup that ran at an instant before now; [`UNKNOWN`] before the oldest slice.
#[inline(always)]
unsafe fn running_at(recent: *const Slices, instant: u64) -> u64 {
    // SAFETY: a map value; the mask keeps the index inside.
    unsafe {
        let newest = (*recent).newest;
        // The slice so far back ended after the instant: a binary search for the farthest that did.
        // Without branches, each of which the verifier would follow both ways.
        let mut back = 0_u64;
        for bit in (0..SLICES_LOG).rev() {
            let end = (*recent).ring[index(newest.wrapping_sub(back + (1 << bit)))].end;
            let is_later = instant.wrapping_sub(end) >> 63;
            back += is_later << bit;
        }
        // The oldest slice has no known beginning, nor has the first of all.
        let before = (*recent).ring[index(newest.wrapping_sub(back + 1))].end;
        if back >= SLICES as u64 - 1 || before == 0 {
            return UNKNOWN;
        }
        (*recent).ring[index(newest.wrapping_sub(back))].cgroup
    }
}

/// Adds to the CPU's union and to its non-idle time.
#[inline(always)]
unsafe fn account(cpu: *mut Cpu, waited: u64, queued: u64, now: u64) {
    // SAFETY: a map value.
    unsafe {
        let last = (*cpu).last;
        if last == 0 {
            return;
        }
        let last_switch = (*cpu).last_switch;
        let since = if queued == 0 { now } else { later(queued, last) };
        (*cpu).contention += if waited != 0 { now - last } else { now - since };
        let busy = (*cpu).idle == 0 || (*cpu).iowait != 0;
        (*cpu).nonidle += now - if busy { last_switch } else { later(since, last_switch) };
    }
}
