//! An API server that is slow, refuses, breaks off and comes back: in the end the node's object says
//! what it should, and others' taints are there.

use std::thread;

use super::*;
use isobar_apistub::{Effect, Fault};
use serde_json::json;

#[test]
fn kube_faults_lose_no_condition_and_no_taint_of_others() {
    let status = |code, retry_after_seconds| Effect::Status { code, retry_after_seconds };
    let node = "/api/v1/nodes/n1";
    #[rustfmt::skip]
    let table = [
        // verb, path, effect, how often
        ("*",     "*",                Effect::Latency { millis: 300 }, 20),
        ("*",     "*",                Effect::Reset,                    4),
        ("watch", "*",                Effect::HalfLine,                 2),
        ("watch", "*",                Effect::Expire,                   2),
        ("list",  "*",                status(410, None),                2),
        ("list",  "*",                status(429, Some(1)),             2),
        ("list",  "*",                status(500, None),                2),
        ("patch", "*",                status(429, Some(1)),             2),
        ("patch", "*",                status(429, None),                2),
        ("patch", "*",                status(503, None),                2),
        ("patch", "*",                status(401, None),                2),
        ("patch", "*",                status(403, None),                2),
        ("patch", node,               status(409, None),                2),
        ("patch", node,               status(409, None),                6),
    ];
    for (verb, path, effect, times) in table {
        let row = format!("{verb} {path} {effect:?} {times}");
        let bed = Bed::with(|stub| {
            let mut node = generate::node("n1");
            node["spec"]["taints"] = json!([{"key": "other", "effect": "NoSchedule"}]);
            stub.put(node).unwrap();
            stub.add_fault(Fault::new(verb, path, effect).times(times));
        });
        bed.publish_until(Status::True, |node| {
            is(node, "True", "PressureContended") && taint_keys(node) == ["other", TAINT]
        });
        eventually(&format!("the pod is known: {row}"), || {
            bed.api.pods().is_some_and(|pods| pods.len() == 1)
        });
    }
}

#[test]
fn kube_faults_taints_of_others_that_come_meanwhile_stay() {
    let bed = Bed::new();
    for round in 0..10 {
        let status = if round % 2 == 0 { Status::True } else { Status::False };
        bed.api.publish(wanted(status));
        let mut node = bed.node();
        let key = format!("other-{round}");
        let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
        node["spec"]["taints"] = json!(taints);
        bed.stub.put(node).unwrap();
        thread::sleep(Duration::from_millis(100));
    }
    let others =
        |node: &Value| taint_keys(node).iter().filter(|key| key.starts_with("other-")).count();
    bed.publish_until(Status::True, |node| taint_keys(node).contains(&TAINT.to_owned()));
    // The test itself writes over what it read a moment ago, as `kubectl taint` never would; of its
    // own taints none may be lost by isobar's writes.
    assert_eq!(others(&bed.node()), 10, "{}", bed.node()["spec"]);
}

#[test]
fn kube_faults_server_that_hangs_is_told_and_overcome() {
    let bed = Bed::with(|stub| {
        stub.add_fault(Fault::new("patch", "*", Effect::Hang).times(1));
    });
    // Ten seconds pass until the first patch is given up.
    bed.publish_until(Status::True, |_| {
        bed.capability("node conditions")
            .is_some_and(|words| words.contains("not answered within 10 s"))
    });
    bed.publish_until(Status::True, |node| is(node, "True", "PressureContended"));
}

/// Nothing changes that the watch could tell.
#[test]
fn kube_faults_watch_of_the_node_that_was_cut_goes_on() {
    let bed = Bed::new();
    let told = || bed.capability("node object").unwrap_or_default();
    eventually("the node is watched", || told() == "watches node n1, of type m5.large, in eu-1a");
    bed.stub.cut_connections();
    eventually("that it was cut is told", || told().contains("reset"));
    within(Duration::from_secs(15), "it goes on", || {
        told() == "watches node n1, of type m5.large, in eu-1a"
    });
}

#[test]
fn kube_faults_node_that_is_not_there_is_told() {
    let bed = Bed::with(|stub| {
        stub.remove("nodes", "", "n1");
    });
    eventually("it is told", || {
        bed.capability("node object").as_deref() == Some("the cluster has no node n1")
    });
    bed.stub.put(generate::node("n1")).unwrap();
    bed.publish_until(Status::True, |node| is(node, "True", "PressureContended"));
}

#[test]
fn kube_faults_node_that_is_gone_is_not_watched_again() {
    let bed = Bed::new();
    let told = || bed.capability("node object").unwrap_or_default();
    eventually("the node is watched", || told() == "watches node n1, of type m5.large, in eu-1a");
    bed.stub.remove("nodes", "", "n1");
    let absent = "the cluster has no node n1";
    eventually("it is gone", || told() == absent);
    bed.stub.cut_connections();
    eventually("that the watch was cut is told", || told().contains("reset"));
    within(Duration::from_secs(15), "the watch works again", || !told().contains("reset"));
    assert_eq!(told(), absent);
}

#[test]
fn kube_faults_probes_become_fewer() {
    let refused = Effect::Status { code: 403, retry_after_seconds: None };
    let bed = Bed::with(|stub| stub.add_fault(Fault::new("list", "/api/v1/pods", refused)));
    let told = || bed.capability("pods").unwrap_or_default();
    eventually("the refusal is told", || told().contains("403"));
    let n_of = |path: &str| bed.stub.seen().iter().filter(|seen| seen.call.path == path).count();
    thread::sleep(Duration::from_secs(42));
    // One after each list that is refused, and two or three between these.
    let (lists, probes) = (n_of("/api/v1/pods"), n_of("/version"));
    assert!(probes <= lists + 3, "{probes} probes after {lists} lists");
}

#[test]
fn kube_faults_answers_without_end_are_given_up() {
    #[rustfmt::skip]
    let table = [
        // verb, path, effect, capability, detail
        ("list",  "/api/v1/pods",  Effect::Endless, "pods",            "answer is larger than 12 MiB"),
        ("watch", "/api/v1/pods",  Effect::Endless, "pods",            "answer is larger than 12 MiB"),
        ("list",  "/api/v1/nodes", Effect::Endless, "node object",     "answer is larger than 12 MiB"),
        ("list",  "/api/v1/pods",  Effect::Trickle, "pods",            "not answered within 30 s"),
        ("list",  "/api/v1/nodes", Effect::Trickle, "node object",     "not answered within 30 s"),
        ("list",  "/api/v1/nodes", Effect::Hang,    "node object",     "not answered within 30 s"),
        ("watch", "/api/v1/nodes", Effect::Mute,    "node object",     "not answered within 30 s"),
        ("watch", "/api/v1/pods",  Effect::Mute,    "pods",            "not answered within 30 s"),
        ("patch", "*",             Effect::Endless, "node conditions", "answer is larger than 12 MiB"),
        ("patch", "*",             Effect::Trickle, "node conditions", "not answered within 10 s"),
        ("list",  "/api/v1/pods",  Effect::Text { code: 200, text: "{\"items\": [".into() }, "pods", "answer cannot be read: EOF"),
    ];
    // What trickles or hangs is given up after half a minute.
    thread::scope(|rows| {
        for (verb, path, effect, capability, detail) in table {
            let fault = Fault::new(verb, path, effect);
            rows.spawn(move || is_given_up(vec![fault], capability, detail));
        }
        // A list that is refused, and hangs when it is tried again.
        let refused = Effect::Status { code: 500, retry_after_seconds: None };
        let faults = [(refused, 1), (Effect::Hang, 99)];
        let list = |(effect, times)| Fault::new("list", "/api/v1/pods", effect).times(times);
        let faults = faults.map(list).into();
        rows.spawn(move || is_given_up(faults, "pods", "not answered within 30 s"));
    });
}

fn is_given_up(faults: Vec<Fault>, capability: &str, detail: &str) {
    let row = format!("{faults:?}");
    let soon = Duration::from_secs(45);
    let bed = Bed::with(|stub| faults.into_iter().for_each(|fault| stub.add_fault(fault)));
    within(soon, &row, || {
        bed.api.publish(wanted(Status::True));
        bed.capability(capability).is_some_and(|said| said.contains(detail))
    });
    bed.stub.clear_faults();
    bed.stub.cut_connections();
    bed.publish_until(Status::True, |node| is(node, "True", "PressureContended"));
    within(soon, &format!("the pod is known: {row}"), || {
        bed.api.pods().is_some_and(|pods| pods.len() == 1)
    });
}

/// A server that accepts and says nothing more is asked again five seconds after that time.
#[test]
fn kube_faults_watches_are_asked_for_no_longer_than_a_minute() {
    let bed = Bed::new();
    for path in ["/api/v1/pods", "/api/v1/nodes"] {
        let lasts = || {
            let seen = bed.stub.seen();
            let mut its = seen.iter().map(|seen| &seen.call);
            let watch = its.find(|call| call.verb == "watch" && call.path == path)?;
            watch.option("timeoutSeconds")?.parse::<u64>().ok()
        };
        eventually(path, || lasts().is_some());
        assert!((54..=66).contains(&lasts().unwrap()), "{path}: {:?} s", lasts());
    }
}
