//! `/api/v1/history` and `/api/v1/history/events`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Serialize, Serializer};

use super::minutes::Minute;
use super::query::{Stretch, only, wanted};
use super::rings::{Grid, Rings};
use super::row::of_cgroup;
use super::series::{ALL, Code, Keeps, OF_CGROUP, Series, Unit};
use super::spans::{Event, KnownSince, Pause, Span};
use crate::lock::lock;
use crate::serve::film::Film;
use crate::serve::film::Shown;
use crate::serve::film::desk::Shift;
use crate::serve::film::past::{Wanted, past};
use crate::serve::film::projector::Footage;
use crate::serve::film::study::{self, StudyError};
use crate::serve::listen::Client;
use crate::serve::negotiate::made;
use crate::serve::publish::Published;
use crate::serve::{Pairs, Shared, refuse};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;
use isobar_core::view::Document;

/// Of figures, unless asked otherwise: ten minutes of the node.
const USUAL: u64 = 600;
const USUAL_SERIES: &str = "system";
const USUAL_OF_CGROUP: &str = "cgroup";
/// Of one cgroup at most: each tick of it is read from the recording.
const READ: Nanos = Nanos(3_600 * Nanos::SECOND.0);
/// Of what happened: an hour.
const USUAL_EVENTS: u64 = 3_600;

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
#[serde(rename_all = "camelCase")]
pub(in crate::serve) struct History {
    /// The newest tick in it.
    tick: u64,
    begin: Moment,
    end: Moment,
    step: Nanos,
    /// By name.
    series: BTreeMap<&'static str, Points>,
    /// The path of the cgroup that it is of; absent of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<CgroupPath>,
    /// Of a cgroup: false if time did not suffice to read all ticks. Then the oldest are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_whole: Option<bool>,
}

/// What held, what happened, and who made others wait.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(in crate::serve) struct HistoryEvents<'a> {
    /// The newest tick in it.
    tick: u64,
    begin: Moment,
    end: Moment,
    /// Conditions, thresholds and the kubelet's conditions, in the order in which they began.
    spans: Vec<Span>,
    events: Vec<&'a Event>,
    /// The waits of each minute that cost most; of a moment in the past, those of minutes that were over.
    minutes: Vec<&'a Minute>,
    /// Times without a tick, the last 32 at most, oldest first.
    pauses: Vec<Pause>,
    known_since: KnownSince,
}

pub(in crate::serve) async fn series(
    State(Shared { film, .. }): State<Shared>,
    Shown { published, .. }: Shown,
    client: Client,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    if let Some((_, cgroup)) = query.iter().find(|(name, _)| name == "cgroup") {
        let cgroup = CgroupPath(cgroup.as_str().into());
        return series_of(&film, &client, published, cgroup, &query, &headers).await;
    }
    respond(&published, &headers, |now| {
        let [begin, end, step, series, ..] = only(&query, NAMES)?;
        let stretch = Stretch::parse(begin.as_deref(), end.as_deref(), USUAL, now)?;
        let wanted = wanted(&ALL, series.as_deref().unwrap_or(USUAL_SERIES))?;
        let kept = lock(&published.history.0);
        // A moment of a recording may lie far before the newest that is kept.
        let range = stretch.points(step.as_deref(), now.boot.max(kept.rings.newest()))?;
        let history = History::of(&ALL, &wanted, &kept.rings, range, (published.tick, now));
        drop(kept);
        Ok(Document::new("History", history).to_json())
    })
}

const NAMES: [&str; 6] = ["begin", "end", "step", "series", "at", "cgroup"];

/// Those of one cgroup, from the recording.
async fn series_of(
    film: &Film,
    client: &Client,
    published: Arc<Published>,
    cgroup: CgroupPath,
    query: &Pairs,
    headers: &HeaderMap,
) -> Response {
    let now = known(&published);
    let parsed = only(query, NAMES).and_then(|[begin, end, step, series, ..]| {
        let stretch = Stretch::parse(begin.as_deref(), end.as_deref(), USUAL, now)?;
        if stretch.end.since(stretch.begin) > READ {
            return Err("begin: of a cgroup, one hour before end at most".into());
        }
        let range = stretch.points(step.as_deref(), stretch.end)?;
        let wanted = wanted(&OF_CGROUP, series.as_deref().unwrap_or(USUAL_OF_CGROUP))?;
        Ok((stretch, range, wanted))
    });
    let (stretch, range, wanted) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let tick = published.tick;
    let of = Wanted {
        boot_id: published.view.facts.boot_id.clone(),
        begin: moment(stretch.begin, now),
        end: moment(stretch.end, now).min(published.at),
        cgroup,
    };
    // Those that wait hold no view.
    drop(published);
    let work = move |Footage { ring, .. }: Footage, shift: &mut Shift| {
        let mut ticks = Vec::new();
        let is_whole = past(
            &ring,
            &of,
            || shift.goes_on(),
            |snapshot, scope| {
                ticks.push((snapshot.at.boot, snapshot.interval, of_cgroup(snapshot, scope)));
            },
        )?;
        if ticks.is_empty() {
            let Wanted { cgroup, .. } = of;
            return Err(StudyError::Refused(format!(
                "no tick of this time has the cgroup {cgroup}"
            )));
        }
        // They come chapter by chapter, the newest first.
        ticks.sort_unstable_by_key(|(boot, ..)| *boot);
        let mut rings = Rings::new(&OF_CGROUP);
        ticks.iter().for_each(|(boot, interval, row)| rings.put(*boot, *interval, row));
        let mut history = History::of(&OF_CGROUP, &wanted, &rings, range, (tick, now));
        (history.cgroup, history.is_whole) = (Some(of.cgroup), Some(is_whole));
        Ok(Document::new("History", history).to_json())
    };
    study::answer(film, client, headers, work).await
}

impl History {
    /// Those of `all` that are wanted.
    fn of(
        all: &'static [Series],
        wanted: &[usize],
        rings: &Rings,
        range: Grid,
        (tick, now): (u64, Moment),
    ) -> Self {
        let of = |index: &usize| {
            let series = &all[*index];
            let (values, peaks) = rings.read(*index, range).unzip();
            let has_peaks = series.keeps == Keeps::MeanAndPeak && range.step > 1;
            let peaks = has_peaks.then_some(Values(series, peaks));
            let (unit, of, values) = (series.unit, series.keeps, Values(series, values));
            (series.name.as_str(), Points { unit, of, values, peaks })
        };
        let at = |second: u64| moment(Nanos(second.saturating_mul(Nanos::SECOND.0)), now);
        Self {
            tick,
            begin: at(range.begin),
            end: at(range.end),
            step: Nanos(range.step.saturating_mul(Nanos::SECOND.0)),
            series: wanted.iter().map(of).collect(),
            cgroup: None,
            is_whole: None,
        }
    }
}

pub(in crate::serve) async fn events(
    Shown { published, is_newest, .. }: Shown,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    respond(&published, &headers, |now| {
        let [begin, end, _] = only(&query, ["begin", "end", "at"])?;
        let Stretch { begin, end } =
            Stretch::parse(begin.as_deref(), end.as_deref(), USUAL_EVENTS, now)?;
        let kept = lock(&published.history.0);
        // Another tick may have come within the same second.
        let shown = published.at.boot;
        let (until, end) = (end, end.min(shown.plus(Nanos(1))));
        let content = HistoryEvents {
            tick: published.tick,
            begin: moment(begin, now),
            end: moment(end, now),
            spans: kept.spans.spans(begin, end, shown),
            events: kept.spans.events(begin, until, shown),
            // The next tick may be in the minute already, and not published yet.
            minutes: kept.spans.minutes(
                begin,
                end,
                if is_newest { Nanos(u64::MAX) } else { shown },
            ),
            pauses: kept.spans.pauses(begin, end, shown),
            known_since: kept.spans.known_since(),
        };
        Ok(Document::new("HistoryEvents", content).to_json())
    })
}

/// A moment of the boot clock on both clocks, as the wall clock goes now.
fn moment(boot: Nanos, now: Moment) -> Moment {
    let (past, ahead) = (now.boot.since(boot), boot.since(now.boot));
    Moment { boot, wall: now.wall.since(past).plus(ahead) }
}

/// A second that no tick has reached yet is no gap: what is known ends with the newest tick's.
fn known(published: &Published) -> Moment {
    let known = Nanos(published.at.boot.0.saturating_add(1).next_multiple_of(Nanos::SECOND.0));
    moment(known, published.at)
}

fn respond(
    published: &Published,
    headers: &HeaderMap,
    answer: impl FnOnce(Moment) -> Result<Vec<u8>, String>,
) -> Response {
    match answer(known(published)) {
        Ok(json) => made(headers, json),
        Err(why) => refuse(StatusCode::BAD_REQUEST, &why),
    }
}
