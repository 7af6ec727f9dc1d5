use serde_json::{Value, json};

use super::client::{MERGE, delete, get, patch, post, put, stub, stub_with};
use crate::{Kubelet, generate};

const NODE: &str = "/api/v1/nodes/worker-1";
const POD: &str = "/api/v1/namespaces/shop/pods/web-0";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

#[test]
fn create_sets_what_the_server_owns() {
    let stub = stub();
    let before = stub.version();
    let body = json!({
        "metadata": {"name": "isobar", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z"},
        "spec": {"holderIdentity": "a"},
    });
    let made = post(&stub, LEASES, &body);
    assert_eq!(made.code, 201);
    #[rustfmt::skip]
    let table = [
        ("/apiVersion",               json!("coordination.k8s.io/v1")),
        ("/kind",                     json!("Lease")),
        ("/metadata/namespace",       json!("default")),
        ("/metadata/resourceVersion", json!((before + 1).to_string())),
        ("/metadata/uid",             json!(format!("00000000-0000-4000-8000-{:012x}", before + 1))),
        ("/spec/holderIdentity",      json!("a")),
    ];
    for (pointer, want) in table {
        assert_eq!(*made.at(pointer), want, "{pointer}");
    }
    assert_ne!(*made.at("/metadata/creationTimestamp"), body["metadata"]["creationTimestamp"]);
    assert_eq!(get(&stub, &format!("{LEASES}/isobar")).body, made.body);
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
        ("/api/v1/namespaces/shop/pods?dryRun=Some", named("a"), 422, "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: \"Some\": supported values: \"All\""),
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
fn replace_needs_the_latest_version() {
    let stub = stub();
    let mut node = get(&stub, NODE).body;
    let version = stub.version();
    node["spec"]["unschedulable"] = true.into();
    let replaced = put(&stub, NODE, &node);
    assert_eq!(replaced.code, 200);
    assert_eq!(*replaced.at("/metadata/resourceVersion"), json!((version + 1).to_string()));
    let stale = put(&stub, NODE, &node);
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Operation cannot be fulfilled on nodes \"worker-1\": the object has been \
                    modified; please apply your changes to the latest version and try again",
        "reason": "Conflict", "details": {"name": "worker-1", "kind": "nodes"}, "code": 409,
    });
    assert_eq!((stale.code, stale.body), (409, want));
    node["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    node["spec"]["unschedulable"] = false.into();
    assert_eq!(put(&stub, NODE, &node).code, 200, "without a version it is unconditional");
    assert_eq!(put(&stub, NODE, &node).code, 200);
    assert_eq!(stub.version(), version + 2, "what changes nothing makes no new version");
}

#[test]
fn replace_keeps_status_and_rest_apart() {
    let stub = stub();
    let mut node = get(&stub, NODE).body;
    node["spec"]["podCIDR"] = "10.0.0.0/24".into();
    node["status"]["phase"] = "Changed".into();
    node["metadata"]["labels"]["both"] = "may".into();
    #[rustfmt::skip]
    let table = [
        // path, spec changes, status changes
        (NODE.to_owned(),          true,  false),
        (format!("{NODE}/status"), false, true),
    ];
    for (path, spec, status) in table {
        stub.put(generate::node("worker-1")).unwrap();
        node["metadata"]["resourceVersion"] = Value::Null;
        let after = put(&stub, &path, &node).body;
        assert_eq!(after["spec"]["podCIDR"] != Value::Null, spec, "{path}");
        assert_eq!(after["status"]["phase"] != Value::Null, status, "{path}");
        assert_eq!(after["metadata"]["labels"]["both"], "may", "{path}");
    }
}

#[test]
fn replace_refusals() {
    let stub = stub();
    let pod = get(&stub, POD).body;
    let with = |pointer: &str, value: Value| {
        let mut pod = pod.clone();
        *pod.pointer_mut(pointer).unwrap() = value;
        pod
    };
    #[rustfmt::skip]
    let table = [
        // body, code, beginning of the message
        (with("/metadata/name", json!("web-1")),      400, "the name of the object (web-1) does not match the name on the URL (web-0)"),
        (with("/metadata/uid", json!("other")),       409, "Operation cannot be fulfilled on pods \"web-0\": Precondition failed: UID in precondition: other, UID in object meta: "),
        (with("/spec/nodeName", json!("worker-2")),   422, "Pod \"web-0\" is invalid: spec: Forbidden: pod updates may not change fields other than "),
        (with("/metadata/labels", json!([])),         400, "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal [] into "),
    ];
    for (body, code, start) in table {
        let reply = put(&stub, POD, &body);
        let (found, message) = reply.refusal();
        assert!(found == code && message.starts_with(start), "{start}: {found} {message}");
    }
    let other = json!({"metadata": {"uid": "other"}});
    let reply = patch(&stub, POD, MERGE, &other);
    let why =
        "Pod \"web-0\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable";
    assert_eq!(reply.refusal(), (422, why));
    let missing = put(&stub, "/api/v1/nodes/none", &json!({"metadata": {"name": "none"}}));
    assert_eq!(missing.refusal(), (404, "nodes \"none\" not found"));
}

#[test]
fn dry_run_changes_nothing() {
    let stub = stub();
    let version = stub.version();
    let body = json!({"metadata": {"name": "a"}});
    let mut node = get(&stub, NODE).body;
    node["spec"]["unschedulable"] = true.into();
    assert_eq!(post(&stub, &format!("{LEASES}?dryRun=All"), &body).code, 201);
    let replaced = put(&stub, &format!("{NODE}?dryRun=All"), &node);
    assert_eq!((replaced.code, replaced.at("/spec/unschedulable")), (200, &json!(true)));
    assert_eq!(delete(&stub, POD, &json!({"dryRun": ["All"]})).code, 200);
    assert_eq!(delete(&stub, &format!("{NODE}?dryRun=All"), &Value::Null).code, 200);
    assert_eq!(stub.version(), version);
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
