//! `/api/v1/incidents`, `/api/v1/incidents/NAME` and its `/file`: what was kept of what went wrong.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_stream::{Stream, StreamExt as _};

use super::document::PIECE;
use super::negotiate::made;
use super::{NO_SAMPLE_YET, Shared, refuse};
use crate::record::incident::shelf::{Shelf, ShelfError};
use crate::record::incident::{Incident, Kind, State as Progress};
use isobar_core::model::sample::Moment;
use isobar_core::view::Document;

/// How long a request waits for those that read the disk before it.
const WITHIN: Duration = Duration::from_secs(20);

/// Reads of the disk, beside the event loop: a slow disk must not hold other requests up. At most
/// [`Disk::READS`] at a time; of others nothing is done and nothing is held before their turn, and
/// those whose client has gone are forgotten.
#[derive(Clone)]
pub(super) struct Disk(Arc<Semaphore>);

impl Default for Disk {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(Self::READS)))
    }
}

impl Disk {
    /// Also the threads that wait for the disk.
    pub(super) const READS: usize = 2;

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let turn = timeout(WITHIN, Arc::clone(&self.0).acquire_owned()).await;
        let turn = turn.map_err(|_| io::Error::from(ErrorKind::TimedOut))?;
        let turn = turn.map_err(io::Error::other)?;
        // A client that leaves ends no read: its turn lasts as long as the read does.
        let read = spawn_blocking(move || {
            let _turn = turn;
            read()
        });
        read.await.map_err(io::Error::other)
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

pub(super) async fn list(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    answer(&shared, &headers, |shelf| {
        let all = shelf.map_or_else(|| Ok(Vec::new()), Shelf::list)?;
        let incidents = all.into_iter().rev().map(Brief::from).collect();
        Ok(Document::new("IncidentList", IncidentList { incidents }).to_json())
    })
    .await
}

pub(super) async fn one(
    State(shared): State<Shared>,
    Name(name): Name,
    headers: HeaderMap,
) -> Response {
    answer(&shared, &headers, move |shelf| {
        let unknown = || ShelfError::Unknown(name.clone());
        let incident = shelf.ok_or_else(unknown)?.find(&name)?;
        Ok(Document::new("Incident", One { incident }).to_json())
    })
    .await
}

/// The ticks of one, as `isobar replay` reads them.
pub(super) async fn file(State(shared): State<Shared>, Name(name): Name) -> Response {
    let found = from_shelf(&shared, move |shelf| {
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
            (headers, Body::from_stream(pieces(shared.disk, file, length))).into_response()
        }
        Ok(Err(why)) => refuse(StatusCode::NOT_FOUND, &why),
        Err(refused) => refused,
    }
}

/// A file of which one piece at a time is in memory.
fn pieces(disk: Disk, file: File, length: u64) -> impl Stream<Item = io::Result<Bytes>> {
    let file = Arc::new(file);
    tokio_stream::iter((0..length).step_by(PIECE)).then(move |at| {
        let (disk, file) = (disk.clone(), Arc::clone(&file));
        async move {
            let piece = disk.read(move || {
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
    headers: &HeaderMap,
    read: impl FnOnce(Option<&Shelf>) -> Result<Vec<u8>, ShelfError> + Send + 'static,
) -> Response {
    match from_shelf(shared, read).await {
        Ok(document) => made(headers, document),
        Err(refused) => refused,
    }
}

async fn from_shelf<T: Send + 'static>(
    shared: &Shared,
    read: impl FnOnce(Option<&Shelf>) -> Result<T, ShelfError> + Send + 'static,
) -> Result<T, Response> {
    let shelf = shared.latest.borrow().as_ref().map(|published| published.incidents.clone());
    let Some(shelf) = shelf else {
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, NO_SAMPLE_YET));
    };
    let (status, why) = match shared.disk.read(move || read(shelf.as_deref())).await {
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

    use tokio::sync::oneshot;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn read_does_nothing_for_clients_that_have_gone() {
        let (disk, n) = (Disk::default(), Arc::new(AtomicUsize::new(0)));
        let ask = |_| {
            let ((go, slow), disk, n) = (oneshot::channel::<()>(), disk.clone(), Arc::clone(&n));
            let read = move || {
                n.fetch_add(1, Ordering::Relaxed);
                slow.blocking_recv()
            };
            (go, tokio::spawn(async move { disk.read(read).await }))
        };
        let asked: Vec<_> = (0..50).map(ask).collect();
        for _ in 0..1_000 {
            if n.load(Ordering::Relaxed) >= Disk::READS {
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        asked.iter().for_each(|(_, client)| client.abort());
        drop(asked);
        assert_eq!(disk.read(|| 7).await.unwrap(), 7, "the next client");
        assert_eq!(n.load(Ordering::Relaxed), Disk::READS);
    }
}
