use serde_json::{Value, json};

use super::client::{get, stub};
use crate::{Stub, generate};

/// Three pods more, on another node, one of them over.
fn crowd() -> Stub {
    let stub = stub();
    for (name, phase) in [("job-0", "Succeeded"), ("db-0", "Running"), ("db-1", "Pending")] {
        let mut pod = generate::pod("worker-2", "data", name);
        pod["status"]["phase"] = phase.into();
        pod["metadata"]["labels"] = json!({"app": &name[..name.len() - 2], "tier": "back"});
        stub.put(pod).unwrap();
    }
    stub
}

fn names(list: &Value) -> String {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn list_by_selectors() {
    let stub = crowd();
    #[rustfmt::skip]
    let table = [
        // path, names
        ("/api/v1/pods",                                                         "db-0 db-1 job-0 web-0"),
        ("/api/v1/namespaces/data/pods",                                         "db-0 db-1 job-0"),
        ("/api/v1/namespaces/nowhere/pods",                                      ""),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dworker-2",                  "db-0 db-1 job-0"),
        ("/api/v1/pods?fieldSelector=spec.nodeName=worker-2,status.phase!=Succeeded", "db-0 db-1"),
        ("/api/v1/pods?fieldSelector=metadata.name=db-1",                        "db-1"),
        ("/api/v1/pods?fieldSelector=metadata.namespace==shop",                  "web-0"),
        ("/api/v1/pods?labelSelector=app=db",                                    "db-0 db-1"),
        ("/api/v1/pods?labelSelector=app!=db",                                   "job-0 web-0"),
        ("/api/v1/pods?labelSelector=app=db,tier=back",                          "db-0 db-1"),
    ];
    for (path, want) in table {
        assert_eq!(names(&get(&stub, path).body), want, "{path}");
    }
}

#[test]
fn list_has_kind_and_version_and_its_items_do_not() {
    let stub = stub();
    let list = get(&stub, "/api/v1/nodes").body;
    assert_eq!(list["kind"], "NodeList");
    assert_eq!(list["apiVersion"], "v1");
    assert_eq!(list["metadata"], json!({"resourceVersion": stub.version().to_string()}));
    assert_eq!(list["items"][0].get("kind"), None);
}

#[test]
fn list_in_pieces_is_of_one_version() {
    let stub = crowd();
    let first = get(&stub, "/api/v1/pods?limit=2").body;
    assert_eq!(names(&first), "db-0 db-1");
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    stub.remove("pods", "shop", "web-0");
    stub.put(generate::pod("worker-2", "zoo", "late")).unwrap();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = get(&stub, &format!("/api/v1/pods?limit=2&continue={token}")).body;
    assert_eq!(names(&rest), "job-0 web-0", "as they were at the first piece");
    assert_eq!(rest["metadata"], json!({"resourceVersion": first["metadata"]["resourceVersion"]}));
    stub.compact();
    let expired = get(&stub, &format!("/api/v1/pods?limit=2&continue={token}"));
    assert_eq!((expired.code, expired.at("/reason")), (410, &json!("Expired")));
}

#[test]
fn list_of_five_thousand_pods() {
    let stub = stub();
    for pod in generate::pods("worker-1", 5000) {
        stub.put(pod).unwrap();
    }
    let whole = get(&stub, "/api/v1/pods?limit=500&resourceVersion=0").body;
    assert_eq!(whole["items"].as_array().unwrap().len(), 5001, "from the cache, in one piece");
    let (mut n_items, mut n_pieces, mut path) = (0, 0, "/api/v1/pods?limit=500".to_owned());
    loop {
        let piece = get(&stub, &path).body;
        n_items += piece["items"].as_array().unwrap().len();
        n_pieces += 1;
        let Some(token) = piece["metadata"]["continue"].as_str() else { break };
        path = format!("/api/v1/pods?limit=500&continue={token}");
    }
    assert_eq!((n_items, n_pieces), (5001, 11));
}

#[test]
fn list_options_that_are_refused() {
    let stub = stub();
    #[rustfmt::skip]
    let table = [
        // query, code, message
        ("fieldSelector=spec.hostname=a",       400, "field label not supported: spec.hostname"),
        ("fieldSelector=metadata.name",         400, "invalid selector: \"metadata.name\""),
        ("labelSelector=a%20in%20b",            400, "unable to parse requirement: \"a in b\""),
        ("continue=gibberish",                  400, "continue key is not valid: it is not one that this server gave"),
        ("resourceVersion=abc",                 400, "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax"),
        ("resourceVersion=900",                 504, "Timeout: Too large resource version: 900, current: 7"),
        ("resourceVersionMatch=Exact",          422, "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("sendInitialEvents=true",              422, "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        ("watch=1&resourceVersionMatch=Exact",  422, "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
        ("watch=1&sendInitialEvents=true",      422, "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    ];
    for (query, code, message) in table {
        let reply = get(&stub, &format!("/api/v1/pods?{query}"));
        assert_eq!(reply.refusal(), (code, message), "{query}");
    }
}
