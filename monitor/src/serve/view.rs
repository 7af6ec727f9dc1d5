//! What there is to show: one view for each tick, handed over by a watch.
//! In: a snapshot and what goes with it, from the agent. Out: an immutable [`View`].

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

/// How many OOM kills are remembered.
pub const OOM_KILLS_KEPT: usize = 64;

/// Said where a view was asked for before there is one.
pub(super) const NO_SAMPLE_YET: &str = "no sample yet; the first takes about two seconds";

/// Everything that is known at one tick.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The node.
    pub facts: NodeFacts,
    /// When the agent started.
    pub started: Moment,
    /// What happened in the last interval.
    pub snapshot: Snapshot,
    /// What was made of it.
    pub decision: Decision,
    /// The decision in sentences.
    pub explanation: Explanation,
    /// Who waits, why, and because of whom, in a sentence.
    pub headline: String,
    /// What the snapshot says, in words: CPU, memory, IO.
    pub verdict: Vec<Verdict>,
    /// The last [`OOM_KILLS_KEPT`] kills, newest first.
    pub recent_oom_kills: Vec<OomRecord>,
    /// What the agent can see and what it cannot.
    pub capabilities: Vec<Capability>,
    /// How the limits stand that the agent writes, or would.
    pub limits: Vec<LimitState>,
    /// What the agent costs.
    pub cost: Cost,
}

/// An OOM kill with names, which outlive the cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OomRecord {
    /// When, since 1970.
    pub wall: Nanos,
    /// Whose process died; `None` if its cgroup went before it was ever seen.
    pub victim_path: Option<CgroupPath>,
    /// Whose limit was reached.
    pub limit_path: Option<CgroupPath>,
    /// Whose allocation asked for the memory.
    pub trigger_path: Option<CgroupPath>,
    /// As the kernel side reported it.
    pub kill: OomKill,
}
