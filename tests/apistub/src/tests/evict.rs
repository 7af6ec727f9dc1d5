use serde_json::{Value, json};

use super::client::{Watch, post, stub, stub_with};
use crate::{Kubelet, Stub, generate};

const POD: &str = "/api/v1/namespaces/shop/pods/web-0";
const EVICTION: &str = "/api/v1/namespaces/shop/pods/web-0/eviction";

fn eviction(options: &Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "web-0", "namespace": "shop"},
        "deleteOptions": options,
    })
}

fn uid(stub: &Stub) -> String {
    let pod = stub.get("pods", "shop", "web-0").unwrap();
    pod["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// A budget for `web-0` that allows so many disruptions.
fn allow(stub: &Stub, name: &str, disruptions: i64) {
    stub.put(generate::budget("shop", name, "web-0", disruptions)).unwrap();
}

#[test]
fn eviction_succeeds_word_for_word() {
    let stub = stub();
    let options = json!({"gracePeriodSeconds": 1, "preconditions": {"uid": uid(&stub)}});
    let reply = post(&stub, EVICTION, &eviction(&options));
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    assert_eq!((reply.code, reply.body), (201, want));
    assert_eq!(stub.get("pods", "shop", "web-0"), None);
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "pods \"web-0\" not found", "reason": "NotFound",
        "details": {"name": "web-0", "kind": "pods"}, "code": 404,
    });
    let again = post(&stub, EVICTION, &eviction(&Value::Null));
    assert_eq!((again.code, again.body), (404, want));
}

#[test]
fn eviction_is_seen_as_condition_grace_and_end() {
    let stub = stub_with(Kubelet::WhenConfirmed);
    let from = stub.version();
    let mut watch = Watch::open(&stub, &format!("/api/v1/pods?watch=true&resourceVersion={from}"));
    post(&stub, EVICTION, &eviction(&json!({"gracePeriodSeconds": 1})));
    let marked = watch.next().unwrap();
    let condition = &marked["object"]["status"]["conditions"][1];
    let want = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastTransitionTime": condition["lastTransitionTime"],
    });
    assert_eq!((&marked["type"], condition), (&json!("MODIFIED"), &want));
    let ending = watch.next().unwrap();
    assert_eq!(ending["object"]["metadata"]["deletionGracePeriodSeconds"], 1);
    assert!(stub.confirm("shop", "web-0"));
    assert_eq!(watch.brief(), ("DELETED".into(), "web-0".into(), from + 3));
}

#[test]
fn eviction_honours_delete_options_in_camel_case_alone() {
    #[rustfmt::skip]
    let table = [
        // body, grace in seconds that the pod has then
        (eviction(&json!({"gracePeriodSeconds": 1})),                                           1),
        (eviction(&Value::Null),                                                                30),
        (json!({"metadata": {"name": "web-0"}, "delete_options": {"gracePeriodSeconds": 1}}),   30),
        (json!({"metadata": {"name": "web-0"}, "deleteOptions": {"grace_period_seconds": 1}}),  30),
    ];
    for (body, want) in table {
        let stub = stub_with(Kubelet::WhenConfirmed);
        assert_eq!(post(&stub, EVICTION, &body).code, 201, "{body}");
        let pod = stub.get("pods", "shop", "web-0").unwrap();
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], want, "{body}");
    }
}

#[test]
fn eviction_refusals() {
    let stub = stub();
    let with = |pointer: &str, value: Value| {
        let mut body = eviction(&Value::Null);
        *body.pointer_mut(pointer).unwrap() = value;
        body
    };
    let other = format!(
        "Operation cannot be fulfilled on Pod \"web-0\": the UID in the precondition (other) does \
         not match the UID in record ({}). The object might have been deleted and then recreated",
        uid(&stub)
    );
    #[rustfmt::skip]
    let table = [
        // body, code, message
        (with("/metadata/name", json!("web-1")),      400, "name in URL does not match name in Eviction object"),
        (with("/metadata/namespace", json!("x")),     400, "the namespace of the provided object does not match the namespace sent on the request"),
        (with("/kind", json!("Pod")),                 400, "no kind \"Pod\" is registered for version \"policy/v1\": not an Eviction"),
        (json!("web-0"),                              400, "the object provided is unrecognized (must be of type Eviction)"),
        (eviction(&json!({"preconditions": {"uid": "other"}})), 409, other.as_str()),
    ];
    let version = stub.version();
    for (body, code, message) in table {
        assert_eq!(post(&stub, EVICTION, &body).refusal(), (code, message), "{body}");
    }
    assert_eq!(stub.version(), version, "the pod is as it was");
}

#[test]
fn eviction_asks_the_budget() {
    let stub = stub();
    allow(&stub, "web", 0);
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "reason": "TooManyRequests",
        "details": {"causes": [{
            "reason": "DisruptionBudget",
            "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
        }]},
        "code": 429,
    });
    let refused = post(&stub, EVICTION, &eviction(&Value::Null));
    assert_eq!((refused.code, refused.retry_after, refused.body), (429, None, want));
    allow(&stub, "web", 1);
    assert_eq!(post(&stub, EVICTION, &eviction(&Value::Null)).code, 201);
    let budget = stub.get("poddisruptionbudgets", "shop", "web").unwrap();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["web-0"].is_string());
}

#[test]
fn eviction_under_unusual_budgets() {
    let budget = |change: &Value| {
        let mut budget = generate::budget("shop", "web", "web-0", 0);
        for (pointer, value) in change.as_object().unwrap() {
            let (parent, last) = pointer.rsplit_once('/').unwrap();
            budget.pointer_mut(parent).unwrap()[last] = value.clone();
        }
        budget
    };
    let processing = "The disruption budget web is still being processed by the server.";
    let negative =
        "poddisruptionbudget.policy \"web\" is forbidden: pdb disruptions allowed is negative";
    #[rustfmt::skip]
    let table = [
        // change of a budget that allows none, code, Retry-After, a text in the answer
        (json!({"/status/observedGeneration": 0}),                     429, Some("10"), processing),
        (json!({"/status/disruptionsAllowed": -1}),                    403, None,       negative),
        (json!({"/spec/selector": {}}),                                201, None,       "Success"),
        (json!({"/spec/selector": {"matchLabels": {"app": "other"}}}), 201, None,       "Success"),
    ];
    for (change, code, retry_after, text) in table {
        let stub = stub();
        stub.put(budget(&change)).unwrap();
        let reply = post(&stub, EVICTION, &eviction(&Value::Null));
        assert_eq!((reply.code, reply.retry_after.as_deref()), (code, retry_after), "{change}");
        assert!(reply.body.to_string().replace('\\', "").contains(text), "{change}: {reply:?}");
    }
}

#[test]
fn eviction_under_two_budgets_is_an_error() {
    let stub = stub();
    allow(&stub, "one", 5);
    allow(&stub, "two", 5);
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                    does not support.",
        "code": 500,
    });
    let reply = post(&stub, EVICTION, &eviction(&Value::Null));
    assert_eq!((reply.code, reply.body), (500, want));
}

#[test]
fn eviction_asks_no_budget_for_pods_that_disrupt_nothing() {
    #[rustfmt::skip]
    let table = [
        // phase, ready, policy of the budget, desired, code
        ("Running",   "True",  "IfHealthyBudget", 1, 429),
        ("Running",   "False", "IfHealthyBudget", 1, 201), // 1 of 1 are healthy without it
        ("Running",   "False", "IfHealthyBudget", 2, 429),
        ("Running",   "False", "AlwaysAllow",     2, 201),
        ("Pending",   "False", "IfHealthyBudget", 2, 201),
        ("Succeeded", "False", "IfHealthyBudget", 2, 201),
        ("Failed",    "False", "IfHealthyBudget", 2, 201),
    ];
    for (phase, ready, policy, desired, code) in table {
        let stub = stub();
        let mut pod = generate::pod("worker-1", "shop", "web-0");
        pod["status"]["phase"] = phase.into();
        pod["status"]["conditions"][0]["status"] = ready.into();
        stub.put(pod).unwrap();
        let mut budget = generate::budget("shop", "web", "web-0", 0);
        budget["spec"]["unhealthyPodEvictionPolicy"] = policy.into();
        budget["status"]["desiredHealthy"] = desired.into();
        stub.put(budget).unwrap();
        let reply = post(&stub, EVICTION, &eviction(&Value::Null));
        assert_eq!(reply.code, code, "{phase} {ready} {policy} {desired}");
    }
}

#[test]
fn eviction_of_what_ends_already_succeeds() {
    let stub = stub_with(Kubelet::WhenConfirmed);
    allow(&stub, "web", 1);
    for _ in 0..2 {
        assert_eq!(post(&stub, EVICTION, &eviction(&Value::Null)).code, 201);
    }
    let budget = stub.get("poddisruptionbudgets", "shop", "web").unwrap();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0, "taken once");
    assert!(super::client::get(&stub, POD).at("/metadata/deletionTimestamp").is_string());
}
