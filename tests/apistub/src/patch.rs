//! Patches of the two kinds that isobar sends.

use serde_json::Value;

use crate::call::Call;
use crate::status::Failure;

/// The only list that a strategic merge patch merges here, by the type of its items: all others it
/// replaces as a whole, as the real server does with a node's taints.
const CONDITIONS: &str = "/status/conditions";

/// The object that the patch of `call` makes of `before`.
pub(crate) fn apply(call: &Call, before: &Value) -> Result<Value, Failure> {
    let mut object = before.clone();
    let patch = &call.body;
    let is_strategic = match call.content_type.as_str() {
        "application/merge-patch+json" => false,
        "application/strategic-merge-patch+json" => true,
        _ => {
            return Err(Failure::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/merge-patch+json, application/strategic-merge-patch+json",
            ));
        }
    };
    if !patch.is_object() {
        let message = format!("error decoding patch: expected a JSON object, found {patch}");
        return Err(Failure::bad_request(message));
    }
    match patch.pointer(CONDITIONS).and_then(Value::as_array) {
        Some(changes) if is_strategic => {
            let mut patch = patch.clone();
            patch["status"]["conditions"] = conditions(before, changes)?.into();
            merge(&mut object, &patch);
        }
        _ => merge(&mut object, patch),
    }
    Ok(object)
}

/// RFC 7386.
fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(serde_json::Map::new());
    }
    for (name, value) in patch {
        match value {
            Value::Null => {
                object.as_object_mut().and_then(|fields| fields.remove(name));
            }
            value => merge(&mut object[name], value),
        }
    }
}

/// The conditions of `before` after these changes.
fn conditions(before: &Value, changes: &[Value]) -> Result<Vec<Value>, Failure> {
    let mut all = before.pointer(CONDITIONS).and_then(Value::as_array).cloned().unwrap_or_default();
    for change in changes {
        let kind = &change["type"];
        if kind.is_null() {
            let message = format!("map: {change} does not contain declared merge key: type");
            return Err(Failure::new(500, "", message));
        }
        let found = all.iter().position(|one| one["type"] == *kind);
        match (change["$patch"].as_str(), found) {
            (Some("delete"), _) => all.retain(|one| one["type"] != *kind),
            (Some(_), _) => {
                let message = format!("unknown patch type found in: {change}");
                return Err(Failure::new(500, "", message));
            }
            (None, Some(at)) => merge(&mut all[at], change),
            (None, None) => all.push(change.clone()),
        }
    }
    Ok(all)
}
