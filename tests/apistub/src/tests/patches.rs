use serde_json::{Value, json};

use super::client::{JSON, MERGE, STRATEGIC, get, patch, stub};
use crate::Stub;

const NODE: &str = "/api/v1/nodes/worker-1";
const STATUS: &str = "/api/v1/nodes/worker-1/status";
const POD: &str = "/api/v1/namespaces/shop/pods/web-0";

/// The types of the node's conditions with their status, in order.
fn conditions(stub: &Stub) -> String {
    let node = stub.get("nodes", "", "worker-1").unwrap();
    let all = node["status"]["conditions"].as_array().unwrap().iter();
    let brief =
        |c: &Value| format!("{}={}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap());
    all.map(brief).collect::<Vec<_>>().join(" ")
}

#[test]
fn strategic_patch_merges_conditions_by_type() {
    let kubelet = "MemoryPressure=False DiskPressure=False PIDPressure=False Ready=True";
    let ours = "SystemMemoryContentionPressure";
    let add = json!([{"type": ours, "status": "True", "reason": "r", "message": "m"}]);
    let change = json!([{"type": ours, "status": "False"}]);
    let remove = json!([{"type": ours, "$patch": "delete"}]);
    let stub = stub();
    #[rustfmt::skip]
    let table = [
        // conditions of the patch, conditions after it
        (&add,    format!("{kubelet} {ours}=True")),
        (&change, format!("{kubelet} {ours}=False")),
        (&remove, kubelet.to_owned()),
        (&remove, kubelet.to_owned()),
    ];
    for (list, want) in table {
        let reply = patch(&stub, STATUS, STRATEGIC, &json!({"status": {"conditions": list}}));
        assert_eq!((reply.code, conditions(&stub)), (200, want), "{list}");
    }
}

#[test]
fn strategic_patch_changes_only_the_fields_that_it_names() {
    let stub = stub();
    let beat = json!([{"type": "Ready", "lastHeartbeatTime": "2026-02-02T00:00:00Z"}]);
    patch(&stub, STATUS, STRATEGIC, &json!({"status": {"conditions": beat}}));
    let node = stub.get("nodes", "", "worker-1").unwrap();
    let want = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "KubeletReady",
        "lastHeartbeatTime": "2026-02-02T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    assert_eq!(node["status"]["conditions"][3], want);
}

#[test]
fn patch_replaces_taints_as_a_whole() {
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    for kind in [STRATEGIC, MERGE] {
        let stub = stub();
        for taints in [json!([taint("a"), taint("b")]), json!([taint("c")]), json!([])] {
            let reply = patch(&stub, NODE, kind, &json!({"spec": {"taints": taints}}));
            assert_eq!((reply.code, reply.at("/spec/taints")), (200, &taints), "{kind}");
        }
        patch(&stub, NODE, kind, &json!({"spec": {"taints": null}}));
        assert_eq!(get(&stub, NODE).body["spec"], json!({}), "{kind}");
    }
}

#[test]
fn patch_of_taints_is_checked() {
    let stub = stub();
    let t = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let one_of = "supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"";
    #[rustfmt::skip]
    let table = [
        // taints, message after "Node "worker-1" is invalid: "
        (json!([t("a", "Sometimes")]),                        format!("metadata.taints[0].effect: Unsupported value: \"Sometimes\": {one_of}")),
        (json!([t("a", "")]),                                 "metadata.taints[0].effect: Required value".into()),
        (json!([t("a b", "NoSchedule")]),                     "metadata.taints[0].key: Invalid value: \"a b\": must be a qualified name".into()),
        (json!([t("a", "NoSchedule"), t("a", "NoSchedule")]), "metadata.taints[1]: Duplicate value: taints must be unique by key and effect pair".into()),
    ];
    for (taints, want) in table {
        let reply = patch(&stub, NODE, MERGE, &json!({"spec": {"taints": taints}}));
        let want = format!("Node \"worker-1\" is invalid: {want}");
        assert_eq!(reply.refusal(), (422, want.as_str()), "{taints}");
    }
    let both = json!([t("a", "NoSchedule"), t("a", "NoExecute")]);
    assert_eq!(patch(&stub, NODE, MERGE, &json!({"spec": {"taints": both}})).code, 200);
}

#[test]
fn patch_with_a_version_is_conditional() {
    for kind in [STRATEGIC, MERGE] {
        let stub = stub();
        let with = |version: &Value| json!({"metadata": {"resourceVersion": version}, "spec": {"taints": []}});
        let version = get(&stub, NODE).body["metadata"]["resourceVersion"].clone();
        let stale = patch(&stub, NODE, kind, &with(&json!("1")));
        let want = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Operation cannot be fulfilled on nodes \"worker-1\": the object has been \
                        modified; please apply your changes to the latest version and try again",
            "reason": "Conflict", "details": {"name": "worker-1", "kind": "nodes"}, "code": 409,
        });
        assert_eq!((stale.code, stale.body), (409, want), "{kind}");
        let fresh = patch(&stub, NODE, kind, &with(&version));
        assert_eq!((fresh.code, fresh.at("/spec/taints")), (200, &json!([])), "{kind}");
    }
}

#[test]
fn patch_of_labels_merges() {
    for kind in [STRATEGIC, MERGE] {
        #[rustfmt::skip]
        let table = [
            // labels of the patch, labels after it
            (json!({"b": "2"}),    json!({"app": "web-0", "b": "2"})),
            (json!({"app": null}), json!({})),
        ];
        for (labels, want) in table {
            let stub = stub();
            for n_changes in [1, 0] {
                let version = stub.version();
                let reply = patch(&stub, POD, kind, &json!({"metadata": {"labels": labels}}));
                assert_eq!((reply.code, reply.at("/metadata/labels")), (200, &want), "{labels}");
                // What changes nothing makes no new version.
                assert_eq!(stub.version(), version + n_changes, "{labels}");
            }
        }
    }
}

#[test]
fn patch_refusals() {
    let stub = stub();
    let conditions = |one: Value| json!({"status": {"conditions": [one]}});
    let nameless = conditions(json!({"status": "True"}));
    let replaced = conditions(json!({"type": "Ready", "$patch": "replace"}));
    let unheard = "the body of the request was in an unknown format - accepted media types \
                   include: application/merge-patch+json, application/strategic-merge-patch+json";
    #[rustfmt::skip]
    let table = [
        // path, kind, patch, code, message
        (STATUS, STRATEGIC, nameless,                            500, "map: {\"status\":\"True\"} does not contain declared merge key: type"),
        (STATUS, STRATEGIC, replaced,                            500, "unknown patch type found in: {\"$patch\":\"replace\",\"type\":\"Ready\"}"),
        (NODE,   STRATEGIC, json!([]),                           400, "error decoding patch: expected a JSON object, found []"),
        (NODE,   MERGE,     json!("text"),                       400, "error decoding patch: expected a JSON object, found \"text\""),
        (NODE,   MERGE,     json!({"metadata": {"name": "b"}}),  400, "the name of the object (b) does not match the name on the URL (worker-1)"),
        (NODE,   MERGE,     json!({"metadata": 1}),              422, " \"\" is invalid: patch: Invalid value: {\"metadata\":1}: json: cannot unmarshal 1 into Go struct field Node.metadata"),
        (NODE,   JSON,      json!({}),                           415, unheard),
        (POD,    MERGE,     json!({"metadata": {"uid": "other"}}), 422, "Pod \"web-0\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable"),
        (POD,    MERGE,     json!({"spec": {"nodeName": "b"}}),  422, "Pod \"web-0\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"),
        ("/api/v1/nodes/b", MERGE, json!({}),                    404, "nodes \"b\" not found"),
    ];
    for (path, kind, body, code, message) in table {
        assert_eq!(patch(&stub, path, kind, &body).refusal(), (code, message), "{kind} {body}");
    }
}

#[test]
fn patch_keeps_status_and_rest_apart() {
    let body = json!({"spec": {"unschedulable": true}, "status": {"phase": "New"}});
    for kind in [STRATEGIC, MERGE] {
        let node = patch(&stub(), NODE, kind, &body);
        assert_eq!(
            (node.at("/spec/unschedulable"), node.at("/status/phase")),
            (&json!(true), &Value::Null)
        );
        let status = patch(&stub(), STATUS, kind, &body);
        assert_eq!(
            (status.at("/spec/unschedulable"), status.at("/status/phase")),
            (&Value::Null, &json!("New"))
        );
    }
}

#[test]
fn patch_of_a_condition_is_its_managers() {
    let stub = stub();
    let owners = |manager: &str, conditions: Value| {
        let body = json!({"status": {"conditions": conditions}});
        let reply = patch(&stub, &format!("{STATUS}?fieldManager={manager}"), STRATEGIC, &body);
        assert_eq!(reply.code, 200, "{manager}");
        let node = stub.get("nodes", "", "worker-1").unwrap();
        let entries = node["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let of = |entry: &Value| {
            let conditions = &entry["fieldsV1"]["f:status"]["f:conditions"];
            let fields = conditions["k:{\"type\":\"Slow\"}"].as_object().cloned();
            let fields: Vec<_> =
                fields.unwrap_or_default().into_iter().map(|(name, _)| name).collect();
            format!("{} {}", entry["manager"].as_str().unwrap(), fields.join(" "))
        };
        entries.iter().map(of).collect::<Vec<_>>()
    };
    let slow =
        |status: &str, reason: &str| json!([{"type": "Slow", "status": status, "reason": reason}]);
    #[rustfmt::skip]
    let table = [
        // who, what, whose it is
        ("a", slow("True", "x"),  vec!["a f:reason f:status f:type"]),
        ("b", slow("True", "y"),  vec!["a f:status f:type", "b f:reason"]),
        ("b", slow("True", "y"),  vec!["a f:status f:type", "b f:reason"]), // no change
        ("b", slow("False", "y"), vec!["a f:type", "b f:reason f:status"]),
        ("c", json!([{"type": "Slow", "$patch": "delete"}]), vec![]),
    ];
    for (who, conditions, want) in table {
        let row = format!("{who} {conditions}");
        assert_eq!(owners(who, conditions), want, "{row}");
    }
}
