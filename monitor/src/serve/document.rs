//! The API's JSON: a [`View`] with the snapshot's own fields at the top level.
//! Percentages print as `12.34`, times as whole nanoseconds, memory as bytes.

use axum::body::Bytes as Body;
use serde::Serialize;

use super::view::View;
use super::waiting::{Level, waiting_most};
use isobar_core::model::snapshot::Snapshot;

pub const API_VERSION: &str = "isobar/v1alpha1";

/// Cgroups in a brief view, without those that an aggression names.
const BRIEF_SCOPES: usize = 60;
const BRIEF_AGGRESSIONS: usize = 40;

/// A view as one line of JSON.
pub fn render(view: &View) -> Body {
    with_snapshot(view, &view.snapshot)
}

/// A view cut to what a page shows, so that a stream of a node with thousands of cgroups stays
/// small: the cgroups that wait most, the longest aggressions, and the cgroups that those name.
pub(super) fn render_brief(view: &View) -> Body {
    with_snapshot(view, &brief(&view.snapshot))
}

fn with_snapshot(view: &View, snapshot: &Snapshot) -> Body {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document<'a> {
        api_version: &'static str,
        kind: &'static str,
        #[serde(flatten)]
        view: &'a View,
        #[serde(flatten)]
        snapshot: &'a Snapshot,
    }
    let document = Document { api_version: API_VERSION, kind: "Snapshot", view, snapshot };
    serde_json::to_vec(&document)
        .expect("maps are keyed by numbers and closed enums, and writing to memory cannot fail")
        .into()
}

/// A view from its JSON. An error if another version of isobar wrote it, or another program.
pub fn parse(json: &[u8]) -> Result<View, serde_json::Error> {
    // Twice over the same text: serde's `flatten` cannot read maps that are keyed by numbers.
    let view: View = serde_json::from_slice(json)?;
    Ok(View { snapshot: serde_json::from_slice(json)?, ..view })
}

fn brief(whole: &Snapshot) -> Snapshot {
    let aggressions = whole.aggressions.iter().take(BRIEF_AGGRESSIONS).cloned().collect::<Vec<_>>();
    let most = waiting_most(whole, Level::All, BRIEF_SCOPES);
    let named = aggressions.iter().flat_map(|blame| [blame.victim, blame.aggressor]);
    let kept: Vec<_> = most.iter().map(|(id, _)| *id).chain(named).collect();
    let scopes = kept.into_iter().filter_map(|id| Some((id, whole.scopes.get(&id)?.clone())));
    Snapshot {
        scopes: scopes.collect(),
        aggressions,
        // Field by field, because a struct update would copy all cgroups first.
        tick: whole.tick,
        at: whole.at,
        interval: whole.interval,
        node: whole.node.clone(),
        whole: whole.whole.clone(),
        oom_kills: whole.oom_kills.clone(),
        lost: whole.lost,
        gaps: whole.gaps.clone(),
        doubts: whole.doubts,
        covers: whole.covers,
    }
}
