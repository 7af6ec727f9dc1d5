//! The past as a running agent tells it by its API: a moment of its recording, or the ticks of a range,
//! one request each. What a file cannot be read for from afar is said in docs/recording.md.

use anyhow::{Context as _, Result, bail};
use isobar::clock::written::When;
use isobar_core::model::decision::{Decision, Outcome};
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::policy::explain::Explanation;
use isobar_core::view::View;
use jiff::Timestamp;
use serde::Deserialize;

use super::ask::{Place, fetch_waiting, no_agent, view_of};
use super::exit::{InvalidAnswer, Refused};
use super::range::{Range, RangeArgs, Ticks};

/// The last tick that is no later.
pub(crate) fn view_at(place: &Place, at: When) -> Result<View> {
    view_of(place, &format!("/api/v1/snapshot?at={}", exact(at)?))
}

/// As the API takes it, to the nanosecond: what is relative counts from the agent's clock.
pub(crate) fn exact(at: When) -> Result<String> {
    let wall = match at {
        When::Ago(Nanos(0)) => return Ok("now".into()),
        When::Ago(Nanos(ago)) => return Ok(format!("-{ago}ns")),
        When::Wall(Nanos(wall)) => Timestamp::from_nanosecond(wall.into()),
    };
    Ok(wall.context("this moment is beyond the calendar")?.to_string())
}

/// What an agent says of its recording.
#[derive(Deserialize)]
struct Recording {
    begin: Option<Moment>,
    end: Option<Moment>,
    problem: Option<String>,
}

/// The first and the last tick that an agent has recorded.
fn recorded(place: &Place) -> Result<(Moment, Moment)> {
    let json = fetch_waiting(place, "/api/v1/recording")?.with_context(|| no_agent(place))?;
    let Recording { begin, end, problem } = serde_json::from_slice(&json)
        .map_err(|source| InvalidAnswer { address: place.to_string(), source })?;
    let Some(known) = begin.zip(end) else {
        let why = problem.unwrap_or_else(|| "nothing is recorded".into());
        bail!(Refused(format!("the agent on {place}: {why}")));
    };
    Ok(known)
}

/// The ticks of a range, oldest first.
pub(crate) struct Views {
    place: Place,
    range: Range,
    /// The tick that was shown last.
    last: Option<Moment>,
    is_empty: bool,
}

impl Views {
    /// Of a range whose relative moments count from the end of that agent's recording.
    pub(crate) fn open(place: Place, range: RangeArgs) -> Result<Self> {
        let range = range.range(|| Ok(recorded(&place)?.1))?;
        Ok(Self { place, range, last: None, is_empty: true })
    }

    fn next(&mut self) -> Result<Option<View>> {
        let Some(last) = self.last else { return self.first() };
        let path = format!("/api/v1/snapshot?at={}&then=next", exact(When::Wall(last.wall))?);
        let view = view_of(&self.place, &path)?;
        Ok((view.snapshot.at != last).then_some(view))
    }

    /// The first tick that is not before the range.
    fn first(&self) -> Result<Option<View>> {
        let place = &self.place;
        let begin = self.range.begin.max(recorded(place)?.0.wall);
        let view = view_at(place, When::Wall(begin))?;
        if view.snapshot.at.wall >= self.range.begin {
            return Ok(Some(view));
        }
        let next = view_of(
            place,
            &format!("/api/v1/snapshot?at={}&then=next", exact(When::Wall(begin))?),
        )?;
        Ok((next.snapshot.at.wall >= self.range.begin).then_some(next))
    }

    /// The view of the next tick of the range.
    ///
    /// # Errors
    /// Also if the range has no tick at all.
    fn view(&mut self) -> Result<Option<View>> {
        let view = self.next()?.filter(|view| view.snapshot.at.wall <= self.range.end);
        match &view {
            Some(view) => (self.last, self.is_empty) = (Some(view.snapshot.at), false),
            None if self.is_empty => {
                let text = format!(
                    "the recording of the agent on {} has no tick of these times",
                    self.place
                );
                bail!(Refused(text));
            }
            None => {}
        }
        Ok(view)
    }
}

/// What a tick decided.
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) explanation: Explanation,
    /// What it was told of earlier actions; nothing by an agent.
    pub(crate) outcomes: Vec<Outcome>,
}

/// The ticks of a range, of a file or of an agent.
pub(crate) enum Course {
    Here(Box<Ticks>),
    Afar(Views),
}

impl Course {
    /// The view of the next tick.
    pub(crate) fn view(&mut self) -> Result<Option<View>> {
        match self {
            Self::Here(ticks) => ticks.view(),
            Self::Afar(views) => views.view(),
        }
    }

    /// What the next tick decided.
    pub(crate) fn decided(&mut self) -> Result<Option<Decided>> {
        match self {
            Self::Here(ticks) => {
                let Some(step) = ticks.step()? else { return Ok(None) };
                let explanation = ticks.explain(&step);
                let outcomes = ticks.outcomes().to_vec();
                Ok(Some(Decided { decision: step.decision, explanation, outcomes }))
            }
            Self::Afar(views) => Ok(views.view()?.map(|view| {
                let View { decision, explanation, .. } = view;
                let explanation = Explanation { lately: Vec::new(), ..explanation };
                Decided { decision, explanation, outcomes: Vec::new() }
            })),
        }
    }
}
