//! The API's JSON: a [`View`] with the snapshot's own fields at the top level.
//! Percentages print as `12.34`, times as whole nanoseconds, memory as bytes.

use axum::body::Bytes as Body;
use serde::{Deserialize, Serialize};

use super::verdict::Verdict;
use super::view::{OomRecord, View};
use super::waiting::{Level, waiting_most};
use isobar_core::model::capability::Capability;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Decision;
use isobar_core::model::limit::LimitState;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::policy::explain::Explanation;

/// The version of every document.
pub const API_VERSION: &str = "isobar/v1alpha1";

/// Cgroups in a brief view, before those that an aggression names.
const BRIEF_SCOPES: usize = 60;
/// Aggressions in a brief view.
const BRIEF_AGGRESSIONS: usize = 40;

/// All of a view's fields but the snapshot's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Around {
    api_version: String,
    kind: String,
    facts: NodeFacts,
    started: Moment,
    headline: String,
    verdict: Vec<Verdict>,
    recent_oom_kills: Vec<OomRecord>,
    capabilities: Vec<Capability>,
    #[serde(default)]
    limits: Vec<LimitState>,
    cost: Cost,
    decision: Decision,
    explanation: Explanation,
}

/// A view as one line of JSON.
#[must_use]
pub fn render(view: &View) -> Body {
    #[derive(Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        around: Around,
        #[serde(flatten)]
        snapshot: &'a Snapshot,
    }
    let around = Around {
        api_version: API_VERSION.into(),
        kind: "Snapshot".into(),
        facts: view.facts.clone(),
        started: view.started,
        headline: view.headline.clone(),
        verdict: view.verdict.clone(),
        recent_oom_kills: view.recent_oom_kills.clone(),
        capabilities: view.capabilities.clone(),
        limits: view.limits.clone(),
        cost: view.cost.clone(),
        decision: view.decision.clone(),
        explanation: view.explanation.clone(),
    };
    serde_json::to_vec(&Whole { around, snapshot: &view.snapshot })
        .expect("maps are keyed by numbers and closed enums, and writing to memory cannot fail")
        .into()
}

/// A view from its JSON.
///
/// # Errors
/// The text is no such document: another version of the agent, or no isobar at all.
pub fn parse(json: &[u8]) -> Result<View, serde_json::Error> {
    // Twice over the same text: serde's `flatten` cannot read maps that are keyed by numbers.
    let around: Around = serde_json::from_slice(json)?;
    let snapshot: Snapshot = serde_json::from_slice(json)?;
    Ok(View {
        facts: around.facts,
        started: around.started,
        snapshot,
        headline: around.headline,
        verdict: around.verdict,
        recent_oom_kills: around.recent_oom_kills,
        capabilities: around.capabilities,
        limits: around.limits,
        cost: around.cost,
        decision: around.decision,
        explanation: around.explanation,
    })
}

/// The view cut to what a page shows, so that a stream of a node with thousands of cgroups stays
/// small: the cgroups that wait most, the longest aggressions, and the cgroups that those name.
#[must_use]
pub fn brief(view: &View) -> View {
    let mut aggressions = view.snapshot.aggressions.clone();
    aggressions.truncate(BRIEF_AGGRESSIONS);

    let most = waiting_most(&view.snapshot, Level::All, BRIEF_SCOPES);
    let named = aggressions.iter().flat_map(|blame| [blame.victim, blame.aggressor]);
    let kept: Vec<_> = most.iter().map(|(id, _)| *id).chain(named).collect();
    let scopes =
        kept.into_iter().filter_map(|id| Some((id, view.snapshot.scopes.get(&id)?.clone())));

    let snapshot = Snapshot {
        scopes: scopes.collect(),
        aggressions,
        // Field by field, because a struct update would copy the whole tree first.
        tick: view.snapshot.tick,
        at: view.snapshot.at,
        interval: view.snapshot.interval,
        node: view.snapshot.node.clone(),
        whole: view.snapshot.whole.clone(),
        oom_kills: view.snapshot.oom_kills.clone(),
        lost: view.snapshot.lost,
        gaps: view.snapshot.gaps.clone(),
        doubts: view.snapshot.doubts,
        covers: view.snapshot.covers,
    };
    View {
        facts: view.facts.clone(),
        started: view.started,
        snapshot,
        headline: view.headline.clone(),
        verdict: view.verdict.clone(),
        recent_oom_kills: view.recent_oom_kills.clone(),
        capabilities: view.capabilities.clone(),
        limits: view.limits.clone(),
        cost: view.cost.clone(),
        decision: view.decision.clone(),
        explanation: view.explanation.clone(),
    }
}
