//! What an assessment adds beside conditions and thresholds: taints, what could not be observed,
//! and how long memory lasts.

use serde::{Deserialize, Serialize};

use crate::model::condition::{ConditionName, ScopeName};
use crate::model::settings::TaintEffect;
use crate::model::threshold::Signal;
use crate::model::units::{Bytes, Nanos, Percent};

/// A taint that the node should carry now. It has no value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// One per resource, shared by both scopes.
    pub key: String,
    /// How it keeps pods away.
    pub effect: TaintEffect,
    /// The conditions that hold.
    pub because: Vec<ConditionName>,
}

/// A signal that a threshold watches and that said nothing. Such a threshold is not met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unobserved {
    /// Which.
    pub signal: Signal,
    /// Why.
    pub why: String,
}

/// How long a scope's memory lasts, and what reclaim still makes of it. Over about ten seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Whose memory.
    pub scope: ScopeName,
    /// What could still be had; `None` for pods without a limit.
    pub left: Option<Bytes>,
    /// Net growth of what is in use, swap included, in bytes a second; 0 if it shrinks. `None`
    /// before there are readings over two seconds.
    pub growth: Option<Bytes>,
    /// Until nothing is left at that rate; `None` if it does not grow, or is not known.
    pub lasts: Option<Nanos>,
    /// Pages reclaimed of those scanned; `None` if too few were scanned to tell.
    pub efficiency: Option<Percent>,
    /// Pages read back after eviction, per second.
    pub refaults: Option<u64>,
}
