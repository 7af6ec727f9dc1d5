//! Reading and writing one object: get, create, patch; the status apart from the rest.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::check::{check, check_shape, is_subdomain};
use crate::cluster::Cluster;
use crate::kind::{Kind, Scope};
use crate::managed;
use crate::patch;
use crate::status::{Cause, Failure};
use crate::store::{Key, Store};

/// Metadata that only the server changes.
const OWNED: [&str; 7] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// In characters.
const LONGEST_NAME: usize = 253;
const TOO_LONG: &str = "must be no more than 253 characters";
const NO_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                            characters, '-' or '.'";

pub(crate) fn key(call: &Call, kind: &Kind) -> Key {
    let (namespace, name) = (call.namespace.clone(), call.name.clone());
    Key { resource: kind.plural, namespace, name }
}

pub(crate) fn get(cluster: &Cluster, call: &Call, kind: &Kind) -> Result<Answer, Failure> {
    let found = cluster.read().get(&key(call, kind));
    let object = found.ok_or_else(|| Failure::not_found(kind, &call.name))?;
    Ok(Answer::Object(200, kind.shown(&object)))
}

pub(crate) fn create(cluster: &Cluster, call: &Call, kind: &Kind) -> Result<Answer, Failure> {
    let mut object = kind.stored(body(call, kind)?);
    if !object["metadata"]["resourceVersion"].as_str().unwrap_or("").is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Failure::new(500, "", message));
    }
    let namespace = namespace(call, kind, &object)?;
    cluster.change(|store| {
        let name = name(&object, store)?;
        if !is_subdomain(&name) {
            let why = if name.len() > LONGEST_NAME { TOO_LONG } else { NO_SUBDOMAIN };
            let cause = Cause::invalid("metadata.name", &name.as_str().into(), why);
            return Err(Failure::invalid(kind.internal_group(), kind.name, &name, &[cause]));
        }
        let key = Key { resource: kind.plural, namespace, name };
        let home =
            Key { resource: "namespaces", namespace: String::new(), name: key.namespace.clone() };
        if kind.scope == Scope::Namespaced && store.get(&home).is_none() {
            let namespaces = Kind::of_plural("namespaces");
            return Err(Failure::not_found(namespaces.unwrap_or(kind), &key.namespace));
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|name, _| !OWNED.contains(&name.as_str()));
        }
        object["metadata"]["name"] = key.name.clone().into();
        if kind.scope == Scope::Namespaced {
            object["metadata"]["namespace"] = key.namespace.clone().into();
        }
        match kind.name {
            "Pod" => object["status"] = json!({"phase": "Pending"}),
            "PodDisruptionBudget" => object["status"] = json!({}),
            _ => {}
        }
        check(kind, None, &object)?;
        if store.get(&key).is_some() {
            return Err(Failure::already_exists(kind, &key.name));
        }
        Ok(Answer::Object(201, kind.shown(&store.put(key, object))))
    })
}

/// The namespace of the path, which that of the object must not contradict.
fn namespace(call: &Call, kind: &Kind, object: &Value) -> Result<String, Failure> {
    let own = object["metadata"]["namespace"].as_str().unwrap_or("");
    let differs = !own.is_empty() && own != call.namespace;
    match kind.scope {
        Scope::Namespaced if call.namespace.is_empty() => {
            let message = "an empty namespace may not be set during creation";
            Err(Failure::bad_request(message))
        }
        Scope::Namespaced if differs => Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        Scope::Namespaced | Scope::Cluster => Ok(call.namespace.clone()),
    }
}

/// Its own name, or one made from `generateName`.
fn name(object: &Value, store: &Store) -> Result<String, Failure> {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or("");
    match (text("name"), text("generateName")) {
        ("", "") => {
            let cause = Cause {
                reason: "FieldValueRequired",
                field: "metadata.name".into(),
                message: "Required value: name or generateName is required".into(),
            };
            let kind = object["kind"].as_str().unwrap_or("");
            Err(Failure::invalid("", kind, "", &[cause]))
        }
        ("", prefix) => Ok(format!("{prefix}{:05x}", store.version() + 1)),
        (name, _) => Ok(name.to_owned()),
    }
}

pub(crate) fn patch(cluster: &Cluster, call: &Call, kind: &Kind) -> Result<Answer, Failure> {
    let key = key(call, kind);
    cluster.change(|store| {
        let before = store.get(&key).ok_or_else(|| Failure::not_found(kind, &call.name))?;
        let shown = kind.shown(&before);
        let mut after = patch::apply(call, &shown)?;
        check_shape(kind, &after).map_err(|why| {
            Failure::invalid("", "", "", &[Cause::invalid("patch", &call.body, &why)])
        })?;
        managed::note(call, &shown, &mut after);
        let after = settle(call, kind, &before, kind.stored(after))?;
        let shown = match after == *before {
            true => kind.shown(&after),
            false => kind.shown(&store.put(key, after)),
        };
        Ok(Answer::Object(200, shown))
    })
}

/// The object that is stored in place of `before`, if it may be.
fn settle(call: &Call, kind: &Kind, before: &Value, mut after: Value) -> Result<Value, Failure> {
    let owned =
        |object: &Value, name: &str| object["metadata"][name].as_str().unwrap_or("").to_owned();
    let (name, version, uid) =
        (owned(&after, "name"), owned(&after, "resourceVersion"), owned(&after, "uid"));
    if name != call.name {
        let on_url = &call.name;
        let why = format!(
            "the name of the object ({name}) does not match the name on the URL ({on_url})"
        );
        return Err(Failure::bad_request(why));
    }
    if !version.is_empty() && version != owned(before, "resourceVersion") {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        return Err(Failure::conflict(kind, &name, why));
    }
    if !uid.is_empty() && uid != owned(before, "uid") {
        let cause = Cause::invalid("metadata.uid", &uid.into(), "field is immutable");
        return Err(Failure::invalid(kind.internal_group(), kind.name, &name, &[cause]));
    }
    // `/status` changes the status, and labels and annotations; the object's own path all else.
    match call.subresource.as_str() {
        "status" => {
            let mut kept = before.clone();
            kept["metadata"] = after["metadata"].take();
            kept["status"] = after["status"].take();
            after = kept;
        }
        _ if kind.has_status() => keep(before, &mut after, "status"),
        _ => {}
    }
    for name in OWNED {
        keep(&before["metadata"], &mut after["metadata"], name);
    }
    keep(before, &mut after, "apiVersion");
    keep(before, &mut after, "kind");
    drop_nulls(&mut after);
    check(kind, Some(before), &after)?;
    Ok(after)
}

/// A field as it was, or was not.
fn keep(before: &Value, after: &mut Value, name: &str) {
    let Some(fields) = after.as_object_mut() else { return };
    match before.get(name) {
        Some(value) => fields.insert(name.to_owned(), value.clone()),
        None => fields.remove(name),
    };
}

/// The server decodes into structs, and so does not store what is null.
pub(crate) fn drop_nulls(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

/// The object of a create.
fn body(call: &Call, kind: &Kind) -> Result<Value, Failure> {
    if !call.body.is_object() {
        let message =
            format!("the object provided is unrecognized (must be of type {})", kind.name);
        return Err(Failure::bad_request(message));
    }
    let said = |name: &str| call.body[name].as_str().unwrap_or("");
    let (version, name) = (kind.api_version(), kind.name);
    if !["", version.as_str()].contains(&said("apiVersion")) {
        let said = said("apiVersion");
        let message = format!(
            "the API version in the data ({said}) does not match the expected API version \
             ({version})"
        );
        return Err(Failure::bad_request(message));
    }
    if !["", name].contains(&said("kind")) {
        let said = said("kind");
        let message = format!("{said} in version {version:?} cannot be handled as a {name}");
        return Err(Failure::bad_request(message));
    }
    let mut object = call.body.clone();
    check_shape(kind, &object).map_err(|why| {
        let message = format!("{name} in version \"v1\" cannot be handled as a {name}: {why}");
        Failure::bad_request(message)
    })?;
    object["apiVersion"] = version.into();
    object["kind"] = name.into();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    drop_nulls(&mut object);
    Ok(object)
}
