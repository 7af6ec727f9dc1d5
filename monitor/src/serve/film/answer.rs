//! `/api/v1/recording`, what is served of which time, and `/api/v1/recording/ticks`, what came before
//! a moment.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use super::projector::Around;
use super::runs::LeftOut;
use super::{Film, FilmError, Opened, Passed, Shown, Source, runs};
use crate::serve::Shared;
use crate::serve::negotiate::made;
use crate::serve::publish::Published;
use isobar_core::model::sample::Moment;
use isobar_core::view::API_VERSION;

pub(in crate::serve) async fn recording(
    State(shared): State<Shared>,
    headers: HeaderMap,
) -> Response {
    let mut document = shared.film.about().await;
    document["apiVersion"] = API_VERSION.into();
    document["kind"] = "Recording".into();
    made(&headers, document.to_string().into_bytes())
}

impl Film {
    async fn about(&self) -> Value {
        let of = self.footage();
        match &self.source {
            Source::Opened(opened) => opened.about(),
            Source::Agent(_) => match of {
                Ok(of) => match (self.begin(&of).await, &of.around) {
                    (Ok(Some(begin)), Around::Agent(newest)) => going_on(begin, newest),
                    (Err(why), _) => nothing(&why),
                    _ => nothing(&FilmError::Empty),
                },
                Err(why) => nothing(&why),
            },
        }
    }
}

/// Of an agent that cannot show the past.
fn nothing(why: &FilmError) -> Value {
    json!({
        "isServed": false, "isLive": true, "begin": null, "end": null, "at": null, "ticks": 0,
        "isWhole": true, "leftOut": LeftOut::default(), "problem": why.to_string(), "spans": [],
        "events": [],
    })
}

/// Of an agent and what it has recorded so far; what held and happened is from its history.
fn going_on(begin: Moment, newest: &Published) -> Value {
    let (spans, events) = newest.history.told();
    json!({
        "isServed": true, "isLive": true, "begin": begin, "end": newest.at, "at": null, "ticks": 0,
        "isWhole": true, "leftOut": LeftOut::default(), "problem": null, "spans": spans,
        "events": events,
    })
}

impl Opened {
    fn about(&self) -> Value {
        let course = runs::lock(&self.course);
        let (spans, events) = course.told();
        json!({
            "isServed": true, "isLive": false, "begin": self.first, "end": self.last,
            "at": self.at, "ticks": course.n_ticks, "isWhole": course.is_whole,
            "leftOut": course.left_out, "problem": course.problem, "spans": spans,
            "events": events,
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
