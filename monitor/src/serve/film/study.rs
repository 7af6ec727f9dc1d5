//! What a stretch of a recording would have been with other settings, and what it advises to reserve.
//! In: a GET with the stretch and what is to change. Out: the documents that `isobar replay --config`
//! and `isobar allocatable --advise` print. One at a time, bounded by ticks and by time.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

use super::desk::{self, Shift};
use super::moment::{no_moment, refused};
use super::projector::Footage;
use super::{Film, FilmError, Shown, Source};
use crate::record::advice::{advise, name_evicted};
use crate::record::reader::{Entry, ReadError, Recording};
use crate::record::replay::{Other, Replay, Replayed};
use crate::record::what_if::WhatIf;
use crate::serve::history::{ago, only};
use crate::serve::listen::Client;
use crate::serve::negotiate::made;
use crate::serve::parts::OfTick;
use crate::serve::{Pairs, Shared, refuse};
use isobar_core::model::condition::ConditionName;
use isobar_core::model::sample::Moment;
use isobar_core::model::settings::Settings;
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::{Nanos, Percent};
use isobar_core::view::Document;
use isobar_kubelet::advice::Advice;

/// Without `begin`.
const USUAL_CHANGE: u64 = 600;
const USUAL_ADVICE: u64 = 3_600;
/// Bytes of `change`; the head of a request is 16 KiB.
const CHANGE: usize = 8 << 10;

/// From when to when, on the wall clock.
#[derive(Clone, Copy)]
struct Stretch {
    begin: Nanos,
    end: Nanos,
}

/// The last tick.
pub(super) fn last(film: &Film) -> Result<Moment, String> {
    match &film.source {
        Source::Opened(opened) => Ok(opened.last),
        Source::Agent(latest) => {
            let newest = latest.borrow().as_ref().map(|newest| newest.at);
            newest.ok_or_else(|| "no tick is recorded yet".into())
        }
    }
}

impl Stretch {
    fn parse(
        film: &Film,
        begin: Option<&str>,
        end: Option<&str>,
        usual: u64,
    ) -> Result<Self, String> {
        let last = last(film)?;
        let wall = |name, text: Option<&str>| {
            text.map(|text| Ok::<_, String>(last.wall.since(ago(name, text, last)?))).transpose()
        };
        let end = wall("end", end)?.unwrap_or(last.wall);
        let usual = end.since(Nanos(usual * Nanos::SECOND.0));
        let begin = wall("begin", begin)?.unwrap_or(usual);
        if begin >= end {
            return Err("begin must be before end, and before the last tick".into());
        }
        Ok(Self { begin, end })
    }
}

/// The settings in force at a tick.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::serve) struct Told<'a> {
    /// The configuration, validated; `None` if not known.
    settings: Option<&'a Settings>,
}

/// A stretch of a recording, decided then and otherwise.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(in crate::serve) struct Compared {
    #[serde(flatten)]
    all: WhatIf,
    /// What cannot be known after the first step that differs; `None` if none does.
    limit: Option<String>,
    /// False if time or room did not suffice for all ticks: `to` is the last that was compared.
    is_whole: bool,
}

/// What daemons used in a stretch of a recording, and what to reserve for them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(in crate::serve) struct Advised {
    #[serde(flatten)]
    advice: Advice,
    /// False if time or room did not suffice for all ticks: `to` is the last that was read.
    is_whole: bool,
}

pub(in crate::serve) async fn settings(
    Shown { published, .. }: Shown,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = no_moment(&query) {
        return refused;
    }
    let content = Told { settings: published.lasting.settings.as_deref() };
    made(&headers, OfTick::json("Settings", published.tick, published.at, content))
}

pub(in crate::serve) async fn what_if(
    State(Shared { film, .. }): State<Shared>,
    client: Client,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    let parsed = only(&query, ["begin", "end", "change"]).and_then(|[begin, end, change]| {
        let stretch = Stretch::parse(&film, begin.as_deref(), end.as_deref(), USUAL_CHANGE)?;
        Ok((stretch, parse(change.as_deref().unwrap_or("{}"))?))
    });
    let (stretch, change) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let work = move |of: Footage, shift: &mut Shift| compare(&of, stretch, &change, shift);
    answer(&film, &client, &headers, work).await
}

pub(in crate::serve) async fn advice(
    State(Shared { film, .. }): State<Shared>,
    client: Client,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    let parsed = only(&query, ["begin", "end", "change"]).and_then(|[begin, end, change]| {
        let stretch = Stretch::parse(&film, begin.as_deref(), end.as_deref(), USUAL_ADVICE)?;
        Ok((stretch, change.as_deref().map(parse).transpose()?))
    });
    let (stretch, change) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let work = move |of: Footage, shift: &mut Shift| reserve(&of, stretch, change.as_ref(), shift);
    answer(&film, &client, &headers, work).await
}

pub(in crate::serve) async fn answer(
    film: &Film,
    client: &Client,
    headers: &HeaderMap,
    work: impl FnOnce(Footage, &mut Shift) -> Result<Vec<u8>, StudyError> + Send + 'static,
) -> Response {
    let Some(turn) = film.questions.take(client, None).await else {
        return refused(&FilmError::Computing);
    };
    let of = match film.footage() {
        Ok(of) => of,
        Err(why) => return refused(&why),
    };
    match desk::run(turn, film.pace, move |shift| work(of, shift)).await {
        Ok(Ok(document)) => made(headers, document),
        Ok(Err(StudyError::Refused(why))) => refuse(StatusCode::BAD_REQUEST, &why),
        Ok(Err(StudyError::Read(why))) => refused(&FilmError::Read(why)),
        Err(why) => refused(&why),
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum StudyError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Read(#[from] ReadError),
}

fn compare(
    of: &Footage,
    Stretch { begin, end }: Stretch,
    change: &Value,
    shift: &mut Shift,
) -> Result<Vec<u8>, StudyError> {
    let other = other(in_force(of, begin)?, change).map_err(StudyError::Refused)?;
    let (recording, _held) = Recording::open_ring(&of.ring, begin)?;
    let mut all = WhatIf::default();
    let mut is_whole = true;
    for replayed in Replay::changed_at(recording, begin, other) {
        let Replayed::Tick(judged) = replayed? else { continue };
        if judged.at.wall > end {
            break;
        }
        // The ticks before it are those of its chapter, decided as they were.
        if judged.at.wall >= begin {
            all.add(&judged);
        }
        if !shift.goes_on() {
            is_whole = false;
            break;
        }
    }
    let all = all.close();
    let limit = all.limit();
    Ok(Document::new("WhatIf", Compared { all, limit, is_whole }).to_json())
}

fn reserve(
    of: &Footage,
    Stretch { begin, end }: Stretch,
    change: Option<&Value>,
    shift: &mut Shift,
) -> Result<Vec<u8>, StudyError> {
    let other = change
        .map(|change| other(in_force(of, begin)?, change).map_err(StudyError::Refused))
        .transpose()?;
    let (recording, _held) = Recording::open_ring(&of.ring, begin)?;
    let (mut has_begun, mut is_whole) = (false, true);
    // The ticks of the chapter before `begin` only lead to it.
    let recording = recording.filter(|entry| match entry {
        Ok(Entry::Frame(recorded)) => {
            has_begun |= recorded.sample.at.wall >= begin;
            has_begun
        }
        _ => true,
    });
    let advice = advise(recording, other.as_deref(), drop, |sample| {
        let is_within = sample.at.wall <= end;
        is_whole = !is_within || shift.goes_on();
        is_within && is_whole
    })?;
    let Some(mut advice) = advice else {
        return Err(StudyError::Refused("no tick is recorded in this time".into()));
    };
    name_evicted(&mut advice, &of.ring, other, || shift.goes_on())?;
    Ok(Document::new("Advice", Advised { advice, is_whole }).to_json())
}

/// The settings of the chapter that holds the moment.
fn in_force(of: &Footage, wall: Nanos) -> Result<Settings, ReadError> {
    let (recording, _held) = Recording::open_ring(&of.ring, wall)?;
    for entry in recording {
        if let Entry::Header(header) = entry? {
            return Ok(header.settings);
        }
    }
    Ok(Settings::default())
}

fn parse(change: &str) -> Result<Value, String> {
    if change.len() > CHANGE {
        return Err(format!("change: {} bytes are more than {CHANGE}", change.len()));
    }
    let expected = "expected an object, as in {\"ranking\": {\"order\": \"qos\"}}";
    let parsed: Result<Value, _> = serde_json::from_str(change);
    match parsed {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(format!("change: {expected}")),
        Err(why) => Err(format!("change: {why}: {expected}")),
    }
}

/// What a change makes of the settings of each chapter: of those that it does not fit, as after another
/// reload, what it makes of those at the beginning.
fn other(begin: Settings, change: &Value) -> Result<Box<Other>, String> {
    let (at_begin, change) = (changed(&begin, change)?, change.clone());
    let other = move |recorded: &Settings| changed(recorded, &change).unwrap_or(at_begin.clone());
    Ok(Box::new(other))
}

/// The settings with a JSON Merge Patch (RFC 7396).
fn changed(settings: &Settings, change: &Value) -> Result<Settings, String> {
    let mut value = json!(settings);
    merge(&mut value, change);
    let changed = Settings::deserialize(&value).map_err(|why| format!("change: {why}"))?;
    if let Some(path) = unknown(change, &json!(changed), String::new()) {
        return Err(format!("change: there is no setting {path}; /api/v1/settings has all"));
    }
    match beyond(&changed) {
        Some(why) => Err(format!("change: {why}")),
        None => Ok(changed),
    }
}

/// The first value that no configuration file may have.
fn beyond(settings: &Settings) -> Option<String> {
    let Settings { conditions, eviction, relief, .. } = settings;
    let is_share = |share: Percent| share > Percent(0) && share <= Percent::FULL;
    let percents = |share| format!("must be more than 0 % and at most 100 %, not {share} %");
    let mut rules = conditions.rules.iter();
    let of_rule = || {
        let (name, rule) = rules.find(|(_, rule)| !is_share(rule.threshold))?;
        Some(format!("conditions.rules.{name}.threshold {}", percents(rule.threshold)))
    };
    let of_pressure = || {
        eviction.pressure.iter().find_map(|threshold| match threshold.on {
            PressureSignal::Cpu(share)
            | PressureSignal::Memory(share)
            | PressureSignal::Disk(share)
                if !is_share(share) =>
            {
                Some(format!("a threshold of eviction.pressure {}", percents(share)))
            }
            _ => None,
        })
    };
    let is_known = |name: &String| ConditionName::ALL.iter().any(|known| known.name() == *name);
    let of_name = || {
        let name = conditions.rules.keys().find(|name| !is_known(name))?;
        let names = ConditionName::ALL.map(ConditionName::name).join(", ");
        Some(format!("there is no condition {name}; there are {names}"))
    };
    let of_budget = || (relief.budget == 0).then(|| "relief.budget must be 1 or more".to_owned());
    of_name().or_else(of_rule).or_else(of_pressure).or_else(of_budget)
}

fn merge(target: &mut Value, change: &Value) {
    let Some(fields) = change.as_object() else {
        target.clone_from(change);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        match (value, target.as_object_mut()) {
            (Value::Null, Some(own)) => _ = own.remove(name),
            _ => merge(&mut target[name], value),
        }
    }
}

/// The first name in a change that the settings do not have.
fn unknown(change: &Value, known: &Value, above: String) -> Option<String> {
    let fields = change.as_object()?.iter().filter(|(_, value)| !value.is_null());
    fields.into_iter().find_map(|(name, value)| {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match known.get(name) {
            None => Some(path),
            Some(known) => unknown(value, known, path),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::decision::Order;

    #[test]
    fn changed_takes_settings_and_no_others() {
        #[rustfmt::skip]
        let table = [
            // change, refused because of
            (r#"{}"#,                                                            None),
            (r#"{"ranking": {"order": "qos"}}"#,                                 None),
            (r#"{"relief": {"enforce": ["evict"]}}"#,                            None),
            (r#"{"conditions": {"rules": {"SystemCPUContentionPressure": null}}}"#, None),
            (r#"{"ranking": {"odrer": "qos"}}"#,                                 Some("no setting ranking.odrer")),
            (r#"{"ranking": {"order": "best"}}"#,                                Some("unknown variant")),
            (r#"{"conditions": {"rules": {"X": {"threshold": 700}}}}"#,          Some("change: ")),
            (r#"{"conditions": {"rules": {"SystemCPUPressure": {"measure": "rawSome", "threshold": 50}}}}"#, Some("there is no condition SystemCPUPressure; there are ")),
            (r#"{"conditions": {"rules": {"SystemCPUContentionPressure": {"threshold": 200}}}}"#, Some("at most 100 %, not 200")),
            (r#"{"conditions": {"rules": {"SystemCPUContentionPressure": {"threshold": 0}}}}"#, Some("more than 0 %")),
            (r#"{"relief": {"budget": 0}}"#,                                     Some("relief.budget must be 1 or more")),
            (r#"[]"#,                                                            Some("expected an object")),
            (r#"{"#,                                                             Some("change: EOF")),
        ];
        for (change, want) in table {
            let got = parse(change).and_then(|change| changed(&Settings::default(), &change));
            match want {
                None => assert!(got.is_ok(), "{change}: {got:?}"),
                Some(words) => {
                    let said = got.expect_err(change);
                    assert!(said.contains(words), "{change}: {said}");
                }
            }
        }
        let order = json!({"ranking": {"order": "kubelet"}});
        let changed = changed(&Settings::default(), &order).unwrap();
        assert_eq!(changed.ranking.order, Order::Kubelet);
        assert_eq!(changed.relief, Settings::default().relief, "all else is as it was");
        assert!(parse(&format!("{{{:8192}}}", "")).is_err(), "it is too long");
    }
}
