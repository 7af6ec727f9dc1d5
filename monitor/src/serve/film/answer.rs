//! `/api/v1/recording`, what is served of which time, and `/api/v1/recording/ticks`, what came before
//! a moment.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use super::{Film, Passed, Shown, runs};
use crate::serve::Shared;
use crate::serve::negotiate::made;
use isobar_core::view::API_VERSION;

pub(in crate::serve) async fn recording(
    State(shared): State<Shared>,
    headers: HeaderMap,
) -> Response {
    let mut document = shared.film.as_deref().map_or_else(present, Film::about);
    document["apiVersion"] = API_VERSION.into();
    document["kind"] = "Recording".into();
    made(&headers, document.to_string().into_bytes())
}

/// Of an agent.
fn present() -> Value {
    json!({
        "isServed": false, "begin": null, "end": null, "at": null, "ticks": 0, "isWhole": true,
        "problem": null, "spans": [], "events": [],
    })
}

impl Film {
    fn about(&self) -> Value {
        let course = runs::lock(&self.course);
        let (spans, events) = course.told();
        json!({
            "isServed": true, "begin": self.first, "end": self.last, "at": self.opened,
            "ticks": course.n_ticks(), "isWhole": course.is_whole, "problem": course.problem,
            "spans": spans, "events": events,
        })
    }
}

pub(in crate::serve) async fn ticks(shown: Shown, headers: HeaderMap) -> Response {
    let Shown { published, trail } = shown;
    let newest = || json!([Passed::of(&published.view.snapshot)]);
    let ticks = if trail.is_empty() { newest() } else { json!(trail) };
    let document = json!({
        "apiVersion": API_VERSION, "kind": "Ticks", "tick": published.tick, "at": published.at,
        "ticks": ticks,
    });
    made(&headers, document.to_string().into_bytes())
}
