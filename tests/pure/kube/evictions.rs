//! Evictions, from a request of the actuator to its answer.

use super::*;
use isobar::act::evict::{Answer, Refusal, Request};
use isobar_apistub::{Effect, Fault};
use serde_json::json;
use tokio::sync::mpsc::{Receiver, channel};

const EVICTION: &str = "/api/v1/namespaces/shop/pods/web/eviction";

/// Asks for the eviction of the pod of this uid.
fn ask(bed: &Bed, uid: &str, within: Duration) -> Receiver<Answer> {
    let (reply, answers) = channel(1);
    let now = clock::now().boot;
    let request = Request {
        action: 7,
        namespace: "shop".into(),
        name: "web".into(),
        uid: uid.into(),
        grace: Nanos(2 * Nanos::SECOND.0),
        deadline: now.plus(Nanos(u64::try_from(within.as_nanos()).unwrap())),
        reply,
    };
    bed.api.way().requests.try_send(request).unwrap();
    answers
}

fn answer(mut answers: Receiver<Answer>) -> Answer {
    answers.blocking_recv().expect("each request is answered")
}

#[test]
fn kube_evictions_by_what_the_server_says() {
    let budget = |name: &str| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": "shop", "name": name, "generation": 1},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1},
        })
    };
    let fault = |code, times| {
        let effect = Effect::Status { code, retry_after_seconds: None };
        Some(Fault::new("create", EVICTION, effect).times(times))
    };
    #[rustfmt::skip]
    let table = [
        // uid, budgets, fault, verdict, words, the pod ends
        ("own",   0, None,           "done",      "evicts shop/web",                           true),
        ("own",   1, None,           "forbidden", "would violate the pod's disruption budget", false),
        ("own",   2, None,           "forbidden", "more than one PodDisruptionBudget",         false),
        ("other", 0, None,           "failed",    "UID",                                       false),
        ("gone",  0, None,           "done",      "gone already",                              false),
        ("own",   0, fault(503, 2),  "done",      "evicts shop/web",                           true),
        ("own",   0, fault(403, 99), "failed",    "403",                                       false),
        ("own",   0, fault(500, 99), "failed",    "could not be asked in time",                false),
    ];
    for (uid, n_budgets, fault, verdict, words, ends) in table {
        let bed = Bed::with(|stub| {
            for i in 0..n_budgets {
                stub.put(budget(&format!("budget-{i}"))).unwrap();
            }
            if let Some(fault) = fault.clone() {
                stub.add_fault(fault);
            }
        });
        let pod = bed.stub.get("pods", "shop", "web").unwrap();
        let own = pod["metadata"]["uid"].as_str().unwrap().to_owned();
        if uid == "gone" {
            bed.stub.remove("pods", "shop", "web");
        }
        let uid = if uid == "other" { "another" } else { &own };
        let row = format!("{uid} {n_budgets} {fault:?}");
        let Answer { result, .. } = answer(ask(&bed, uid, Duration::from_secs(8)));
        let (got, text) = match result {
            Ok(text) => ("done", text),
            Err(Refusal::Forbidden(text)) => ("forbidden", text),
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
        }
    }
}

#[test]
fn kube_evictions_need_permission_and_an_answer() {
    let is_open = |bed: &Bed| {
        let way = bed.api.way();
        [way.is_answering, way.is_allowed]
            .iter()
            .all(|is| is.load(std::sync::atomic::Ordering::Relaxed))
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
