use serde_json::{Value, json};

use super::client::{get, post, stub};

#[test]
fn discovery_paths() {
    let stub = stub();
    #[rustfmt::skip]
    let table = [
        // path, code, pointer, value
        ("/version",                          200, "/major",                       json!("1")),
        ("/api",                              200, "/versions",                    json!(["v1"])),
        ("/apis",                             200, "/groups/0/name",               json!("events.k8s.io")),
        ("/apis",                             200, "/groups/1/preferredVersion",   json!({"groupVersion": "policy/v1", "version": "v1"})),
        ("/apis/policy",                      200, "/kind",                        json!("APIGroup")),
        ("/api/v1",                           200, "/resources/3/name",            json!("nodes/status")),
        ("/apis/policy/v1",                   200, "/resources/0/shortNames",      json!(["pdb"])),
        ("/apis/events.k8s.io/v1",            200, "/resources/0/kind",            json!("Event")),
        ("/apis/coordination.k8s.io/v1",      200, "/resources/0/singularName",    json!("lease")),
        ("/apis/metrics.k8s.io/v1",           404, "",                             json!("404 page not found\n")),
        ("/api/v2/pods",                      404, "",                             json!("404 page not found\n")),
        ("/api/v1/namespaces/shop/pods/web-0/log", 404, "",                        json!("404 page not found\n")),
        ("/api/v1/pods/web-0",                404, "",                             json!("404 page not found\n")),
        ("/livez",                            200, "",                             json!("ok")),
    ];
    for (path, code, pointer, want) in table {
        let reply = get(&stub, path);
        assert_eq!((reply.code, reply.at(pointer)), (code, &want), "{path}");
    }
}

#[test]
fn discovery_names_eviction_of_policy_v1() {
    let resources = get(&stub(), "/api/v1").body["resources"].clone();
    let all: Vec<Value> = resources.as_array().unwrap().clone();
    let eviction = all.iter().find(|resource| resource["name"] == "pods/eviction").unwrap();
    let want = json!({
        "name": "pods/eviction", "singularName": "", "namespaced": true,
        "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"],
    });
    assert_eq!(*eviction, want);
}

#[test]
fn discovery_unknown_verb_is_405() {
    let reply = post(&stub(), "/api/v1/namespaces/shop/pods/web-0/status", &json!({}));
    assert_eq!((reply.code, reply.at("/reason")), (405, &json!("MethodNotAllowed")));
}
