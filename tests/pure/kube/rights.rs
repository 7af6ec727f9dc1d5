//! The rights that the manifests give beside those that are used, both ways.

use super::*;
use isobar::act::evict::Request;
use isobar::kube::{About, Note};
use isobar_apistub::{Effect, Fault, Findings, Rules};
use tokio::sync::mpsc::channel;

#[test]
fn kube_rights_are_those_that_are_used() {
    let rules = Rules::parse(include_str!("../../../deploy/isobar-enforce.yaml")).unwrap();
    let bed = Bed::with(|stub| {
        stub.enforce(rules.clone());
        let summary = include_str!("../../data/kubernetes/stats-summary.json");
        stub.kubelet_says("/stats/summary", serde_json::from_str(summary).unwrap());
        // While pods are not listed yet, the kubelet names them.
        let late = Effect::Latency { millis: 2_000 };
        stub.add_fault(Fault::new("list", "/api/v1/pods", late).times(1));
        // The list of taints is read anew after a conflict.
        let conflict = Effect::Status { code: 409, retry_after_seconds: None };
        stub.add_fault(Fault::new("patch", "/api/v1/nodes/n1", conflict).times(1));
    });
    bed.publish_until(Status::True, |node| {
        is(node, "True", "PressureContended") && taint_keys(node) == [TAINT]
    });
    for second in [0, 40] {
        bed.api.note(Note {
            at: clock::now().wall.plus(Nanos(second * Nanos::SECOND.0)),
            about: About::Node,
            reason: "PressureHigh".into(),
            text: "high".into(),
            is_warning: false,
            action: "judge".into(),
            annotations: [].into(),
            subject: CPU.into(),
        });
    }
    eventually("the event was counted", || !bed.bodies("patch", "events", "").is_empty());
    let way = bed.api.way();
    eventually("evictions are allowed", || {
        way.is_allowed.load(std::sync::atomic::Ordering::Relaxed)
    });
    let (reply, mut answers) = channel(1);
    let uid = bed.stub.get("pods", "shop", "web").unwrap()["metadata"]["uid"].clone();
    let request = Request {
        action: 1,
        namespace: "shop".into(),
        name: "web".into(),
        uid: uid.as_str().unwrap().into(),
        grace: Nanos::SECOND,
        deadline: clock::now().boot.plus(Nanos(10 * Nanos::SECOND.0)),
        reply,
    };
    way.requests.try_send(request).unwrap();
    assert!(answers.blocking_recv().unwrap().result.is_ok());
    eventually("pods are watched", || !bed.bodies("watch", "pods", "").is_empty());
    eventually("the kubelet was asked for its configuration", || {
        !bed.bodies("get", "nodes", "configz").is_empty()
    });
    assert_eq!(rules.check(&bed.stub.seen()), Findings::default());
}
