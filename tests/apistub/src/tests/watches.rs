use serde_json::json;

use super::client::{Watch, get, stub};
use crate::{Effect, Fault, generate};

fn event(kind: &str, name: &str, version: u64) -> (String, String, u64) {
    (kind.to_owned(), name.to_owned(), version)
}

#[test]
fn watch_follows_an_object_into_and_out_of_its_selection() {
    let stub = stub();
    let from = stub.version();
    let mut watch = Watch::open(
        &stub,
        &format!("/api/v1/pods?watch=true&labelSelector=app=blue&resourceVersion={from}"),
    );
    let mut pod = generate::pod("worker-1", "shop", "web-1");
    for app in ["blue", "blue", "green", "green", "blue"] {
        pod["metadata"]["labels"]["app"] = app.into();
        stub.put(pod.clone()).unwrap();
    }
    stub.remove("pods", "shop", "web-1");
    #[rustfmt::skip]
    let table = [
        event("ADDED",    "web-1", from + 1),
        event("MODIFIED", "web-1", from + 2),
        event("DELETED",  "web-1", from + 3), // it has become green
        event("ADDED",    "web-1", from + 5),
        event("DELETED",  "web-1", from + 6),
    ];
    for want in table {
        assert_eq!(watch.brief(), want);
    }
}

#[test]
fn watch_shows_what_left_as_it_was_in_the_selection() {
    let stub = stub();
    let from = stub.version();
    let path = format!("/api/v1/nodes?watch=true&resourceVersion={from}");
    let mut watch = Watch::open(&stub, &path);
    let before = stub.get("nodes", "", "worker-1").unwrap();
    stub.remove("nodes", "", "worker-1");
    let mut want = before;
    want["metadata"]["resourceVersion"] = (from + 1).to_string().into();
    assert_eq!(watch.next(), Some(json!({"type": "DELETED", "object": want})));
}

#[test]
fn watch_without_version_begins_with_all_objects() {
    let stub = stub();
    for query in ["watch=true", "watch=1&resourceVersion=0"] {
        let mut watch = Watch::open(&stub, &format!("/api/v1/pods?{query}&timeoutSeconds=1"));
        assert_eq!(watch.brief(), event("ADDED", "web-0", stub.version()), "{query}");
        assert_eq!(watch.next(), None, "{query}: it ends after a second");
    }
}

#[test]
fn watch_list_ends_its_initial_events_with_a_bookmark() {
    let stub = stub();
    let path = "/api/v1/pods?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
                &resourceVersionMatch=NotOlderThan";
    let mut watch = Watch::open(&stub, path);
    let version = stub.version();
    assert_eq!(watch.brief(), event("ADDED", "web-0", version));
    let want = json!({"type": "BOOKMARK", "object": {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "resourceVersion": version.to_string(), "creationTimestamp": null,
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    }});
    assert_eq!(watch.next(), Some(want));
    stub.remove("pods", "shop", "web-0");
    assert_eq!(watch.brief(), event("DELETED", "web-0", version + 1));
}

#[test]
fn watch_bookmarks_only_where_they_are_allowed() {
    let stub = stub();
    let from = stub.version();
    let path = format!("/api/v1/nodes?watch=true&timeoutSeconds=1&resourceVersion={from}");
    assert_eq!(Watch::open(&stub, &path).next(), None);
    let mut watch = Watch::open(&stub, &format!("{path}&allowWatchBookmarks=true"));
    stub.put(generate::pod("worker-1", "shop", "web-9")).unwrap();
    // The last word before the time is over; the version is that of all resources.
    assert_eq!(watch.brief(), event("BOOKMARK", "", from + 1));
    assert_eq!(watch.next(), None);
}

#[test]
fn watch_expires() {
    let stub = stub();
    let from = stub.version();
    stub.put(generate::node("worker-2")).unwrap();
    stub.compact();
    let too_old = |version: u64| {
        json!({"type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("too old resource version: {version} ({})", from + 1),
            "reason": "Expired", "code": 410,
        }})
    };
    let path = |version: u64| format!("/api/v1/nodes?watch=true&resourceVersion={version}");
    let mut compacted = Watch::open(&stub, &path(from));
    assert_eq!((compacted.next(), compacted.next()), (Some(too_old(from)), None));
    let mut told = Watch::open(&stub, &path(from + 1));
    stub.put(generate::node("worker-3")).unwrap();
    assert_eq!(told.brief(), event("ADDED", "worker-3", from + 2), "it is open");
    stub.expire_watches();
    assert_eq!(told.next().unwrap()["object"]["code"], 410);
    assert_eq!(told.next(), None);
    stub.add_fault(Fault::new(
        "watch",
        "/api/v1/nodes",
        Effect::Status { code: 410, retry_after_seconds: None },
    ));
    assert_eq!(get(&stub, &path(from)).refusal(), (410, "too old resource version"));
}
