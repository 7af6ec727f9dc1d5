//! Which condition types of a node another writer keeps, by the server's own bookkeeping.
//! Source: apimachinery `pkg/apis/meta/v1`, `ManagedFieldsEntry`: the last writer of a field owns it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::node::Node;

/// The name under which isobar writes.
pub(super) const MANAGER: &str = "isobar";

/// The types of conditions whose status another writer wrote last.
pub(super) fn foreign(node: &Node) -> BTreeSet<String> {
    written(node, |manager| manager != Some(MANAGER))
}

/// The types of conditions whose status isobar wrote last, this agent or one before it.
pub(super) fn own(node: &Node) -> BTreeSet<String> {
    written(node, |manager| manager == Some(MANAGER))
}

fn written(node: &Node, is_its: impl Fn(Option<&str>) -> bool) -> BTreeSet<String> {
    let entries = node.metadata.managed_fields.iter().flatten();
    let its = entries.filter(|entry| is_its(entry.manager.as_deref()));
    let conditions = its.filter_map(|entry| {
        entry.fields_v1.as_ref()?.0.pointer("/f:status/f:conditions")?.as_object()
    });
    let written = conditions.flatten().filter(|(_, fields)| fields.get("f:status").is_some());
    written.filter_map(|(key, _)| kind_of(key)).collect()
}

/// The type in a key such as `k:{"type":"Ready"}`.
fn kind_of(key: &str) -> Option<String> {
    let key: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
    Some(key.get("type")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_by_manager_and_status() {
        let entry = |manager: &str, fields: &str| {
            let fields: Value = serde_json::from_str(fields).unwrap();
            serde_json::json!({"manager": manager, "operation": "Update", "fieldsV1": fields})
        };
        let of = |kind: &str, field: &str| {
            format!(
                r#"{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"{kind}\"}}":{{"{field}":{{}}}}}}}}}}"#
            )
        };
        #[rustfmt::skip]
        let table = [
            // manager, fields, types
            ("kubelet", of("Ready", "f:status"),                    vec!["Ready"]),
            ("isobar",  of("Ready", "f:status"),                    vec![]),
            ("kubelet", of("Ready", "f:lastHeartbeatTime"),         vec![]),
            ("kubelet", r#"{"f:metadata":{"f:labels":{}}}"#.into(), vec![]),
            ("kubelet", r#"{"f:status":{"f:conditions":{".":{}, "k:7": {"f:status":{}}, "k:{}": {"f:status":{}}}}}"#.into(), vec![]),
        ];
        for (manager, fields, want) in table {
            let metadata = serde_json::json!({"managedFields": [entry(manager, &fields)]});
            let node =
                serde_json::from_value(serde_json::json!({"metadata": metadata, "spec": {}}))
                    .unwrap();
            let want: BTreeSet<String> = want.into_iter().map(str::to_owned).collect();
            assert_eq!(foreign(&node), want, "{manager} {fields}");
            let is_own = manager == MANAGER && fields.contains("f:status\":{}");
            assert_eq!(own(&node).len(), usize::from(is_own), "{manager} {fields}");
        }
    }
}
