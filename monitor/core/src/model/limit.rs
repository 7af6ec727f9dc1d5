//! A limit of the node that is to be written, and what came of it.

use serde::{Deserialize, Serialize};

use super::cgroup::CgroupPath;
use super::settings::WrittenLimit;

/// One file of one cgroup, and what is to stand in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitWrite {
    /// Because of what.
    pub what: WrittenLimit,
    /// Where.
    pub cgroup: CgroupPath,
    /// The file: `memory.max`.
    pub file: String,
    /// As the kernel takes it, without a line end.
    pub value: String,
}

/// How one limit stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitState {
    /// What was to be written.
    pub write: LimitWrite,
    /// What stood there before anything of ours did; `None` if nothing of ours does.
    pub before: Option<String>,
    /// What stands there now; `None` if it cannot be read.
    pub live: Option<String>,
    /// How it went.
    pub result: LimitResult,
    /// In words, where there is something to say.
    pub detail: String,
}

/// How writing a limit went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimitResult {
    /// It stands as it should, and stood so before.
    Kept,
    /// It was written, and read back.
    Written,
    /// It would have been written; the agent only observes.
    Observed,
    /// Somebody else has written to it since it was ours; it was written again.
    Drifted,
    /// It was not written: the kernel refused it, or what runs there could not bear it.
    Failed,
}

impl LimitResult {
    /// As the API has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Written => "written",
            Self::Observed => "observed",
            Self::Drifted => "drifted",
            Self::Failed => "failed",
        }
    }
}
