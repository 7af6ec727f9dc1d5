//! Readings of the node that belong to no cgroup.

use serde::{Deserialize, Serialize};

use super::is_default;
use super::psi::Pressures;
use super::units::{Bytes, Nanos};

/// What does not change while the node is up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    pub name: String,
    /// `uname -r`.
    pub kernel: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// CPUs online when the agent started.
    pub n_cpus: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct NodeReading {
    pub pressure: Pressures,
    /// When the pressure files were read, on the boot clock, if not in this tick: they are read once in
    /// 900 ms. Those of a cgroup are mostly read in the same tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure_read: Option<Nanos>,
    pub memory: Option<Meminfo>,
    /// `/proc/vmstat`.
    pub reclaim: Option<Reclaim>,
    pub cpu: Option<CpuTime>,
    /// CPUs online, by `/proc/stat`; `None` in recordings of before it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_cpus: Option<u32>,
    /// `/proc/loadavg`, fourth field: existing threads.
    pub n_threads: Option<u64>,
    /// `/proc/loadavg`, fourth field: runnable threads.
    pub n_runnable: Option<u64>,
    /// The smaller of `kernel.pid_max` and `kernel.threads-max`.
    pub max_threads: Option<u64>,
    /// The file systems of the eviction signals.
    pub filesystems: Filesystems,
}

/// The file systems of the eviction signals; `None` if not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Filesystems {
    /// When they were read, on the boot clock.
    pub at: Nanos,
    /// The kubelet's directory.
    pub nodefs: Option<Filesystem>,
    pub imagefs: Option<Filesystem>,
    /// Writable layers.
    pub containerfs: Option<Filesystem>,
}

/// Where images and writable layers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskLayout {
    /// All on the kubelet's file system, or it is not known where.
    Single,
    /// Images and writable layers together, on a file system of their own.
    WithLayers,
    /// Images on a file system of their own, writable layers beside the kubelet.
    ImagesAlone,
}

impl Filesystems {
    pub fn layout(&self) -> DiskLayout {
        let device = |file: Option<Filesystem>| file.map(|file| file.device);
        let image = device(self.imagefs);
        match image.is_none() || image == device(self.nodefs) {
            true => DiskLayout::Single,
            false if image == device(self.containerfs) => DiskLayout::WithLayers,
            false => DiskLayout::ImagesAlone,
        }
    }
}

/// `statfs` of one file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Filesystem {
    /// `st_dev`: tells whether two directories share a file system.
    pub device: u64,
    /// `f_bavail`: free for unprivileged users.
    pub available: Bytes,
    /// `f_bfree`: free for anybody; `None` in recordings of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<Bytes>,
    /// `f_blocks`.
    pub capacity: Bytes,
    pub inodes_free: u64,
    /// All inodes; 0 if the file system has no fixed number (btrfs).
    pub inodes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Meminfo {
    pub total: Bytes,
    pub free: Bytes,
    pub available: Bytes,
    pub swap_total: Bytes,
    pub swap_free: Bytes,
    /// Pages that are in memory and in swap.
    pub swap_cached: Bytes,
    /// `Zswap`: what pages of swap take that are kept in memory, compressed; 0 in older recordings.
    #[serde(skip_serializing_if = "is_default")]
    pub zswap: Bytes,
    /// `Hugetlb`: huge pages of all sizes, in use or not. They are set aside for who asks for such pages;
    /// 0 in recordings of before it was read.
    #[serde(skip_serializing_if = "is_default")]
    pub hugetlb: Bytes,
}

impl Meminfo {
    /// What the node has for pages of the usual size.
    pub fn usual(self) -> Bytes {
        Bytes(self.total.0.saturating_sub(self.hugetlb.0))
    }

    /// `MemTotal` - `MemAvailable`, and used swap. What was read back from swap and is there still counts
    /// once, because the kernel can drop it from memory, and so does what is in zswap.
    pub fn in_use(self) -> Bytes {
        let memory = self.total.0.saturating_sub(self.available.0);
        let swap = self.swap_total.0.saturating_sub(self.swap_free.0);
        let twice = self.swap_cached.0.saturating_add(self.zswap.0);
        Bytes(memory.saturating_add(swap).saturating_sub(twice))
    }
}

/// Reclaim in pages, since boot or since the cgroup was created.
///
/// `/proc/vmstat` counts reclaim for the node alone: the kernel counts pages scanned at a cgroup's
/// limit in that cgroup only (`shrink_inactive_list` and `scan_folios`, mm/vmscan.c:
/// `!cgroup_reclaim`). The root's `memory.stat` counts both, so it is not used. Refaults count
/// both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Reclaim {
    /// `pgscan_kswapd`, `pgscan_direct`, `pgscan_khugepaged`.
    pub scanned: u64,
    /// `pgsteal_*` of the same.
    pub reclaimed: u64,
    /// `workingset_refault_anon` and `workingset_refault_file`.
    pub refaults: u64,
}

/// `/proc/stat`, first line, summed over CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct CpuTime {
    /// Including interrupts.
    pub busy: Nanos,
    /// Including IO wait.
    pub idle: Nanos,
    /// Taken by the hypervisor. PSI does not count it.
    pub steal: Nanos,
}
