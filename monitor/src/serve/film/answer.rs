//! `/api/v1/recording`, what is served of which time, and `/api/v1/recording/ticks`, what came before
//! a moment.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use tokio::time::timeout;

use super::moment::{no_moment, refused};
use super::projector::Around;
use super::runs::LeftOut;
use super::{Film, FilmError, Opened, Passed, Shown, Source};
use crate::lock::lock;
use crate::serve::history::Whole;
use crate::serve::listen::Client;
use crate::serve::negotiate::made;
use crate::serve::parts::OfTick;
use crate::serve::publish::Published;
use crate::serve::{Pairs, Shared};
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::view::Document;

/// What is served of which time.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(in crate::serve) struct Recording {
    /// False of an agent that records nothing; then the rest is empty.
    is_served: bool,
    /// Of an agent, whose recording goes on.
    is_live: bool,
    /// The first tick; `None` if nothing is served.
    begin: Option<Moment>,
    /// The last tick so far; `None` if nothing is served.
    end: Option<Moment>,
    /// What requests without a moment are shown, since 1970; `None` of an agent.
    at: Option<Nanos>,
    /// How many were read so far; 0 of an agent, which does not read them.
    ticks: u64,
    /// All of them were read.
    is_whole: bool,
    /// What nothing is told of for want of room.
    left_out: LeftOut,
    /// Why they could not be read to the end, or why nothing is served.
    problem: Option<String>,
    #[serde(flatten)]
    told: Whole,
}

/// The ticks up to a moment, each in brief.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::serve) struct Ticks<'a> {
    /// Oldest first; of an agent the newest alone.
    ticks: Vec<&'a Passed>,
}

pub(in crate::serve) async fn recording(
    State(shared): State<Shared>,
    client: Client,
    headers: HeaderMap,
) -> Response {
    match shared.film.about(&client).await {
        Ok(content) => made(&headers, Document::new("Recording", content).to_json()),
        Err(why) => refused(&why),
    }
}

/// A page shows the present once it knows whether there is a past.
const PROMPT: Duration = Duration::from_secs(5);

impl Film {
    /// # Errors
    /// [`FilmError::Busy`] alone: an agent that is busy with other moments serves them all the same.
    async fn about(&self, client: &Client) -> Result<Recording, FilmError> {
        if let Source::Opened(opened) = &self.source {
            return Ok(opened.about());
        }
        Ok(match timeout(PROMPT, self.going_on(client)).await {
            Err(_) | Ok(Err(FilmError::Busy)) => return Err(FilmError::Busy),
            Ok(Err(why)) => Recording::nothing(&why),
            Ok(Ok(recording)) => recording,
        })
    }

    async fn going_on(&self, client: &Client) -> Result<Recording, FilmError> {
        let turn = self.moments.take(client, None).await.ok_or(FilmError::Busy)?;
        let of = self.footage()?;
        match (self.begin(&of, Some(turn)).await?, &of.around) {
            (Some(begin), Around::Agent(newest)) => Ok(Recording::going_on(begin, newest)),
            _ => Err(FilmError::Empty),
        }
    }
}

impl Recording {
    /// Of an agent that cannot show the past.
    fn nothing(why: &FilmError) -> Self {
        let problem = Some(why.to_string());
        Self { is_live: true, is_whole: true, problem, ..Self::default() }
    }

    /// Of an agent and what it has recorded so far; what held and happened is from its history.
    fn going_on(begin: Moment, newest: &Published) -> Self {
        let (begin, end) = (Some(begin), Some(newest.at));
        Self {
            is_served: true,
            is_live: true,
            is_whole: true,
            begin,
            end,
            told: newest.history.told(),
            ..Self::default()
        }
    }
}

impl Opened {
    fn about(&self) -> Recording {
        let course = lock(&self.course);
        Recording {
            is_served: true,
            is_live: false,
            begin: Some(self.first),
            end: Some(self.last),
            at: Some(self.at),
            ticks: course.n_ticks,
            is_whole: course.is_whole,
            left_out: course.left_out,
            problem: course.problem.clone(),
            told: course.told(),
        }
    }
}

pub(in crate::serve) async fn ticks(shown: Shown, query: Pairs, headers: HeaderMap) -> Response {
    if let Some(refused) = no_moment(&query) {
        return refused;
    }
    let Shown { published, trail, .. } = shown;
    let newest = trail.is_empty().then(|| Passed::of(&published.view.snapshot));
    let ticks = trail.iter().map(|passed| &**passed).chain(&newest).collect();
    made(&headers, OfTick::json("Ticks", published.tick, published.at, Ticks { ticks }))
}
