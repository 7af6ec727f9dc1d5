//! Watches: the changes after a version, as lines of JSON, for as long as the client listens.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};
use tokio::time::{interval_at, sleep};
use tokio_stream::wrappers::ReceiverStream;

use crate::answer::Answer;
use crate::call::Call;
use crate::cluster::{Cluster, Signal};
use crate::fault::Effect;
use crate::kind::Kind;
use crate::list::{Selection, check_options, resource_version};
use crate::status::Failure;
use crate::store::Change;

/// The real server takes a random time between this and twice this.
const LONGEST: Duration = Duration::from_secs(1800);
/// How often a watch that allows bookmarks gets one, as of the real server.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Events that wait for a slow client.
const QUEUE: usize = 64;

pub(crate) fn open(
    cluster: &Arc<Cluster>,
    call: &Call,
    kind: &'static Kind,
    effect: Option<Effect>,
) -> Result<Answer, Failure> {
    let selection = Selection::read(call, kind)?;
    check_options(call)?;
    let asked = resource_version(call)?.unwrap_or(0);
    let wants_initial = match call.option("sendInitialEvents") {
        Some(_) => call.asks("sendInitialEvents"),
        None => asked == 0,
    };
    let store = cluster.read();
    let mut initial = Vec::new();
    if wants_initial {
        let all = store.all(kind.plural).filter(|(key, object)| selection.has(key, object));
        initial.extend(all.map(|(_, object)| event("ADDED", kind.shown(object))));
    }
    let has_none = call.option("sendInitialEvents").is_some() && !wants_initial && asked == 0;
    let seen = if wants_initial || has_none { store.version() } else { asked };
    drop(store);
    let timeout = call.option("timeoutSeconds").and_then(|text| text.parse().ok());
    let (lines, receiver) = mpsc::channel(QUEUE);
    let watch = Watch {
        cluster: cluster.clone(),
        // A signal that is sent once the client has its answer must not be missed.
        signals: cluster.signals(),
        kind,
        selection,
        seen,
        bookmarks: call.asks("allowWatchBookmarks"),
        ends_initial: call.asks("sendInitialEvents"),
        timeout: timeout.filter(|n| *n > 0).map_or(LONGEST, Duration::from_secs),
        effect,
        lines,
    };
    tokio::spawn(async move {
        // An error means that the client has gone.
        let _ = watch.run(initial).await;
    });
    Ok(Answer::Lines(ReceiverStream::new(receiver)))
}

struct Watch {
    cluster: Arc<Cluster>,
    signals: broadcast::Receiver<Signal>,
    kind: &'static Kind,
    selection: Selection,
    /// The client knows all changes up to this version.
    seen: u64,
    bookmarks: bool,
    /// Whether a bookmark tells that the initial events are over.
    ends_initial: bool,
    timeout: Duration,
    effect: Option<Effect>,
    lines: mpsc::Sender<io::Result<Bytes>>,
}

/// The client has gone, or the watch is over.
struct Over;

/// What a watch does next.
enum Next {
    Change,
    Bookmark,
    End,
}

impl Watch {
    async fn run(mut self, initial: Vec<Value>) -> Result<(), Over> {
        match self.effect {
            Some(Effect::Hang) => {
                self.lines.closed().await;
                return Err(Over);
            }
            Some(Effect::Expire) => return self.expire(self.seen).await,
            _ => {}
        }
        // Before the first look at the store, or a change between the two is missed.
        let mut changes = self.cluster.changes();
        let timeout = sleep(self.timeout);
        tokio::pin!(timeout);
        let begin = tokio::time::Instant::now() + BOOKMARK_EVERY;
        let mut bookmark = interval_at(begin, BOOKMARK_EVERY);
        for event in initial {
            self.send(event).await?;
        }
        if self.ends_initial && self.bookmarks {
            self.send(self.bookmark(json!({"k8s.io/initial-events-end": "true"}))).await?;
        }
        loop {
            changes.mark_unchanged();
            self.catch_up().await?;
            let next = tokio::select! {
                changed = changes.changed() => changed.map(|()| Next::Change).map_err(|_| Over)?,
                _ = bookmark.tick() => Next::Bookmark,
                signal = self.signals.recv() => match signal {
                    Ok(Signal::Expire) => return self.expire(self.seen).await,
                    _ => Next::Change,
                },
                () = &mut timeout => Next::End,
                () = self.lines.closed() => return Err(Over),
            };
            match next {
                Next::Change => {}
                Next::Bookmark => {
                    self.catch_up().await?;
                    self.send_bookmark().await?;
                }
                Next::End => {
                    self.catch_up().await?;
                    return self.send_bookmark().await;
                }
            }
        }
    }

    /// Sends what has happened since `seen`.
    async fn catch_up(&mut self) -> Result<(), Over> {
        let (events, version) = {
            let store = self.cluster.read();
            let changes = store.since(self.seen);
            let events = changes.map(|all| all.filter_map(|c| self.event(c)).collect::<Vec<_>>());
            (events, store.version())
        };
        let Ok(events) = events else {
            self.expire(self.seen).await?;
            return Err(Over);
        };
        for event in events {
            self.send(event).await?;
        }
        // A watch from a version to come waits for it.
        self.seen = self.seen.max(version);
        Ok(())
    }

    /// What a change is to this selection. An object that leaves it, or is gone, is shown as it
    /// was, with the version of the change.
    fn event(&self, change: &Change) -> Option<Value> {
        let meant = |object: &Arc<Value>| self.selection.has(&change.key, object);
        let before = change.before.as_ref().filter(|object| meant(object));
        let after = change.after.as_ref().filter(|object| meant(object));
        match (before, after) {
            (None, None) => None,
            (None, Some(after)) => Some(event("ADDED", self.kind.shown(after))),
            (Some(_), Some(after)) => Some(event("MODIFIED", self.kind.shown(after))),
            (Some(before), None) => {
                let mut last = self.kind.shown(before);
                last["metadata"]["resourceVersion"] = change.version.to_string().into();
                Some(event("DELETED", last))
            }
        }
    }

    async fn send_bookmark(&self) -> Result<(), Over> {
        match self.bookmarks {
            true => self.send(self.bookmark(Value::Null)).await,
            false => Ok(()),
        }
    }

    fn bookmark(&self, annotations: Value) -> Value {
        let version = self.seen.to_string();
        let mut metadata = json!({"resourceVersion": version, "creationTimestamp": null});
        if !annotations.is_null() {
            metadata["annotations"] = annotations;
        }
        let object = json!({
            "kind": self.kind.name,
            "apiVersion": self.kind.api_version(),
            "metadata": metadata,
        });
        event("BOOKMARK", object)
    }

    async fn expire(&self, from: u64) -> Result<(), Over> {
        let version = self.cluster.read().version();
        let message = format!("too old resource version: {from} ({version})");
        self.send(event("ERROR", Failure::expired(message).object())).await
    }

    async fn send(&self, event: Value) -> Result<(), Over> {
        let line = format!("{event}\n");
        if self.effect == Some(Effect::HalfLine) {
            let half = Bytes::copy_from_slice(&line.as_bytes()[..line.len() / 2]);
            self.lines.send(Ok(half)).await.map_err(|_| Over)?;
            // The half must be on its way before the error cuts the connection.
            sleep(Duration::from_millis(50)).await;
            let cut = io::Error::other("cut in the middle of a line");
            self.lines.send(Err(cut)).await.map_err(|_| Over)?;
            return Err(Over);
        }
        self.lines.send(Ok(line.into())).await.map_err(|_| Over)
    }
}

fn event(what: &str, object: Value) -> Value {
    json!({"type": what, "object": object})
}
