//! The machine's resources and the limits in force, read once for the command line.
//! What could not be read is `None`; the gaps tell why.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use super::cgroup::{CgroupPath, Limit};
use super::node::Filesystem;
use super::sample::Gap;
use super::topology::Topology;
use super::units::{Bytes, Micros};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Online CPUs; empty if unreadable.
    pub cpus: Topology,
    /// `MemTotal`.
    pub memory: Option<Bytes>,
    /// Bytes reserved for huge pages, by page size.
    pub huge_pages: BTreeMap<Bytes, Bytes>,
    /// The file system of the kubelet's directory.
    pub nodefs: Option<Filesystem>,
    /// The file system of images; `None` if unknown.
    pub imagefs: Option<Filesystem>,
    /// The smaller of `kernel.pid_max` and `kernel.threads-max`.
    pub max_threads: Option<u64>,
    /// The page size: the kernel truncates `memory.max` to whole pages.
    pub page: Bytes,
    /// What could not be read, and why.
    pub gaps: Vec<Gap>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// The cgroup, whether it exists or not.
    pub path: CgroupPath,
    pub exists: bool,
    #[serde(serialize_with = "as_written")]
    pub memory_max: Option<Limit>,
    /// `cgroup.controllers`: those that the cgroup above gives it.
    #[serde(skip)]
    pub controllers: BTreeSet<String>,
    pub cpu_weight: Option<u64>,
    #[serde(serialize_with = "as_written")]
    pub pids_max: Option<Limit>,
    /// `hugetlb.<size>.max` by the kernel's name of the page size, such as `2MB`.
    #[serde(serialize_with = "all_as_written")]
    pub hugetlb_max: BTreeMap<String, Limit>,
    /// `memory.current` less `inactive_file`.
    pub working_set: Option<Bytes>,
    /// `cpu.stat`, `usage_usec`.
    /// `usage_usec` of `cpu.stat`, cumulative.
    pub cpu_usage: Option<Micros>,
}

impl Found {
    /// The value of a limit file by its name; `None` if the file does not exist.
    pub fn file(&self, name: &str) -> Option<Limit> {
        match name {
            "memory.max" => self.memory_max,
            "cpu.weight" => self.cpu_weight.map(Limit::At),
            "pids.max" => self.pids_max,
            _ => {
                let size = name.strip_prefix("hugetlb.")?.strip_suffix(".max")?;
                self.hugetlb_max.get(size).copied()
            }
        }
    }
}

/// Serialised as in the file: a number, or `"max"`.
struct Written(Limit);

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Limit::Max => to.serialize_str("max"),
            Limit::At(n) => to.serialize_u64(n),
        }
    }
}

fn as_written<S: Serializer>(limit: &Option<Limit>, to: S) -> Result<S::Ok, S::Error> {
    limit.map(Written).serialize(to)
}

fn all_as_written<S: Serializer>(
    limits: &BTreeMap<String, Limit>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(limits.iter().map(|(size, limit)| (size, Written(*limit))))
}
