// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The types that the kernel side and the agent share: every map value, key and event.
//!
//! All integers have a fixed width and all padding is explicit, because one side is compiled for
//! `bpfel-unknown-none` and the other for the host. Times are nanoseconds on the run queue's clock
//! unless stated otherwise.
#![no_std]

/// Levels of the cgroup tree that one event walks, from the task's own cgroup upwards.
/// kind in docker nests seven deep; [`Cpu::too_deep`] counts deeper walks.
pub const LEVELS: usize = 8;

/// Buckets of a wait histogram: bucket 0 is below 1,024 ns, bucket `i` starts at `2^(9+i)` ns.
pub const BUCKETS: usize = 32;

/// Slices kept per CPU to find out which cgroups ran during a wait: a tenth of a second at 10,000
/// switches a second between cgroups. A power of two, so that a mask bounds an index.
pub const SLICES: usize = 1 << SLICES_LOG;
/// Steps of a binary search among them.
pub const SLICES_LOG: u32 = 10;

/// Aggressor of the part of a wait that lies before the slices that are kept.
pub const UNKNOWN: u64 = u64::MAX;

/// Key of the node's own memory stall. Only the root cgroup has inode 1, and it has no memory stall
/// of its own.
pub const NODE: u64 = 1;

/// Bytes of a text, such as a cgroup's path, in an [`Event`], the terminating zero included.
pub const PATH: usize = 256;

/// Bytes of a process's `comm`, the terminating zero included (`TASK_COMM_LEN`).
pub const COMM: usize = 16;

/// Bytes of a caller's symbol that a [`Pattern`] compares.
pub const SYMBOL: usize = 32;

/// Capacity of the map of patterns.
pub const PATTERNS: u32 = 32;

/// Key of a [`Group`].
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OnCpu {
    pub cgroup: u64,
    pub cpu: u64,
}

/// One cgroup on one CPU: run-queue wait, IO wait and the union of contention.
/// Cost: some 480 bytes per cgroup and CPU on which it ever waited, however many CPUs are possible.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    /// The group's last event on this CPU.
    pub last: u64,
    /// 1 if a task of this group was left waiting at `last`.
    pub waiting: u64,
    /// Start of the one interval in which a waiting task may not be counted: see `union.rs`.
    pub gap_start: u64,
    /// End of that interval.
    pub gap_end: u64,
    /// Union of contention, the part that is counted level by level.
    pub slow: u64,
    /// Union of contention of this group's own tasks while no other task waited: belongs to every
    /// ancestor too, and the agent adds it there.
    pub fast: u64,
    /// Run time of this group's own tasks: belongs to every ancestor too.
    pub run: u64,
    /// Time that is both in `run` of this group or a descendant and in `slow`.
    pub both: u64,
    /// Time that is both in `run` and in `fast`: belongs to every ancestor too.
    pub fast_both: u64,
    /// With the cpu controller on cgroup v1: the run queue whose throttle clock was last read.
    pub throttle_queue: u64,
    /// The throttle clock when last read, plus one; 0 if never read.
    pub throttle_seen: u64,
    /// End of the last throttling.
    pub throttle_end: u64,
    /// Length of the last throttling.
    pub throttle_length: u64,
    /// A reading of the throttle clock one to two seconds old: gives its rate during older waits.
    pub anchor: Anchor,
    /// The next `anchor`.
    pub next_anchor: Anchor,
    /// On kernels without a throttle clock: throttled time, counted by the fentry programs.
    pub throttle_clock: u64,
    /// Start of the current throttling; 0 if none.
    pub throttle_open: u64,
    /// Number of throttled levels: this group and its ancestors.
    pub throttle_depth: u32,
    /// Levels from this group up to the quota, when a throttled task left the CPU, plus one; 0 once
    /// used.
    pub throttle_mark: u32,
    /// Levels from this group up to the quota of the last throttling.
    pub throttle_level: u32,
    pub pad: u32,
    /// Task time on the run queue.
    pub wait: u64,
    /// The part of `wait` that was throttled, by the levels up to the quota; 0 is its own quota.
    pub throttled: [u64; LEVELS],
    /// Number of waits.
    pub n_waits: u64,
    /// Task time asleep for IO.
    pub io: u64,
    /// Number of IO waits.
    pub n_io: u64,
    /// The parent cgroup; 0 on CPUs on which none of its own tasks has waited.
    pub parent: u64,
    /// Waits by length without throttled time.
    pub histogram: [u32; BUCKETS],
}

/// A reading of the throttle clock.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Anchor {
    pub at: u64,
    pub clock: u64,
}

/// One CPU. Cost: 224 bytes per possible CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    /// When waiting tasks were last counted.
    pub last: u64,
    /// The last context switch.
    pub last_switch: u64,
    /// Tasks left waiting at `last`.
    pub waiters: u64,
    /// The last time at which no task waited.
    pub uncontended_at: u64,
    /// Time in which at least one task waited.
    pub contention: u64,
    /// Time in which at least one task ran, waited, or slept for IO: PSI's weight of a CPU.
    pub nonidle: u64,
    /// 1 if the idle task runs.
    pub idle: u64,
    /// `nr_iowait` when the idle task was picked.
    pub iowait: u64,
    /// The group whose run time is in `pending_run`.
    pub pending_group: u64,
    /// Run time not yet added to its group.
    pub pending_run: u64,
    /// The group of the running task; 0 for the idle task.
    pub current: u64,
    /// Context switches.
    pub switches: u64,
    /// Tasks whose `last_queued` was left over from an earlier wait.
    pub stale_stamps: u64,
    /// Waits lost because the map of groups was full.
    pub lost_groups: u64,
    /// Waits charged to no aggressor because the matrix was full.
    pub lost_pairs: u64,
    /// IO waits lost because the map of sleepers was full.
    pub lost_io: u64,
    /// Memory stalls lost because a map was full.
    pub lost_stalls: u64,
    /// Events lost because the ring buffer was full.
    pub lost_events: u64,
    /// Walks cut off at [`LEVELS`].
    pub too_deep: u64,
    /// Waiting time, ns, that was charged to no aggressor because the matrix was full.
    pub lost_pair_time: u64,
    /// The run queues of the task that left and its ancestors, by depth: levels shared with the
    /// next task are handled once. Used within one event only.
    pub chain: [u64; LEVELS],
}

/// The cgroups that ran on a CPU last. Cost: 16 KiB per possible CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slices {
    /// Number of the newest slice; its low bits index `ring`.
    pub newest: u64,
    pub ring: [Slice; SLICES],
}

/// A stretch of time in which tasks of one cgroup ran on a CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    /// 0 is the idle task.
    pub cgroup: u64,
    /// It started at the end of the slice before.
    pub end: u64,
}

/// Key of the aggressor matrix; the value is the time that the victim waited, ns.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The cgroup that waited.
    pub victim: u64,
    /// The cgroup that ran meanwhile.
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
    /// An ancestor's limit that is not the node's allocatable.
    AncestorLimit = 2,
    /// An ancestor's limit that is the node's allocatable.
    AllocatableLimit = 3,
    /// A limit of an unknown cgroup.
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

/// Length of a table by cause: a power of two, so that a mask bounds an index for the verifier.
pub const SLOTS: usize = 16;
/// Index into [`Memory::unions`] besides the causes: any cause except kernel threads.
pub const ANY: usize = SLOTS - 2;
/// Index into [`Memory::unions`]: shortage of the node or of its allocatable.
pub const SHORTAGE: usize = SLOTS - 1;

/// One scope's memory stall. Cost: 512 bytes per cgroup that ever stalled.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Wall time, by cause.
    pub unions: [Open; SLOTS],
    /// Task time by cause, of this cgroup's own tasks; for [`NODE`] of all tasks.
    pub time: [u64; SLOTS],
    /// Stalls by cause.
    pub count: [u64; SLOTS],
}

/// A union of intervals as a sum: the start of the first open interval was subtracted and the end
/// of the last was added, so that no interval is lost when a close on one CPU races with an open on
/// another. While `open` is above 0, the time now must be added.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Open {
    /// Number of open intervals; -1 after two CPUs closed the last one at once.
    pub open: u64,
    /// Wrapping sum, `CLOCK_MONOTONIC`.
    pub sum: u64,
}

/// A thread's current stall. Cost: 88 bytes and a bucket, preallocated.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stall {
    /// `CLOCK_MONOTONIC`.
    pub start: u64,
    /// A [`Cause`].
    pub cause: u32,
    /// With PSI off: number of nested entries.
    pub depth: u32,
    /// The scopes whose unions it opened, [`NODE`] first; 0 ends the list. A scope that found the
    /// map full has all bits set.
    pub scopes: [u64; LEVELS + 1],
}

/// Callers of `psi_memstall_enter` that mean one cause. The first pattern that matches counts.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The symbol's beginning.
    pub bytes: [u64; SYMBOL / 8],
    /// 0xff for each byte that is compared.
    pub mask: [u64; SYMBOL / 8],
    /// A [`Cause`], plus one; 0 is no pattern.
    pub cause: u32,
    pub pad: u32,
}

/// A caller of `psi_memstall_enter`, resolved once.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caller {
    pub symbol: [u64; SYMBOL / 8],
    /// A [`Cause`].
    pub cause: u32,
    pub pad: u32,
}

/// A rare event.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_BOOTTIME`.
    pub at: u64,
    /// The cgroup that was created or removed, or whose process is killed.
    pub cgroup: u64,
    /// OOM: the cgroup whose limit was reached, 0 for the node.
    pub limit: u64,
    /// OOM: the cgroup whose allocation failed.
    pub trigger: u64,
    /// OOM: the process that is killed.
    pub pid: u32,
    /// [`CREATED`], [`REMOVED`], [`OOM`] or [`OOM_LIMIT_KNOWN`].
    pub kind: u32,
    /// Zero-terminated. Creation and removal: the path below the mount. OOM: the `comm` of the process
    /// that is killed, empty where the kernel tells its pid alone.
    pub text: [u8; PATH],
}

/// [`Event::kind`]: a cgroup was created.
pub const CREATED: u32 = 1;
/// [`Event::kind`]: a cgroup was removed.
pub const REMOVED: u32 = 2;
/// [`Event::kind`]: the OOM killer picked a process; the limit is unknown.
pub const OOM: u32 = 3;
/// [`Event::kind`]: the OOM killer picked a process; `limit` is set.
pub const OOM_LIMIT_KNOWN: u32 = 4;

const _: () = {
    assert!(size_of::<Group>() == 400);
    assert!(size_of::<Cpu>() == 224);
    assert!(size_of::<Slices>() == 16_392);
    assert!(size_of::<Memory>() == 512);
    assert!(size_of::<Stall>() == 88);
    assert!(size_of::<Pattern>() == 72);
    assert!(size_of::<Event>() == 296);
};

/// Types that the agent may read from a map byte by byte.
#[cfg(not(target_arch = "bpf"))]
mod pod {
    use super::{Caller, Cpu, Group, Memory, OnCpu, Pair, Pattern, Slices, Stall};

    // SAFETY: `repr(C)`, integers only, no padding (sizes asserted above, all fields aligned).
    unsafe impl aya::Pod for Group {}
    // SAFETY: as above.
    unsafe impl aya::Pod for OnCpu {}
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
    // SAFETY: as above.
    unsafe impl aya::Pod for Slices {}
}
