//! Strategic merge patches: a merge that knows which lists are merged, and by which key.
//!
//! Directives that are understood: `$patch` (`delete`, `replace`, `merge`), `$setElementOrder/..`,
//! `$deleteFromPrimitiveList/..`, `$retainKeys`.

use serde_json::{Map, Value};

use crate::kind::Kind;
use crate::status::Failure;

/// How a list is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    /// The list of the patch takes the place of the other.
    Atomic,
    /// Items with the same value under this key are merged.
    Keyed(&'static str),
    /// Values are added that are not there.
    Set,
}

/// From the `patchStrategy` and `patchMergeKey` tags of the API's types; all others are atomic.
/// `spec.taints` of a node is one of those, and so are tolerations and container statuses.
#[rustfmt::skip]
const MERGED: &[(&str, &str, Strategy)] = &[
    // kind (any if empty), path, strategy
    ("",                    "metadata.ownerReferences",         Strategy::Keyed("uid")),
    ("",                    "metadata.finalizers",              Strategy::Set),
    ("Node",                "status.conditions",                Strategy::Keyed("type")),
    ("Node",                "status.addresses",                 Strategy::Keyed("type")),
    ("Node",                "spec.podCIDRs",                    Strategy::Set),
    ("Namespace",           "status.conditions",                Strategy::Keyed("type")),
    ("PodDisruptionBudget", "status.conditions",                Strategy::Keyed("type")),
    ("Pod",                 "status.conditions",                Strategy::Keyed("type")),
    ("Pod",                 "status.podIPs",                    Strategy::Keyed("ip")),
    ("Pod",                 "status.hostIPs",                   Strategy::Keyed("ip")),
    ("Pod",                 "status.resourceClaimStatuses",     Strategy::Keyed("name")),
    ("Pod",                 "spec.containers",                  Strategy::Keyed("name")),
    ("Pod",                 "spec.initContainers",              Strategy::Keyed("name")),
    ("Pod",                 "spec.ephemeralContainers",         Strategy::Keyed("name")),
    ("Pod",                 "spec.volumes",                     Strategy::Keyed("name")),
    ("Pod",                 "spec.imagePullSecrets",            Strategy::Keyed("name")),
    ("Pod",                 "spec.hostAliases",                 Strategy::Keyed("ip")),
    ("Pod",                 "spec.topologySpreadConstraints",   Strategy::Keyed("topologyKey")),
    ("Pod",                 "spec.containers.env",              Strategy::Keyed("name")),
    ("Pod",                 "spec.containers.ports",            Strategy::Keyed("containerPort")),
    ("Pod",                 "spec.containers.volumeMounts",     Strategy::Keyed("mountPath")),
    ("Pod",                 "spec.containers.volumeDevices",    Strategy::Keyed("devicePath")),
];

fn strategy(kind: &Kind, path: &str) -> Strategy {
    let found =
        |(on, at, _): &&(&str, &str, Strategy)| (on.is_empty() || *on == kind.name) && *at == path;
    MERGED.iter().find(found).map_or(Strategy::Atomic, |(.., strategy)| *strategy)
}

pub(super) fn apply(kind: &Kind, object: &mut Value, patch: &Value) -> Result<(), Failure> {
    merge(kind, "", object, patch)
}

/// Merges maps; anything else takes the place of what was there.
fn merge(kind: &Kind, path: &str, object: &mut Value, patch: &Value) -> Result<(), Failure> {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return Ok(());
    };
    match directive(patch)? {
        Directive::Merge => {}
        Directive::Delete => {
            *object = Value::Object(Map::new());
            return Ok(());
        }
        Directive::Replace => {
            *object = without_directives(patch).into();
            return Ok(());
        }
    }
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let (Some(kept), Some(fields)) = (patch.get("$retainKeys"), object.as_object_mut()) {
        let kept: Vec<_> = kept.as_array().into_iter().flatten().collect();
        fields.retain(|name, _| kept.iter().any(|k| *k == name));
    }
    for (name, value) in patch {
        let below = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(items) = object.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        match value {
            Value::Null => {
                object.as_object_mut().and_then(|fields| fields.remove(name));
            }
            Value::Array(items) => merge_list(kind, &below(name), &mut object[name], items)?,
            value => merge(kind, &below(name), &mut object[name], value)?,
        }
    }
    for (name, order) in patch {
        if let Some(list) = name.strip_prefix("$setElementOrder/") {
            let path = if path.is_empty() { list.to_owned() } else { format!("{path}.{list}") };
            let order = order.as_array().map_or(&[][..], Vec::as_slice);
            sort(strategy(kind, &path), object.get_mut(list), order);
        }
    }
    Ok(())
}

fn merge_list(kind: &Kind, path: &str, list: &mut Value, patch: &[Value]) -> Result<(), Failure> {
    let strategy = strategy(kind, path);
    let replaces = patch.iter().any(|item| item.is_object() && item["$patch"] == "replace");
    let mut items = match list.take() {
        Value::Array(items) if strategy != Strategy::Atomic && !replaces => items,
        _ => Vec::new(),
    };
    for item in patch {
        match strategy {
            Strategy::Keyed(key) => merge_item(kind, path, key, &mut items, item)?,
            Strategy::Set if items.contains(item) => {}
            Strategy::Set | Strategy::Atomic => items.push(item.clone()),
        }
    }
    *list = items.into();
    Ok(())
}

fn merge_item(
    kind: &Kind,
    path: &str,
    key: &str,
    items: &mut Vec<Value>,
    patch: &Value,
) -> Result<(), Failure> {
    let fields = patch.as_object().ok_or_else(|| {
        Failure::bad_request(format!("{path}: expected an object, found {patch}"))
    })?;
    if fields.len() == 1 && fields.get("$patch").is_some_and(|value| value == "replace") {
        return Ok(());
    }
    let Some(value) = fields.get(key).filter(|value| !value.is_null()) else {
        let message = format!("map: {patch} does not contain declared merge key: {key}");
        return Err(Failure::new(500, "", message));
    };
    let found = items.iter().position(|item| item[key] == *value);
    match (directive(fields)?, found) {
        (Directive::Delete, Some(_)) => items.retain(|item| item[key] != *value),
        (Directive::Delete, None) => {}
        (_, Some(at)) => merge(kind, path, &mut items[at], patch)?,
        (_, None) => {
            let mut item = Value::Null;
            merge(kind, path, &mut item, patch)?;
            items.push(item);
        }
    }
    Ok(())
}

/// What `$patch` says.
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Map<String, Value>) -> Result<Directive, Failure> {
    match patch.get("$patch").map(|value| value.as_str().unwrap_or("")) {
        None | Some("merge") => Ok(Directive::Merge),
        Some("replace") => Ok(Directive::Replace),
        Some("delete") => Ok(Directive::Delete),
        Some(_) => {
            let patch = Value::from(patch.clone());
            Err(Failure::new(500, "", format!("unknown patch type found in: {patch}")))
        }
    }
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    let own = patch.iter().filter(|(name, _)| !name.starts_with('$'));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Items that `order` names take its order; the others come after them as they were.
fn sort(strategy: Strategy, list: Option<&mut Value>, order: &[Value]) {
    let Some(items) = list.and_then(Value::as_array_mut) else { return };
    let place = |item: &Value| {
        let same = |wanted: &Value| match strategy {
            Strategy::Keyed(key) => wanted[key] == item[key],
            Strategy::Set | Strategy::Atomic => wanted == item,
        };
        order.iter().position(same).unwrap_or(order.len())
    };
    items.sort_by_key(place);
}
