// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What the kernel side and the agent share: the layout of every map value, key and event.
//!
//! All integers are fixed in width and all padding is spelt out, because one side is compiled for
//! `bpfel-unknown-none` and the other for the host. Times are nanoseconds of the run queue's clock
//! unless said otherwise.
#![no_std]

/// Levels of the cgroup tree that one event walks, counted from the task's own cgroup up.
/// kind in docker nests seven deep; what is deeper is counted in [`Cpu::too_deep`].
pub const LEVELS: usize = 8;

/// Buckets of a wait histogram: bucket 0 is below 1,024 ns, bucket `i` starts at `2^(9+i)` ns.
pub const BUCKETS: usize = 32;

/// Slices remembered per CPU for the question who ran while somebody waited.
pub const SLICES: usize = 8;

/// The pseudo cgroup under which the node's own memory stall is kept. No directory has inode 1 but
/// the root, which has no memory stall of its own.
pub const NODE: u64 = 1;

/// Bytes of a cgroup path that a birth or death carries, the terminating zero included.
pub const PATH: usize = 256;

/// Bytes of a caller's symbol name that are compared with a [`Pattern`].
pub const SYMBOL: usize = 32;

/// Patterns that the agent may write.
pub const PATTERNS: u32 = 32;

/// One cgroup on one CPU: run-queue wait, IO wait and the union of contention.
/// Cost: 400 bytes per cgroup and possible CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    /// When this group was last looked at.
    pub last: u64,
    /// 1 if somebody of this group was left waiting at `last`.
    pub waiting: u64,
    /// The one span before `gap_end` in which a waiter may have been overlooked: see `union.rs`.
    pub gap_start: u64,
    /// End of that span.
    pub gap_end: u64,
    /// Union of contention, what was counted level by level.
    pub slow: u64,
    /// Union of contention of this group's own tasks in times when nobody else waited: belongs to
    /// every ancestor too, and the agent adds it there.
    pub fast: u64,
    /// Run time of this group's own tasks: belongs to every ancestor too.
    pub run: u64,
    /// Time in `run` of this group or below and in `slow` at once.
    pub both: u64,
    /// Time in `run` and in `fast` at once: belongs to every ancestor too.
    pub fast_both: u64,
    /// Where the cpu controller is on cgroup v1: the queue whose throttle clock was last read.
    pub throttle_queue: u64,
    /// The throttle clock at the last look, plus one; 0 is never.
    pub throttle_seen: u64,
    /// When the last throttling ended.
    pub throttle_end: u64,
    /// How long it was.
    pub throttle_length: u64,
    /// A throttle clock and its moment, one to two seconds back: tells the rate of older waits.
    pub anchor: Anchor,
    /// The anchor to come.
    pub next_anchor: Anchor,
    /// Kernels without a throttle clock of their own: time throttled, kept by the fentry programs.
    pub throttle_clock: u64,
    /// Since when throttled; 0 if not.
    pub throttle_open: u64,
    /// Throttled ancestors, itself included.
    pub throttle_depth: u32,
    /// How many levels up the quota lay when a throttled task left the CPU, plus one; 0 once used.
    pub throttle_mark: u32,
    /// How many levels up the quota of the last throttling lay.
    pub throttle_level: u32,
    /// Padding.
    pub pad: u32,
    /// Task time on the run queue.
    pub wait: u64,
    /// Of `wait`: held back by a quota, by how many levels up that quota lies; 0 is its own.
    pub throttled: [u64; LEVELS],
    /// Number of waits.
    pub n_waits: u64,
    /// Task time asleep for IO.
    pub io: u64,
    /// Number of IO waits.
    pub n_io: u64,
    /// The cgroup above; 0 on the CPUs that did not create the entry.
    pub parent: u64,
    /// Waits by length, throttling taken out.
    pub histogram: [u32; BUCKETS],
}

/// A reading of the throttle clock.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Anchor {
    /// When.
    pub at: u64,
    /// What it said.
    pub clock: u64,
}

/// One CPU. Cost: 352 bytes per possible CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    /// When the waiters were last counted.
    pub last: u64,
    /// The last context switch.
    pub last_switch: u64,
    /// Tasks left waiting at `last`.
    pub waiters: u64,
    /// The last moment at which nobody waited.
    pub nobody: u64,
    /// Time in which somebody waited.
    pub contention: u64,
    /// Time in which somebody ran, waited, or slept for IO: PSI's weight of a CPU.
    pub nonidle: u64,
    /// 1 if the idle task runs.
    pub idle: u64,
    /// Tasks asleep for IO when the idle task came on.
    pub iowait: u64,
    /// The group whose run time is in `pending_run`.
    pub pending_group: u64,
    /// Run time not yet added to its group.
    pub pending_run: u64,
    /// The group of the task that runs; 0 for the idle task.
    pub current: u64,
    /// Context switches.
    pub switches: u64,
    /// Wait stamps that could not be true.
    pub stale_stamps: u64,
    /// Waits of cgroups for which there was no room.
    pub lost_groups: u64,
    /// Aggressor pairs for which there was no room.
    pub lost_pairs: u64,
    /// IO waits for which there was no room.
    pub lost_io: u64,
    /// Memory stalls for which there was no room.
    pub lost_stalls: u64,
    /// Events that the ring buffer could not take.
    pub lost_events: u64,
    /// Walks that stopped at [`LEVELS`].
    pub too_deep: u64,
    /// The newest of `slices`; only its low bits are an index.
    pub slice: u64,
    /// Who ran here last.
    pub slices: [Slice; SLICES],
    /// The run queues above the task that left, by depth: what it shares with the next is
    /// handled once. Used within one event only.
    pub chain: [u64; LEVELS],
}

/// A stretch of time in which tasks of one cgroup ran on a CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    /// Whose; 0 is the idle task.
    pub cgroup: u64,
    /// When it ended; it began where the one before ended.
    pub end: u64,
}

/// Key of the aggressor matrix; its value is a time.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Who waited.
    pub victim: u64,
    /// Who ran.
    pub aggressor: u64,
}

/// Why a task stalls for memory: the index into [`Memory::time`]. The order is the agent's
/// `MemoryCause::ALL`.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// `memory.max` of its own cgroup.
    OwnLimit = 0,
    /// `memory.high` of its own cgroup.
    OwnHigh = 1,
    /// A limit above that is no allocatable limit.
    AncestorLimit = 2,
    /// A limit above that is one.
    AllocatableLimit = 3,
    /// A limit; whose is not known.
    SomeLimit = 4,
    /// The page allocator's direct reclaim.
    Global = 5,
    /// Direct compaction.
    Compaction = 6,
    /// File pages read back.
    Refault = 7,
    /// Anonymous pages read back.
    SwapIn = 8,
    /// kswapd, kcompactd.
    KernelThread = 9,
    /// An unknown caller.
    Other = 10,
}

/// Positions of a cause's table: a power of two, so that a mask proves an index to be inside.
pub const SLOTS: usize = 16;
/// [`Memory::unions`]: one position a cause; this one is any cause but kernel threads,
pub const ANY: usize = SLOTS - 2;
/// and this one is shortage of the node or its allocatable.
pub const SHORTAGE: usize = SLOTS - 1;

/// One scope's memory stall. Cost: 512 bytes per cgroup that ever stalled.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Wall time.
    pub unions: [Open; SLOTS],
    /// Task time by cause, of this cgroup's own tasks (of all, for [`NODE`]).
    pub time: [u64; SLOTS],
    /// Stalls by cause.
    pub count: [u64; SLOTS],
}

/// A union of intervals in sum form: `sum` has lost the time at which the first opened and gained
/// that at which the last closed, so that no interval is lost when a close on one CPU races with
/// an open on another. While `open` is not 0, the time now is still to be added.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Open {
    /// Intervals open.
    pub open: u64,
    /// Wrapping sum, `CLOCK_MONOTONIC`.
    pub sum: u64,
}

/// A stall that has begun, by thread. Cost: 88 bytes and a bucket, preallocated.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stall {
    /// Since when, `CLOCK_MONOTONIC`.
    pub start: u64,
    /// A [`Cause`].
    pub cause: u32,
    /// With PSI switched off, how often it was entered.
    pub depth: u32,
    /// The scopes that were opened for it, [`NODE`] first; 0 ends the list. Where there was no room
    /// for one, all bits are set.
    pub scopes: [u64; LEVELS + 1],
}

/// Which callers of `psi_memstall_enter` mean which cause: the first pattern that fits.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The symbol's beginning.
    pub bytes: [u64; SYMBOL / 8],
    /// Which of its bytes count.
    pub mask: [u64; SYMBOL / 8],
    /// A [`Cause`], plus one; 0 is no pattern.
    pub cause: u32,
    /// Padding.
    pub pad: u32,
}

/// A caller of `psi_memstall_enter`, resolved once.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caller {
    /// Its symbol.
    pub symbol: [u64; SYMBOL / 8],
    /// A [`Cause`].
    pub cause: u32,
    /// Padding.
    pub pad: u32,
}

/// Something rare that the agent learns at once.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, `CLOCK_BOOTTIME`.
    pub at: u64,
    /// The cgroup that was born, died, or loses a process.
    pub cgroup: u64,
    /// OOM: the cgroup whose limit was reached, 0 for the node.
    pub limit: u64,
    /// OOM: the cgroup whose allocation asked.
    pub trigger: u64,
    /// OOM: the process that dies.
    pub pid: u32,
    /// [`BORN`], [`DIED`], [`OOM`] or [`OOM_LIMIT_KNOWN`].
    pub kind: u32,
    /// Birth and death: the path below the mount, zero-terminated.
    pub path: [u8; PATH],
}

/// [`Event::kind`]: a cgroup was made.
pub const BORN: u32 = 1;
/// [`Event::kind`]: a cgroup was removed.
pub const DIED: u32 = 2;
/// [`Event::kind`]: a process was picked by the OOM killer; whose limit is not known.
pub const OOM: u32 = 3;
/// [`Event::kind`]: a process was picked by the OOM killer; `limit` is known.
pub const OOM_LIMIT_KNOWN: u32 = 4;

const _: () = {
    assert!(size_of::<Group>() == 400);
    assert!(size_of::<Cpu>() == 352);
    assert!(size_of::<Memory>() == 512);
    assert!(size_of::<Stall>() == 88);
    assert!(size_of::<Pattern>() == 72);
    assert!(size_of::<Event>() == 296);
};

/// What the agent may read out of a map byte for byte.
#[cfg(not(target_arch = "bpf"))]
mod pod {
    use super::{Caller, Cpu, Group, Memory, Pair, Pattern, Stall};

    // SAFETY: `repr(C)`, integers only, no padding (sizes asserted above, all fields aligned).
    unsafe impl aya::Pod for Group {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Cpu {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Pair {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Memory {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Stall {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Pattern {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Caller {}
}
