//! A limit that the agent writes, and the result.

use serde::{Deserialize, Serialize};

use super::cgroup::CgroupPath;
use super::quantity::ResourceList;
use super::settings::WrittenLimit;

/// What a node has, and what of it the kubelet would give to pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeResources {
    pub capacity: ResourceList,
    pub kube_reserved: ResourceList,
    pub system_reserved: ResourceList,
    /// Hard eviction thresholds.
    pub eviction_hard: ResourceList,
    pub allocatable: ResourceList,
}

/// A value for one file of one cgroup.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LimitWrite {
    pub what: WrittenLimit,
    pub cgroup: CgroupPath,
    /// The file's name: `memory.max`.
    pub file: String,
    /// Without a line end.
    pub value: String,
}

impl LimitWrite {
    /// The file, below the cgroup tree.
    pub fn path(&self) -> String {
        format!("{}/{}", self.cgroup.0.trim_end_matches('/'), self.file)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LimitState {
    /// The configured value.
    pub write: LimitWrite,
    /// The value before the agent first wrote; `None` if the agent never wrote.
    pub before: Option<String>,
    /// The current value; `None` if unreadable.
    pub live: Option<String>,
    /// How it went.
    pub result: LimitResult,
    /// What an operator should know; may be empty.
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum LimitResult {
    /// It had the configured value already.
    Kept,
    /// Written and read back.
    Written,
    /// Not written, because the agent only observes.
    Observed,
    /// Another process changed it after the agent wrote it; written again.
    Drifted,
    /// Not written: the kernel refused, or the processes there would not survive the limit.
    Failed,
}

named!(LimitResult {
    Kept => "kept",
    Written => "written",
    Observed => "observed",
    Drifted => "drifted",
    Failed => "failed",
});
