//! Who wrote which fields of conditions last: `managedFields`, as patches of a status change them.
//! Source: apimachinery `pkg/util/managedfields`: an update owns what it changes, and nobody else does.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::call::Call;
use crate::store::now;

/// Of a client that does not say who it is.
const UNNAMED: &str = "unknown";

/// Has `after` say who made it of `before`.
pub(crate) fn note(call: &Call, before: &Value, after: &mut Value) {
    let changed = match call.subresource.as_str() {
        "status" => changed(before, after),
        _ => Vec::new(),
    };
    if changed.is_empty() {
        return;
    }
    let manager = call.option("fieldManager").unwrap_or(UNNAMED);
    let mut entries = match after["metadata"]["managedFields"].take() {
        Value::Array(entries) => entries,
        _ => Vec::new(),
    };
    for entry in &mut entries {
        changed.iter().for_each(|one| disown(entry, one));
    }
    let is_own = |entry: &Value| {
        entry["manager"] == manager
            && entry["operation"] == "Update"
            && entry["subresource"] == "status"
    };
    let place = entries.iter().position(is_own).unwrap_or_else(|| {
        entries.push(json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {}, "subresource": "status",
        }));
        entries.len() - 1
    });
    let own = &mut entries[place];
    own["time"] = now().into();
    for Changed { key, field, .. } in changed.iter().filter(|one| one.is_there) {
        own["fieldsV1"]["f:status"]["f:conditions"][key][field] = json!({});
    }
    let nothing = [json!({}), json!({"f:status": {"f:conditions": {}}})];
    entries.retain(|entry| !nothing.contains(&entry["fieldsV1"]));
    after["metadata"]["managedFields"] = entries.into();
}

/// A field of a condition that has another value, or none any more.
struct Changed {
    /// The condition, as entries name it.
    key: String,
    field: String,
    is_there: bool,
}

fn changed(before: &Value, after: &Value) -> Vec<Changed> {
    let conditions = |object: &Value| object["status"]["conditions"].as_array().cloned();
    let (before, after) = (conditions(before), conditions(after));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let kinds: BTreeSet<&str> =
        before.iter().chain(&after).filter_map(|one| one["type"].as_str()).collect();
    let mut changed = Vec::new();
    for kind in kinds {
        let of_kind = |all: &[Value]| all.iter().find(|one| one["type"] == kind).cloned();
        let (before, after) = (of_kind(&before), of_kind(&after));
        let fields = [&before, &after].into_iter().flatten().filter_map(Value::as_object);
        let names: BTreeSet<&String> = fields.flat_map(|fields| fields.keys()).collect();
        let key = format!("k:{}", json!({"type": kind}));
        let value =
            |of: &Option<Value>, name: &str| of.as_ref().and_then(|one| one.get(name).cloned());
        for name in names {
            let (was, is) = (value(&before, name), value(&after, name));
            if was != is {
                let (key, field) = (key.clone(), format!("f:{name}"));
                changed.push(Changed { key, field, is_there: is.is_some() });
            }
        }
    }
    changed
}

fn disown(entry: &mut Value, Changed { key, field, .. }: &Changed) {
    let conditions = entry.pointer_mut("/fieldsV1/f:status/f:conditions");
    let Some(conditions) = conditions.and_then(Value::as_object_mut) else { return };
    let Some(fields) = conditions.get_mut(key).and_then(Value::as_object_mut) else { return };
    fields.remove(field);
    if fields.is_empty() {
        conditions.remove(key);
    }
}
