//! `/api/v1/incidents` and `/api/v1/incidents/NAME`: what was kept of what went wrong.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::negotiate::made;
use super::{NO_SAMPLE_YET, Shared, refuse};
use crate::record::incident::Incident;
use crate::record::incident::shelf::{Shelf, ShelfError};
use isobar_core::view::API_VERSION;

/// All of them, newest first, without what only one at a time is asked for.
pub(super) async fn list(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    answer(&shared, &headers, |shelf| {
        let all = shelf.map_or_else(|| Ok(Vec::new()), Shelf::list)?;
        let brief: Vec<_> = all.into_iter().rev().map(brief).collect();
        Ok(json!({ "apiVersion": API_VERSION, "kind": "IncidentList", "incidents": brief }))
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
        Ok(json!({ "apiVersion": API_VERSION, "kind": "Incident", "incident": incident }))
    })
    .await
}

fn brief(incident: Incident) -> Value {
    let Incident { name, state, kinds, who, begin, end, ticks, size, summary, .. } = incident;
    json!({
        "name": name, "state": state, "kinds": kinds, "who": who, "begin": begin, "end": end,
        "ticks": ticks, "size": size, "summary": summary,
    })
}

/// Reads the disk beside the event loop: a slow one must not hold other requests up.
async fn answer(
    shared: &Shared,
    headers: &HeaderMap,
    read: impl FnOnce(Option<&Shelf>) -> Result<Value, ShelfError> + Send + 'static,
) -> Response {
    let Some(published) = shared.latest.borrow().clone() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, NO_SAMPLE_YET);
    };
    let found = spawn_blocking(move || read(published.incidents.as_deref())).await;
    match found {
        Ok(Ok(document)) => made(headers, document.to_string().into_bytes()),
        Ok(Err(why @ ShelfError::Unknown(_))) => refuse(StatusCode::NOT_FOUND, &why.to_string()),
        Ok(Err(why)) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &why.to_string()),
        Err(why) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &why.to_string()),
    }
}
