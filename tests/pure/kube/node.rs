//! Conditions, taints and events.

use std::time::Duration;

use super::*;
use isobar_apistub::{Effect, Fault};
use serde_json::json;

#[test]
fn kube_node_is_written_and_left_clean() {
    let bed = Bed::with(|stub| {
        let mut node = generate::node("n1");
        node["spec"]["taints"] = json!([{"key": "other", "effect": "NoExecute", "value": "v"}]);
        stub.put(node).unwrap();
    });
    let contended = |node: &Value| is(node, "True", "PressureContended");
    bed.publish_until(Status::True, |node| contended(node) && taint_keys(node) == ["other", TAINT]);
    // Nothing but the list and the version that it was made out of.
    let written = bed.bodies("patch", "nodes", "");
    let list = json!([
        {"key": "other", "effect": "NoExecute", "value": "v"}, {"key": TAINT, "effect": "NoSchedule"},
    ]);
    let version = &written[0]["metadata"]["resourceVersion"];
    assert!(version.as_str().is_some_and(|text| text.parse::<u64>().is_ok()), "{version}");
    let body = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": list}});
    assert_eq!(written, [body]);
    // The server keeps who wrote what by this name, and what an agent left is found by it.
    for seen in bed.stub.seen().iter().filter(|seen| seen.call.verb == "patch") {
        let kind = match seen.call.subresource.as_str() {
            "status" => "application/strategic-merge-patch+json",
            _ => "application/merge-patch+json",
        };
        let manager = seen.call.query.get("fieldManager").map(String::as_str);
        assert_eq!((manager, &*seen.call.content_type), (Some("isobar"), kind), "{seen:?}");
    }
    let ready = bed.node()["status"]["conditions"].as_array().unwrap().len();
    assert_eq!(ready, 5, "the kubelet's conditions stay");

    // What has not changed is not written again.
    let n_written = || bed.bodies("patch", "nodes", "status").len();
    let before = n_written();
    for _ in 0..30 {
        bed.api.publish(wanted(Status::True));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!((before, n_written()), (1, 1));

    bed.publish_until(Status::False, |node| {
        is(node, "False", "PressureLow") && taint_keys(node) == ["other"]
    });
    bed.publish_until(Status::True, |node| contended(node) && taint_keys(node).len() == 2);
    let Bed { stub, api, dir: _dir } = bed;
    api.last_word().say(SOON);
    let node = stub.get("nodes", "", "n1").unwrap();
    assert!(is(&node, "Unknown", "AgentStopped"), "{node}");
    assert_eq!(taint_keys(&node), ["other"]);
    assert_eq!(
        node["spec"]["taints"][0],
        json!({"key": "other", "effect": "NoExecute", "value": "v"})
    );
}

/// kube asks for ever for a watch from where the server has forgotten it.
#[test]
fn kube_node_is_listed_anew_where_its_watch_cannot_begin() {
    let bed = Bed::new();
    let cpus = || bed.api.allocatable().map(|all| all["cpu"].to_string());
    eventually("the node is known", || cpus().is_some());
    let gone = Effect::Status { code: 410, retry_after_seconds: None };
    bed.stub.add_fault(Fault::new("watch", "/api/v1/nodes", gone));
    bed.stub.cut_connections();
    let mut node = bed.node();
    node["status"]["allocatable"]["cpu"] = json!("3");
    bed.stub.put(node).unwrap();
    within(Duration::from_secs(40), "a new list has it", || cpus().as_deref() == Some("3"));
}

/// As on SIGHUP with another `conditions.prefix`.
#[test]
fn kube_node_taint_under_a_key_of_before_is_taken_back() {
    let bed = Bed::new();
    bed.publish_until(Status::True, |node| taint_keys(node) == [TAINT]);
    let key = "example.org/cpu-contention-pressure";
    let mut renamed = wanted(Status::True);
    renamed.taints[0].key = key.into();
    renamed.taint_keys = [key.into()].into();
    eventually("the new one alone is there", || {
        bed.api.publish(renamed.clone());
        taint_keys(&bed.node()) == [key]
    });
    // One that comes under the former key afterwards is another writer's.
    let mut node = bed.node();
    let other = json!({"key": TAINT, "effect": "NoSchedule"});
    node["spec"]["taints"].as_array_mut().unwrap().push(other);
    bed.stub.put(node).unwrap();
    renamed.taints.clear();
    eventually("the new one is taken back", || {
        bed.api.publish(renamed.clone());
        taint_keys(&bed.node()) == [TAINT]
    });
    let Bed { stub, api, dir: _dir } = bed;
    api.last_word().say(SOON);
    assert_eq!(taint_keys(&stub.get("nodes", "", "n1").unwrap()), [TAINT]);
}

/// What the API server keeps of a writer other than isobar.
fn of_another_writer() -> Value {
    json!({
        "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "subresource": "status",
        "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z",
        "fieldsV1": {"f:status": {"f:conditions": {format!("k:{{\"type\":\"{CPU}\"}}"): {"f:status": {}}}}},
    })
}

/// The node with that writer's condition.
fn with_condition(mut node: Value, beat: &str) -> Value {
    node["metadata"]["managedFields"] = json!([of_another_writer()]);
    let of_other = json!({
        "type": CPU, "status": "False", "reason": "Other",
        "lastHeartbeatTime": beat, "lastTransitionTime": beat,
    });
    let conditions = node["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|one| one["type"] != CPU);
    conditions.push(of_other);
    node
}

#[test]
fn kube_node_condition_of_another_writer_is_left_alone() {
    #[rustfmt::skip]
    let table = [
        // the other's heartbeat, whose condition it is afterwards
        (jiff::Timestamp::MAX.to_string(),      "Other"),
        ("2020-01-01T00:00:00Z".to_owned(),     "PressureContended"), // given up years ago
    ];
    for (beat, want) in table {
        let bed = Bed::with(|stub| {
            stub.put(with_condition(generate::node("n1"), &beat)).unwrap();
        });
        bed.publish_until(Status::True, |node| taint_keys(node) == [TAINT]);
        assert_eq!(condition(&bed.node()).unwrap().1, want, "{beat}");
    }
}

/// A clock that differs by an hour must not make two writers take turns.
#[test]
fn kube_node_condition_of_a_writer_with_another_clock() {
    #[rustfmt::skip]
    let table = [
        // the other's clock beside this one in seconds, whose condition it is first
        (3_600_i64, "Other"),
        (-3_600,    "PressureContended"), // looks given up
    ];
    for (seconds, first) in table {
        let beat = || {
            let now = jiff::Timestamp::now().as_second();
            jiff::Timestamp::from_second(now + seconds).unwrap().to_string()
        };
        let bed = Bed::with(|stub| {
            stub.put(with_condition(generate::node("n1"), &beat())).unwrap();
        });
        bed.publish_until(Status::True, |node| taint_keys(node) == [TAINT]);
        assert_eq!(condition(&bed.node()).unwrap().1, first, "{seconds} s");
        // The other writes on: from now on it is left to it.
        bed.stub.put(with_condition(bed.node(), &beat())).unwrap();
        bed.publish_until(Status::False, |node| taint_keys(node).is_empty());
        for _ in 0..30 {
            bed.api.publish(wanted(Status::True));
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(is(&bed.node(), "False", "Other"), "{seconds} s: {}", bed.node()["status"]);
    }
}

#[test]
fn kube_node_condition_without_a_rule_goes() {
    let old = "SystemDiskContentionPressure";
    let bed = Bed::with(|stub| {
        let mut node = generate::node("n1");
        let fields = json!({"f:status": {"f:conditions": {format!("k:{{\"type\":\"{old}\"}}"): {"f:status": {}}}}});
        node["metadata"]["managedFields"] = json!([{
            "manager": "isobar", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        }]);
        let stale = json!({"type": old, "status": "True", "reason": "PressureContended"});
        node["status"]["conditions"].as_array_mut().unwrap().push(stale);
        stub.put(node).unwrap();
    });
    bed.publish_until(Status::False, |node| {
        is(node, "False", "PressureLow") && !node["status"].to_string().contains(old)
    });
    assert_eq!(bed.node()["status"]["conditions"].as_array().unwrap().len(), 5);
}

/// What isobar wrote, as the API server keeps it.
fn of_isobar(kind: &str) -> Value {
    json!({
        "manager": "isobar", "operation": "Update", "apiVersion": "v1", "subresource": "status",
        "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z",
        "fieldsV1": {"f:status": {"f:conditions": {format!("k:{{\"type\":\"{kind}\"}}"): {"f:status": {}}}}},
    })
}

/// A node on which an agent was killed, and another writer's taint and condition.
fn left_behind() -> Value {
    let mut node = generate::node("n1");
    node["metadata"]["managedFields"] = json!([of_isobar(CPU), of_another_writer_of("Other")]);
    node["spec"]["taints"] = json!([
        {"key": "other", "effect": "NoSchedule"}, {"key": TAINT, "effect": "NoSchedule"},
    ]);
    let conditions = node["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": CPU, "status": "True", "reason": "PressureContended"}));
    conditions.push(json!({"type": "Other", "status": "True", "reason": "Other"}));
    node
}

fn of_another_writer_of(kind: &str) -> Value {
    let mut its = of_isobar(kind);
    its["manager"] = json!("another");
    its
}

fn publish_nothing(bed: &Bed) {
    let off = Publish { taints: false, conditions: false, ..Publish::default() };
    bed.api.publish(Wanted { publish: Some(off), ..wanted(Status::True) });
}

#[test]
fn kube_node_is_cleared_of_what_a_killed_agent_left() {
    let bed = Bed::with(|stub| {
        stub.put(left_behind()).unwrap();
    });
    eventually("both are gone", || {
        publish_nothing(&bed);
        taint_keys(&bed.node()) == ["other"] && condition(&bed.node()).is_none()
    });
    assert!(bed.node()["status"].to_string().contains("\"Other\""), "{}", bed.node());
    eventually("it is said", || {
        bed.capability("node taints").as_deref() == Some("kubernetes.taints is false")
    });
    // Taints that come later are another writer's.
    let mut node = bed.node();
    node["spec"]["taints"] = json!([{"key": TAINT, "effect": "NoSchedule"}]);
    bed.stub.put(node).unwrap();
    for _ in 0..25 {
        publish_nothing(&bed);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(taint_keys(&bed.node()), [TAINT]);
}

#[test]
fn kube_node_that_may_not_be_cleared_is_told_once() {
    let refused = Effect::Status { code: 403, retry_after_seconds: None };
    let bed = Bed::with(|stub| {
        stub.put(left_behind()).unwrap();
        stub.add_fault(Fault::new("patch", "*", refused));
    });
    let says = |name| bed.capability(name).is_some_and(|said| said.contains("of isobar's stay"));
    eventually("it is said", || {
        publish_nothing(&bed);
        says("node taints") && says("node conditions")
    });
    for _ in 0..40 {
        publish_nothing(&bed);
        std::thread::sleep(Duration::from_millis(100));
    }
    let n_asked = |subresource| bed.bodies("patch", "nodes", subresource).len();
    assert_eq!((n_asked(""), n_asked("status")), (1, 1));
    assert!(says("node taints") && says("node conditions"));
}

#[test]
fn kube_node_taints_do_not_wait_for_conditions() {
    let failing = Effect::Status { code: 500, retry_after_seconds: None };
    let bed = Bed::with(|stub| {
        let mut node = left_behind();
        node["metadata"]["managedFields"] = json!([]);
        stub.put(node).unwrap();
        stub.add_fault(Fault::new("patch", "/api/v1/nodes/n1/status", failing));
    });
    bed.publish_until(Status::False, |node| taint_keys(node) == ["other"]);
    assert!(is(&bed.node(), "True", "PressureContended"), "its condition could not be written");
}

#[test]
fn kube_node_events_that_came_too_soon_are_counted_later() {
    let bed = Bed::new();
    // The second comes within 30 s of the first, which is over by now.
    for ago in [35, 32] {
        bed.api.note(high(later(clock::now(), -ago)));
    }
    eventually("the count is written", || {
        let counted = bed.bodies("patch", "events", "");
        counted.first().is_some_and(|body| body["series"]["count"] == 2)
    });
    std::thread::sleep(Duration::from_secs(11));
    assert_eq!(bed.bodies("patch", "events", "").len(), 1, "and once");
}

#[test]
fn kube_node_events_come_in_series() {
    let bed = Bed::new();
    let began = clock::now();
    let note = |second: i64, reason: &str, about: About| Note {
        at: later(began, second),
        about,
        reason: reason.into(),
        text: format!("{reason} at {second}"),
        is_warning: true,
        action: "judge".into(),
        annotations: [].into(),
        subject: CPU.into(),
    };
    let pod = || About::Pod { namespace: "shop".into(), name: "web".into(), uid: "u1".into() };
    bed.api.note(note(0, "PressureHigh", About::Node));
    bed.api.note(note(1, "Evicted", pod()));
    bed.api.note(note(10, "PressureHigh", About::Node)); // counted, not yet written
    bed.api.note(note(40, "PressureHigh", About::Node));
    bed.api.note(note(500, "PressureHigh", About::Node)); // another series
    eventually("all are written", || bed.bodies("create", "events", "").len() == 3);
    let created = bed.bodies("create", "events", "");
    let shown: Vec<_> = created
        .iter()
        .map(|event| (&event["metadata"]["namespace"], &event["regarding"]["kind"], &event["note"]))
        .collect();
    assert_eq!(
        shown,
        [
            (&json!("default"), &json!("Node"), &json!("PressureHigh at 0")),
            (&json!("shop"), &json!("Pod"), &json!("Evicted at 1")),
            (&json!("default"), &json!("Node"), &json!("PressureHigh at 500")),
        ]
    );
    let counted = bed.bodies("patch", "events", "");
    let last = jiff::Timestamp::from_nanosecond(later(began, 40).wall.0.into()).unwrap();
    assert_eq!(
        counted,
        [json!({"series": {"count": 3, "lastObservedTime": format!("{last:.6}")}})]
    );
}

/// The server refuses for a while, or takes the write and its answer is lost.
#[test]
fn kube_node_events_are_counted_once_however_often_they_are_written() {
    for effect in [Effect::Status { code: 500, retry_after_seconds: None }, Effect::Reset] {
        let bed = Bed::new();
        let note = |second| high(later(clock::now(), second));
        bed.api.note(note(0));
        eventually("it is written", || bed.bodies("create", "events", "").len() == 1);
        bed.stub.add_fault(Fault::new("patch", "*/events/*", effect.clone()).times(2));
        bed.api.note(note(40));
        let count = || {
            let events = bed.stub.all("events");
            events.first().map(|event| event["series"]["count"].clone()).unwrap_or_default()
        };
        eventually("the count is written", || !count().is_null());
        assert_eq!(count(), 2, "{effect:?}");
    }
}

/// By what the server keeps of who wrote what.
#[test]
fn kube_node_is_tidied_up_after_an_agent_that_was_killed() {
    let off = Publish { conditions: false, taints: false, ..Publish::default() };
    let on = Publish { conditions: true, taints: true, ..Publish::default() };
    for publish in [off, on] {
        let bed = Bed::new();
        bed.publish_until(Status::True, |node| {
            is(node, "True", "PressureContended") && taint_keys(node) == [TAINT]
        });
        let bed = bed.restarted();
        let nothing = Wanted {
            publish: Some(publish),
            conditions: Vec::new(),
            taints: Vec::new(),
            ..wanted(Status::False)
        };
        eventually(&format!("nothing is left: {publish:?}"), || {
            bed.api.publish(nothing.clone());
            let node = bed.node();
            condition(&node).is_none() && taint_keys(&node).is_empty()
        });
        let kubelets = bed.node()["status"]["conditions"].as_array().unwrap().len();
        assert_eq!(kubelets, 4, "{publish:?}");
    }
}
