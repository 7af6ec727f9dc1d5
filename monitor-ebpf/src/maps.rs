// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! All maps, and the operations that more than one program needs.
//! Sizes are defaults; the agent sets those of the hash maps before loading.

use core::ffi::c_void;
use core::intrinsics::{AtomicOrdering, atomic_xadd};

use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_map_lookup_percpu_elem};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf};
use isobar_ebpf::{
    Caller, Cpu, Event, Group, Memory, OnCpu, PATTERNS, Pair, Pattern, Slices, Stall,
};

use crate::layout::{Object, id, parent_id};

/// 16 bytes of key and 400 of value, allocated when a cgroup first waits on a CPU. Not a map per
/// CPU: that has a value for each possible CPU, and there may be hundreds that are never online.
#[map]
static GROUPS: HashMap<OnCpu, Group> = HashMap::with_max_entries(16384, BPF_F_NO_PREALLOC);

/// 224 bytes per possible CPU.
#[map]
pub(crate) static CPUS: PerCpuArray<Cpu> = PerCpuArray::with_max_entries(1, 0);

/// 16 KiB per possible CPU.
#[map]
pub(crate) static RECENT: PerCpuArray<Slices> = PerCpuArray::with_max_entries(1, 0);

/// 16 bytes of key and 8 of value, with the entry's head some 72: 2.3 MiB for the 32,768 pairs of
/// 2,048 cgroups. The agent empties it in each tick, so entries are preallocated: to allocate and
/// free them anew took a seventh of the agent's CPU time.
#[map]
pub(crate) static MATRIX: HashMap<Pair, u64> = HashMap::with_max_entries(16384, 0);

/// 512 bytes per entry, allocated when a cgroup first stalls.
#[map]
pub(crate) static MEMORY: HashMap<u64, Memory> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

/// Threads in a memory stall: 8192 x (8 + 88 + bucket), preallocated, about 1.2 MiB.
#[map]
pub(crate) static STALLS: HashMap<u32, Stall> = HashMap::with_max_entries(8192, 0);

/// Threads asleep for IO, and the time at which they fell asleep: preallocated, about 0.5 MiB.
#[map]
pub(crate) static IO_SLEEPERS: HashMap<u32, u64> = HashMap::with_max_entries(8192, 0);

/// Callers of `psi_memstall_enter` seen so far: at most 64 x 40 bytes.
#[map]
pub(crate) static CALLERS: HashMap<u64, Caller> = HashMap::with_max_entries(64, BPF_F_NO_PREALLOC);

/// The patterns by which the agent recognises callers: 32 x 72 bytes.
#[map]
pub(crate) static CALLER_PATTERNS: Array<Pattern> = Array::with_max_entries(PATTERNS, 0);

/// The cgroups whose limit is the node's allocatable: kubepods and the QoS slices.
#[map]
pub(crate) static ALLOCATABLE: HashMap<u64, u8> = HashMap::with_max_entries(64, BPF_F_NO_PREALLOC);

/// The cgroup for whose limit a thread called the OOM killer.
#[map]
pub(crate) static OOM_LIMITS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(64, 0);

/// Cgroups that come and go: 512 KiB, room for some 1,700 within a second.
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(512 * 1024, 0);

/// OOM kills: 64 KiB, room for some 200 within a second. Cgroups that come and go cannot fill it.
#[map]
pub(crate) static OOM_EVENTS: RingBuf = RingBuf::with_byte_size(64 * 1024, 0);

/// Zeros of the large values, which do not fit on the stack.
#[map]
static ZERO_GROUP: Array<Group> = Array::with_max_entries(1, 0);
#[map]
static ZERO_MEMORY: Array<Memory> = Array::with_max_entries(1, 0);

#[inline(always)]
fn this_cpu() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { bpf_get_smp_processor_id() }
}

/// A CPU's entry for a cgroup. The caller holds that CPU's run queue lock, as every writer of the
/// value does, so no update is lost.
#[inline(always)]
pub(crate) fn group_on(cpu: u32, cgroup: u64) -> Option<*mut Group> {
    GROUPS.get_ptr_mut(OnCpu { cgroup, cpu: cpu.into() })
}

/// This CPU's entry for a cgroup.
#[inline(always)]
pub(crate) fn group_here(cgroup: u64) -> Option<*mut Group> {
    group_on(this_cpu(), cgroup)
}

/// As [`group_here`], created if missing; `None` if the map is full.
#[inline(always)]
pub(crate) fn group_by_id(cgroup: u64) -> Option<*mut Group> {
    let key = OnCpu { cgroup, cpu: this_cpu().into() };
    if let Some(found) = GROUPS.get_ptr_mut(key) {
        return Some(found);
    }
    let zero = ZERO_GROUP.get_ptr(0)?;
    // SAFETY: a map value lives as long as the program runs.
    let _ = GROUPS.insert(key, unsafe { &*zero }, BPF_NOEXIST.into());
    GROUPS.get_ptr_mut(key)
}

/// As [`group_by_id`]; also stores the parent, because the agent may never see the directory.
///
/// # Safety
/// `cgroup` is a `cgroup`.
#[inline(always)]
pub(crate) unsafe fn group(cgroup: Object) -> Option<*mut Group> {
    // SAFETY: the caller guarantees it; only this CPU writes its own value.
    unsafe {
        let found = group_by_id(id(cgroup))?;
        if (*found).n_waits == 0 {
            (*found).parent = parent_id(cgroup);
        }
        Some(found)
    }
}

/// Another CPU's state, under that CPU's run queue lock.
#[inline(always)]
pub(crate) fn cpu_on(cpu: u32) -> Option<*mut Cpu> {
    let key = 0u32;
    // SAFETY: the map and key outlive the call. Helper 195, Linux 5.19+.
    let found = unsafe {
        bpf_map_lookup_percpu_elem(
            (&raw const CPUS).cast_mut().cast::<c_void>(),
            (&raw const key).cast::<c_void>(),
            cpu,
        )
    };
    if found.is_null() { None } else { Some(found.cast()) }
}

/// A scope's memory stall, created if missing; `None` if the map is full.
#[inline(always)]
pub(crate) fn memory(scope: u64) -> Option<*mut Memory> {
    if let Some(found) = MEMORY.get_ptr_mut(scope) {
        return Some(found);
    }
    let zero = ZERO_MEMORY.get_ptr(0)?;
    // SAFETY: a map value lives as long as the program runs.
    let _ = MEMORY.insert(scope, unsafe { &*zero }, BPF_NOEXIST.into());
    MEMORY.get_ptr_mut(scope)
}

/// Adds to a shared counter and returns its former value.
///
/// # Safety
/// `counter` points into a map value.
#[inline(always)]
pub(crate) unsafe fn fetch_add(counter: *mut u64, n: u64) -> u64 {
    // SAFETY: the caller guarantees it; BPF_FETCH needs `-C target-cpu=v3`.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(counter, n) }
}

/// Adds to the time that `victim` waited while `aggressor` ran; false if the matrix is full.
#[inline(always)]
pub(crate) fn blame(victim: u64, aggressor: u64, time: u64) -> bool {
    let pair = Pair { victim, aggressor };
    if let Some(sum) = MATRIX.get_ptr_mut(pair) {
        // SAFETY: points into the map.
        unsafe { fetch_add(sum, time) };
        return true;
    }
    MATRIX.insert(pair, time, BPF_NOEXIST.into()).is_ok()
}

/// How an event reaches the agent: an OOM kill is urgent, but a node that creates and removes
/// cgroups all the time must not keep the agent awake.
#[derive(Clone, Copy)]
pub(crate) enum Wakeup {
    Now,
    NextTick,
}

/// Sends an event that `fill` writes, or counts it as lost.
#[inline(always)]
pub(crate) fn send(wakeup: Wakeup, fill: impl FnOnce(*mut Event)) {
    let (ring, flags) = match wakeup {
        Wakeup::Now => (&OOM_EVENTS, BPF_RB_FORCE_WAKEUP),
        Wakeup::NextTick => (&EVENTS, BPF_RB_NO_WAKEUP),
    };
    if let Some(mut slot) = ring.reserve::<Event>(0) {
        fill(slot.as_mut_ptr());
        slot.submit(flags.into());
    } else {
        count_lost(|cpu| &raw mut cpu.lost_events);
    }
}

/// Increments a counter of losses on this CPU.
#[inline(always)]
pub(crate) fn count_lost(which: impl FnOnce(&mut Cpu) -> *mut u64) {
    if let Some(cpu) = CPUS.get_ptr_mut(0) {
        // SAFETY: a map value; atomic, because an interrupt may count here too.
        unsafe { fetch_add(which(&mut *cpu), 1) };
    }
}
