//! What the server shows: one immutable [`View`] for each tick, passed through a watch channel.

use serde::{Deserialize, Serialize};

use super::verdict::Verdict;
use isobar_core::model::capability::Capability;
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Decision;
use isobar_core::model::limit::LimitState;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::stall::OomKill;
use isobar_core::model::units::Nanos;
use isobar_core::policy::explain::Explanation;

/// How many OOM kills are kept.
pub const OOM_KILLS_KEPT: usize = 64;

pub(super) const NO_SAMPLE_YET: &str = "no sample yet; the first takes about two seconds";

/// Everything that is known at one tick. In the API's JSON the fields of the snapshot stand beside
/// these: see [`document`](super::document).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub facts: NodeFacts,
    /// When the agent started.
    pub started: Moment,
    /// One sentence: who waits, why, and because of whom.
    pub headline: String,
    pub verdict: Vec<Verdict>,
    /// The last [`OOM_KILLS_KEPT`] kills, newest first.
    pub recent_oom_kills: Vec<OomRecord>,
    pub capabilities: Vec<Capability>,
    /// The limits that the agent writes, or would write.
    #[serde(default)]
    pub limits: Vec<LimitState>,
    pub cost: Cost,
    pub decision: Decision,
    pub explanation: Explanation,
    #[serde(skip)]
    pub snapshot: Snapshot,
}

/// An OOM kill with paths, which outlive the cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OomRecord {
    /// When, since 1970.
    pub wall: Nanos,
    /// `None` if the victim's cgroup was removed before it was ever sampled.
    pub victim_path: Option<CgroupPath>,
    /// The cgroup whose limit was reached.
    pub limit_path: Option<CgroupPath>,
    /// The cgroup whose allocation triggered the kill.
    pub trigger_path: Option<CgroupPath>,
    pub kill: OomKill,
}
