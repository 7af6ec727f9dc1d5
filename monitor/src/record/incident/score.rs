//! What is told of OOM kills: how long isobar had foreseen each, and why it did not prevent it.

use serde::{Deserialize, Serialize};

use super::is_zero;
use isobar_core::model::sample::Moment;
use isobar_core::model::stall::{killed_process, n_killed};
use isobar_core::model::units::{Bytes, Nanos};

/// An OOM kill that isobar did not prevent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Score {
    pub at: Moment,
    pub victim: String,
    /// Of the killed process; `None` where the kernel counted its kills alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The `comm` of the killed process; `None` where the kernel told its pid alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// How many more processes of the victim it took by the next sample, where kills were counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u64,
    /// Whose own limit was reached, and how much that is; `None` if it was the node's memory, or that
    /// of all pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Who asked for the memory that the limit denied, if that was not the victim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The memory that the victim's pod used at the tick before the kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Bytes>,
    /// The memory that the victim's pod requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Bytes>,
    /// How long before the kill isobar saw memory run short, without a break; `None` if it did not.
    pub foreseen: Option<Nanos>,
    /// Why isobar did not prevent it.
    pub why: String,
}

impl Score {
    /// See [`n_killed`].
    pub fn processes(&self) -> u64 {
        n_killed(self.more)
    }

    /// See [`killed_process`].
    pub fn process(&self) -> String {
        killed_process(self.pid, self.comm.as_deref(), self.more)
    }
}

/// OOM kills that are counted, and not told one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct MoreKills {
    /// At a limit of the victim's own.
    pub own: u64,
    /// For want of memory of the node or of all pods, or at a limit that is not known.
    pub others: u64,
    /// Of the others, those that isobar had foreseen.
    pub foreseen: u64,
}
