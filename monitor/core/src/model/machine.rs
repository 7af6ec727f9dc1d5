//! What a machine has, and the limits that were found on it: read once, for a person who asks.
//! What could not be read is `None`, and the gaps say why.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::cgroup::{CgroupPath, Limit};
use super::node::Filesystem;
use super::sample::Gap;
use super::topology::Topology;
use super::units::{Bytes, Micros};

/// What a machine has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// The online CPUs; none if they could not be read.
    pub cpus: Topology,
    /// `MemTotal`.
    pub memory: Option<Bytes>,
    /// Memory in huge pages of each size.
    pub huge_pages: BTreeMap<Bytes, Bytes>,
    /// The file system of the kubelet.
    pub nodefs: Option<Filesystem>,
    /// That of images, where it is known.
    pub imagefs: Option<Filesystem>,
    /// The smaller of `kernel.pid_max` and `kernel.threads-max`.
    pub max_threads: Option<u64>,
    /// The size of a page: the kernel cuts `memory.max` to whole ones.
    pub page: Bytes,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

/// The limits of one cgroup as they are now, and what it uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// Where it is, or would be.
    pub path: CgroupPath,
    /// It is there.
    pub exists: bool,
    /// `memory.max`.
    #[serde(serialize_with = "as_written")]
    pub memory_max: Option<Limit>,
    /// `cpu.weight`.
    pub cpu_weight: Option<u64>,
    /// `pids.max`.
    #[serde(serialize_with = "as_written")]
    pub pids_max: Option<Limit>,
    /// `hugetlb.<size>.max` by the kernel's name of the size.
    #[serde(serialize_with = "all_as_written")]
    pub hugetlb_max: BTreeMap<String, Limit>,
    /// `memory.current` less the page cache that was not lately used.
    pub working_set: Option<Bytes>,
    /// `cpu.stat`, `usage_usec`.
    pub cpu_usage: Option<Micros>,
}

impl Found {
    /// What one of the limit files says, by its name; `None` if there is no such file.
    #[must_use]
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

/// A limit as its file has it: a number, or `"max"`.
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
