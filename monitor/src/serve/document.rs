//! The API's JSON: a [`View`] with the snapshot's own fields at the top level.
//! Percentages print as `12.34`, times as whole nanoseconds, memory as bytes.

use axum::body::Bytes as Body;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::view::View;
use isobar_core::view::waiting::{Level, waiting_most};

/// Cgroups in a brief view, without those that an aggression names.
const BRIEF_SCOPES: usize = 60;
const BRIEF_AGGRESSIONS: usize = 40;

/// A view as one line of JSON.
pub fn render(view: &View) -> Body {
    view.to_json(&view.snapshot).into()
}

/// A view cut to what a page shows, so that a stream of a node with thousands of cgroups stays
/// small: the cgroups that wait most, the longest aggressions, and the cgroups that those name.
pub(super) fn render_brief(view: &View) -> Body {
    view.to_json(&brief(&view.snapshot)).into()
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
