//! Events: one object in two API versions, and what the newer of them requires.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::check::is_qualified;
use crate::status::{Cause, Failure};

pub(crate) const GROUP: &str = "events.k8s.io";

/// Fields for selectors, by the names of the core API.
pub(crate) const CORE_SELECTABLE: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// The same in events.k8s.io.
pub(crate) const SELECTABLE: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// The same field in the core API and in events.k8s.io.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// In characters, as `pkg/apis/core/validation/events.go` has them.
const LONGEST_NAME: usize = 128;
const LONGEST_NOTE: usize = 1024;

/// The field names of one of the two API versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Core,
    Events,
}

/// Gives an event the field names of `to`.
pub(crate) fn rename(event: &mut Value, to: Form) {
    let Some(fields) = event.as_object_mut() else { return };
    for (core, events) in NAMES {
        let (from, to) = if to == Form::Core { (events, core) } else { (core, events) };
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

/// The server reads these times with exactly six decimals, and refuses others.
pub(crate) fn check_times(event: &Value) -> Result<(), String> {
    for pointer in ["/eventTime", "/series/lastObservedTime"] {
        let time = match event.pointer(pointer) {
            None | Some(Value::Null) => continue,
            Some(time) => time,
        };
        let text = time.as_str().unwrap_or("");
        let decimals = text.split_once('.').map_or("", |(_, rest)| rest);
        let n_decimals = decimals.bytes().take_while(u8::is_ascii_digit).count();
        if text.parse::<jiff::Timestamp>().is_err() || n_decimals != 6 {
            return Err(format!(
                "parsing time {time} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {time} \
                 as \"2006-01-02T15:04:05.000000Z07:00\""
            ));
        }
    }
    Ok(())
}

/// What `ValidateEventCreate` requires of an event made through events.k8s.io/v1. The event is in
/// the form of the core API, by whose names the server reports most of its fields.
pub(crate) fn check_new(event: &Value) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let text = |name: &str| event[name].as_str().unwrap_or("");
    if event["eventTime"].is_null() {
        check_place(event, &mut wrong, &["default"]);
        wrong.push(Cause::required("eventTime"));
    } else {
        check_place(event, &mut wrong, &["default", "kube-system"]);
        check_report(event, &mut wrong);
    }
    check_series(event, &mut wrong);
    if !["Normal", "Warning"].contains(&text("type")) {
        let why = format!("has invalid value: {}", text("type"));
        wrong.push(Cause::invalid("type", &"".into(), &why));
    }
    for name in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if !is_zero(&event[name]) {
            wrong.push(Cause::invalid(name, &"".into(), "needs to be unset"));
        }
    }
    refuse(event, &wrong)
}

/// What `ValidateEventUpdate` allows to change: the series, labels and annotations.
pub(crate) fn check_change(before: &Value, after: &Value) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    if before["series"] != after["series"] {
        check_series(after, &mut wrong);
    }
    let fields = |event: &Value| event.as_object().cloned().unwrap_or_default();
    let names: BTreeSet<_> =
        [before, after].into_iter().flat_map(fields).map(|(name, _)| name).collect();
    for name in names {
        let may_change = ["metadata", "series", "apiVersion", "kind"].contains(&name.as_str());
        if !may_change && before[&name] != after[&name] {
            wrong.push(Cause::invalid(&name, &after[&name], "field is immutable"));
        }
    }
    refuse(after, &wrong)
}

/// An event about an object of no namespace lies in one of `homes`.
fn check_place(event: &Value, wrong: &mut Vec<Cause>, homes: &[&str]) {
    let namespace = event["metadata"]["namespace"].as_str().unwrap_or("");
    let involved = event["involvedObject"]["namespace"].as_str().unwrap_or("");
    if involved.is_empty() && !homes.contains(&namespace) {
        let field = "involvedObject.namespace";
        wrong.push(Cause::invalid(field, &involved.into(), "does not match event.namespace"));
    }
}

/// Who reports what.
fn check_report(event: &Value, wrong: &mut Vec<Cause>) {
    for (name, field, longest) in [
        ("reportingComponent", "reportingController", usize::MAX),
        ("reportingInstance", "reportingInstance", LONGEST_NAME),
        ("action", "action", LONGEST_NAME),
        ("reason", "reason", LONGEST_NAME),
    ] {
        let text = event[name].as_str().unwrap_or("");
        if text.is_empty() {
            wrong.push(Cause::required(field));
        }
        if text.len() > longest {
            wrong.push(too_long(field, longest));
        }
    }
    let controller = event["reportingComponent"].as_str().unwrap_or("");
    if !is_qualified(controller) {
        let why = "must be a qualified name";
        wrong.push(Cause::invalid("reportingController", &controller.into(), why));
    }
    if event["message"].as_str().unwrap_or("").len() > LONGEST_NOTE {
        wrong.push(too_long("message", LONGEST_NOTE));
    }
}

fn too_long(field: &str, longest: usize) -> Cause {
    let why = format!("can have at most {longest} characters");
    Cause::invalid(field, &"".into(), &why)
}

fn check_series(event: &Value, wrong: &mut Vec<Cause>) {
    let series = &event["series"];
    if series.is_null() {
        return;
    }
    if series["count"].as_u64().unwrap_or(0) < 2 {
        wrong.push(Cause::invalid("series.count", &"".into(), "should be at least 2"));
    }
    if series["lastObservedTime"].is_null() {
        wrong.push(Cause::required("series.lastObservedTime"));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_zero),
        Value::String(text) => text.is_empty(),
        value => value.is_null() || *value == 0,
    }
}

fn refuse(event: &Value, wrong: &[Cause]) -> Result<(), Failure> {
    let name = event["metadata"]["name"].as_str().unwrap_or("");
    match wrong {
        [] => Ok(()),
        wrong => Err(Failure::invalid("", "Event", name, wrong)),
    }
}
