use std::time::Duration;

use serde_json::{Value, json};

use super::client::{JSON, MERGE, Watch, get, patch, send, stub};
use crate::{Effect, Fault, Stub};

const NODE: &str = "/api/v1/nodes/worker-1";

fn status(code: u16, retry_after_seconds: Option<u64>) -> Effect {
    Effect::Status { code, retry_after_seconds }
}

/// The error of a request that gets no answer.
fn error(stub: &Stub, path: &str) -> String {
    send(stub, "GET", path, JSON, &Value::Null).unwrap_err().to_string()
}

#[test]
fn fault_answers_with_a_status() {
    #[rustfmt::skip]
    let table = [
        // code, Retry-After, reason
        (401, None,    "Unauthorized"),
        (403, None,    "Forbidden"),
        (409, None,    "Conflict"),
        (410, None,    "Expired"),
        (429, None,    "TooManyRequests"),
        (429, Some(3), "TooManyRequests"),
        (500, None,    "InternalError"),
        (503, Some(1), "ServiceUnavailable"),
        (504, None,    "Timeout"),
    ];
    for (code, retry_after, reason) in table {
        let stub = stub();
        stub.add_fault(Fault::new("get", NODE, status(code, retry_after)));
        let reply = get(&stub, NODE);
        assert_eq!((reply.code, reply.at("/reason")), (code, &json!(reason)));
        assert_eq!(reply.retry_after, retry_after.map(|seconds| seconds.to_string()), "{code}");
        let seconds = retry_after.map_or(Value::Null, Value::from);
        assert_eq!(*reply.at("/details/retryAfterSeconds"), seconds, "{code}");
    }
}

#[test]
fn fault_strikes_by_verb_path_and_count() {
    let stub = stub();
    stub.add_fault(Fault::new("patch", "/api/v1/nodes/*", status(409, None)).after(1).times(2));
    let codes: Vec<_> = (0..4).map(|_| patch(&stub, NODE, MERGE, &json!({})).code).collect();
    assert_eq!(codes, [200, 409, 409, 200]);
    assert_eq!(get(&stub, NODE).code, 200, "another verb");
    stub.add_fault(Fault::new("*", "/api/v1/*/worker-1", status(500, None)));
    assert_eq!((get(&stub, NODE).code, get(&stub, "/api/v1/nodes").code), (500, 200));
    stub.clear_faults();
    assert_eq!(get(&stub, NODE).code, 200);
}

#[test]
fn fault_resets_the_connection() {
    let stub = stub();
    stub.add_fault(Fault::new("get", NODE, Effect::Reset).times(1));
    let error = error(&stub, NODE);
    assert!(error.contains("reset"), "{error}");
    assert_eq!(stub.seen().last().unwrap().status, None);
    assert_eq!(get(&stub, NODE).code, 200);
}

#[test]
fn fault_loses_an_answer_of_what_is_done() {
    let stub = stub();
    stub.add_fault(Fault::new("delete", "*", Effect::Lost).times(1));
    let error = send(&stub, "DELETE", NODE, JSON, &Value::Null).unwrap_err().to_string();
    assert!(error.contains("reset"), "{error}");
    assert_eq!(get(&stub, NODE).code, 404);
}

#[test]
fn fault_breaks_a_line_of_a_watch() {
    let stub = stub();
    stub.add_fault(Fault::new("watch", "*", Effect::HalfLine).times(1));
    let mut watch = Watch::open(&stub, "/api/v1/nodes?watch=true");
    let mut lines = std::iter::from_fn(|| watch.line());
    let got: Vec<_> = lines.by_ref().take(2).collect();
    let half = got.iter().flatten().next();
    assert!(half.is_none_or(|half| serde_json::from_str::<Value>(half).is_err()), "{half:?}");
    assert!(got.iter().any(Result::is_err), "{got:?}");
    let whole = Watch::open(&stub, "/api/v1/nodes?watch=true").brief();
    assert_eq!(whole.1, "worker-1");
}

#[test]
fn fault_lets_a_watch_hang() {
    let stub = stub();
    stub.add_fault(Fault::new("watch", "*", Effect::Hang));
    // It would have begun with an object, and ended after a second.
    let mut watch = Watch::open(&stub, "/api/v1/nodes?watch=true&timeoutSeconds=1");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(watch.line().is_none_or(|line| line.is_err())));
    assert!(receiver.recv_timeout(Duration::from_millis(1500)).is_err(), "it says something");
    stub.cut_connections();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(true));
}

#[test]
fn fault_keeps_the_head_of_a_watch_back() {
    let stub = stub();
    stub.add_fault(Fault::new("watch", "*", Effect::Mute));
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // As soon as it has a head.
            let began = send(&stub, "GET", "/api/v1/nodes?watch=true", JSON, &Value::Null);
            sender.send(began.is_ok()).unwrap();
        });
        assert!(receiver.recv_timeout(Duration::from_millis(500)).is_err(), "it has begun");
        stub.cut_connections();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(false));
    });
}

#[test]
fn fault_expires_a_watch() {
    let stub = stub();
    stub.add_fault(Fault::new("watch", "*", Effect::Expire));
    let mut watch = Watch::open(&stub, "/api/v1/nodes?watch=true");
    let error = watch.next().unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next(), None);
}

#[test]
fn fault_latency_adds_to_others() {
    let stub = stub();
    stub.add_fault(Fault::new("get", "*", Effect::Latency { millis: 300 }));
    stub.add_fault(Fault::new("get", "*", status(500, None)));
    let requests = stub.follow();
    std::thread::scope(|scope| {
        scope.spawn(|| get(&stub, NODE));
        stub.wait(Duration::from_secs(10), |seen| (!seen.is_empty()).then_some(())).unwrap();
        assert!(requests.try_recv().is_err(), "it is answered at once");
    });
    assert_eq!(requests.recv().unwrap().status, Some(500));
}
