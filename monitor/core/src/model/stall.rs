//! eBPF counters as the sampler reads them: cumulative, in nanoseconds, per cgroup with its
//! descendants. Only `source::kernel` knows the layout of the maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cgroup::{CgroupId, CgroupPath, ROOT};
use super::units::{Moment, Nanos};

/// All eBPF counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KernelStalls {
    /// The scheduler's clock when the maps were read: the newest of all CPUs.
    pub clock: Nanos,
    /// What the attached programs measure.
    pub covers: Coverage,
    pub cpus: Vec<CpuStall>,
    pub memory: MemoryStall,
    /// Cgroups that waited at least once and still exist.
    pub groups: BTreeMap<CgroupId, Arc<GroupStall>>,
    /// Waits by sufferer and aggressor, since the last sample.
    pub matrix: Vec<Aggression>,
    /// Since the last sample; all else is cumulative.
    pub oom_kills: Vec<OomKill>,
    /// Cgroups that were created and removed between two samples.
    pub short_lived: Vec<ShortLived>,
    /// What the programs could not count.
    pub lost: Lost,
}

/// What the attached programs measure. The rest is unknown, not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Coverage {
    pub waits: bool,
    /// Tells throttling from contention; without it a wait may be either.
    pub throttling: bool,
    pub memory: bool,
    /// Tells whose limit caused a memory stall.
    pub memory_causes: bool,
    /// Tells of each OOM kill which process it took; else kills are those that `memory.events` counts.
    /// Recordings that do not say so have the kernel's.
    #[serde(default = "always")]
    pub oom_kills: bool,
}

impl Coverage {
    /// Where all programs are attached.
    pub const ALL: Self =
        Self { waits: true, throttling: true, memory: true, memory_causes: true, oom_kills: true };
}

fn always() -> bool {
    true
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CpuStall {
    /// Time in which at least one task waited for this CPU and no quota stopped it.
    pub contention: Nanos,
    /// Time in which a task ran or waited: the weight of this CPU in PSI's mean over CPUs.
    pub nonidle: Nanos,
    pub switches: u64,
}

/// One cgroup's stalls, descendants included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GroupStall {
    /// Contention per CPU; empty if the cpu controller is not on cgroup v2.
    pub cpus: Vec<CpuStall>,
    /// Task time on the run queue.
    pub wait: Nanos,
    /// Part of `wait`: throttled by the quota of this cgroup or of a descendant.
    pub throttled_own: Nanos,
    /// Part of `wait`: throttled by an ancestor's quota.
    pub throttled_ancestor: Nanos,
    pub n_waits: u64,
    /// Waits without throttling, by length: bucket 0 is below 1,024 ns, bucket `i` from `2^(9+i)`
    /// to `2^(10+i)` ns, the last has no upper bound.
    pub histogram: Vec<u64>,
    /// Task time in IO wait.
    pub io_wait: Nanos,
    pub n_io_waits: u64,
    pub memory: MemoryStall,
}

impl GroupStall {
    /// Run-queue wait that no quota explains.
    pub fn contention(&self) -> Nanos {
        self.wait.since(self.throttled_own.plus(self.throttled_ancestor))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum MemoryCause {
    /// Reclaim because the task's own cgroup reached `memory.max`.
    OwnLimit,
    /// The task's own cgroup is above `memory.high`: reclaim, or sleep.
    OwnHigh,
    /// Reclaim because an ancestor reached a limit that is not the allocatable: for a container,
    /// its pod's limit.
    AncestorLimit,
    /// Reclaim because kubepods or a QoS slice reached its limit: the enforced allocatable.
    AllocatableLimit,
    /// Reclaim at a limit, but the kernel lacks the probe that tells whose.
    SomeLimit,
    /// Direct reclaim in the page allocator: the node is short.
    Global,
    /// Direct compaction: free memory is fragmented.
    Compaction,
    /// File pages read back after they were evicted while in use.
    Refault,
    /// Pages read back from swap.
    SwapIn,
    /// kswapd and kcompactd at work: no task of a workload waits.
    KernelThread,
    /// A call site that this version does not know.
    Other,
}

// In the order of the eBPF maps.
named!(MemoryCause {
    OwnLimit => "ownLimit",
    OwnHigh => "ownHigh",
    AncestorLimit => "ancestorLimit",
    AllocatableLimit => "allocatableLimit",
    SomeLimit => "someLimit",
    Global => "global",
    Compaction => "compaction",
    Refault => "refault",
    SwapIn => "swapIn",
    KernelThread => "kernelThread",
    Other => "other",
});

impl MemoryCause {
    /// True if the node or its allocatable was short, not a cgroup at its own limit.
    pub fn is_shortage(self) -> bool {
        matches!(self, Self::Global | Self::AllocatableLimit)
    }

    /// True if a cgroup was at a limit of its own, or its pod or slice was, and the node was not short.
    pub fn is_own_limit(self) -> bool {
        matches!(self, Self::OwnLimit | Self::OwnHigh | Self::AncestorLimit)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryStall {
    /// Wall time in which at least one task stalled for any cause, kernel threads excluded.
    pub any: Nanos,
    /// Wall time in which at least one task stalled for a cause with [`MemoryCause::is_shortage`].
    pub shortage: Nanos,
    /// A cause that never occurred is missing.
    pub causes: BTreeMap<MemoryCause, CauseStall>,
}

/// Memory stall of one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CauseStall {
    /// Wall time in which at least one task stalled.
    pub union: Nanos,
    pub time: Nanos,
    pub count: u64,
}

/// How long one cgroup's tasks waited while another's ran on the same CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Aggression {
    pub victim: CgroupId,
    /// The cgroup that ran. Id 0 is the idle task: the latency of the wake-up itself;
    /// [`CgroupId::UNKNOWN`] is the part of long waits that lies before the slices that the CPU keeps.
    pub aggressor: CgroupId,
    pub time: Nanos,
}

/// One OOM kill. Victim, limit and trigger may be three different cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OomKill {
    /// On the boot clock.
    pub at: Nanos,
    pub victim: CgroupId,
    /// The killed process; `None` where kills are only counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_pid: Option<u32>,
    /// Its `comm`, at most 15 bytes of any kind; `None` where the kernel tells the pid alone (before
    /// Linux 6.10, unless backported), and in recordings of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_comm: Option<String>,
    /// How many more processes of the same cgroup it took by the next sample, where kills are counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// The cgroup whose limit was reached; `None` if the node was out of memory, or if unknown.
    pub limit: Option<CgroupId>,
    /// Whether `limit` is known: then `None` means the whole node.
    pub limit_known: bool,
    /// The cgroup whose allocation triggered the kill; 18446744073709551615 where kills are counted.
    pub trigger: CgroupId,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A node has no more processes (`PID_MAX_LIMIT`, include/linux/threads.h): counts that say so are wrong, and
/// sums of them must not overflow.
const MOST_PROCESSES: u64 = 1 << 22;

/// How many processes a kill took, `more` beside one.
pub fn n_killed(more: u64) -> u64 {
    more.saturating_add(1).min(MOST_PROCESSES)
}

impl OomKill {
    /// See [`n_killed`].
    pub fn processes(&self) -> u64 {
        n_killed(self.more)
    }

    /// See [`killed_process`].
    pub fn process(&self) -> String {
        killed_process(self.victim_pid, self.victim_comm.as_deref(), self.more)
    }
}

/// Killed processes in a sentence: `process 7 (java)`, `process 7` where its `comm` is not known, `a
/// process` or `3 processes` where they were only counted.
pub fn killed_process(pid: Option<u32>, comm: Option<&str>, more: u64) -> String {
    match (pid, comm, more) {
        (Some(pid), Some(comm), _) => format!("process {pid} ({comm})"),
        (Some(pid), None, _) => format!("process {pid}"),
        (None, _, 0) => "a process".into(),
        (None, _, more) => format!("{} processes", more.saturating_add(1)),
    }
}

/// How many kills a view shows.
pub const OOM_KILLS_KEPT: usize = 64;

/// An OOM kill with paths, which outlive the cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OomRecord {
    /// When, since 1970.
    pub wall: Nanos,
    /// By the API's name; `None` if no source of pods names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// `None` if the victim's cgroup was removed before it was ever sampled.
    pub victim_path: Option<CgroupPath>,
    /// The cgroup whose limit was reached.
    pub limit_path: Option<CgroupPath>,
    /// The cgroup whose allocation triggered the kill.
    pub trigger_path: Option<CgroupPath>,
    pub kill: OomKill,
}

impl OomRecord {
    /// Of a kill that the tick of this moment has seen; `path_of` knows its cgroups.
    pub fn of(
        kill: &OomKill,
        at: Moment,
        victim: Option<String>,
        path_of: impl Fn(CgroupId) -> Option<CgroupPath>,
    ) -> Self {
        Self {
            wall: at.wall.since(at.boot.since(kill.at)),
            victim,
            victim_path: path_of(kill.victim),
            limit_path: kill.limit.and_then(&path_of),
            trigger_path: path_of(kill.trigger),
            kill: kill.clone(),
        }
    }

    /// Whose process was killed: the pod by its name, else the cgroup.
    pub fn who(&self) -> &str {
        let path = self.victim_path.as_ref().map(CgroupPath::told);
        // Snapshots have the root without a path.
        let root = (self.kill.victim == CgroupId::ROOT).then_some(ROOT);
        self.victim.as_deref().or(path).or(root).unwrap_or("a cgroup that is gone")
    }

    /// What happened, for people.
    pub fn sentence(&self) -> String {
        format!("the kernel's OOM killer killed {} of {}", self.kill.process(), self.who())
    }
}

/// A cgroup that lived for less than a tick. `Aggression` may still name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShortLived {
    pub id: CgroupId,
    pub path: CgroupPath,
}

/// What the programs could not count since they were attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Lost {
    /// Waits of cgroups for which the map was full.
    pub cgroups: u64,
    /// Pairs for which the matrix was full.
    pub pairs: u64,
    /// Waiting time that has no aggressor because of that.
    pub pair_time: Nanos,
    /// Memory stalls for which a map was full.
    pub stalls: u64,
    /// IO waits for which the map was full.
    pub io_waits: u64,
    /// Events for which the ring buffer was full.
    pub events: u64,
    /// Events that the kernel skipped because the program was already running on that CPU.
    pub recursions: u64,
    /// Wait stamps older than the last moment without waiting tasks: taken as no wait.
    pub stale_stamps: u64,
    /// Cgroups deeper than the programs walk.
    pub too_deep: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_the_root_cgroup() {
        #[rustfmt::skip]
        let table = [
            // victim, its name, its path, who it is called
            (7, Some("shop/web"), Some("/a"), "shop/web"),
            (7, None,             Some("/a"), "/a"),
            (7, None,             None,       "a cgroup that is gone"),
            (1, None,             None,       "the root cgroup"),
            (1, None,             Some("/"),  "the root cgroup"),
        ];
        for (id, name, path, want) in table {
            let kill = OomKill { victim: CgroupId(id), ..OomKill::default() };
            let path = path.map(|path| CgroupPath(path.into()));
            let at = Moment::default();
            let record = OomRecord::of(&kill, at, name.map(str::to_owned), |_| path.clone());
            assert_eq!(record.who(), want, "{id} {path:?}");
        }
    }
}
