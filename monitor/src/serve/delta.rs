//! What has changed in a stream's view since the event before, as a JSON Merge Patch (RFC 7396).

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use serde_json::{Map, Value};

use crate::lock::lock;

/// The last two views that streams of changes were sent, and the change from the one to the other:
/// as a rule all streams have the same one. One that lags further behind is sent a whole view.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    n_followers: usize,
    before: Option<(u64, Value)>,
    last: Option<(u64, Value)>,
    /// From `before` to `last`.
    change: Option<Bytes>,
}

/// A stream of changes.
#[derive(Debug)]
pub(super) struct Follower(Changes);

impl Drop for Follower {
    fn drop(&mut self) {
        let mut kept = lock(&self.0.0);
        kept.n_followers -= 1;
        if kept.n_followers == 0 {
            *kept = Kept::default();
        }
    }
}

impl Changes {
    pub(super) fn follow(&self) -> Follower {
        lock(&self.0).n_followers += 1;
        Follower(self.clone())
    }
}

impl Follower {
    /// The change from the view of tick `from` to this one, of tick `to`; `None` if that one is not
    /// kept.
    pub(super) fn between(&self, from: Option<u64>, to: u64, view: &[u8]) -> Option<Bytes> {
        let mut kept = lock(&self.0.0);
        if kept.last.as_ref().is_none_or(|(tick, _)| *tick != to) {
            let value = serde_json::from_slice(view).ok()?;
            let before = kept.last.replace((to, value));
            (kept.before, kept.change) = (before, None);
        }
        let Kept { before, last, change, .. } = &mut *kept;
        let ((tick, before), (_, last)) = (before.as_ref()?, last.as_ref()?);
        if from != Some(*tick) {
            return None;
        }
        let patch = || serde_json::to_vec(&patch(before, last)).map(Bytes::from).ok();
        if change.is_none() {
            *change = patch();
        }
        change.clone()
    }
}

/// What makes `after` of `before`: members that differ, and null for those that are gone. A member
/// that became null is gone, too: not measured is the same as missing.
fn patch(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return after.clone();
    };
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let mut all: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
    for (name, after) in after {
        match before.get(name) {
            Some(before) if before == after => {}
            Some(before) => _ = all.insert(name.clone(), patch(before, after)),
            None => _ = all.insert(name.clone(), after.clone()),
        }
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC 7396, section 2.
    fn merge(target: &mut Value, patch: Value) {
        let Value::Object(patch) = patch else {
            *target = patch;
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (name, value) in patch {
            match value {
                Value::Null => _ = target.as_object_mut().unwrap().remove(&name),
                value => merge(&mut target[name], value),
            }
        }
    }

    fn without_nulls(value: Value) -> Value {
        let Value::Object(members) = value else { return value };
        let known = members.into_iter().filter(|(_, value)| !value.is_null());
        known.map(|(name, value)| (name, without_nulls(value))).collect()
    }

    #[test]
    fn patch_makes_one_of_the_other() {
        #[rustfmt::skip]
        let table = [
            // before, after, patch
            (json!({"a": 1, "b": {"c": 2}}),   json!({"a": 1, "b": {"c": 2}}),    json!({})),
            (json!({"a": 1, "b": {"c": 2}}),   json!({"a": 1, "b": {"c": 3}}),    json!({"b": {"c": 3}})),
            (json!({"s": {"1": {}, "2": {}}}), json!({"s": {"2": {}, "3": {}}}),  json!({"s": {"1": null, "3": {}}})),
            (json!({"a": [1, 2]}),             json!({"a": [1]}),                 json!({"a": [1]})),
            (json!({"a": {"b": 1}}),           json!({"a": null}),                json!({"a": null})),
            (json!({"a": null}),               json!({"a": {"b": null}}),         json!({"a": {"b": null}})),
            (json!({"a": {"b": 1}}),           json!({"a": 7}),                   json!({"a": 7})),
        ];
        for (before, after, want) in table {
            let got = patch(&before, &after);
            assert_eq!(got, want, "{before} to {after}");
            let mut merged = before.clone();
            merge(&mut merged, got);
            assert_eq!(without_nulls(merged), without_nulls(after.clone()), "{before} to {after}");
        }
    }
}
