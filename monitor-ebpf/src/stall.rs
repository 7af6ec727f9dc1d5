// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Memory stalls by cause: exactly what PSI counts (`psi_memstall_enter` to `psi_memstall_leave`).
//!
//! The caller gives the cause: its symbol is resolved once, in the kernel, and compared with the
//! agent's patterns, so neither kallsyms nor CAP_SYSLOG is needed. A stall opens the unions of the
//! node and of the task's cgroup and its ancestors, and stores which, so that its end closes the
//! same unions even if the task was moved to another cgroup meanwhile.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{read_volatile, write_volatile};

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::helpers::generated::{
    bpf_get_current_ancestor_cgroup_id, bpf_get_current_task_btf, bpf_get_stack, bpf_snprintf,
};
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns, bpf_probe_read_kernel};
use aya_ebpf::macros::{fentry, fexit};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use isobar_ebpf::{ANY, Caller, Cause, NODE, Open, PATTERNS, SHORTAGE, SLOTS, Stall};

use crate::layout::{HAS_PSI, Object, TASK_IN_MEMSTALL, TASK_IN_MEMSTALL_MASK, at, has, load};
use crate::limit::high_limit;
use crate::maps::{CALLER_PATTERNS, CALLERS, MEMORY, STALLS, count_lost, fetch_add, memory};

/// Stack frames below the caller of a traced function: program, trampoline, function. On aarch64 the
/// program is there twice, for the walk begins in the helper that the program called.
/// Source: `perf_arch_fetch_caller_regs`, arch/x86 and arch/arm64, asm/perf_event.h.
const SKIP: u64 = if cfg!(bpf_target_arch = "aarch64") { 4 } else { 3 };
/// In `.rodata`, where `bpf_snprintf` needs its format.
#[unsafe(no_mangle)]
static SYMBOL_FORMAT: [u8; 4] = *b"%ps\0";
/// In [`Stall::scopes`]: a scope whose unions were not opened. No cgroup has this id.
const NOT_OPENED: u64 = u64::MAX;
/// Buffer of `bpf_snprintf`; longer than a stored symbol.
const NAME: usize = 64;

/// The current thread's id.
#[inline(always)]
pub(crate) fn thread() -> u32 {
    bpf_get_current_pid_tgid() as u32
}

/// `psi_memstall_enter(flags)`.
#[fentry(function = "psi_memstall_enter")]
pub(crate) fn memstall_enter(ctx: FEntryContext) -> i32 {
    let pid = thread();
    // SAFETY: `current` is a `task_struct`; map values; the kernel calls this in process context.
    unsafe {
        if has(&HAS_PSI) {
            let task: Object = bpf_get_current_task_btf().cast::<u8>().cast_const();
            let nested = load::<u8>(task, &TASK_IN_MEMSTALL) & at(&TASK_IN_MEMSTALL_MASK) as u8;
            if nested != 0 {
                return 0;
            }
            // The kernel says that the task was in no stall, so an entry means a missed end.
            end(pid);
        } else if let Some(stall) = STALLS.get_ptr_mut(pid)
            && (*stall).depth > 0
        {
            (*stall).depth += 1;
            return 0;
        }
        let mut cause = caller_cause(&ctx);
        if matches!(cause, Some(Cause::OwnHigh)) {
            cause = Some(high_limit());
        }
        begin(pid, cause.unwrap_or(Cause::Other));
    }
    0
}

/// `psi_memstall_leave(flags)`.
#[fentry(function = "psi_memstall_leave")]
pub(crate) fn memstall_leave(ctx: FEntryContext) -> i32 {
    // SAFETY: the argument is the `unsigned long *flags` of the caller's stack.
    unsafe {
        if has(&HAS_PSI) {
            if !is_nested(ctx.arg(0)) {
                end(thread());
            }
            return 0;
        }
        let pid = thread();
        let Some(stall) = STALLS.get_ptr_mut(pid) else { return 0 };
        (*stall).depth -= 1;
        if (*stall).depth == 0 {
            end(pid);
        }
    }
    0
}

/// Catches ends that `memstall_leave` missed: the kernel skips a program that already runs on the
/// CPU, also if it is preempted. A missed end would keep a union open for ever.
#[fexit(function = "psi_memstall_leave")]
pub(crate) fn memstall_left(ctx: FExitContext) -> i32 {
    // SAFETY: as in `memstall_leave`.
    unsafe {
        if has(&HAS_PSI) && !is_nested(ctx.arg(0)) {
            end(thread());
        }
    }
    0
}

/// Whether this stall is nested: the outer one set `*flags`.
#[inline(always)]
unsafe fn is_nested(flags: *const u64) -> bool {
    // SAFETY: a failed read counts as not nested.
    matches!(unsafe { bpf_probe_read_kernel(flags) }, Ok(set) if set != 0)
}

/// The cause that the traced function's caller means; `None` if the map of callers is full.
#[inline(always)]
unsafe fn caller_cause(ctx: &FEntryContext) -> Option<Cause> {
    let mut address = 0u64;
    // SAFETY: the buffers are on this stack and of the given size.
    unsafe {
        bpf_get_stack(ctx.as_ptr(), (&raw mut address).cast::<c_void>(), 8, SKIP);
        if let Some(caller) = CALLERS.get_ptr(address) {
            return Some(cause((*caller).cause));
        }
        let mut name = MaybeUninit::<[u64; NAME / 8]>::uninit();
        for word in 0..NAME / 8 {
            // Volatile, or LLVM would call `memset`, byte by byte.
            write_volatile(name.as_mut_ptr().cast::<u64>().add(word), 0);
        }
        let mut name = name.assume_init();
        bpf_snprintf(
            (&raw mut name).cast(),
            NAME as u32,
            SYMBOL_FORMAT.as_ptr().cast(),
            (&raw mut address).cast(),
            8,
        );
        let symbol = [name[0], name[1], name[2], name[3]];
        let mut caller = Caller { symbol, cause: Cause::Other as u32, pad: 0 };
        for i in 0..PATTERNS {
            let Some(pattern) = CALLER_PATTERNS.get_ptr(i) else { break };
            if (*pattern).cause == 0 {
                break;
            }
            let fits = symbol[0] & (*pattern).mask[0] == (*pattern).bytes[0]
                && symbol[1] & (*pattern).mask[1] == (*pattern).bytes[1]
                && symbol[2] & (*pattern).mask[2] == (*pattern).bytes[2]
                && symbol[3] & (*pattern).mask[3] == (*pattern).bytes[3];
            if fits {
                caller.cause = (*pattern).cause - 1;
                break;
            }
        }
        CALLERS.insert(address, caller, BPF_NOEXIST.into()).ok()?;
        Some(cause(caller.cause))
    }
}

/// A cause from its number, which only this crate and the agent's patterns write.
#[inline(always)]
fn cause(number: u32) -> Cause {
    match number {
        0 => Cause::OwnLimit,
        1 => Cause::OwnHigh,
        2 => Cause::AncestorLimit,
        3 => Cause::AllocatableLimit,
        4 => Cause::SomeLimit,
        5 => Cause::Global,
        6 => Cause::Compaction,
        7 => Cause::Refault,
        8 => Cause::SwapIn,
        9 => Cause::KernelThread,
        _ => Cause::Other,
    }
}

/// Starts a stall of the current task.
#[inline(always)]
pub(crate) fn begin(pid: u32, cause: Cause) {
    // SAFETY: helpers without arguments that could go wrong.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: as above; 0 below the task's own level.
    let above = |level: i32| unsafe { bpf_get_current_ancestor_cgroup_id(level) };
    let scopes =
        [NODE, above(1), above(2), above(3), above(4), above(5), above(6), above(7), above(8)];
    let stall = Stall { start: now, cause: cause as u32, depth: 1, scopes };
    if STALLS.insert(pid, stall, BPF_ANY.into()).is_err() {
        count_lost(|cpu| &raw mut cpu.lost_stalls);
        return;
    }
    for (level, scope) in stall.scopes.into_iter().enumerate() {
        if scope == 0 {
            break;
        }
        let Some(memory) = memory(scope) else {
            count_lost(|cpu| &raw mut cpu.lost_stalls);
            mark_not_opened(pid, level);
            continue;
        };
        // SAFETY: a map value.
        unsafe {
            open(&raw mut (*memory).unions, cause as usize, now);
            if !matches!(cause, Cause::KernelThread) {
                open(&raw mut (*memory).unions, ANY, now);
            }
            if is_shortage(cause as u32) {
                open(&raw mut (*memory).unions, SHORTAGE, now);
            }
        }
    }
}

/// This stall must not close a scope that it did not open, even if another stall opens it
/// meanwhile.
#[inline(always)]
fn mark_not_opened(pid: u32, level: usize) {
    if let Some(stall) = STALLS.get_ptr_mut(pid) {
        // SAFETY: a map value; `level` counts the same array.
        unsafe { (&raw mut (*stall).scopes).cast::<u64>().add(level).write(NOT_OPENED) };
    }
}

/// Ends a thread's stall, if it is in one. Only the caller that removes the entry closes the
/// unions.
#[inline(always)]
pub(crate) fn end(pid: u32) {
    // Before anything else: what this program takes is no stall.
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(stall) = STALLS.get_ptr(pid) else { return };
    // SAFETY: a map value, copied before it is removed.
    let stall = unsafe { *stall };
    if STALLS.remove(pid).is_err() {
        return;
    }
    let slot = (stall.cause as usize) & (SLOTS - 1);
    let mut leaf = NODE;
    for scope in stall.scopes {
        if scope == 0 {
            break;
        }
        if scope == NOT_OPENED {
            continue;
        }
        leaf = scope;
        let Some(memory) = MEMORY.get_ptr_mut(scope) else { continue };
        // SAFETY: a map value; the slot is masked.
        unsafe {
            close(&raw mut (*memory).unions, slot, now);
            if slot != Cause::KernelThread as usize {
                close(&raw mut (*memory).unions, ANY, now);
            }
            if is_shortage(stall.cause) {
                close(&raw mut (*memory).unions, SHORTAGE, now);
            }
        }
    }
    count_time(NODE, slot, now - stall.start);
    if leaf != NODE {
        count_time(leaf, slot, now - stall.start);
    }
}

/// Changes the cause of the current task's stall from its start on.
#[inline(always)]
pub(crate) unsafe fn change_cause(stall: *mut Stall, to: Cause) {
    // SAFETY: a map value of the current task.
    let (from, start, scopes) = unsafe { ((*stall).cause, (*stall).start, (*stall).scopes) };
    let slot = (from as usize) & (SLOTS - 1);
    if from == to as u32 {
        return;
    }
    // SAFETY: as above.
    unsafe { (*stall).cause = to as u32 };
    for scope in scopes {
        if scope == 0 {
            break;
        }
        let Some(memory) = MEMORY.get_ptr_mut(scope) else { continue };
        // SAFETY: a map value; both slots are inside.
        unsafe {
            close(&raw mut (*memory).unions, slot, start);
            open(&raw mut (*memory).unions, to as usize, start);
            if is_shortage(from) {
                close(&raw mut (*memory).unions, SHORTAGE, start);
            }
            if is_shortage(to as u32) {
                open(&raw mut (*memory).unions, SHORTAGE, start);
            }
        }
    }
}

#[inline(always)]
fn is_shortage(cause: u32) -> bool {
    cause == Cause::Global as u32 || cause == Cause::AllocatableLimit as u32
}

/// See [`Open`].
#[inline(always)]
unsafe fn open(unions: *mut [Open; SLOTS], slot: usize, now: u64) {
    // SAFETY: the caller's slot is masked or a constant.
    unsafe {
        let union = unions.cast::<Open>().add(slot);
        if fetch_add(&raw mut (*union).open, 1) == 0 {
            fetch_add(&raw mut (*union).sum, now.wrapping_neg());
        }
    }
}

/// Does nothing if no interval is open: the agent drops the entries of cgroups that it cannot see,
/// and a new entry knows nothing of earlier stalls. Counting below 0 would keep it open for ever.
#[inline(always)]
unsafe fn close(unions: *mut [Open; SLOTS], slot: usize, now: u64) {
    // SAFETY: the caller's slot is masked or a constant.
    unsafe {
        let union = unions.cast::<Open>().add(slot);
        if read_volatile(&raw const (*union).open) == 0 {
            return;
        }
        if fetch_add(&raw mut (*union).open, u64::MAX) == 1 {
            fetch_add(&raw mut (*union).sum, now);
        }
    }
}

#[inline(always)]
fn count_time(scope: u64, slot: usize, time: u64) {
    let Some(memory) = memory(scope) else { return };
    // SAFETY: a map value; the caller's slot is masked.
    unsafe {
        fetch_add((&raw mut (*memory).time).cast::<u64>().add(slot), time);
        fetch_add((&raw mut (*memory).count).cast::<u64>().add(slot), 1);
    }
}
