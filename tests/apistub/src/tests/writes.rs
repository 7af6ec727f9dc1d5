use serde_json::{Value, json};

use super::client::{JSON, delete, get, post, send, stub, stub_with};
use crate::{Kubelet, generate};

const NODE: &str = "/api/v1/nodes/worker-1";
const POD: &str = "/api/v1/namespaces/shop/pods/web-0";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

#[test]
fn create_sets_what_the_server_owns() {
    let stub = stub();
    let before = stub.version();
    let body = json!({
        "metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z"},
        "spec": {"minAvailable": 1},
    });
    let made = post(&stub, BUDGETS, &body);
    assert_eq!(made.code, 201);
    #[rustfmt::skip]
    let table = [
        ("/apiVersion",               json!("policy/v1")),
        ("/kind",                     json!("PodDisruptionBudget")),
        ("/metadata/namespace",       json!("default")),
        ("/metadata/resourceVersion", json!((before + 1).to_string())),
        ("/metadata/uid",             json!(format!("00000000-0000-4000-8000-{:012x}", before + 1))),
        ("/spec/minAvailable",        json!(1)),
    ];
    for (pointer, want) in table {
        assert_eq!(*made.at(pointer), want, "{pointer}");
    }
    assert_ne!(*made.at("/metadata/creationTimestamp"), body["metadata"]["creationTimestamp"]);
    assert_eq!(get(&stub, &format!("{BUDGETS}/a")).body, made.body);
}

#[test]
fn create_refusals() {
    let stub = stub();
    let pods = "/api/v1/namespaces/shop/pods";
    let named = |name: &str| json!({"metadata": {"name": name}});
    #[rustfmt::skip]
    let table = [
        // path, body, code, message
        (pods, named("web-0"),                      409, "pods \"web-0\" already exists"),
        (pods, named("Web"),                        422, "Pod \"Web\" is invalid: metadata.name: Invalid value: \"Web\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"),
        (pods, json!({}),                           422, "Pod \"\" is invalid: metadata.name: Required value: name or generateName is required"),
        (pods, json!(["web-1"]),                    400, "the object provided is unrecognized (must be of type Pod)"),
        (pods, json!({"apiVersion": "v2", "metadata": {"name": "a"}}), 400, "the API version in the data (v2) does not match the expected API version (v1)"),
        (pods, json!({"kind": "Node", "metadata": {"name": "a"}}),     400, "Node in version \"v1\" cannot be handled as a Pod"),
        (pods, json!({"metadata": {"name": "a", "namespace": "x"}}),   400, "the namespace of the provided object does not match the namespace sent on the request"),
        (pods, json!({"metadata": {"name": "a", "resourceVersion": "1"}}), 500, "resourceVersion should not be set on objects to be created"),
        (pods, json!({"metadata": {"name": "a"}, "spec": "no map"}),   400, "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal \"no map\" into Go struct field Pod.spec"),
        ("/api/v1/namespaces/none/pods", named("a"), 404, "namespaces \"none\" not found"),
        ("/api/v1/pods", named("a"),                400, "an empty namespace may not be set during creation"),
    ];
    for (path, body, code, message) in table {
        assert_eq!(post(&stub, path, &body).refusal(), (code, message), "{path} {body}");
    }
}

#[test]
fn create_of_a_pod_begins_pending() {
    let made = post(&stub(), "/api/v1/namespaces/shop/pods", &generate::pod("n", "shop", "new"));
    assert_eq!((made.code, made.at("/status")), (201, &json!({"phase": "Pending"})));
}

#[test]
fn delete_gives_a_pod_its_grace() {
    #[rustfmt::skip]
    let table = [
        // options, grace that is written (None: gone at once)
        (Value::Null,                            Some(30)), // its own
        (json!({"gracePeriodSeconds": 1}),       Some(1)),
        (json!({"gracePeriodSeconds": 0}),       None),
        (json!({"gracePeriodSeconds": -5}),      Some(1)),
        (json!({"grace_period_seconds": 1}),     Some(30)), // no such option
    ];
    for (options, want) in table {
        let stub = stub_with(Kubelet::WhenConfirmed);
        let reply = delete(&stub, POD, &options);
        assert_eq!((reply.code, reply.at("/kind")), (200, &json!("Pod")), "{options}");
        let pod = stub.get("pods", "shop", "web-0");
        let grace = pod.map(|pod| pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap());
        assert_eq!(grace, want, "{options}");
        assert_eq!(stub.confirm("shop", "web-0"), want.is_some(), "{options}");
        assert_eq!(get(&stub, POD).code, 404, "{options}");
    }
}

#[test]
fn delete_again_may_only_shorten_the_grace() {
    let stub = stub_with(Kubelet::WhenConfirmed);
    #[rustfmt::skip]
    let table = [
        // asked, in force then
        (20, Some(20)),
        (25, Some(20)),
        (5,  Some(5)),
        (0,  None),
    ];
    for (asked, want) in table {
        delete(&stub, POD, &json!({"gracePeriodSeconds": asked}));
        let pod = stub.get("pods", "shop", "web-0");
        let grace = pod.map(|pod| pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap());
        assert_eq!(grace, want, "{asked}");
    }
}

#[test]
fn delete_preconditions() {
    let stub = stub();
    let uid = get(&stub, POD).body["metadata"]["uid"].as_str().unwrap().to_owned();
    let refused = delete(&stub, POD, &json!({"preconditions": {"uid": "other"}}));
    let message = format!(
        "Operation cannot be fulfilled on Pod \"web-0\": the UID in the precondition (other) does \
         not match the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    assert_eq!(refused.refusal(), (409, message.as_str()));
    let deleted = delete(&stub, POD, &json!({"preconditions": {"uid": uid}}));
    assert_eq!((deleted.code, stub.get("pods", "shop", "web-0")), (200, None));
}

#[test]
fn delete_of_others_answers_with_a_status() {
    let stub = stub();
    let uid = get(&stub, NODE).body["metadata"]["uid"].clone();
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "worker-1", "kind": "nodes", "uid": uid},
    });
    assert_eq!(delete(&stub, NODE, &Value::Null).body, want);
    assert_eq!(delete(&stub, NODE, &Value::Null).refusal(), (404, "nodes \"worker-1\" not found"));
}

#[test]
fn unknown_paths_and_methods() {
    let stub = stub();
    #[rustfmt::skip]
    let table = [
        // method, path, code
        ("GET",  "/version",                               200),
        ("GET",  "/apis/metrics.k8s.io/v1/pods",           404),
        ("GET",  "/api/v2/pods",                           404),
        ("GET",  "/api/v1/namespaces/shop/pods/web-0/log", 404),
        ("GET",  "/api/v1/pods/web-0",                     404),
        ("POST", "/api/v1/nodes/worker-1/status",          405),
        ("PUT",  NODE,                                     405),
    ];
    for (method, path, code) in table {
        let reply = send(&stub, method, path, JSON, &json!({})).unwrap();
        assert_eq!(reply.code, code, "{method} {path}");
    }
}
