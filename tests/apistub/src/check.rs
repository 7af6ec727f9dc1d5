//! What the server requires of objects beyond their shape, as far as isobar writes them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::event;
use crate::kind::Kind;
use crate::status::{Cause, Failure};

/// Of an object that is about to be stored, in stored form; `before` if it replaces one.
pub(crate) fn check(kind: &Kind, before: Option<&Value>, after: &Value) -> Result<(), Failure> {
    match (kind.group, kind.name, before) {
        (event::GROUP, _, None) => event::check_new(after),
        (event::GROUP, _, Some(before)) => event::check_change(before, after),
        ("", "Node", _) => check_taints(after),
        ("", "Pod", Some(before)) => check_pod(before, after),
        _ => Ok(()),
    }
}

/// What the server decodes into structs, lists, maps and times must be such. Of an object in the
/// form of its API version.
pub(crate) fn check_shape(kind: &Kind, object: &Value) -> Result<(), String> {
    let at = |pointer: &str| object.pointer(pointer).filter(|value| !value.is_null());
    let is_map = |pointer: &&str| at(pointer).is_none_or(Value::is_object);
    let is_list = |pointer: &&str| at(pointer).is_none_or(Value::is_array);
    let maps = ["/metadata", "/metadata/labels", "/spec", "/status", "/status/disruptedPods"];
    let lists = ["/spec/taints", "/spec/containers", "/status/conditions"];
    let wrong_map = maps.iter().find(|pointer| !is_map(pointer));
    let wrong_list = || lists.iter().find(|pointer| !is_list(pointer));
    if let Some(pointer) = wrong_map.or_else(wrong_list) {
        let found = at(pointer).unwrap_or(&Value::Null);
        let field = format!("{}{}", kind.name, pointer.replace('/', "."));
        return Err(format!("json: cannot unmarshal {found} into Go struct field {field}"));
    }
    match kind.group {
        event::GROUP => event::check_times(object),
        _ => Ok(()),
    }
}

fn check_taints(node: &Value) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    let taints = node["spec"]["taints"].as_array().into_iter().flatten().enumerate();
    for (i, taint) in taints {
        let (key, effect) = (&taint["key"], &taint["effect"]);
        let field = |name: &str| format!("metadata.taints[{i}]{name}");
        if !is_qualified(key.as_str().unwrap_or("")) {
            wrong.push(Cause::invalid(&field(".key"), key, "must be a qualified name"));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        match effect.as_str() {
            None | Some("") => wrong.push(Cause::required(&field(".effect"))),
            Some(effect) if !effects.contains(&effect) => wrong.push(Cause {
                reason: "FieldValueNotSupported",
                field: field(".effect"),
                message: format!(
                    "Unsupported value: {effect:?}: supported values: \"NoSchedule\", \
                     \"PreferNoSchedule\", \"NoExecute\""
                ),
            }),
            Some(_) => {}
        }
        if !seen.insert((key.to_string(), effect.to_string())) {
            wrong.push(Cause {
                reason: "FieldValueDuplicate",
                field: field(""),
                message: "Duplicate value: taints must be unique by key and effect pair".into(),
            });
        }
    }
    refuse("Node", node, &wrong)
}

/// The real server allows images, the active deadline and further tolerations.
fn check_pod(before: &Value, after: &Value) -> Result<(), Failure> {
    if before["spec"] == after["spec"] {
        return Ok(());
    }
    let why = "pod updates may not change fields other than `spec.containers[*].image`,\
               `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` \
               (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
               (allow it to be set to 1 if it was previously negative)";
    refuse("Pod", after, &[Cause::forbidden("spec", why)])
}

fn refuse(kind: &str, object: &Value, wrong: &[Cause]) -> Result<(), Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or("");
    match wrong {
        [] => Ok(()),
        wrong => Err(Failure::invalid("", kind, name, wrong)),
    }
}

/// `name` or `prefix/name`: the form of label and taint keys and of reporting controllers.
pub(crate) fn is_qualified(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(p, n)| (Some(p), n));
    let is_end = |c: char| c.is_ascii_alphanumeric();
    let is_name = name.len() <= 63
        && name.starts_with(is_end)
        && name.ends_with(is_end)
        && name.chars().all(|c| is_end(c) || "-_.".contains(c));
    is_name && prefix.is_none_or(is_subdomain)
}

/// Of a namespace's or an object's name: a DNS subdomain of RFC 1123.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_end)
            && label.ends_with(is_end)
            && label.chars().all(|c| is_end(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}
