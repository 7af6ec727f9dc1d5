//! Evictions, from a request of the actuator to its answer.

use std::sync::atomic::Ordering;

use super::*;
use isobar::act::evict::{Answer, Refusal, Request};
use isobar_apistub::{Effect, Fault};
use isobar_core::model::settings::Deletion;
use serde_json::json;
use tokio::sync::mpsc::{Receiver, channel};

const EVICTION: &str = "/api/v1/namespaces/shop/pods/web/eviction";

/// Asks for the eviction of the pod of this uid.
fn ask(bed: &Bed, uid: &str, within: Duration, deletion: Deletion) -> Receiver<Answer> {
    ask_for(bed, ("web", uid, &[]), within, deletion)
}

/// The same of a group of pods, if it has members.
fn ask_for(
    bed: &Bed,
    (name, uid, members): (&str, &str, &[String]),
    within: Duration,
    deletion: Deletion,
) -> Receiver<Answer> {
    let (reply, answers) = channel(1);
    let now = clock::now().boot;
    let request = Request {
        action: 7,
        namespace: "shop".into(),
        name: name.into(),
        uid: uid.into(),
        members: members.to_vec(),
        grace: Nanos(2 * Nanos::SECOND.0),
        deletion,
        message: "The node was low on resource: memory. ".into(),
        deadline: now.plus(Nanos(u64::try_from(within.as_nanos()).unwrap())),
        reply,
    };
    bed.api.way().requests.try_send(request).unwrap();
    answers
}

fn answer(mut answers: Receiver<Answer>) -> Answer {
    answers.blocking_recv().expect("each request is answered")
}

fn budget(name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "shop", "name": name, "generation": 1},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1},
    })
}

/// A budget of which the server has not yet counted the pods.
fn budget_in_process() -> Value {
    let mut budget = budget("new");
    budget["metadata"]["generation"] = json!(2);
    budget
}

#[test]
fn kube_evictions_by_what_the_server_says() {
    let status = |code| Effect::Status { code, retry_after_seconds: None };
    let later = || Effect::Status { code: 429, retry_after_seconds: Some(2) };
    let webhook = || {
        Effect::Text { code: 403, text: r#"{"kind":"Status","code":403,"message":"admission webhook \"drain\" denied the request"}"#.into() }
    };
    let half = || Effect::Text { code: 201, text: r#"{"kind": "Status", "#.into() };
    let none = || (Effect::Reset, 0);
    let new = budget_in_process;
    #[rustfmt::skip]
    let table = [
        // uid, budgets, fault and how often, verdict, words, the pod ends, requests
        ("own",   vec![],                         none(),             "done",      "evicts shop/web",                           true,  1..=1),
        ("own",   vec![budget("a")],              none(),             "forbidden", "The disruption budget a needs 1 healthy pods and has 1", false, 1..=1),
        ("own",   vec![budget("a"), budget("b")], none(),             "forbidden", "more than one PodDisruptionBudget",         false, 1..=1),
        ("own",   vec![new()],                    none(),             "forbidden", "is still being processed",                  false, 2..=2), // in ten seconds
        ("other", vec![],                         none(),             "done",      "gone already; another pod has its name",    false, 1..=1),
        ("gone",  vec![],                         none(),             "done",      "gone already",                              false, 1..=1),
        ("own",   vec![],                         (status(503), 2),   "done",      "evicts shop/web",                           true,  3..=3),
        ("own",   vec![],                         (status(401), 99),  "failed",    "401",                                       false, 1..=1),
        ("own",   vec![],                         (status(403), 99),  "failed",    "403",                                       false, 1..=1),
        ("own",   vec![],                         (webhook(), 99),    "forbidden", "denied the request",                      false, 1..=1),
        ("own",   vec![],                         (status(500), 99),  "failed",    "could not be asked in time",                false, 3..=9),
        ("own",   vec![],                         (status(429), 1),   "done",      "evicts shop/web",                           true,  2..=2),
        ("own",   vec![],                         (status(429), 99),  "failed",    "too many requests",                         false, 3..=9),
        ("own",   vec![],                         (later(), 99),      "failed",    "too many requests",                         false, 3..=4),
        ("own",   vec![],                         (half(), 1),        "done",      "evicts shop/web",                           true,  2..=2),
        ("own",   vec![],                         (Effect::Hang, 99), "failed",    "has not answered in time",                  false, 1..=1),
        // It was done, and is asked for again: the pod ends once.
        ("own",   vec![],                         (Effect::Lost, 1),  "done",      "evicts shop/web",                           true,  2..=2),
        ("own",   vec![],                         (Effect::Reset, 1), "done",      "evicts shop/web",                           true,  2..=2),
    ];
    for (uid, budgets, (effect, times), verdict, words, ends, requests) in table {
        let row = format!("{uid} {budgets:?} {effect:?} {times}");
        let bed = Bed::with(|stub| {
            for budget in budgets {
                stub.put(budget).unwrap();
            }
            stub.add_fault(Fault::new("create", EVICTION, effect).times(times));
        });
        let pod = bed.stub.get("pods", "shop", "web").unwrap();
        let own = pod["metadata"]["uid"].as_str().unwrap().to_owned();
        if uid == "gone" {
            bed.stub.remove("pods", "shop", "web");
        }
        let uid = if uid == "other" { "another" } else { &own };
        let Answer { result, .. } = answer(ask(&bed, uid, Duration::from_secs(8), Deletion::Never));
        let (got, text) = match result {
            Ok(text) => ("done", text),
            Err(Refusal::Forbidden(text)) => ("forbidden", text),
            Err(Refusal::Partly(text)) => ("partly", text),
            Err(Refusal::Failed(text)) => ("failed", text),
        };
        assert_eq!(got, verdict, "{row}: {text}");
        assert!(text.contains(words), "{row}: {text}");
        let pod = bed.stub.get("pods", "shop", "web");
        let is_ending = pod.is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(is_ending, ends, "{row}");
        if ends {
            let pod = bed.stub.get("pods", "shop", "web").unwrap();
            assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 2, "{row}");
            let conditions = pod["status"]["conditions"].as_array().unwrap();
            let why = conditions.iter().filter(|one| one["type"] == "DisruptionTarget");
            assert_eq!(why.count(), 1, "{row}");
        }
        let n_requests = bed.bodies("create", "pods", "eviction").len();
        assert!(requests.contains(&n_requests), "{row}: {n_requests} requests");
    }
}

#[test]
fn kube_evictions_of_a_group_are_of_each_of_its_pods() {
    let kept = |name: &str| {
        let mut budget = budget("kept");
        budget["spec"]["selector"] = json!({"matchLabels": {"app": name}});
        budget
    };
    let refused = |name: &str| {
        let status = Effect::Status { code: 401, retry_after_seconds: None };
        Fault::new("create", &format!("/api/v1/namespaces/shop/pods/{name}/eviction"), status)
    };
    #[rustfmt::skip]
    let table = [
        // budget, fault, verdict, words, who ends
        (None,              vec![],                           "done",      "evicts 2 of 3 pods of shop/ReplicaSet/web", vec!["web", "web-2"]),
        (Some(kept("web")), vec![],                           "partly",    "evicts 1 of 3 pods of shop/ReplicaSet/web; shop/web is not evicted", vec!["web-2"]),
        (None,              vec![refused("web")],             "done",      "evicts 1 of 3 pods of shop/ReplicaSet/web; shop/web is not evicted", vec!["web-2"]),
        (None,              vec![refused("*")],               "failed",    "shop/web is not evicted",                  vec![]),
    ];
    for (budget, faults, verdict, words, ends) in table {
        let bed = Bed::with(|stub| {
            stub.put(generate::pod("n1", "shop", "web-2")).unwrap();
            budget.into_iter().for_each(|budget| drop(stub.put(budget).unwrap()));
            faults.into_iter().for_each(|fault| stub.add_fault(fault));
        });
        eventually("both are known", || bed.api.pods().is_some_and(|pods| pods.len() == 2));
        let uid = |name: &str| {
            bed.stub.get("pods", "shop", name).unwrap()["metadata"]["uid"].as_str().unwrap().into()
        };
        let members = [uid("web"), uid("web-2"), "gone".to_owned()];
        let group = ("ReplicaSet/web", &*members[0], &members[..]);
        let asked = ask_for(&bed, group, Duration::from_secs(8), Deletion::Never);
        let (got, text) = match answer(asked).result {
            Ok(text) => ("done", text),
            Err(Refusal::Forbidden(text)) => ("forbidden", text),
            Err(Refusal::Partly(text)) => ("partly", text),
            Err(Refusal::Failed(text)) => ("failed", text),
        };
        assert_eq!(got, verdict, "{text}");
        assert!(text.contains(words), "{text}");
        let is_ending = |name: &&str| {
            let pod = bed.stub.get("pods", "shop", name);
            pod.is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
        };
        let got: Vec<_> = ["web", "web-2"].into_iter().filter(is_ending).collect();
        assert_eq!(got, ends, "{text}");
    }
}

#[test]
fn kube_evictions_become_deletions_as_configured() {
    use Deletion::{Never, NoEviction, OverBudgets};
    let status = |code| Effect::Status { code, retry_after_seconds: None };
    let text = |code, text: &str| Effect::Text { code, text: text.into() };
    let missing = || Some(text(404, "404 page not found\n"));
    let being_processed = r#"{"kind":"Status","code":429,"message":"Cannot evict pod as it would violate the pod's disruption budget.","details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web is still being processed by the server."}]}}"#;
    // What 1.20.2 answers.
    let too_old = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Eviction in version \"v1\" cannot be handled as a Eviction: no kind \"Eviction\" is registered for version \"policy/v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"","reason":"BadRequest","code":400}"#;
    let webhook = r#"{"kind":"Status","code":403,"message":"admission webhook \"drain\" denied the request"}"#;
    #[rustfmt::skip]
    let table = [
        // what the eviction is answered, budgets, configured, deleted, words
        (missing(),               0, Never,       false, "404 page not found"),
        (missing(),               0, NoEviction,  true,  "deletes shop/web, not evicted: the API server answered 404"),
        (Some(text(400, too_old)),0, NoEviction,  true,  "not evicted: the API server answered 400"),
        (Some(status(405)),       0, NoEviction,  true,  "not evicted: the API server answered 405"),
        (Some(status(403)),       0, Never,       false, "pods/eviction"),
        (Some(status(403)),       0, NoEviction,  true,  "cannot create resource \"pods/eviction\""),
        (Some(text(403, webhook)),0, OverBudgets, false, "denied the request"),
        (Some(status(429)),       0, OverBudgets, false, "too many requests"),
        (Some(status(409)),       0, OverBudgets, false, "409"),
        (None,                    1, NoEviction,  false, "would violate the pod's disruption budget"),
        (None,                    1, OverBudgets, true,  "would violate the pod's disruption budget"),
        (None,                    2, OverBudgets, true,  "more than one PodDisruptionBudget"),
        (Some(text(429, being_processed)), 0, OverBudgets, false, "is still being processed"),
    ];
    for (effect, n_budgets, deletion, is_deleted, words) in table {
        let row = format!("{effect:?} {n_budgets} {deletion:?}");
        let bed = Bed::with(|stub| {
            for i in 0..n_budgets {
                stub.put(budget(&format!("budget-{i}"))).unwrap();
            }
            if let Some(effect) = effect {
                stub.add_fault(Fault::new("create", EVICTION, effect));
            }
        });
        let pod = bed.stub.get("pods", "shop", "web").unwrap();
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        let Answer { result, .. } = answer(ask(&bed, uid, Duration::from_secs(8), deletion));
        assert_eq!(result.is_ok(), is_deleted, "{row}: {result:?}");
        let said = match result {
            Ok(text)
            | Err(Refusal::Forbidden(text) | Refusal::Partly(text) | Refusal::Failed(text)) => text,
        };
        assert!(said.contains(words), "{row}: {said}");
        let deleted = bed.bodies("delete", "pods", "");
        let patched = bed.bodies("patch", "pods", "status");
        if !is_deleted {
            assert_eq!((deleted, patched), (vec![], vec![]), "{row}");
            continue;
        }
        let body = json!({"gracePeriodSeconds": 2, "preconditions": {"uid": uid}});
        assert_eq!(deleted, [body], "{row}");
        let at = patched[0]["status"]["conditions"][0]["lastTransitionTime"].clone();
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByIsobar",
            "message": "The node was low on resource: memory.", "lastTransitionTime": at,
        });
        let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
        assert_eq!(patched, [patch], "{row}");
        let pod = bed.stub.get("pods", "shop", "web").unwrap();
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 2, "{row}");
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        assert!(conditions.contains(&condition), "{row}: {conditions:?}");
    }
}

#[test]
fn kube_evictions_deletions_end_this_pod_and_no_other() {
    #[rustfmt::skip]
    let table = [
        // the deletion is answered, the condition is, uid asked for, verdict
        (Some((503, 2)), None,      "own",   Ok("deletes shop/web")),
        (Some((403, 9)), None,      "own",   Err("cannot delete resource")),
        (None,           Some(403), "own",   Ok("without the condition DisruptionTarget")),
        (None,           None,      "other", Ok("another pod has its name")),
        (None,           None,      "gone",  Ok("gone already")),
    ];
    let status = |code| Effect::Status { code, retry_after_seconds: None };
    for (deletion, condition, uid, want) in table {
        let row = format!("{deletion:?} {condition:?} {uid}");
        let pod = "/api/v1/namespaces/shop/pods/web";
        let bed = Bed::with(|stub| {
            stub.add_fault(Fault::new("create", EVICTION, status(405)));
            if let Some((code, times)) = deletion {
                stub.add_fault(Fault::new("delete", pod, status(code)).times(times));
            }
            if let Some(code) = condition {
                stub.add_fault(Fault::new("patch", &format!("{pod}/status"), status(code)));
            }
        });
        let own = bed.stub.get("pods", "shop", "web").unwrap()["metadata"]["uid"].clone();
        if uid == "gone" {
            bed.stub.remove("pods", "shop", "web");
        }
        let uid = if uid == "other" { "another" } else { own.as_str().unwrap() };
        let answers = ask(&bed, uid, Duration::from_secs(8), Deletion::NoEviction);
        let Answer { result, .. } = answer(answers);
        match (&result, want) {
            (Ok(said), Ok(words)) | (Err(Refusal::Failed(said)), Err(words)) => {
                assert!(said.contains(words), "{row}: {said}");
            }
            _ => panic!("{row}: {result:?}"),
        }
        if uid == "another" {
            let pod = bed.stub.get("pods", "shop", "web").unwrap();
            assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{row}");
            assert!(!pod["status"].to_string().contains("DisruptionTarget"), "{row}: {pod}");
        }
    }
}

#[test]
fn kube_evictions_end_with_their_deadline() {
    let bed = Bed::with(|stub| {
        stub.add_fault(Fault::new("create", EVICTION, Effect::Hang).times(1));
    });
    let pod = || bed.stub.get("pods", "shop", "web").unwrap();
    let uid = pod()["metadata"]["uid"].as_str().unwrap().to_owned();
    let ask = |seconds| ask(&bed, &uid, Duration::from_secs(seconds), Deletion::Never);
    // The second one waits for the first, for longer than it has.
    let table = [(ask(3), "has not answered in time"), (ask(1), "the requests before it took all")];
    for (answers, words) in table {
        match answer(answers).result {
            Err(Refusal::Failed(text)) => assert!(text.contains(words), "{text}"),
            other => panic!("{words}: {other:?}"),
        }
    }
    assert_eq!(bed.bodies("create", "pods", "eviction").len(), 1);
    assert!(pod()["metadata"]["deletionTimestamp"].is_null());
}

#[test]
fn kube_evictions_stay_possible_while_a_review_fails() {
    let bed = Bed::new();
    let is_allowed = || bed.api.way().is_allowed.load(Ordering::Relaxed);
    eventually("evictions are allowed", is_allowed);
    let failure = Effect::Status { code: 500, retry_after_seconds: None };
    bed.stub.add_fault(Fault::new("create", "*", failure));
    // Other settings are a reason to ask anew.
    bed.api.set_evictions(Some(Deletion::NoEviction));
    eventually("the question fails", || {
        bed.capability("evictions").is_some_and(|told| told.contains("500"))
    });
    assert!(is_allowed());
}

#[test]
fn kube_evictions_need_permission_and_an_answer() {
    let is_open = |bed: &Bed| {
        let way = bed.api.way();
        [way.is_answering, way.is_allowed].iter().all(|is| is.load(Ordering::Relaxed))
    };
    let bed = Bed::new();
    eventually("evictions are possible", || is_open(&bed));
    bed.stub.add_fault(Fault::new("*", "*", Effect::Reset));
    bed.stub.cut_connections();
    eventually("they are not while the server is away", || !is_open(&bed));
    bed.stub.clear_faults();
    eventually("they are again", || is_open(&bed));
    eventually("the watch goes on", || {
        bed.capability("pods").as_deref() == Some("1 pods by the API server")
    });
}

/// It goes on accepting connections, and the watch of the pods is not cut.
#[test]
fn kube_evictions_without_an_answer_have_the_server_probed() {
    let bed = Bed::with(|stub| {
        let mut pod = generate::pod("n1", "shop", "static");
        pod["metadata"]["uid"] = json!("u1");
        stub.kubelet_says("/stats/summary", json!({"pods": []}));
        stub.kubelet_says("/pods", json!({"items": [pod]}));
    });
    let is_answering = || bed.api.way().is_answering.load(Ordering::Relaxed);
    let told = || bed.capability("pods").unwrap_or_default();
    eventually("the pod is known", || is_answering() && told() == "1 pods by the API server");
    for path in ["/api/*", "/apis/*", "/version"] {
        bed.stub.add_fault(Fault::new("*", path, Effect::Mute));
    }
    let Answer { result, .. } = answer(ask(&bed, "u", Duration::from_secs(2), Deletion::Never));
    assert!(matches!(&result, Err(Refusal::Failed(why)) if why.contains("in time")), "{result:?}");
    within(Duration::from_secs(5), "no other eviction is tried", || !is_answering());
    eventually("it is told", || {
        let words = "the API server has answered neither an eviction nor GET /version";
        told() == format!("{words}; 1 pods by the kubelet's /pods")
    });
    bed.stub.clear_faults();
    within(Duration::from_secs(40), "it answers again", || {
        is_answering() && told() == "1 pods by the API server"
    });
}
