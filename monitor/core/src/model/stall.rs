//! What the kernel side counted, made plain: cumulative, in nanoseconds, per cgroup with its
//! descendants. `source::kernel` folds the maps into this; nobody else knows how they look.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cgroup::{CgroupId, CgroupPath};
use super::units::Nanos;

/// All kernel counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KernelStalls {
    /// The scheduler's clock when the maps were read: the newest of all CPUs.
    pub clock: Nanos,
    /// What the attached programs can tell apart.
    pub covers: Coverage,
    /// The node, CPU by CPU.
    pub cpus: Vec<CpuStall>,
    /// The node's memory stall.
    pub memory: MemoryStall,
    /// Every cgroup that ever waited and still exists.
    pub groups: BTreeMap<CgroupId, GroupStall>,
    /// Who waited while whom ran, on one CPU, since the agent started.
    pub matrix: Vec<Aggression>,
    /// OOM kills since the last sample.
    pub oom_kills: Vec<OomKill>,
    /// Cgroups that were made and removed between two samples, and so appear in no tree.
    pub short_lived: Vec<ShortLived>,
    /// What the kernel side could not count.
    pub lost: Lost,
}

/// What the attached programs can tell. What they cannot is unknown, not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Coverage {
    /// Run-queue waits.
    pub waits: bool,
    /// Throttling by a quota apart from contention; without it a wait may be either.
    pub throttling: bool,
    /// Memory stalls.
    pub memory: bool,
    /// Whose limit a memory stall is about, and stalls that are no reclaim.
    pub memory_causes: bool,
}

/// One CPU's union of contention: the time in which at least one task waited for this CPU and
/// no quota kept it from running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CpuStall {
    /// Somebody waited.
    pub contention: Nanos,
    /// Somebody ran or waited: the weight of this CPU in a mean over CPUs, as PSI has it.
    pub nonidle: Nanos,
    /// Context switches.
    pub switches: u64,
}

/// One cgroup's stall, its descendants included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GroupStall {
    /// Union of contention per CPU; empty where the cpu controller is not on cgroup v2.
    pub cpus: Vec<CpuStall>,
    /// Task time on the run queue: summed over tasks, so it may outrun the clock.
    pub wait: Nanos,
    /// Of `wait`: kept back by the quota of this cgroup, or of one below it.
    pub throttled_own: Nanos,
    /// Of `wait`: kept back by the quota of a cgroup above.
    pub throttled_ancestor: Nanos,
    /// Waits that were measured.
    pub n_waits: u64,
    /// Waits for others (throttling taken out) by length; bucket 0 is below 1,024 ns, bucket `i`
    /// from `2^(9+i)` ns to `2^(10+i)` ns, the last is open.
    pub histogram: Vec<u64>,
    /// Task time asleep in IO wait.
    pub io_wait: Nanos,
    /// IO waits that were measured.
    pub n_io_waits: u64,
    /// Memory stall.
    pub memory: MemoryStall,
}

impl GroupStall {
    /// Task time kept waiting by others: what no quota explains.
    #[must_use]
    pub fn contention(&self) -> Nanos {
        self.wait.since(self.throttled_own.plus(self.throttled_ancestor))
    }
}

/// Why a task waited for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryCause {
    /// Reclaim because its own cgroup reached `memory.max`.
    OwnLimit,
    /// Its own cgroup is above `memory.high`: reclaim, or put to sleep.
    OwnHigh,
    /// Reclaim because a cgroup above it reached a limit that is no allocatable limit:
    /// for a container, its pod's.
    AncestorLimit,
    /// Reclaim because kubepods or a QoS slice reached its limit: the node's enforced allocatable.
    AllocatableLimit,
    /// A limit, but whose is not known: the kernel lacks the probe that tells.
    SomeLimit,
    /// The node is short: direct reclaim in the page allocator.
    Global,
    /// Direct compaction: memory is there, but in pieces.
    Compaction,
    /// Reading back file pages that were evicted while in use.
    Refault,
    /// Reading back from swap.
    SwapIn,
    /// kswapd and kcompactd at their work; they are nobody's victims.
    KernelThread,
    /// A caller that this version does not know.
    Other,
}

impl MemoryCause {
    /// Every cause, in the order of the kernel side's tables.
    pub const ALL: [Self; 11] = [
        Self::OwnLimit,
        Self::OwnHigh,
        Self::AncestorLimit,
        Self::AllocatableLimit,
        Self::SomeLimit,
        Self::Global,
        Self::Compaction,
        Self::Refault,
        Self::SwapIn,
        Self::KernelThread,
        Self::Other,
    ];

    /// True where the node (or its allocatable) was short, not a pod at a limit of its own.
    #[must_use]
    pub fn is_shortage(self) -> bool {
        matches!(self, Self::Global | Self::AllocatableLimit)
    }
}

/// Memory stall of one scope by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryStall {
    /// Wall time in which at least one task stalled, whatever the cause, kernel threads apart.
    pub any: Nanos,
    /// Wall time in which at least one task stalled because the node or its allocatable was short.
    pub shortage: Nanos,
    /// By cause. A cause that never occurred is missing.
    pub causes: BTreeMap<MemoryCause, CauseStall>,
}

/// One cause's share of a scope's memory stall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CauseStall {
    /// Wall time in which at least one task stalled for this cause.
    pub union: Nanos,
    /// Task time, summed over tasks.
    pub time: Nanos,
    /// Stalls that ended.
    pub count: u64,
}

/// How long one cgroup's tasks waited while another's ran on the same CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Aggression {
    /// Who waited.
    pub victim: CgroupId,
    /// Who ran. 0 is the idle task: latency of the wake-up itself.
    pub aggressor: CgroupId,
    /// For how long, since the agent started.
    pub time: Nanos,
}

/// One OOM kill: three cgroups that need not be the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OomKill {
    /// When, on the clock of [`super::sample::Moment::boot`].
    pub at: Nanos,
    /// Whose process dies.
    pub victim: CgroupId,
    /// The process that dies.
    pub victim_pid: u32,
    /// Whose limit was reached; `None` if the node was out of memory, or if it is not known.
    pub limit: Option<CgroupId>,
    /// True if `limit` is known: `None` then means the whole node.
    pub limit_known: bool,
    /// Whose allocation asked for the memory.
    pub trigger: CgroupId,
}

/// A cgroup that lived for less than a tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShortLived {
    /// Its id, which `Aggression` may still name.
    pub id: CgroupId,
    /// Its path.
    pub path: CgroupPath,
}

/// What the kernel side could not count, since the agent started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Lost {
    /// Waits of cgroups for which the map had no room.
    pub cgroups: u64,
    /// Aggressor pairs for which the matrix had no room.
    pub pairs: u64,
    /// Memory stalls for which a map had no room.
    pub stalls: u64,
    /// IO waits for which the map had no room.
    pub io_waits: u64,
    /// Events that the ring buffer could not take.
    pub events: u64,
    /// Events skipped because the program was already running on that CPU.
    pub recursions: u64,
    /// Wait stamps older than the last moment at which nobody waited: taken as no wait.
    pub stale_stamps: u64,
    /// Cgroups deeper than the kernel side walks.
    pub too_deep: u64,
}
