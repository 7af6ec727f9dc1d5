//! Which tick a request is about: `at` and `step`, or the newest one.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use std::sync::Arc;

use super::{Asked, FilmError, Shown, Then};
use crate::serve::history::ago;
use crate::serve::publish::Published;
use crate::serve::{NO_SAMPLE_YET, Shared, refuse};

/// The tick that a request is about.
pub(in crate::serve) struct Seen(pub(in crate::serve) Arc<Published>);

impl FromRequestParts<Shared> for Seen {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        shown(parts, shared).await.map(|shown| Self(shown.published))
    }
}

impl FromRequestParts<Shared> for Shown {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        shown(parts, shared).await
    }
}

async fn shown(parts: &Parts, shared: &Shared) -> Result<Shown, Response> {
    let bad = |why: &str| refuse(StatusCode::BAD_REQUEST, why);
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
        .map_err(|why| bad(&why.to_string()))?;
    let value = |of: &str| Some(pairs.iter().find(|(name, _)| name == of)?.1.as_str());
    let at = value("at");
    // The history has another `step`: the length of its points.
    let then = value("then");
    let Some(film) = &shared.film else {
        if at.or(then).is_some() {
            return Err(bad(
                "an agent answers for the present alone: `isobar replay FILE --listen ADDR` serves \
                 other moments",
            ));
        }
        let Some(published) = shared.latest.borrow().clone() else {
            return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, NO_SAMPLE_YET));
        };
        return Ok(Shown { published, trail: Vec::new() });
    };
    let then = match then {
        None => Then::Stay,
        Some("next") => Then::Next,
        Some("previous") => Then::Previous,
        Some(other) => {
            return Err(bad(&format!("then: expected next or previous; found {other:?}")));
        }
    };
    let wall = match at {
        None => film.opened,
        Some(text) => {
            let ago = ago("at", text, film.last).map_err(|why| bad(&why))?;
            film.last.wall.since(ago)
        }
    };
    film.show(Asked { wall, then }).await.map_err(|why| refused(&why))
}

fn refused(why: &FilmError) -> Response {
    let status = match why {
        FilmError::Before(_) => StatusCode::NOT_FOUND,
        FilmError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        FilmError::Read(_) | FilmError::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = refuse(status, &why.to_string());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
