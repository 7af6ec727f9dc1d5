//! Where two JSON documents differ, and what of a decision counts as a difference.

use serde_json::{Value, json};

use crate::model::decision::{Action, Decision};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The JSON pointer to it (RFC 6901); empty for the whole.
    pub path: String,
    /// `None` if the left side has nothing there.
    pub left: Option<Value>,
    pub right: Option<Value>,
}

/// For two objects, the first difference within each field, sorted by name; for other values, the
/// first difference.
pub fn by_field(left: &Value, right: &Value) -> Vec<Difference> {
    let (Value::Object(a), Value::Object(b)) = (left, right) else {
        return first(left, right).into_iter().collect();
    };
    let mut fields: Vec<_> = a.keys().chain(b.keys()).collect();
    fields.sort_unstable();
    fields.dedup();
    let differences = fields.into_iter().filter_map(|field| {
        let found = between(a.get(field), b.get(field))?;
        Some(Difference { path: format!("/{}{}", escaped(field), found.path), ..found })
    });
    differences.collect()
}

/// The first difference, depth first, in the order of names and positions.
pub fn first(left: &Value, right: &Value) -> Option<Difference> {
    between(Some(left), Some(right))
}

/// What a decision came to: conditions, met thresholds, actions. Its measurements are left out: they
/// differ wherever configurations measure something else, and in every second.
pub fn verdict(decision: &Decision) -> Value {
    let Decision { assessment, relief, .. } = decision;
    let due = assessment.met.iter().filter(|met| met.is_due).map(|met| met.threshold.name());
    let act = |action: &Action| json!({"step": action.step, "target": action.target.full_name()});
    let mut verdict = json!({
        "actions": relief.actions.iter().map(act).collect::<Vec<_>>(),
        "due": due.collect::<Vec<_>>(),
        "held": relief.held,
        "nodePressure": assessment.node_pressure,
        "taints": assessment.taints.iter().map(|taint| &taint.key).collect::<Vec<_>>(),
    });
    for condition in &assessment.conditions {
        verdict[&condition.kind] = json!(condition.status);
    }
    verdict
}

fn between(left: Option<&Value>, right: Option<&Value>) -> Option<Difference> {
    match (left, right) {
        (Some(Value::Object(_)), Some(Value::Object(_))) => {
            by_field(left?, right?).into_iter().next()
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => (0..a.len().max(b.len())).find_map(|i| {
            let found = between(a.get(i), b.get(i))?;
            Some(Difference { path: format!("/{i}{}", found.path), ..found })
        }),
        _ if left == right => None,
        _ => Some(Difference { path: String::new(), left: left.cloned(), right: right.cloned() }),
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn first_names_path_and_both_sides() {
        #[rustfmt::skip]
        let table = [
            // left, right, path, left there, right there
            (json!({"a": 1}),          json!({"a": 2}),       "/a",    Some(json!(1)), Some(json!(2))),
            (json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3}]}), "/a/1/b", Some(json!(2)), Some(json!(3))),
            (json!({"a": [1]}),        json!({"a": [1, 2]}),  "/a/1",  None,           Some(json!(2))),
            (json!({"a": null}),       json!({}),             "/a",    Some(json!(null)), None), // null is not missing
            (json!({"a/b": 1}),        json!({"a/b": 2}),     "/a~1b", Some(json!(1)), Some(json!(2))),
            (json!([1]),               json!({"a": 1}),       "",      Some(json!([1])), Some(json!({"a": 1}))),
        ];
        for (left, right, path, there, and_there) in table {
            let want = Difference { path: path.into(), left: there, right: and_there };
            assert_eq!(first(&left, &right), Some(want), "{left} and {right}");
            assert_eq!(first(&left, &left), None, "{left}");
        }
        let (a, b) = (json!({"z": [1, 1], "a": 1, "same": 0}), json!({"z": [2, 2], "same": 0}));
        let paths: Vec<_> = by_field(&a, &b).into_iter().map(|d| d.path).collect();
        assert_eq!(paths, ["/a", "/z/0"], "one for each field");
    }
}
