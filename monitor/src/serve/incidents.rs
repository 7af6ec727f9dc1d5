//! `/api/v1/incidents`, `/api/v1/incidents/NAME` and its `/file`: what was kept of what went wrong.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio_stream::{Stream, StreamExt as _};

use super::document::PIECE;
use super::listen::Client;
use super::negotiate::made;
use super::turns::Turns;
use super::{NO_SAMPLE_YET, Shared, refuse};
use crate::clock::pace::Pace;
use crate::record::incident::shelf::{Shelf, ShelfError};
use crate::record::incident::{Incident, Kind, State as Progress};
use isobar_core::model::sample::Moment;
use isobar_core::view::Document;

/// Reads of the disk, on a thread beside the event loop: a slow disk must not hold other requests up.
/// Clients have turns; before its turn nothing is done or held for a request, and one whose client has
/// gone is forgotten.
#[derive(Clone, Default)]
pub(super) struct Disk(Turns);

thread_local! {
    static PACE: RefCell<Pace> = Pace::behind_the_tick().into();
}

impl Disk {
    /// One reads, and rests before the next turn.
    pub(super) const THREADS: usize = 1;

    async fn read<T: Send + 'static>(
        &self,
        client: &Client,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let turn = self.0.take(client, None).await;
        let turn = turn.ok_or_else(|| io::Error::from(ErrorKind::TimedOut))?;
        let (reply, answer) = oneshot::channel();
        // A client that leaves ends no read: its turn lasts as long as the read does.
        spawn_blocking(move || {
            PACE.with_borrow_mut(Pace::begin);
            let _ = reply.send(read());
            PACE.with_borrow_mut(Pace::between);
            drop(turn);
        });
        answer.await.map_err(io::Error::other)
    }
}

/// What was kept of what went wrong.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct IncidentList {
    /// Newest first.
    incidents: Vec<Brief>,
}

/// An incident without what only one at a time is asked for.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "BriefIncident"))]
struct Brief {
    name: String,
    state: Progress,
    /// Without repetition, gravest first.
    kinds: Vec<Kind>,
    /// Of the first trigger.
    who: String,
    /// When the first trigger was seen.
    begin: Moment,
    /// When it was calm again, or the span was full; `None` while it is open.
    end: Option<Moment>,
    ticks: u64,
    /// Bytes of its recording.
    size: u64,
    /// One paragraph.
    summary: String,
}

impl From<Incident> for Brief {
    fn from(incident: Incident) -> Self {
        let Incident { name, state, kinds, who, begin, end, ticks, size, summary, .. } = incident;
        Self { name, state, kinds, who, begin, end, ticks, size, summary }
    }
}

/// One incident.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct One {
    incident: Incident,
}

/// The name of an incident in the path of a request.
pub(super) struct Name(String);

impl FromRequestParts<Shared> for Name {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        let name = Path::from_request_parts(parts, shared).await.map(|Path(name)| Self(name));
        // Only of a text that is not UTF-8; axum would answer in plain text.
        name.map_err(|why| refuse(why.status(), "the name of an incident must be UTF-8"))
    }
}

pub(super) async fn list(
    State(shared): State<Shared>,
    client: Client,
    headers: HeaderMap,
) -> Response {
    answer(&shared, &client, &headers, |shelf| {
        let all = shelf.map_or_else(|| Ok(Vec::new()), Shelf::list)?;
        let incidents = all.into_iter().rev().map(Brief::from).collect();
        Ok(Document::new("IncidentList", IncidentList { incidents }).to_json())
    })
    .await
}

pub(super) async fn one(
    State(shared): State<Shared>,
    client: Client,
    Name(name): Name,
    headers: HeaderMap,
) -> Response {
    answer(&shared, &client, &headers, move |shelf| {
        let unknown = || ShelfError::Unknown(name.clone());
        let incident = shelf.ok_or_else(unknown)?.find(&name)?;
        Ok(Document::new("Incident", One { incident }).to_json())
    })
    .await
}

/// The ticks of one, as `isobar replay` reads them.
pub(super) async fn file(
    State(shared): State<Shared>,
    client: Client,
    Name(name): Name,
) -> Response {
    let found = from_shelf(&shared, &client, move |shelf| {
        let unknown = || ShelfError::Unknown(name.clone());
        let shelf = shelf.ok_or_else(unknown)?;
        if shelf.find(&name)?.state == Progress::Open {
            return Ok(Err(format!("{name} is not over: its file is made once it is")));
        }
        let path = || format!("{name}.isobar").into();
        let opened = shelf.open(&name).and_then(|file| match file.metadata() {
            Ok(metadata) => Ok((name.clone(), file, metadata.len())),
            Err(source) => Err(ShelfError::Io { path: path(), source }),
        });
        match opened {
            Err(ShelfError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                Ok(Err(format!("the ticks of {name} could not be kept")))
            }
            opened => opened.map(Ok),
        }
    });
    match found.await {
        Ok(Ok((name, file, length))) => {
            let save_as = format!("attachment; filename=\"{name}.isobar\"");
            let headers = [
                (header::CONTENT_TYPE, "application/zstd".to_owned()),
                (header::CONTENT_LENGTH, length.to_string()),
                (header::CONTENT_DISPOSITION, save_as),
            ];
            (headers, Body::from_stream(pieces(shared.disk, client, file, length))).into_response()
        }
        Ok(Err(why)) => refuse(StatusCode::NOT_FOUND, &why),
        Err(refused) => refused,
    }
}

/// A file of which one piece at a time is in memory.
fn pieces(
    disk: Disk,
    client: Client,
    file: File,
    length: u64,
) -> impl Stream<Item = io::Result<Bytes>> {
    let file = Arc::new(file);
    tokio_stream::iter((0..length).step_by(PIECE)).then(move |at| {
        let (disk, client, file) = (disk.clone(), client.clone(), Arc::clone(&file));
        async move {
            let piece = disk.read(&client, move || {
                let mut piece = vec![0; PIECE.min(usize::try_from(length - at).unwrap_or(PIECE))];
                file.read_exact_at(&mut piece, at)?;
                Ok(Bytes::from(piece))
            });
            piece.await?
        }
    })
}

async fn answer(
    shared: &Shared,
    client: &Client,
    headers: &HeaderMap,
    read: impl FnOnce(Option<&Shelf>) -> Result<Vec<u8>, ShelfError> + Send + 'static,
) -> Response {
    match from_shelf(shared, client, read).await {
        Ok(document) => made(headers, document),
        Err(refused) => refused,
    }
}

async fn from_shelf<T: Send + 'static>(
    shared: &Shared,
    client: &Client,
    read: impl FnOnce(Option<&Shelf>) -> Result<T, ShelfError> + Send + 'static,
) -> Result<T, Response> {
    let shelf =
        shared.latest.borrow().as_ref().map(|published| published.lasting.incidents.clone());
    let Some(shelf) = shelf else {
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, NO_SAMPLE_YET));
    };
    let (status, why) = match shared.disk.read(client, move || read(shelf.as_deref())).await {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(why @ ShelfError::Unknown(_))) => (StatusCode::NOT_FOUND, why.to_string()),
        Ok(Err(why)) => (StatusCode::INTERNAL_SERVER_ERROR, why.to_string()),
        Err(why) if why.kind() == ErrorKind::TimedOut => {
            let why = "other incidents are being read; try again in a second";
            (StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
        }
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, why.to_string()),
    };
    Err(refuse(status, &why))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::yield_now;

    use super::*;
    use crate::serve::peer::Link;

    #[tokio::test]
    async fn read_does_nothing_for_clients_that_have_gone() {
        let (disk, n) = (Disk::default(), Arc::new(AtomicUsize::new(0)));
        let client = Client::unconnected(Link::Unix { uid: 1 });
        let ask = |_| {
            let ((go, slow), disk, n) = (oneshot::channel::<()>(), disk.clone(), Arc::clone(&n));
            let client = client.clone();
            let read = move || {
                n.fetch_add(1, Ordering::Relaxed);
                slow.blocking_recv()
            };
            (go, tokio::spawn(async move { disk.read(&client, read).await }))
        };
        let asked: Vec<_> = (0..20).map(ask).collect();
        while n.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
        asked.iter().for_each(|(_, client)| client.abort());
        drop(asked);
        assert_eq!(disk.read(&client, || 7).await.unwrap(), 7, "the next one");
        assert_eq!(n.load(Ordering::Relaxed), 1);
    }
}
