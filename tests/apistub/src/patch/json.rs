//! RFC 6902. A patch that does not fit, a failed `test` among them, is refused with 422 as a whole.

use serde_json::{Value, json};

use crate::status::Failure;

pub(super) fn apply(object: &mut Value, patch: &Value) -> Result<(), Failure> {
    let operations = patch.as_array().ok_or_else(|| {
        Failure::bad_request(format!("error decoding patch: expected a list, found {patch}"))
    })?;
    for operation in operations {
        step(object, operation).ok_or_else(misfit)?;
    }
    Ok(())
}

fn misfit() -> Failure {
    let message = "the server rejected our request due to an error in our request";
    let mut failure = Failure::new(422, "Invalid", message);
    failure.details = Some(json!({}));
    failure
}

fn step(object: &mut Value, operation: &Value) -> Option<()> {
    let path = operation["path"].as_str()?;
    let value = operation.get("value");
    match operation["op"].as_str()? {
        "add" => add(object, path, value?.clone()),
        "remove" => remove(object, path).map(drop),
        "replace" => {
            *object.pointer_mut(path)? = value?.clone();
            Some(())
        }
        "move" => {
            let moved = remove(object, operation["from"].as_str()?)?;
            add(object, path, moved)
        }
        "copy" => {
            let copied = object.pointer(operation["from"].as_str()?)?.clone();
            add(object, path, copied)
        }
        // What is absent equals null, as in the library of the real server.
        "test" => (object.pointer(path).unwrap_or(&Value::Null) == value.unwrap_or(&Value::Null))
            .then_some(()),
        _ => None,
    }
}

/// The parent of what `path` names, and the last part of the path.
fn parent<'a>(object: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((object.pointer_mut(parent)?, last.replace("~1", "/").replace("~0", "~")))
}

fn add(object: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *object = value;
        return Some(());
    }
    match parent(object, path)? {
        (Value::Object(fields), name) => drop(fields.insert(name, value)),
        (Value::Array(items), at) if at == "-" => items.push(value),
        (Value::Array(items), at) => {
            let at = at.parse().ok().filter(|at| *at <= items.len())?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(object: &mut Value, path: &str) -> Option<Value> {
    match parent(object, path)? {
        (Value::Object(fields), name) => fields.remove(&name),
        (Value::Array(items), at) => {
            let at = at.parse().ok().filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}
