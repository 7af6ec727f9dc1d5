//! Patches of the three kinds that isobar and kubectl send.

mod json;
mod strategic;

use serde_json::Value;

use crate::call::Call;
use crate::kind::Kind;
use crate::status::Failure;

/// The object that the patch of `call` makes of `before`.
pub(crate) fn apply(call: &Call, kind: &Kind, before: &Value) -> Result<Value, Failure> {
    let mut object = before.clone();
    let patch = &call.body;
    let of_object = || match patch.is_object() {
        true => Ok(()),
        false => Err(Failure::bad_request(format!(
            "error decoding patch: expected a JSON object, found {patch}"
        ))),
    };
    match call.content_type.as_str() {
        "application/json-patch+json" => json::apply(&mut object, patch)?,
        "application/merge-patch+json" => {
            of_object()?;
            merge(&mut object, patch);
        }
        "application/strategic-merge-patch+json" => {
            of_object()?;
            strategic::apply(kind, &mut object, patch)?;
        }
        _ => {
            return Err(Failure::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json",
            ));
        }
    }
    match object.is_object() {
        true => Ok(object),
        false => Err(Failure::bad_request("the patched object is not an object")),
    }
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
