use std::time::Duration;

use serde_json::{Value, json};

use super::client::{JSON, MERGE, get, patch, post, send, stub};
use crate::{Findings, Rules};

const ROLES: &str = r"
apiVersion: v1
kind: ServiceAccount
metadata: {name: isobar, namespace: isobar}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: isobar
rules:
- apiGroups: ['']
  resources: [pods]
  verbs: [list, watch]
- apiGroups: ['']
  resources: [nodes]
  resourceNames: [worker-1]
  verbs: [get]
- apiGroups: ['']
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
- nonResourceURLs: ['/metrics/*']
  verbs: [get]
";

#[test]
fn review_says_what_the_rules_allow() {
    let stub = stub();
    let allowed = |verb: &str, resource: &str, subresource: &str| {
        let attributes = json!({"verb": verb, "resource": resource, "subresource": subresource});
        let review = json!({"spec": {"resourceAttributes": attributes}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        post(&stub, path, &review).body["status"]["allowed"].as_bool().unwrap()
    };
    assert!(allowed("delete", "pods", ""), "without rules");
    stub.enforce(Rules::parse(ROLES).unwrap());
    #[rustfmt::skip]
    let table = [
        // verb, resource, subresource, allowed
        ("create", "pods", "eviction", true),
        ("list",   "pods", "",         true),
        ("delete", "pods", "",         false),
    ];
    for (verb, resource, subresource, want) in table {
        assert_eq!(allowed(verb, resource, subresource), want, "{verb} {resource}/{subresource}");
    }
}

#[test]
fn journal_has_every_request_as_rbac_sees_it() {
    let stub = stub();
    let selector = "fieldSelector=metadata.name%3Dweb-0";
    get(&stub, "/version");
    get(&stub, &format!("/api/v1/pods?{selector}"));
    get(&stub, &format!("/api/v1/namespaces/shop/pods?watch=1&timeoutSeconds=1&{selector}"));
    patch(&stub, "/api/v1/nodes/worker-1/status", MERGE, &json!({"a": 1}));
    post(&stub, "/api/v1/namespaces/shop/pods/web-0/eviction", &json!({}));
    send(
        &stub,
        "DELETE",
        "/apis/policy/v1/namespaces/shop/poddisruptionbudgets",
        JSON,
        &Value::Null,
    )
    .unwrap();
    send(&stub, "PUT", "/api/v1/namespaces/shop/status", "text/plain; charset=utf-8", &Value::Null)
        .unwrap();
    let found: Vec<_> = stub
        .seen()
        .into_iter()
        .map(|seen| {
            let call = seen.call;
            let on = format!("{}/{}/{}", call.group, call.resource, call.subresource);
            (call.verb.clone(), on, call.namespace.clone(), call.name.clone(), seen.status)
        })
        .collect();
    #[rustfmt::skip]
    let want = [
        // verb, group/resource/subresource, namespace, name, status
        ("get",              "//",                            "",     "",         200),
        ("list",             "/pods/",                        "",     "web-0",    200),
        ("watch",            "/pods/",                        "shop", "web-0",    200),
        ("patch",            "/nodes/status",                 "",     "worker-1", 200),
        ("create",           "/pods/eviction",                "shop", "web-0",    400),
        ("deletecollection", "policy/poddisruptionbudgets/",  "shop", "",         405),
        ("update",           "/namespaces/status",            "",     "shop",     405),
    ];
    let want = want.map(|(verb, on, namespace, name, status)| {
        (verb.to_owned(), on.to_owned(), namespace.to_owned(), name.to_owned(), Some(status))
    });
    assert_eq!(found, want);
}

#[test]
fn journal_as_a_line_of_json() {
    let stub = stub();
    let requests = stub.follow();
    patch(&stub, "/api/v1/nodes/worker-1?fieldManager=isobar", MERGE, &json!({"spec": {}}));
    let want = json!({
        "verb": "patch", "path": "/api/v1/nodes/worker-1", "group": "", "version": "v1",
        "resource": "nodes", "subresource": "", "namespace": "", "name": "worker-1",
        "query": {"fieldManager": "isobar"}, "contentType": "application/merge-patch+json",
        "body": {"spec": {}}, "status": 200,
    });
    let seen = requests.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(serde_json::to_value(seen).unwrap(), want);
}

#[test]
fn rules_cover_requests_and_requests_rules() {
    let stub = stub();
    let rules = Rules::parse(ROLES).unwrap();
    get(&stub, "/api/v1/pods");
    get(&stub, "/api/v1/nodes/worker-1");
    get(&stub, "/api/v1/nodes/worker-2");
    get(&stub, "/api");
    get(&stub, "/logs");
    post(&stub, "/api/v1/namespaces/shop/pods/web-0/eviction", &json!({}));
    post(&stub, "/api/v1/namespaces/default/events", &json!({}));
    let want = Findings {
        denied: vec![
            "create events (/api/v1/namespaces/default/events)".into(),
            "get /logs".into(),
            "get nodes (/api/v1/nodes/worker-2)".into(),
        ],
        unused: vec![
            "create events.events.k8s.io".into(),
            "get /metrics/*".into(),
            "patch events.events.k8s.io".into(),
            "watch pods".into(),
        ],
    };
    assert_eq!(rules.check(&stub.seen()), want);
}

#[test]
fn rules_match() {
    let role = |group: &str, resource: &str, verb: &str| {
        json!({"kind": "ClusterRole", "rules": [
            {"apiGroups": [group], "resources": [resource], "verbs": [verb]},
        ]})
    };
    #[rustfmt::skip]
    let table = [
        // role, path that is got, allowed
        (role("", "nodes", "get"),         "/api/v1/nodes/a",        true),
        (role("*", "*", "*"),              "/api/v1/nodes/a",        true),
        (role("", "nodes", "list"),        "/api/v1/nodes/a",        false),
        (role("policy", "nodes", "get"),   "/api/v1/nodes/a",        false),
        (role("", "nodes", "get"),         "/api/v1/nodes/a/status", false),
        (role("", "nodes/status", "get"),  "/api/v1/nodes/a/status", true),
        (role("", "*/status", "get"),      "/api/v1/nodes/a/status", true),
        (role("", "nodes/status", "get"),  "/api/v1/nodes/a",        false),
    ];
    for (role, path, want) in table {
        let stub = stub();
        get(&stub, path);
        let rules = Rules::parse(&role.to_string()).unwrap();
        assert_eq!(rules.check(&stub.seen()).denied.is_empty(), want, "{role} {path}");
    }
}

#[test]
fn rules_that_cannot_be_read() {
    for text in ["", "a: [", "kind: ClusterRole", "kind: Pod\nrules: []"] {
        assert!(Rules::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn rules_and_tokens_in_force() {
    let stub = stub();
    stub.enforce(Rules::parse(ROLES).unwrap());
    let message = "nodes \"worker-2\" is forbidden: User \"system:serviceaccount:isobar:isobar\" \
                   cannot get resource \"nodes\" in API group \"\" at the cluster scope";
    assert_eq!(get(&stub, "/api/v1/nodes/worker-2").refusal(), (403, message));
    assert_eq!(get(&stub, "/api/v1/nodes/worker-1").code, 200);
    stub.accept_tokens(&["new"]);
    assert_eq!(get(&stub, "/api/v1/nodes/worker-1").refusal(), (401, "Unauthorized"));
    let request = |token: &str| {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let request =
            ureq::Agent::from(config).get(format!("{}/api/v1/nodes/worker-1", stub.url()));
        request.header("authorization", format!("Bearer {token}")).call().unwrap().status().as_u16()
    };
    assert_eq!((request("old"), request("new")), (401, 200));
}
