//! `/api/v1/incidents` and `/api/v1/incidents/NAME`: what was kept of what went wrong.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::negotiate::made;
use super::{NO_SAMPLE_YET, Shared, refuse};
use crate::record::incident::shelf::{Shelf, ShelfError};
use crate::record::incident::{Incident, Kind, State as Progress};
use isobar_core::model::sample::Moment;
use isobar_core::view::Document;

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
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    answer(&shared, &headers, move |shelf| {
        let unknown = || ShelfError::Unknown(name.clone());
        let incident = shelf.ok_or_else(unknown)?.find(&name)?;
        Ok(Document::new("Incident", One { incident }).to_json())
    })
    .await
}

/// Reads the disk beside the event loop: a slow one must not hold other requests up.
async fn answer(
    shared: &Shared,
    headers: &HeaderMap,
    read: impl FnOnce(Option<&Shelf>) -> Result<Vec<u8>, ShelfError> + Send + 'static,
) -> Response {
    let Some(published) = shared.latest.borrow().clone() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, NO_SAMPLE_YET);
    };
    let found = spawn_blocking(move || read(published.incidents.as_deref())).await;
    match found {
        Ok(Ok(document)) => made(headers, document),
        Ok(Err(why @ ShelfError::Unknown(_))) => refuse(StatusCode::NOT_FOUND, &why.to_string()),
        Ok(Err(why)) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &why.to_string()),
        Err(why) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &why.to_string()),
    }
}
