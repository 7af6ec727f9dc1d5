//! `/api/v1/history` and `/api/v1/history/events`.

use std::collections::BTreeMap;

use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Serialize, Serializer};

use super::query::{Stretch, only, wanted};
use super::series::{ALL, Code, Keeps, Series, Unit};
use super::spans::{Event, Minute, Span};
use crate::serve::film::moment::Seen;
use crate::serve::negotiate::made;
use crate::serve::publish::Published;
use crate::serve::refuse;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::view::Document;

/// Of figures, unless asked otherwise: ten minutes of the node.
const USUAL: u64 = 600;
const USUAL_SERIES: &str = "system";
/// Of what happened: an hour.
const USUAL_EVENTS: u64 = 3_600;

type Pairs = Query<Vec<(String, String)>>;

/// The points of one series.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Series"))]
struct Points {
    unit: Unit,
    /// Of what a point is the mean, the largest or the smallest.
    of: Keeps,
    /// One for each step; `None` where nothing was measured.
    values: Values,
    /// The largest of each point, where the mean may hide it.
    #[serde(skip_serializing_if = "Option::is_none")]
    peaks: Option<Values>,
}

/// Two bytes each until they are written.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "Vec<Option<f64>>", inline))]
struct Values(&'static Series, Vec<Option<Code>>);

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(series, codes) = self;
        to.collect_seq(codes.iter().map(|code| code.map(|code| series.value(code))))
    }
}

/// Figures of the last hour and day.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::serve) struct History {
    /// The newest tick in it.
    tick: u64,
    begin: Moment,
    end: Moment,
    step: Nanos,
    /// By name.
    series: BTreeMap<&'static str, Points>,
}

/// What held, what happened, and who made others wait.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::serve) struct HistoryEvents<'a> {
    /// The newest tick in it.
    tick: u64,
    begin: Moment,
    end: Moment,
    /// Conditions, thresholds and the kubelet's conditions, in the order in which they began.
    spans: Vec<Span>,
    events: Vec<&'a Event>,
    /// The waits of each minute that cost most.
    minutes: Vec<&'a Minute>,
}

pub(in crate::serve) async fn series(
    Seen { published, .. }: Seen,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    respond(&published, &headers, |now| {
        let names = ["begin", "end", "step", "series", "at"];
        let [begin, end, step, series, _] = only(&query, names)?;
        let stretch = Stretch::parse(begin.as_deref(), end.as_deref(), USUAL, now)?;
        let wanted = wanted(series.as_deref().unwrap_or(USUAL_SERIES))?;
        let kept = published.history.lock();
        // A moment of a recording may lie far before the newest that is kept.
        let range = stretch.points(step.as_deref(), now.boot.max(kept.rings.newest()))?;
        let of = |index: usize| {
            let series = &ALL[index];
            let (values, peaks) = kept.rings.read(index, range).unzip();
            let has_peaks = series.keeps == Keeps::MeanAndPeak && range.step > 1;
            let peaks = has_peaks.then_some(Values(series, peaks));
            let (unit, of, values) = (series.unit, series.keeps, Values(series, values));
            (series.name.as_str(), Points { unit, of, values, peaks })
        };
        let series: BTreeMap<_, _> = wanted.into_iter().map(of).collect();
        drop(kept);
        let at = |second: u64| moment(Nanos(second.saturating_mul(Nanos::SECOND.0)), now);
        let step = Nanos(range.step.saturating_mul(Nanos::SECOND.0));
        let (begin, end, tick) = (at(range.begin), at(range.end), published.tick);
        Ok(Document::new("History", History { tick, begin, end, step, series }).to_json())
    })
}

pub(in crate::serve) async fn events(
    Seen { published, .. }: Seen,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    respond(&published, &headers, |now| {
        let [begin, end, _] = only(&query, ["begin", "end", "at"])?;
        let Stretch { begin, end } =
            Stretch::parse(begin.as_deref(), end.as_deref(), USUAL_EVENTS, now)?;
        let kept = published.history.lock();
        let content = HistoryEvents {
            tick: published.tick,
            begin: moment(begin, now),
            end: moment(end, now),
            spans: kept.spans.spans(begin, end, now.boot),
            events: kept.spans.events(begin, end),
            minutes: kept.spans.minutes(begin, end),
        };
        Ok(Document::new("HistoryEvents", content).to_json())
    })
}

/// A moment of the boot clock on both clocks, as the wall clock goes now.
fn moment(boot: Nanos, now: Moment) -> Moment {
    let (past, ahead) = (now.boot.since(boot), boot.since(now.boot));
    Moment { boot, wall: now.wall.since(past).plus(ahead) }
}

fn respond(
    published: &Published,
    headers: &HeaderMap,
    answer: impl FnOnce(Moment) -> Result<Vec<u8>, String>,
) -> Response {
    // A second that no tick has reached yet is no gap: what is known ends with the newest tick's.
    let known = Nanos(published.at.boot.0.saturating_add(1).next_multiple_of(Nanos::SECOND.0));
    let now = moment(known, published.at);
    match answer(now) {
        Ok(json) => made(headers, json),
        Err(why) => refuse(StatusCode::BAD_REQUEST, &why),
    }
}
