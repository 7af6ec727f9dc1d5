// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Rare events: OOM kills with the three cgroups that they involve, creation and removal of
//! cgroups, and clean-up after threads that exit.

use core::ptr::{null, write_volatile};

use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::helpers::bpf_get_current_cgroup_id;
use aya_ebpf::helpers::generated::{bpf_ktime_get_boot_ns, bpf_probe_read_kernel_str};
use aya_ebpf::macros::{btf_tracepoint, fentry};
use aya_ebpf::programs::{BtfTracePointContext, FEntryContext};
use aya_log_ebpf::warn;
use isobar_ebpf::{COMM, CREATED, Event, OOM, OOM_LIMIT_KNOWN, PATH, REMOVED};

use crate::layout::{
    CGROUP_ROOT, CGROUP_ROOT_HIERARCHY, MEMCG_CSS_CGROUP, OOM_MEMCG, Object, TASK_COMM,
    VICTIM_IS_TASK, at, cgroup_of_task, has, id, load, pid,
};
use crate::maps::{IO_SLEEPERS, OOM_LIMITS, Wakeup, send};
use crate::stall::{end, thread};

/// `out_of_memory(oc)`: a task calls the OOM killer, for one cgroup's limit or for the node.
#[fentry(function = "out_of_memory")]
pub(crate) fn out_of_memory(ctx: FEntryContext) -> i32 {
    // SAFETY: the argument types are those in BTF.
    unsafe {
        let memcg: Object = load(ctx.arg(0), &OOM_MEMCG);
        let limit = if memcg.is_null() { 0 } else { id(load(memcg, &MEMCG_CSS_CGROUP)) };
        let _ = OOM_LIMITS.insert(thread(), limit, BPF_ANY.into());
    }
    0
}

/// `mark_victim(task, uid)`, before 6.10 `mark_victim(pid)` unless backported: the OOM killer
/// picked a victim. The current task is the one whose allocation failed, not the victim.
#[btf_tracepoint(function = "mark_victim")]
pub(crate) fn oom_kill(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument types are those in BTF; the branch not taken is not verified.
    let (victim, victim_pid, comm) = unsafe {
        if has(&VICTIM_IS_TASK) {
            let task: Object = ctx.arg(0);
            (id(cgroup_of_task(task)), pid(task), task.add(at(&TASK_COMM)))
        } else {
            // This kernel tells the pid alone.
            (0, ctx.arg::<i32>(0) as u32, null())
        }
    };
    // It stays: with memory.oom.group one call kills many. The thread's next call overwrites it.
    // SAFETY: a map value.
    let limit = OOM_LIMITS.get_ptr(thread()).map(|limit| unsafe { *limit });
    warn!(&ctx, "oom kill of pid {} in cgroup {}", victim_pid, victim);
    // SAFETY: a helper without arguments.
    let trigger = unsafe { bpf_get_current_cgroup_id() };
    let kind = if limit.is_some() { OOM_LIMIT_KNOWN } else { OOM };
    send(Wakeup::Now, |event| {
        // SAFETY: the slot belongs to this program until it is submitted.
        unsafe {
            head(event, kind, victim, [limit.unwrap_or(0), trigger], victim_pid);
            let text = (&raw mut (*event).text).cast();
            // Reading from null fails, and leaves it empty.
            let _ = bpf_probe_read_kernel_str(text, COMM as u32, comm.cast());
        };
    });
    0
}

/// `cgroup_mkdir(cgroup, path)`.
#[btf_tracepoint(function = "cgroup_mkdir")]
pub(crate) fn cgroup_born(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument types are those in BTF.
    unsafe { lifecycle(ctx.arg(0), ctx.arg(1), CREATED) }
}

/// `cgroup_rmdir(cgroup, path)`: no task is left in it.
#[btf_tracepoint(function = "cgroup_rmdir")]
pub(crate) fn cgroup_died(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument types are those in BTF.
    unsafe { lifecycle(ctx.arg(0), ctx.arg(1), REMOVED) }
}

#[inline(always)]
unsafe fn lifecycle(cgroup: Object, path: *const u8, kind: u32) -> i32 {
    // SAFETY: `cgroup` is a `cgroup`; `path` a zero-terminated string in kernel memory.
    unsafe {
        // 0 is cgroup v2; other hierarchies are v1.
        if load::<u32>(load(cgroup, &CGROUP_ROOT), &CGROUP_ROOT_HIERARCHY) != 0 {
            return 0;
        }
        let key = id(cgroup);
        send(Wakeup::NextTick, |event| {
            head(event, kind, key, [0, 0], 0);
            let text = (&raw mut (*event).text).cast();
            // An unreadable path stays empty.
            let _ = bpf_probe_read_kernel_str(text, PATH as u32, path.cast());
        });
    }
    0
}

/// Writes an event with an empty text. Volatile, or LLVM would call `memset` for the zeros, byte by
/// byte.
#[inline(always)]
unsafe fn head(
    event: *mut Event,
    kind: u32,
    cgroup: u64,
    [limit, trigger]: [u64; 2],
    victim_pid: u32,
) {
    // SAFETY: the caller owns the slot.
    unsafe {
        write_volatile(&raw mut (*event).at, bpf_ktime_get_boot_ns());
        write_volatile(&raw mut (*event).cgroup, cgroup);
        write_volatile(&raw mut (*event).limit, limit);
        write_volatile(&raw mut (*event).trigger, trigger);
        write_volatile(&raw mut (*event).pid, victim_pid);
        write_volatile(&raw mut (*event).kind, kind);
        write_volatile((&raw mut (*event).text).cast::<u8>(), 0);
    }
}

/// `sched_process_exit(task)`: ends the thread's stall and its sleep for IO, if their end was
/// missed.
#[btf_tracepoint(function = "sched_process_exit")]
pub(crate) fn exit(_: BtfTracePointContext) -> i32 {
    end(thread());
    let _ = IO_SLEEPERS.remove(thread());
    0
}
