//! The live stream, event by event.

use crate::http::{get, observing, text};
use crate::made_up;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use isobar::serve::router;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::snapshot::{Scope, Snapshot};
use isobar_core::policy::engine::Step;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

#[tokio::test]
async fn stream_newest_first() {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 1);
    let mut body = get(&router(latest), "/api/v1/stream").await.into_body();
    assert!(next(&mut body).await.starts_with("event: sample\nid: 1\ndata: {"));
    for tick in 2..=5 {
        made_up::publish(&mut publisher, tick);
    }
    assert_eq!(next(&mut body).await, gap(2, 4));
    assert!(next(&mut body).await.starts_with("event: sample\nid: 5\n"));
    made_up::publish(&mut publisher, 6);
    assert!(next(&mut body).await.starts_with("event: sample\nid: 6\n"));
}

fn gap(from: u64, to: u64) -> String {
    let head = r#""apiVersion":"isobar/v1alpha1","kind":"Gap""#;
    format!("event: gap\ndata: {{{head},\"from\":{from},\"to\":{to}}}\n\n")
}

#[tokio::test]
async fn stream_tells_a_client_that_returns_what_it_missed() {
    #[rustfmt::skip]
    let table = [
        // Last-Event-ID, gap before tick 5
        ("2",        Some((3, 4))),
        ("4",        None),
        ("5",        None),
        ("77",       Some((1, 4))), // of the agent before
        ("no tick",  None),
    ];
    for ((id, want), is_header) in table.into_iter().flat_map(|row| [(row, true), (row, false)]) {
        let (mut publisher, latest) = made_up::publisher();
        made_up::publish(&mut publisher, 5);
        let query =
            if is_header { String::new() } else { format!("&last={}", id.replace(' ', "+")) };
        let uri = format!("/api/v1/stream?delta=1{query}");
        let request = Request::builder().uri(uri).header("host", "localhost");
        let request = if is_header { request.header("last-event-id", id) } else { request };
        let request = request.body(Body::empty()).unwrap();
        let mut body = router(latest).oneshot(request).await.unwrap().into_body();
        if let Some((from, to)) = want {
            assert_eq!(next(&mut body).await, gap(from, to), "{id}");
        }
        assert!(next(&mut body).await.starts_with("event: sample\nid: 5\n"), "{id}");
    }
}

#[tokio::test]
async fn stream_of_changes() {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 1);
    let router = router(latest);
    let mut changes = get(&router, "/api/v1/stream?delta=1").await.into_body();
    let mut whole = get(&router, "/api/v1/stream").await.into_body();
    let (name, mut view) = event(&mut changes).await;
    assert_eq!(name, "sample");
    for tick in 2..=6 {
        let mut snapshot = made_up::snapshot(tick);
        if tick == 4 {
            snapshot.scopes.remove(&CgroupId(13));
            snapshot.whole.contention = None;
        }
        made_up::publish_step(&mut publisher, Step { snapshot, ..Step::default() });
        let (name, change) = event(&mut changes).await;
        assert_eq!(name, "delta", "{tick}");
        assert!(change["scopes"].get("23").is_none(), "{tick}: it has not changed");
        if tick == 4 {
            assert_eq!(change.pointer("/scopes/13"), Some(&Value::Null), "it is gone");
        }
        merge(&mut view, change);
        let mut want = Snapshot::deserialize(&event(&mut whole).await.1).unwrap();
        want.scopes.values_mut().for_each(|scope| scope.files = None);
        assert_eq!(Snapshot::deserialize(&view).unwrap(), want);
    }
}

/// RFC 7396, section 2.
fn merge(target: &mut Value, patch: Value) {
    let (Value::Object(own), Value::Object(patch)) = (&mut *target, &patch) else {
        *target = patch;
        return;
    };
    for (name, value) in patch {
        match value {
            Value::Null => _ = own.remove(name),
            value => merge(own.entry(name.clone()).or_insert_with(|| json!({})), value.clone()),
        }
    }
}

/// The name of the next event, and its document.
pub(crate) async fn event(body: &mut Body) -> (String, Value) {
    let text = next(body).await;
    let line = |of: &str| text.lines().find_map(|line| line.strip_prefix(of)).unwrap().to_owned();
    (line("event: "), serde_json::from_str(&line("data: ")).unwrap())
}

async fn next(body: &mut Body) -> String {
    let bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn stream_for_every_newcomer() {
    let router = observing();
    let mut open = Vec::new();
    for n in 0..100 {
        let mut stream = get(&router, "/api/v1/stream").await.into_body();
        assert!(next(&mut stream).await.starts_with("event: sample\n"), "{n} are open");
        open.push(stream);
    }
}

#[tokio::test]
async fn stream_size() {
    let (mut publisher, latest) = made_up::publisher();
    let mut snapshot: Snapshot = made_up::snapshot(1);
    for id in 1_000..3_000 {
        let path = CgroupPath(format!("/system.slice/unit-{id}.service").into());
        snapshot.scopes.insert(CgroupId(id), Scope { path, ..Scope::default() });
    }
    publisher.publish(Step { snapshot, ..Step::default() }, vec![], Default::default());
    let router = router(latest);
    let full: Value =
        serde_json::from_str(&text(get(&router, "/api/v1/snapshot").await).await).unwrap();
    assert_eq!(full["scopes"].as_object().unwrap().len(), 2_010);

    let event = next(&mut get(&router, "/api/v1/stream").await.into_body()).await;
    let json = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let brief: Value = serde_json::from_str(json).unwrap();
    let kept = brief["scopes"].as_object().unwrap();
    assert!(kept.len() <= 60 + 2 * 40, "{}", kept.len());
    for id in ["11", "12", "13", "14", "22", "23"] {
        assert!(kept.contains_key(id), "the cgroup {id} waits, and is left out");
    }
}
