use serde_json::{Value, json};

use super::client::{MERGE, STRATEGIC, get, patch, post, stub};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn event() -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "worker-1.1", "namespace": "default"},
        "eventTime": "2026-11-22T10:00:00.123456Z",
        "reportingController": "isobar.dev/agent", "reportingInstance": "worker-1",
        "action": "Evicting", "reason": "MemoryContention", "type": "Warning",
        "regarding": {"kind": "Node", "apiVersion": "v1", "name": "worker-1"},
        "note": "short of memory",
    })
}

#[test]
fn event_is_one_object_in_two_versions() {
    let stub = stub();
    let made = post(&stub, EVENTS, &event());
    assert_eq!((made.code, made.at("/note")), (201, &json!("short of memory")));
    let core =
        get(&stub, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=worker-1");
    #[rustfmt::skip]
    let table = [
        ("/items/0/message",             json!("short of memory")),
        ("/items/0/reportingComponent",  json!("isobar.dev/agent")),
        ("/items/0/involvedObject/kind", json!("Node")),
        ("/items/0/note",                Value::Null),
    ];
    for (pointer, want) in table {
        assert_eq!(*core.at(pointer), want, "{pointer}");
    }
    let newer = get(&stub, &format!("{EVENTS}?fieldSelector=regarding.kind=Node"));
    assert_eq!(*newer.at("/items/0/note"), json!("short of memory"));
}

#[test]
fn event_that_is_new_needs_its_fields() {
    let field = |name: &str| format!("{name}: Required value");
    let long = "x".repeat(129);
    #[rustfmt::skip]
    let table = [
        // field, value, message after "Event "worker-1.1" is invalid: "
        ("eventTime",           Value::Null,            field("eventTime")),
        ("reportingInstance",   json!(""),              field("reportingInstance")),
        ("action",              Value::Null,            field("action")),
        ("reason",              Value::Null,            field("reason")),
        ("reportingController", json!("a b"),           "reportingController: Invalid value: \"a b\": must be a qualified name".into()),
        ("reportingInstance",   json!(long),            "reportingInstance: Invalid value: \"\": can have at most 128 characters".into()),
        ("action",              json!(long),            "action: Invalid value: \"\": can have at most 128 characters".into()),
        ("reason",              json!(long),            "reason: Invalid value: \"\": can have at most 128 characters".into()),
        ("note",                json!("x".repeat(1025)), "message: Invalid value: \"\": can have at most 1024 characters".into()),
        ("type",                json!("Error"),         "type: Invalid value: \"\": has invalid value: Error".into()),
        ("deprecatedCount",     json!(1),               "count: Invalid value: \"\": needs to be unset".into()),
        ("series",              json!({"count": 1, "lastObservedTime": "2026-11-22T10:00:00.123456Z"}), "series.count: Invalid value: \"\": should be at least 2".into()),
        ("series",              json!({"count": 2}),    "series.lastObservedTime: Required value".into()),
    ];
    let stub = stub();
    for (name, value, want) in table {
        let mut body = event();
        body[name] = value;
        let want = format!("Event \"worker-1.1\" is invalid: {want}");
        assert_eq!(post(&stub, EVENTS, &body).refusal(), (422, want.as_str()), "{name}");
    }
    // One that is wrong is refused as such, also where there is one of its name.
    assert_eq!(post(&stub, EVENTS, &event()).code, 201);
    let mut wrong = event();
    wrong["action"] = "".into();
    assert_eq!(post(&stub, EVENTS, &wrong).code, 422);
    let mut long = event();
    long["metadata"]["name"] = "x".repeat(254).into();
    let reply = post(&stub, EVENTS, &long);
    assert!(reply.refusal().1.ends_with("must be no more than 253 characters"), "{:?}", reply.body);
    let mut without = event();
    without["reportingController"] = "".into();
    without["type"] = "".into();
    let reply = post(&stub, EVENTS, &without);
    let causes: Vec<_> = reply.at("/details/causes").as_array().unwrap().iter().collect();
    let want = [
        json!({"reason": "FieldValueRequired", "field": "reportingController", "message": "Required value"}),
        json!({"reason": "FieldValueInvalid", "field": "reportingController", "message": "Invalid value: \"\": must be a qualified name"}),
        json!({"reason": "FieldValueInvalid", "field": "type", "message": "Invalid value: \"\": has invalid value: "}),
    ];
    assert_eq!(causes, want.iter().collect::<Vec<_>>());
}

#[test]
fn event_times_have_six_decimals() {
    let stub = stub();
    #[rustfmt::skip]
    let table = [
        // eventTime, code
        ("2026-11-22T10:00:00.123456Z",       201),
        ("2026-11-22T10:00:00.123456+01:00",  201),
        ("2026-11-22T10:00:00Z",              400),
        ("2026-11-22T10:00:00.123Z",          400),
        ("2026-11-22T10:00:00.123456789Z",    400),
        ("yesterday",                         400),
    ];
    for (i, (time, code)) in table.into_iter().enumerate() {
        let mut body = event();
        body["metadata"]["name"] = format!("worker-1.{i}").into();
        body["eventTime"] = time.into();
        let reply = post(&stub, EVENTS, &body);
        assert_eq!(reply.code, code, "{time}: {:?}", reply.refusal());
    }
}

#[test]
fn event_of_a_node_lies_in_default() {
    let stub = stub();
    #[rustfmt::skip]
    let table = [
        // namespace of the event, of what it regards, code
        ("default",     "",     201),
        ("kube-system", "",     201),
        ("shop",        "",     422),
        ("shop",        "shop", 201),
        ("nowhere",     "",     404),
    ];
    for (namespace, regarding, code) in table {
        let mut body = event();
        body["metadata"]["namespace"] = namespace.into();
        body["regarding"]["namespace"] = regarding.into();
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        assert_eq!(post(&stub, &path, &body).code, code, "{namespace} {regarding}");
    }
}

#[test]
fn event_may_become_a_series() {
    let stub = stub();
    post(&stub, EVENTS, &event());
    let series =
        |count: u32, time: &str| json!({"series": {"count": count, "lastObservedTime": time}});
    let time = "2026-11-22T10:05:00.000000Z";
    let immutable = "Event \"worker-1.1\" is invalid: message: Invalid value: \
                     \"other\": field is immutable";
    #[rustfmt::skip]
    let table = [
        // kind, patch, code, message
        (STRATEGIC, series(2, time),                   200, ""),
        (MERGE,     series(3, time),                   200, ""),
        (MERGE,     series(1, time),                   422, "Event \"worker-1.1\" is invalid: series.count: Invalid value: \"\": should be at least 2"),
        (MERGE,     json!({"note": "other"}),          422, immutable),
        (MERGE,     json!({"metadata": {"labels": {"a": "b"}}}), 200, ""),
    ];
    for (kind, body, code, message) in table {
        let reply = patch(&stub, &format!("{EVENTS}/worker-1.1"), kind, &body);
        assert_eq!(reply.refusal(), (code, message), "{body}");
    }
    let short = series(4, "2026-11-22T10:05:00Z");
    assert_eq!(patch(&stub, &format!("{EVENTS}/worker-1.1"), MERGE, &short).code, 422);
    let core = get(&stub, "/api/v1/namespaces/default/events/worker-1.1");
    assert_eq!(*core.at("/series/count"), json!(3));
}
