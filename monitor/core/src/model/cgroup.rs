//! One cgroup v2 directory and the content of its files.
//! Every reading is optional: the controller may be off, the file missing, or the cgroup removed
//! while it is read. The sample's gaps tell which and why.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::is_default;
use super::psi::Pressures;
use super::units::{Bytes, Micros, Nanos};

/// What the root is called in a sentence.
pub const ROOT: &str = "the root cgroup";

/// The kernel's cgroup id: the inode number of the directory. Never reused until reboot.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CgroupId(pub u64);

impl CgroupId {
    /// Of no cgroup: the aggressor of a wait of which it is not known who ran.
    pub const UNKNOWN: Self = Self(u64::MAX);
    /// Of the root: the kernel numbers it first (`kernfs_create_root`, fs/kernfs/dir.c).
    pub const ROOT: Self = Self(1);
}

/// Path below the cgroup v2 mount: `/` is the root, `/kubepods.slice` its child. Shared, because each
/// tick's sample, snapshot and pairs name the same cgroups again.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CgroupPath(pub Arc<str>);

impl CgroupPath {
    pub fn root() -> Self {
        Self("/".into())
    }

    /// The path of the child directory `name`.
    pub fn child(&self, name: &str) -> Self {
        let above = if self.is_root() { "" } else { &*self.0 };
        Self(format!("{above}/{name}").into())
    }

    pub fn is_root(&self) -> bool {
        &*self.0 == "/"
    }

    /// The path in a sentence.
    pub fn told(&self) -> &str {
        if self.is_root() { ROOT } else { &self.0 }
    }

    /// Whether it is `above` or lies below it.
    pub fn is_within(&self, above: &Self) -> bool {
        let below = || self.0.strip_prefix(&*above.0);
        above.is_root() || below().is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether systemd names it as a slice, which has no processes of its own.
    pub fn is_slice(&self) -> bool {
        self.0.ends_with(".slice")
    }

    /// Directory names from the root down; empty for the root.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|s| !s.is_empty())
    }
}

impl fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A limit file: a number, or the word `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    Max,
    /// The limit, in the file's own unit.
    At(u64),
}

impl Limit {
    /// The number; `None` where the file says `max`.
    pub fn at(self) -> Option<u64> {
        match self {
            Self::Max => None,
            Self::At(n) => Some(n),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("max"),
            Self::At(n) => n.fmt(f),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Cgroup {
    pub path: CgroupPath,
    /// `None` for the root.
    pub parent: Option<CgroupId>,
    pub pressure: Pressures,
    /// `cpu.*`; `usage` is there even without the controller.
    pub cpu: CpuFiles,
    pub memory: MemoryFiles,
    pub pids_current: Option<u64>,
    pub pids_max: Option<Limit>,
    /// `io.stat`, summed over devices.
    pub io: Option<IoStat>,
    /// `io.max`: devices on which it may not do as much as it likes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io_limits: Vec<IoLimit>,
    /// Processes listed in `cgroup.procs`, this cgroup alone.
    pub n_procs: Option<u64>,
    /// A user other than root owns its directory, or one above it: its name proves nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_delegated: bool,
    /// From the directory's extended attributes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preference: Option<Preference>,
}

impl Cgroup {
    /// Whether nothing of it was read in this tick: not even `cpu.stat`, which each cgroup has.
    pub fn is_unread(&self) -> bool {
        let Self { cpu, memory, pids_current, pressure, .. } = self;
        cpu.usage.is_none()
            && (memory.current, memory.stat, *pids_current) == (None, None, None)
            && *pressure == Pressures::default()
    }
}

/// Extended attributes of the cgroup's directory.
/// Sources: oomd; systemd.resource-control(5), `ManagedOOMPreference=`, knows avoid and omit only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Preference {
    /// `user.oomd_prefer`: evict first.
    Prefer,
    /// `user.oomd_avoid`: evict last.
    Avoid,
    /// `user.oomd_omit`: never evict.
    Omit,
}

/// `cpu.stat`, `cpu.max`, `cpu.weight`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct CpuFiles {
    /// `usage_usec`.
    pub usage: Option<Micros>,
    /// `nr_periods`; only with the controller.
    pub periods: Option<u64>,
    /// `nr_throttled`; only with the controller.
    pub throttled_periods: Option<u64>,
    /// `throttled_usec`: summed over CPUs, this cgroup's own quota alone.
    pub throttled: Option<Micros>,
    /// `cpu.max`, first field.
    pub quota: Option<Limit>,
    /// `cpu.max`, second field.
    pub period: Option<Micros>,
    /// `cpu.weight`, 1 to 10,000.
    pub weight: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryFiles {
    pub current: Option<Bytes>,
    pub swap_current: Option<Bytes>,
    pub max: Option<Limit>,
    pub high: Option<Limit>,
    pub low: Option<Limit>,
    pub min: Option<Limit>,
    /// `memory.swap.max`: with LimitedSwap the kubelet sets each container's share of the node's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_max: Option<Limit>,
    /// `memory.events`: the subtree's counts.
    pub events: Option<MemoryEvents>,
    /// When `oom` of `events` last grew, if that was before this reading and the kernel has killed no process
    /// since: it counts a limit that is reached first, then prints its report, which may take seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_at: Option<Nanos>,
    /// `memory.stat`, the keys that decisions need.
    pub stat: Option<MemoryStat>,
}

/// `memory.events`. A key that this kernel does not print is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryEvents {
    /// Reclaim although usage was below `memory.low`.
    pub low: u64,
    /// Throttled above `memory.high`.
    pub high: u64,
    /// Usage reached `memory.max`.
    pub max: u64,
    pub oom: u64,
    /// Processes killed by the OOM killer.
    pub oom_kill: u64,
    /// Times a whole group was killed, Linux 5.17+.
    pub oom_group_kill: u64,
}

/// `memory.stat`, the keys that decisions need. A key that this kernel does not print is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryStat {
    /// Anonymous pages.
    pub anon: Bytes,
    /// Page cache, with tmpfs.
    pub file: Bytes,
    /// Kernel memory, Linux 5.18+.
    pub kernel: Bytes,
    /// Part of `kernel`: pages of swap that are kept in memory, compressed; Linux 5.19+.
    #[serde(skip_serializing_if = "is_default")]
    pub zswap: Bytes,
    /// Network buffers: what was received and not read, or not yet sent.
    pub sock: Bytes,
    /// tmpfs and shared memory.
    pub shmem: Bytes,
    /// Pages that were read back from swap and are there still, Linux 5.13+.
    pub swapcached: Bytes,
    pub inactive_anon: Bytes,
    /// Anonymous, recently used.
    pub active_anon: Bytes,
    /// Page cache, not recently used: reclaimed first.
    pub inactive_file: Bytes,
    /// Page cache, recently used.
    pub active_file: Bytes,
    /// Slab that the kernel can free.
    pub slab_reclaimable: Bytes,
    /// Slab that the kernel cannot free.
    pub slab_unreclaimable: Bytes,
    /// Anonymous pages read back after they were evicted, in pages.
    pub workingset_refault_anon: u64,
    pub workingset_refault_file: u64,
    pub pgscan: u64,
    pub pgsteal: u64,
    pub pgmajfault: u64,
}

/// `io.stat`, summed over devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct IoStat {
    pub read: Bytes,
    pub written: Bytes,
    pub reads: u64,
    pub writes: u64,
}

impl IoStat {
    /// Read and written.
    pub fn bytes(self) -> u64 {
        self.read.0.saturating_add(self.written.0)
    }

    /// Requests of both kinds.
    pub(crate) fn operations(self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

/// A line of `io.max`: what a cgroup may do on one device each second; `None` has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct IoLimit {
    /// Major and minor number.
    pub device: (u32, u32),
    /// `rbps`.
    pub read: Option<Bytes>,
    /// `wbps`.
    pub written: Option<Bytes>,
    /// `riops`.
    pub reads: Option<u64>,
    /// `wiops`.
    pub writes: Option<u64>,
    /// By the device's line of `io.stat`; `None` before it was read with the limit known.
    pub done: Option<IoStat>,
}
