//! The rights that the manifests give beside those that are used, both ways.

use super::*;
use isobar::act::evict::{Answer, Request};
use isobar_apistub::{Effect, Fault, Findings, Rules};
use serde_json::json;
use tokio::sync::mpsc::{Sender, channel};

const ENFORCE: &str = include_str!("../../../deploy/isobar-enforce.yaml");
const OBSERVE: &str = include_str!("../../../deploy/isobar.yaml");
const DELETE: &str = include_str!("../../../deploy/kustomize/components/delete/rbac.yaml");

#[test]
fn kube_rights_are_those_that_are_used() {
    #[rustfmt::skip]
    let table = [
        // manifests, configured
        (ENFORCE.to_owned(),                  Deletion::Never),
        (format!("{ENFORCE}\n---\n{DELETE}"), Deletion::OverBudgets),
    ];
    for (manifests, deletion) in table {
        uses_what_it_may(&Rules::parse(&manifests).unwrap(), deletion);
    }
}

fn prepare(stub: &Stub, rules: &Rules) {
    stub.enforce(rules.clone());
    let summary = include_str!("../../data/kubernetes/stats-summary.json");
    stub.kubelet_says("/stats/summary", serde_json::from_str(summary).unwrap());
    // While pods are not listed yet, the kubelet names them.
    let late = Effect::Latency { millis: 2_000 };
    stub.add_fault(Fault::new("list", "/api/v1/pods", late).times(1));
}

/// An eviction of the bed's pod `web`, within ten seconds.
fn request(uid: &str, deletion: Deletion, reply: Sender<Answer>) -> Request {
    Request {
        action: 1,
        namespace: "shop".into(),
        name: "web".into(),
        uid: uid.into(),
        members: Vec::new(),
        grace: Nanos::SECOND,
        deletion,
        message: String::new(),
        deadline: clock::now().boot.plus(Nanos(10 * Nanos::SECOND.0)),
        reply,
    }
}

fn uses_what_it_may(rules: &Rules, deletion: Deletion) {
    let bed = Bed::with(|stub| {
        prepare(stub, rules);
        // The list of taints is read anew after a conflict.
        let conflict = Effect::Status { code: 409, retry_after_seconds: None };
        stub.add_fault(Fault::new("patch", "/api/v1/nodes/n1", conflict).times(1));
        // Deletion is the second means.
        if deletion != Deletion::Never {
            let refused = Effect::Status { code: 405, retry_after_seconds: None };
            stub.add_fault(Fault::new("create", "*/eviction", refused));
        }
    });
    bed.publish_until(Status::True, |node| {
        is(node, "True", "PressureContended") && taint_keys(node) == [TAINT]
    });
    for second in [0, 40] {
        bed.api.note(high(later(clock::now(), second)));
    }
    eventually("the event was counted", || !bed.bodies("patch", "events", "").is_empty());
    bed.api.set_evictions(Some(deletion));
    let way = bed.api.way();
    eventually("evictions are allowed", || {
        way.is_allowed.load(std::sync::atomic::Ordering::Relaxed)
    });
    let asked = |attributes: Value| {
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "metadata": {}, "spec": {"resourceAttributes": attributes},
        })
    };
    let evict =
        json!({"verb": "create", "group": "", "resource": "pods", "subresource": "eviction"});
    let delete = json!({"verb": "delete", "group": "", "resource": "pods"});
    let reviews = || bed.bodies("create", "selfsubjectaccessreviews", "");
    let wanted = [Some(asked(evict)), (deletion != Deletion::Never).then(|| asked(delete))];
    let wanted: Vec<Value> = wanted.into_iter().flatten().collect();
    eventually("each right is asked about", || wanted.iter().all(|one| reviews().contains(one)));
    assert!(reviews().iter().all(|one| wanted.contains(one)), "{:?}", reviews());
    let (reply, mut answers) = channel(1);
    let uid = bed.stub.get("pods", "shop", "web").unwrap()["metadata"]["uid"].clone();
    way.requests.try_send(request(uid.as_str().unwrap(), deletion, reply)).unwrap();
    assert!(answers.blocking_recv().unwrap().result.is_ok());
    eventually("pods are watched", || !bed.bodies("watch", "pods", "").is_empty());
    bed.api.set_may_kubelet_evict(true);
    eventually("events are watched", || !bed.bodies("watch", "events", "").is_empty());
    eventually("the kubelet was asked for its configuration", || {
        !bed.bodies("get", "nodes", "configz").is_empty()
    });
    let seen = bed.stub.seen();
    assert_eq!(rules.check(&seen), Findings::default(), "{deletion:?}");
    // The API server's log and the kubelet's name the client of each request.
    let name = concat!("isobar/", env!("CARGO_PKG_VERSION"));
    assert!(seen.iter().all(|one| one.call.user_agent == name), "{seen:?}");
}

/// An agent that observes is refused nothing, and has no right that it does not use.
#[test]
fn kube_rights_to_observe_are_those_that_are_used() {
    let rules = Rules::parse(OBSERVE).unwrap();
    let bed = Bed::observing(|stub| prepare(stub, &rules));
    let told = |status| {
        let told = wanted(status);
        let publish = told.publish.map(|publish| Publish { taints: false, ..publish });
        Wanted { publish, taints: Vec::new(), ..told }
    };
    for second in [0, 40] {
        bed.api.note(high(later(clock::now(), second)));
    }
    eventually("the condition is written", || {
        bed.api.publish(told(Status::True));
        is(&bed.node(), "True", "PressureContended")
    });
    eventually("the event was counted", || !bed.bodies("patch", "events", "").is_empty());
    eventually("pods are watched", || !bed.bodies("watch", "pods", "").is_empty());
    eventually("the kubelet was asked for its configuration", || {
        !bed.bodies("get", "nodes", "configz").is_empty()
    });
    // What it would evict it tells as an agent does that may: without a question, and without the right.
    let may_evict = || bed.api.way().is_allowed.load(std::sync::atomic::Ordering::Relaxed);
    let told = "relief.enforce does not name evict: the agent only tells which pod it would evict";
    assert_eq!((bed.capability("evictions").as_deref(), may_evict()), (Some(told), true));
    let seen = bed.stub.seen();
    assert!(seen.iter().all(|one| one.call.resource != "selfsubjectaccessreviews"), "{seen:?}");
    assert_eq!(rules.check(&seen), Findings::default());
    let refused: Vec<_> = seen.iter().filter(|seen| seen.status == Some(403)).collect();
    assert!(refused.is_empty(), "{refused:?}");

    bed.api.set_evictions(Some(Deletion::Never));
    eventually("one that enforces is told that it may not", || {
        bed.capability("evictions").as_deref() == Some("the API server does not allow them")
    });
    assert!(!may_evict());
}

#[test]
fn kube_rights_to_evict_and_to_delete_are_told() {
    use Deletion::{Never, NoEviction};
    let role = |rules: &[(&str, &str)]| {
        let rule = |(verb, resource): &(&str, &str)| {
            format!("- {{apiGroups: [\"\"], resources: [{resource}], verbs: [{verb}]}}\n")
        };
        let rules: String = rules.iter().map(rule).collect();
        format!("kind: ClusterRole\nrules:\n{rules}")
    };
    let (watch, evict, delete) =
        (("watch", "pods"), ("create", "pods/eviction"), ("delete", "pods"));
    #[rustfmt::skip]
    let table = [
        // rights, configured, evict can be tried, detail
        (vec![watch, evict],         Never,      true,  "the API server allows them"),
        (vec![watch, evict, delete], Never,      true,  "the API server allows them"),
        (vec![watch, evict],         NoEviction, true,  "the API server allows them, but not to delete pods"),
        (vec![watch, evict, delete], NoEviction, true,  "the API server allows them, and to delete pods"),
        (vec![watch, delete],        NoEviction, true,  "the API server does not allow them, but to delete pods"),
        (vec![watch, delete],        Never,      false, "the API server does not allow them"),
        (vec![watch],                NoEviction, false, "the API server does not allow them"),
    ];
    for (rights, deletion, is_possible, detail) in table {
        let bed = Bed::with(|stub| stub.enforce(Rules::parse(&role(&rights)).unwrap()));
        bed.api.set_evictions(Some(deletion));
        eventually(detail, || bed.capability("evictions").as_deref() == Some(detail));
        let is_allowed = bed.api.way().is_allowed.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(is_allowed, is_possible, "{rights:?} {deletion:?}");
    }
}

/// Rights that are taken away while the agent runs: the first eviction that is refused tells, not
/// the question that is asked every five minutes.
#[test]
fn kube_right_to_evict_that_was_lost_is_told_at_the_first_refusal() {
    let role = |resource: &str| {
        let rules = format!("- {{apiGroups: [\"\"], resources: [{resource}], verbs: [create]}}");
        let watch = "- {apiGroups: [\"\"], resources: [pods], verbs: [list, watch]}";
        Rules::parse(&format!("kind: ClusterRole\nrules:\n{watch}\n{rules}\n")).unwrap()
    };
    let bed = Bed::with(|stub| stub.enforce(role("pods/eviction")));
    let detail = || bed.capability("evictions");
    eventually("they are allowed", || detail().as_deref() == Some("the API server allows them"));
    bed.stub.enforce(role("pods/log"));
    let (reply, mut answers) = channel(1);
    let uid = bed.stub.get("pods", "shop", "web").unwrap()["metadata"]["uid"].clone();
    bed.api
        .way()
        .requests
        .try_send(request(uid.as_str().unwrap(), Deletion::Never, reply))
        .unwrap();
    assert!(answers.blocking_recv().unwrap().result.is_err());
    eventually("it is told that they are not", || {
        detail().as_deref() == Some("the API server does not allow them")
    });
    assert!(!bed.api.way().is_allowed.load(std::sync::atomic::Ordering::Relaxed));
}
