//! `/api/v1/rank`: the candidates of a moment, as `isobar rank --at` prints them of the same recording.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;

use super::desk::Shift;
use super::projector::Footage;
use super::reel::Reel;
use super::study::{StudyError, answer, last};
use crate::serve::history::{ago, only};
use crate::serve::listen::Client;
use crate::serve::parts::OfTick;
use crate::serve::{Pairs, Shared, refuse};
use isobar_core::model::decision::Ranking;
use isobar_core::model::units::Nanos;
use isobar_core::policy::rank::Purpose;

/// Candidates, first to go first.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::serve) struct Ranked {
    ranking: Ranking,
}

pub(in crate::serve) async fn rank(
    State(Shared { film, .. }): State<Shared>,
    client: Client,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    let parsed = only(&query, ["at", "signal"]).and_then(|[at, signal]| {
        let last = last(&film)?;
        let usual = film.opened().map_or(last.wall, |(at, _)| at);
        let at = at.map(|text| Ok::<_, String>(last.wall.since(ago("at", &text, last)?)));
        let named = |name: String| {
            Purpose::named(&name).ok_or_else(|| format!("signal: there is none called {name:?}"))
        };
        Ok((at.unwrap_or(Ok(usual))?, signal.map(named).transpose()?))
    });
    match parsed {
        Ok((wall, purpose)) => {
            let work = move |of: Footage, shift: &mut Shift| ranked(&of, wall, purpose, shift);
            answer(&film, &client, &headers, work).await
        }
        Err(why) => refuse(StatusCode::BAD_REQUEST, &why),
    }
}

fn ranked(
    of: &Footage,
    wall: Nanos,
    purpose: Option<Purpose>,
    shift: &mut Shift,
) -> Result<Vec<u8>, StudyError> {
    let mut reel = Reel::open_ring(&of.ring, wall)?;
    while reel.step(wall)?.is_some() {
        if !shift.goes_on() {
            return Err(StudyError::Refused("time did not suffice for the ticks before it".into()));
        }
    }
    let Some((step, ranking)) = reel.rank(purpose) else {
        let why = "the recording has no tick of this time or before it";
        return Err(StudyError::Refused(why.into()));
    };
    Ok(OfTick::json("Rank", step.snapshot.tick, step.snapshot.at, Ranked { ranking }))
}
