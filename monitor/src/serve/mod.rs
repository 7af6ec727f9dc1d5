//! The server: the page, the API, the metrics, the health endpoints. Read-only.
//! In: the latest [`View`](isobar_core::view::View), from a watch channel. Out: HTTP.
//! The server never waits for the sampler, nor the sampler for a client: a slow client gets the
//! newest view with its next request.

pub mod address;
mod bodies;
mod delta;
mod document;
pub mod film;
mod guard;
mod health;
mod history;
mod incidents;
pub mod listen;
pub mod metrics;
mod negotiate;
#[cfg(test)]
mod openapi;
mod page;
mod parts;
mod peer;
pub mod publish;
mod stream;
mod summary;
mod totals;
mod turns;

use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use serde::Serialize;

use crate::clock;
use film::moment::no_moment;
use film::{Film, Shown};
use isobar_core::model::sample::Moment;
use isobar_core::view::Document;
use negotiate::{accepts_gzip, held, kept, tag_of, tagged};
use parts::Part;
use publish::Latest;

pub(crate) const NO_SAMPLE_YET: &str = "no sample yet; the first takes about two seconds";

/// The state of every handler.
#[derive(Clone)]
struct Shared {
    latest: Latest,
    film: Arc<Film>,
    seats: stream::Seats,
    changes: delta::Changes,
    disk: incidents::Disk,
    /// When this router was made: the time limit for the first sample begins here.
    since: Moment,
}

/// All routes. Any number of routers may share one watch channel.
pub fn router(latest: Latest) -> Router {
    routes(latest.clone(), Film::of_agent(latest).into())
}

/// The same routes for a recording.
pub fn replaying(film: Arc<Film>) -> Router {
    routes(film.latest(), film)
}

fn routes(latest: Latest, film: Arc<Film>) -> Router {
    let (seats, changes, disk) = Default::default();
    let shared = Shared { latest, film, seats, changes, disk, since: clock::now() };
    let api = api().into_iter().fold(Router::new(), |all, (path, get)| all.route(path, get));
    api.with_state(shared)
        .merge(page::routes())
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "no such path; the page is at /") })
        .method_not_allowed_fallback(|| async {
            refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD: this API changes no state")
        })
        .layer(from_fn_with_state(bodies::Bodies::default(), bodies::bound))
        .layer(from_fn(guard::answer_panic))
        .layer(from_fn(guard::check_host))
        .layer(map_response(guard::harden))
}

/// All paths but those of the page.
fn api() -> Vec<(&'static str, MethodRouter<Shared>)> {
    let mut all = vec![
        ("/api/v1/history", get(history::series)),
        ("/api/v1/history/events", get(history::events)),
        ("/api/v1/incidents", get(incidents::list)),
        ("/api/v1/incidents/{name}", get(incidents::one)),
        ("/api/v1/incidents/{name}/file", get(incidents::file)),
        ("/api/v1/recording", get(film::answer::recording)),
        ("/api/v1/recording/ticks", get(film::answer::ticks)),
        ("/api/v1/settings", get(film::study::settings)),
        ("/api/v1/what-if", get(film::study::what_if)),
        ("/api/v1/advice", get(film::study::advice)),
        ("/api/v1/rank", get(film::rank::rank)),
        ("/api/v1/stream", get(stream::open)),
        ("/metrics", get(metrics::scrape)),
        ("/livez", get(health::livez)),
        ("/healthz", get(health::livez)),
        ("/readyz", get(health::readyz)),
        ("/openapi.json", page::file("application/json", page::packed!("openapi.json"))),
    ];
    all.extend(Part::ALL.map(|part| {
        let of = move |seen, query, headers| document(part, seen, query, headers);
        (part.path(), get(of))
    }));
    all
}

/// A document of one view. The kubelet's clients give its summary parameters that isobar does not have.
async fn document(
    part: Part,
    Shown { published, is_newest, .. }: Shown,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    if part != Part::Summary
        && let Some(refused) = no_moment(&query)
    {
        return refused;
    }
    // Of the same tick there is more to tell once the recording around it is read, and another version
    // of the agent tells it otherwise.
    let tag = match is_newest {
        true => published.tag(),
        false => tag_of(&published.document(part, false)),
    };
    tagged(&headers, &tag, || {
        let is_packed = accepts_gzip(&headers);
        let document = published.document(part, is_packed);
        match is_newest {
            // The next request may be about another moment, which is kept in its place.
            false => held(&document, is_packed),
            true => kept(&document, is_packed),
        }
    })
}

/// An error, in the shape of the Kubernetes API's `Status`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Status<'a> {
    /// That of HTTP.
    code: u16,
    message: &'a str,
}

/// The parameters of a request.
type Pairs = Query<Vec<(String, String)>>;

fn refuse(status: StatusCode, message: &str) -> Response {
    let body = Document::new("Status", Status { code: status.as_u16(), message });
    let mut response = (status, axum::Json(body)).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn openapi_has_every_path() {
        let document: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let told: BTreeSet<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
        let routed = api().into_iter().map(|(path, _)| path.to_owned()).collect();
        assert_eq!(told, routed);
    }
}
