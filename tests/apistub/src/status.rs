//! Refusals, in the words of the real server: a `Status` with code, reason and details.

use serde_json::{Map, Value, json};

use crate::kind::Kind;

/// What the server answers in place of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
}

/// One of the things that are wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn required(field: &str) -> Self {
        let message = "Required value".to_owned();
        Self { reason: "FieldValueRequired", field: field.to_owned(), message }
    }

    pub(crate) fn invalid(field: &str, value: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {value}: {why}");
        Self { reason: "FieldValueInvalid", field: field.to_owned(), message }
    }

    pub(crate) fn forbidden(field: &str, why: &str) -> Self {
        let message = format!("Forbidden: {why}");
        Self { reason: "FieldValueForbidden", field: field.to_owned(), message }
    }
}

impl Failure {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.qualified());
        Self::new(404, "NotFound", message).about(kind.group, kind.plural, name)
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.qualified());
        Self::new(409, "AlreadyExists", message).about(kind.group, kind.plural, name)
    }

    /// Of a write by who had not seen the latest version.
    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let on = kind.qualified();
        let message = format!("Operation cannot be fulfilled on {on} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(kind.group, kind.plural, name)
    }

    /// Of a precondition of a deletion. The real server names the kind here, not the resource.
    pub(crate) fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let on = kind.name;
        let message = format!("Operation cannot be fulfilled on {on} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(kind.group, kind.name, name)
    }

    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let texts: Vec<_> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let text = match texts.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let on = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{on} {name:?} is invalid: {text}");
        let mut failure = Self::new(422, "Invalid", message).about(group, kind, name);
        let cause = |c: &Cause| json!({"reason": c.reason, "message": c.message, "field": c.field});
        failure.detail("causes", causes.iter().map(cause).collect());
        failure
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// `retry_after` in seconds; 0 is no advice, as the real server has it.
    pub(crate) fn too_many_requests(message: &str, retry_after: u64) -> Self {
        let mut failure = Self::new(429, "TooManyRequests", message);
        failure.details = Some(json!({}));
        if retry_after > 0 {
            failure.detail("retryAfterSeconds", retry_after.into());
        }
        failure
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self.detail(key, value.into());
            }
        }
        self
    }

    pub(crate) fn detail(&mut self, key: &str, value: Value) {
        let details = self.details.get_or_insert_with(|| json!({}));
        details[key] = value;
    }

    /// In seconds, for the header of this name.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    pub(crate) fn object(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), "Status".into());
        status.insert("apiVersion".into(), "v1".into());
        status.insert("metadata".into(), json!({}));
        status.insert("status".into(), "Failure".into());
        status.insert("message".into(), self.message.clone().into());
        if !self.reason.is_empty() {
            status.insert("reason".into(), self.reason.into());
        }
        if let Some(details) = &self.details {
            status.insert("details".into(), details.clone());
        }
        status.insert("code".into(), self.code.into());
        status.into()
    }
}

/// The `Status` of what has succeeded and has no object to show.
pub(crate) fn success(code: u16, details: Option<Value>) -> Value {
    let mut status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => status["details"] = details,
        None => status["code"] = code.into(),
    }
    status
}
