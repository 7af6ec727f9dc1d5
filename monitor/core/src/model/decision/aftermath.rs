//! What follows upon an action: how it went, what it has come to, and what the kubelet does with
//! containers that are ended on the node, of which it is not told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::units::{Bytes, Nanos};
use crate::model::workload::RestartPolicy;

/// What came of an action; part of the next sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub action: u64,
    /// How it went.
    pub result: OutcomeResult,
    /// In words, what was seen.
    pub detail: String,
    /// How long it took.
    pub took: Nanos,
    /// Memory that came back, where it was measured.
    pub freed: Option<Bytes>,
    /// Processes that were seen to end; `None` where they were not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// The actuator did not begin it: it had no room for it, or came to it after its deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_begun: bool,
}

/// How an action went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OutcomeResult {
    Done,
    /// Not done because it may not be: a disruption budget forbids it, or it is no longer enforced.
    Refused,
    /// It could not be done.
    Failed,
}

named!(OutcomeResult {
    Done => "done",
    Refused => "refused",
    Failed => "failed",
});

/// What an action had come to, some time after it was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    pub action: u64,
    /// After how long: 1, 5 and 30 seconds, or the first tick after that.
    pub after: Nanos,
    /// What the target held less than when it was decided; `None` if unknown, as of one that is gone and had
    /// more than an eighth in shared memory: files on a tmpfs may outlive it.
    pub freed: Option<Bytes>,
    /// Processes of the target that are left.
    pub left: Option<u64>,
    /// Of a squeeze for a CPU or a disk: how much less others wait because of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harm: Option<Eased>,
    /// What the threshold that it was for measures now; `None` if it is no longer met.
    pub measured: Option<u64>,
}

/// For how long others wait in each second because of the target of a squeeze, over the last two seconds:
/// for a CPU, those alone that a weight of the target helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Eased {
    /// When it was decided.
    pub before: Nanos,
    pub now: Nanos,
}

/// What the kubelet does next with containers that were ended: the pod stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    /// The pod's; of several pods the one that starts most containers again.
    pub policy: RestartPolicy,
    /// How often it has started the same container again since isobar first ended it; of several
    /// containers the most.
    pub n_since: u32,
    /// How long it waits before it does so next, with its usual settings.
    pub wait: Nanos,
    /// It has sidecars, which the kubelet starts again whatever the pod's policy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_sidecars: bool,
    /// The pod was told to end already, so none of its containers is started again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ending: bool,
    /// What becomes of each container, by its name, where one has a restartPolicy or rules of its own;
    /// otherwise empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, RestartFate>,
}

/// What the kubelet does with one container that was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum RestartFate {
    /// It is not started again.
    Stays,
    /// Its exit code decides, which is not known before it has ended.
    ByExitCode,
    /// It is started again.
    Again,
}
