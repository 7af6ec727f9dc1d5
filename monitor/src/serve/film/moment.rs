//! Which tick a request is about: `at` and `step`, or the newest one.

use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use std::sync::Arc;

use super::{Asked, FilmError, Shown, Then};
use crate::serve::history::{ago, only};
use crate::serve::listen::Client;
use crate::serve::publish::Published;
use crate::serve::{NO_SAMPLE_YET, Shared, refuse};

impl FromRequestParts<Shared> for Shown {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        match asked(parts, shared).map_err(|(status, why)| refuse(status, &why))? {
            Some(asked) => {
                let Ok(client) = Client::from_request_parts(parts, shared).await;
                shared.film.show(asked, &client).await.map_err(|why| refused(&why))
            }
            None => {
                let early = || refuse(StatusCode::SERVICE_UNAVAILABLE, NO_SAMPLE_YET);
                let published = newest(shared).ok_or_else(early)?;
                Ok(Self { published, trail: Vec::new(), is_newest: true })
            }
        }
    }
}

fn newest(shared: &Shared) -> Option<Arc<Published>> {
    shared.latest.borrow().clone()
}

/// Why a request names no moment.
type Wrong = (StatusCode, String);

/// The moment that is named, or at which a recording was opened; `None` for the newest of an agent.
fn asked(parts: &Parts, shared: &Shared) -> Result<Option<Asked>, Wrong> {
    let bad = |why: &str| (StatusCode::BAD_REQUEST, why.to_owned());
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
        .map_err(|why| bad(&why.to_string()))?;
    let value = |of: &str| Some(pairs.iter().find(|(name, _)| name == of)?.1.as_str());
    let at = value("at");
    // The history has another `step`: the length of its points.
    let then = value("then");
    let (usual, last) = match shared.film.opened() {
        Some((at, last)) => (Some(at), last),
        None => {
            let newest = newest(shared);
            let newest = newest
                .ok_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, NO_SAMPLE_YET.to_owned()))?;
            (None, newest.at)
        }
    };
    if usual.is_none() && at.or(then).is_none() {
        return Ok(None);
    }
    let then = match then {
        None => Then::Stay,
        Some("next") => Then::Next,
        Some("previous") => Then::Previous,
        Some(other) => {
            return Err(bad(&format!("then: expected next or previous; found {other:?}")));
        }
    };
    let wall = match at {
        None => usual.unwrap_or(last.wall),
        Some(text) => last.wall.since(ago("at", text, last).map_err(|why| bad(&why))?),
    };
    Ok(Some(Asked { wall, then }))
}

/// The refusal of a query that has another parameter than those that name a moment.
pub(in crate::serve) fn no_moment(query: &[(String, String)]) -> Option<Response> {
    only(query, ["at", "then"]).err().map(|why| refuse(StatusCode::BAD_REQUEST, &why))
}

pub(in crate::serve) fn refused(why: &FilmError) -> Response {
    let status = match why {
        FilmError::NotRecorded => StatusCode::BAD_REQUEST,
        FilmError::Before(_) => StatusCode::NOT_FOUND,
        FilmError::Busy | FilmError::Computing | FilmError::Empty => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        FilmError::Read(_)
        | FilmError::Segments(_)
        | FilmError::Thread(_)
        | FilmError::Panicked
        | FilmError::Gone => StatusCode::INTERNAL_SERVER_ERROR,
    };
    refuse(status, &why.to_string())
}
