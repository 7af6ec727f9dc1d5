//! The API's JSON: a [`View`] with the snapshot's own fields at the top level.
//! Percentages print as `12.34`, times as whole nanoseconds, memory as bytes.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use axum::body::Bytes as Body;
use tokio_stream::{Stream, StreamExt as _};

use crate::lock::lock;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::view::View;
use isobar_core::view::waiting::{Level, waiting_most};

/// Cgroups in a brief view, without those that an aggression names.
const BRIEF_SCOPES: usize = 60;
pub(super) const BRIEF_AGGRESSIONS: usize = 40;

/// What rendered views may take in memory while they are sent, beside the last two.
const ROOM: usize = 16 << 20;
/// What is copied of a document, or read of a file, for one write.
pub(super) const PIECE: usize = 64 << 10;

/// Rendered views of the latest ticks. A client that reads slowly holds none of them: it is cut off
/// once there is no room for the one that it was sent.
#[derive(Debug, Clone)]
pub(super) struct Documents<K>(Arc<Mutex<Kept<K>>>);

/// By the tick of a document and what it is of; the oldest first.
type Kept<K> = VecDeque<((u64, K), Arc<Body>)>;

impl<K> Default for Documents<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Copy + PartialEq> Documents<K> {
    /// A document; rendered if it is not there.
    pub(super) fn of(&self, tick: u64, of: K, render: impl FnOnce() -> Body) -> Arc<Body> {
        let key = (tick, of);
        let find =
            |kept: &Kept<K>| kept.iter().find(|(of, _)| *of == key).map(|(_, one)| one.clone());
        if let Some(document) = find(&lock(&self.0)) {
            return document;
        }
        let document = Arc::new(render());
        let mut kept = lock(&self.0);
        // Who is sent one watches it weakly.
        kept.retain(|((of, _), one)| *of == tick || Arc::weak_count(one) > 0);
        kept.push_back((key, document.clone()));
        while kept.len() > 2 && kept.iter().map(|(_, one)| one.len()).sum::<usize>() > ROOM {
            kept.pop_front();
        }
        document
    }
}

/// A document in pieces; an error once it is not kept any more.
pub(super) fn pieces(document: &Arc<Body>) -> impl Stream<Item = io::Result<Body>> + use<> {
    let (whole, length) = (Arc::downgrade(document), document.len());
    tokio_stream::iter((0..length).step_by(PIECE)).map(move |at| {
        let whole = Weak::upgrade(&whole).ok_or(io::ErrorKind::TimedOut)?;
        Ok(Body::copy_from_slice(&whole[at..length.min(at + PIECE)]))
    })
}

/// A view cut to what a page shows, so that a stream of a node with thousands of cgroups stays
/// small: the cgroups that wait most, the aggressions that cost most, the cgroups that those name,
/// those that hold most memory or do most IO, and those whose processes are named.
pub(super) fn render_brief(view: &View) -> Body {
    view.to_json(&brief(view)).into()
}

/// The same without the files of cgroups, which change all the time: a page that shows them asks for the cgroups.
pub(super) fn render_briefest(view: &View) -> Body {
    let mut snapshot = brief(view);
    snapshot.scopes.values_mut().for_each(|scope| scope.files = None);
    view.to_json(&snapshot).into()
}

fn brief(view: &View) -> Snapshot {
    let whole = &view.snapshot;
    let aggressions = whole.aggressions.iter().take(BRIEF_AGGRESSIONS).cloned().collect::<Vec<_>>();
    let most = waiting_most(whole, Level::All, BRIEF_SCOPES);
    let named = aggressions.iter().flat_map(|blame| [blame.victim, blame.aggressor]);
    let moving = view.usage.io.iter().flatten().map(|one| one.cgroup);
    let holding = view.usage.memory.iter().map(|one| one.cgroup);
    let running = whole.runners.iter().filter_map(|runner| runner.cgroup);
    let kept = most.iter().map(|(id, _)| *id).chain(named).chain(moving).chain(holding);
    let kept: Vec<_> = kept.chain(running).collect();
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
        runners: whole.runners.clone(),
        oom_kills: whole.oom_kills.clone(),
        lost: whole.lost,
        gaps: whole.gaps.clone(),
        pods: None,
        doubts: whole.doubts,
        covers: whole.covers,
    }
}
