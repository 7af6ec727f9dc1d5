//! Events about the node and its pods. The same one again within six minutes is counted in a series
//! and not written anew. Source: client-go `tools/events/event_broadcaster.go`; the fields that a
//! server demands: kubernetes `pkg/apis/core/validation/events.go`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{interval, sleep};

use super::board::{Board, Report};
use super::client::{Failure, answered};
use super::jitter::about;
use crate::clock;
use crate::config::kubernetes::Access;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// The name of this part in capabilities.
const NAME: &str = "events";
const PERMISSION: &str = "allow it to create and patch events in events.k8s.io";
/// `reportingController`.
const CONTROLLER: &str = "isobar";
/// Events that may wait for the API server.
const ROOM: usize = 64;
/// One that has waited longer is no news any more.
const STALE: Nanos = Nanos(300 * Nanos::SECOND.0);
/// A series ends when its event has not come again for so long.
const SERIES: Nanos = Nanos(360 * Nanos::SECOND.0);
/// A series is written at most so often.
const COUNTED: Nanos = Nanos(30 * Nanos::SECOND.0);
/// How often it is looked whether a count was not written.
const FLUSHED: Duration = Duration::from_secs(10);
/// Series that are remembered.
const REMEMBERED: usize = 256;
const RETRIED: Duration = Duration::from_secs(5);
/// Characters of a pod's or the node's name in the name of an event, at most: the server allows 253, and
/// the moment has 17.
const LONGEST_NAME: usize = 236;
/// Bytes of a note, at most.
const LONGEST: usize = 1024;

/// What happened, as the cluster is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// When: by the wall clock for the API; ages go by the boot clock, which no clock setting moves.
    pub at: Moment,
    pub about: About,
    /// In one word.
    pub reason: String,
    /// With the numbers.
    pub text: String,
    pub is_warning: bool,
    /// What isobar does or did, in one word.
    pub action: String,
    pub annotations: BTreeMap<String, String>,
    /// Tells series of the same reason apart.
    pub subject: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    Node,
    Pod { namespace: String, name: String, uid: String },
}

/// The end into which the agent puts notes. It never waits.
#[derive(Debug)]
pub(super) struct Notes {
    to: mpsc::Sender<Note>,
    n_left_out: Arc<AtomicU64>,
}

impl Notes {
    pub(super) fn put(&self, note: Note) {
        if self.to.try_send(note).is_err() {
            self.n_left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The other end.
#[derive(Debug)]
pub(super) struct Inbox {
    from: mpsc::Receiver<Note>,
    n_left_out: Arc<AtomicU64>,
}

pub(super) fn queue() -> (Notes, Inbox) {
    let (to, from) = mpsc::channel(ROOM);
    let n_left_out = Arc::new(AtomicU64::new(0));
    (Notes { to, n_left_out: Arc::clone(&n_left_out) }, Inbox { from, n_left_out })
}

/// Writes events until the agent leaves, in the order in which they happened.
pub(super) async fn post(client: Client, access: &Access, mut inbox: Inbox, board: &Board) {
    let mut series = Series::default();
    let mut flushing = interval(FLUSHED);
    loop {
        tokio::select! {
            note = inbox.from.recv() => match note {
                Some(note) => series.post(&client, access, (note, &inbox), board).await,
                None => return,
            },
            _ = flushing.tick() => series.flush(&client).await,
        }
    }
}

/// What tells one series from another.
type Key = (About, String, String);

/// An event that was written, and how often it has come again.
#[derive(Debug)]
struct Written {
    name: String,
    last: Moment,
    counted: Moment,
    count: i32,
    /// The server does not know the count yet.
    is_behind: bool,
}

impl Written {
    /// Has the server know the count.
    async fn count(&mut self, client: &Client, about: &About) -> Result<(), Failure> {
        let api: Api<Event> = Api::namespaced(client.clone(), namespace(about));
        let series = EventSeries { count: self.count, last_observed_time: time(self.last.wall) };
        let patch = Patch::Merge(json!({"series": series}));
        answered(api.patch(&self.name, &PatchParams::default(), &patch)).await?;
        (self.counted, self.is_behind) = (self.last, false);
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Series {
    known: BTreeMap<Key, Written>,
    /// The oldest first.
    order: VecDeque<Key>,
    n_written: u64,
}

impl Series {
    /// Writes it until that has worked, or it is no news any more.
    async fn post(
        &mut self,
        client: &Client,
        access: &Access,
        (note, inbox): (Note, &Inbox),
        board: &Board,
    ) {
        let key = (note.about.clone(), note.reason.clone(), note.subject.clone());
        // Once, however often it is tried to write it.
        let is_again = self.count(&key, note.at);
        while clock::now().boot.since(note.at.boot) <= STALE {
            match self.write(client, access, (&key, &note, is_again), board).await {
                Ok(()) => return board.report(NAME, Report::Works(self.words(inbox))),
                // A namespace that ends takes no more; nor does a right come within minutes.
                Err(why) if why.code == Some(403) => {
                    match why.words.contains("because it is being terminated") {
                        true => tracing::info!(reason = note.reason, "{}", why.words),
                        false => board.report(NAME, why.report(PERMISSION)),
                    }
                    break;
                }
                // What the server holds to be wrong stays wrong; the next one may be right.
                Err(why) if matches!(why.code, Some(400 | 404 | 409 | 422)) => {
                    let words = format!("{} was not accepted: {}", note.reason, why.words);
                    board.report(NAME, Report::Fails(words, None));
                    break;
                }
                Err(why) => {
                    board.report(NAME, why.report(PERMISSION));
                    sleep(about(RETRIED)).await;
                }
            }
        }
        inbox.n_left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes counts that came too soon after the last write, and were followed by no other.
    async fn flush(&mut self, client: &Client) {
        let now = clock::now().boot;
        let is_due = |one: &Written| one.is_behind && now.since(one.counted.boot) >= COUNTED;
        for ((about, ..), written) in self.known.iter_mut().filter(|(_, one)| is_due(one)) {
            match written.count(client, about).await {
                Ok(()) => {}
                // The next one would fail, too.
                Err(why) if why.code.is_none_or(|code| matches!(code, 401 | 429 | 500..)) => return,
                // The server has forgotten it, or takes none of this namespace: the next one may do.
                Err(_) => written.is_behind = false,
            }
        }
    }

    /// Counts it in its series; whether there is one that goes on.
    fn count(&mut self, key: &Key, at: Moment) -> bool {
        let goes_on = |before: &&mut Written| at.boot.since(before.last.boot) < SERIES;
        let before = self.known.get_mut(key).filter(goes_on);
        if let Some(before) = before {
            before.last = at;
            before.count = before.count.saturating_add(1);
            before.is_behind = true;
            return true;
        }
        false
    }

    async fn write(
        &mut self,
        client: &Client,
        access: &Access,
        (key, note, is_again): (&Key, &Note, bool),
        board: &Board,
    ) -> Result<(), Failure> {
        if let Some(before) = self.known.get_mut(key).filter(|_| is_again) {
            if note.at.boot.since(before.counted.boot) < COUNTED {
                return Ok(());
            }
            match before.count(client, &note.about).await {
                // The server forgets events after an hour.
                Err(why) if why.code == Some(404) => {}
                written => return written,
            }
        }
        let api: Api<Event> = Api::namespaced(client.clone(), namespace(&note.about));
        let event = event(note, self.n_written, access, board.node_uid());
        let name = event.metadata.name.clone().unwrap_or_default();
        match answered(api.create(&PostParams::default(), &event)).await {
            Ok(_) => {}
            // It was written, and the answer was lost.
            Err(why) if why.code == Some(409) => {}
            Err(why) => return Err(why),
        }
        self.n_written += 1;
        let (last, counted) = (note.at, note.at);
        let written = Written { name, last, counted, count: 1, is_behind: false };
        if self.known.insert(key.clone(), written).is_none() {
            self.order.push_back(key.clone());
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        Ok(())
    }

    fn words(&self, inbox: &Inbox) -> String {
        let n = self.n_written;
        match inbox.n_left_out.load(Ordering::Relaxed) {
            0 => format!("{n} written"),
            left_out => format!("{n} written, {left_out} left out"),
        }
    }
}

/// Events about what has no namespace are kept in `default`.
fn namespace(about: &About) -> &str {
    match about {
        About::Node => "default",
        About::Pod { namespace, .. } => namespace,
    }
}

/// `n` tells events of the same moment apart.
fn event(note: &Note, n: u64, access: &Access, node_uid: Option<String>) -> Event {
    let (kind, name, uid, namespace_of) = match &note.about {
        About::Node => ("Node", &access.node, node_uid, None),
        About::Pod { namespace, name, uid } => {
            ("Pod", name, Some(uid.clone()), Some(namespace.clone()))
        }
    };
    let start = cut(name, LONGEST_NAME).trim_end_matches(['-', '.']);
    let annotations = (!note.annotations.is_empty()).then(|| note.annotations.clone());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{start}.{:x}", note.at.wall.0.wrapping_add(n))),
            namespace: Some(namespace(&note.about).into()),
            annotations,
            ..ObjectMeta::default()
        },
        event_time: Some(time(note.at.wall)),
        reporting_controller: Some(CONTROLLER.into()),
        reporting_instance: Some(cut(&access.reporter, 128).into()),
        action: Some(cut(&note.action, 128).into()),
        reason: Some(cut(&note.reason, 128).into()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".into()),
            kind: Some(kind.into()),
            name: Some(name.clone()),
            namespace: namespace_of,
            uid,
            ..ObjectReference::default()
        }),
        note: Some(cut(&note.text, LONGEST).into()),
        type_: Some(if note.is_warning { "Warning" } else { "Normal" }.into()),
        ..Event::default()
    }
}

/// The start of a text, as far as so many bytes go.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn time(Nanos(wall): Nanos) -> MicroTime {
    MicroTime(Timestamp::from_nanosecond(i128::from(wall)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kubernetes::Connection;

    #[test]
    fn event_bodies() {
        let access = Access {
            connection: Connection::InCluster,
            kubelet: None,
            node: "n1".into(),
            reporter: "isobar-x".into(),
        };
        let pod = About::Pod { namespace: "shop".into(), name: "web".into(), uid: "u1".into() };
        #[rustfmt::skip]
        let table = [
            // about, is a warning, name, namespace, regarding
            (About::Node, false, "n1.16345785d8a0001",  "default", json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "nu"})),
            (pod,         true,  "web.16345785d8a0001", "shop",    json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "shop", "uid": "u1"})),
        ];
        for (about, is_warning, name, namespace, regarding) in table {
            let note = Note {
                at: Moment { boot: Nanos(0), wall: Nanos(100_000_000_000_000_000) },
                about,
                reason: "Evicted".into(),
                text: "é".repeat(600),
                is_warning,
                action: "evict".into(),
                annotations: [("starved_resource".to_owned(), "memory".to_owned())].into(),
                subject: String::new(),
            };
            let got = serde_json::to_value(event(&note, 1, &access, Some("nu".into()))).unwrap();
            let want = json!({
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace, "annotations": {"starved_resource": "memory"}},
                "eventTime": "1973-03-03T09:46:40.000000Z",
                "reportingController": "isobar",
                "reportingInstance": "isobar-x",
                "action": "evict",
                "reason": "Evicted",
                "regarding": regarding,
                "note": "é".repeat(512),
                "type": if is_warning { "Warning" } else { "Normal" },
            });
            assert_eq!(got, want);
        }
    }
}
