//! The node itself: what does not belong to any one cgroup.

use serde::{Deserialize, Serialize};

use super::psi::Pressures;
use super::units::{Bytes, Nanos};

/// What is true of the node for as long as it is up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// Host name.
    pub name: String,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// CPUs online at the start.
    pub n_cpus: u32,
}

/// One tick's reading of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeReading {
    /// `/proc/pressure/*`.
    pub pressure: Pressures,
    /// `/proc/meminfo`.
    pub memory: Option<Meminfo>,
    /// `/proc/vmstat`, what the node's reclaim did.
    pub reclaim: Option<Reclaim>,
    /// `/proc/stat`.
    pub cpu: Option<CpuTime>,
    /// `/proc/loadavg`, fourth field: threads that exist.
    pub n_threads: Option<u64>,
    /// `/proc/loadavg`, fourth field: threads that run or want to.
    pub n_runnable: Option<u64>,
    /// The smaller of `kernel.pid_max` and `kernel.threads-max`.
    pub max_threads: Option<u64>,
    /// The file systems that eviction signals are about.
    pub filesystems: Filesystems,
}

/// The file systems that eviction signals are about. `None` if not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Filesystems {
    /// When they were read, on the clock of [`super::sample::Moment::boot`].
    pub at: Nanos,
    /// Of the kubelet's directory.
    pub nodefs: Option<Filesystem>,
    /// Of images.
    pub imagefs: Option<Filesystem>,
    /// Of writable layers.
    pub containerfs: Option<Filesystem>,
}

/// `statfs` of one file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Filesystem {
    /// The device, which tells two directories on one file system from two.
    pub device: u64,
    /// Free for everybody but root: `f_bavail`.
    pub available: Bytes,
    /// In all.
    pub capacity: Bytes,
    /// Free inodes.
    pub inodes_free: u64,
    /// In all.
    pub inodes: u64,
}

/// `/proc/meminfo`, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meminfo {
    /// `MemTotal`.
    pub total: Bytes,
    /// `MemFree`.
    pub free: Bytes,
    /// `MemAvailable`.
    pub available: Bytes,
    /// `SwapTotal`.
    pub swap_total: Bytes,
    /// `SwapFree`.
    pub swap_free: Bytes,
}

/// What reclaim did, in pages since boot or since the cgroup was made.
///
/// The kernel counts a page scanned at a cgroup's limit in that cgroup alone (`shrink_inactive_list`
/// and `scan_folios`, mm/vmscan.c: `!cgroup_reclaim`), so `/proc/vmstat` has the node's shortage,
/// and the root's `memory.stat`, which has both, is not asked. Refaults are of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Reclaim {
    /// Looked at: `pgscan_kswapd`, `_direct`, `_khugepaged`.
    pub scanned: u64,
    /// Taken: `pgsteal_*` of the same.
    pub reclaimed: u64,
    /// Read back after eviction: `workingset_refault_anon` and `_file`.
    pub refaults: u64,
}

/// `/proc/stat`, first line, summed over CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CpuTime {
    /// Running something, interrupts included.
    pub busy: Nanos,
    /// Idle, waiting for IO included.
    pub idle: Nanos,
    /// Taken by the hypervisor: a wait that PSI does not see.
    pub steal: Nanos,
}
