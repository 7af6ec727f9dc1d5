//! Pods that the kubelet evicts, as its events tell it.

use super::*;
use isobar_apistub::{Effect, Fault};
use isobar_core::model::workload::Pod;
use serde_json::json;

/// What the kubelet of a node writes when it begins to evict.
fn evicted(stub: &Stub, name: &str, host: &str, pod: &Value) {
    evicted_in("shop", stub, name, host, pod);
}

/// Another namespace than the pod's is no place of the kubelet's.
fn evicted_in(namespace: &str, stub: &Stub, name: &str, host: &str, pod: &Value) {
    stub.put(json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"namespace": namespace, "name": name},
        "involvedObject": {
            "kind": "Pod", "apiVersion": "v1", "namespace": "shop",
            "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
        },
        "reason": "Evicted", "message": "The node was low on resource: memory. ",
        "type": "Warning", "source": {"component": "kubelet", "host": host}, "count": 1,
        "reportingComponent": "kubelet", "reportingInstance": host,
    }))
    .unwrap();
}

fn pod(bed: &Bed, name: &str) -> Option<Pod> {
    let pods = bed.api.pods()?;
    pods.values().find(|pod| pod.name == name).cloned()
}

const WORKS: &str = "the kubelet's events tell whom it evicts";

#[test]
fn kube_victims_of_the_kubelet_are_known_before_their_status_says_so() {
    let bed = Bed::with(|stub| {
        for name in ["db", "queue"] {
            stub.put(generate::pod("n1", "shop", name)).unwrap();
        }
        let other = generate::pod("n1", "shop", "other");
        stub.put(other).unwrap();
    });
    let of = |name: &str| bed.stub.get("pods", "shop", name).unwrap();
    eventually("the pods are listed", || bed.api.pods().is_some_and(|pods| pods.len() == 4));
    // While the kubelet has no reason to evict, nobody asks for events.
    assert!(bed.bodies("list", "events", "").is_empty());
    evicted(&bed.stub, "early", "n1", &of("other"));
    bed.api.set_may_kubelet_evict(true);
    eventually(WORKS, || bed.capability("kubelet evictions").as_deref() == Some(WORKS));
    let options: Vec<String> = bed
        .stub
        .seen()
        .iter()
        .filter(|seen| seen.call.resource == "events" && seen.call.verb != "create")
        .map(|seen| {
            let option = |name: &str| seen.call.query.get(name).cloned().unwrap_or_default();
            format!("{} {}{}", seen.call.verb, option("limit"), option("fieldSelector"))
        })
        .collect();
    let watch = "watch involvedObject.kind=Pod,reason=Evicted,source=kubelet";
    assert_eq!(options, ["list 1", watch], "no list of all events");

    evicted(&bed.stub, "elsewhere", "n2", &of("db"));
    evicted(&bed.stub, "here", "n1", &of("web"));
    eventually("the victim is known", || pod(&bed, "web").is_some_and(|pod| pod.is_evicted));
    let web = pod(&bed, "web").unwrap();
    assert!(!web.is_over && web.ends_within.is_some(), "{web:?}");
    // What another namespace's events say of this one's pods is forged, and so is another name.
    evicted_in("evil", &bed.stub, "forged", "n1", &of("db"));
    let mut renamed = of("other");
    renamed["metadata"]["name"] = json!("web");
    evicted(&bed.stub, "renamed", "n1", &renamed);
    let mut job = generate::pod("n1", "shop", "job");
    job["status"]["phase"] = json!("Succeeded");
    bed.stub.put(job).unwrap();
    eventually("the job is known", || pod(&bed, "job").is_some());
    evicted(&bed.stub, "late", "n1", &of("job"));
    evicted(&bed.stub, "last", "n1", &of("queue"));
    eventually("the last is known", || pod(&bed, "queue").is_some_and(|pod| pod.is_evicted));
    for name in ["db", "other"] {
        assert_eq!(pod(&bed, name).unwrap().ends_within, None, "{name}");
    }
    assert!(!pod(&bed, "job").unwrap().is_evicted, "of what is over its status says it");
    // Another change of the pod does not make it forgotten, its end does.
    let mut changed = of("web");
    changed["metadata"]["labels"] = json!({"changed": "yes"});
    bed.stub.put(changed).unwrap();
    eventually("the change is seen", || {
        pod(&bed, "web").is_some_and(|pod| pod.labels.contains_key("changed"))
    });
    assert!(pod(&bed, "web").unwrap().is_evicted);
    bed.stub.remove("pods", "shop", "web");
    eventually("its end is seen", || pod(&bed, "web").is_none());
}

#[test]
fn kube_victims_that_are_not_told_are_a_capability() {
    let status = |code| Effect::Status { code, retry_after_seconds: None };
    #[rustfmt::skip]
    let table = [
        // verb, effect, how often, detail
        ("list",  status(403),    1, "403"),
        ("watch", status(403),    1, "403"),
        ("watch", Effect::Expire, 1, "the API server ended the watch"),
        ("list",  status(500),    1, "500"),
    ];
    for (verb, effect, times, detail) in table {
        let row = format!("{verb} {effect:?}");
        let bed = Bed::with(|stub| {
            stub.add_fault(Fault::new(verb, "/api/v1/events", effect).times(times));
        });
        let told = || bed.capability("kubelet evictions").unwrap_or_default();
        eventually("the pod is listed", || pod(&bed, "web").is_some());
        bed.api.set_may_kubelet_evict(true);
        eventually(&format!("{row}: {detail}"), || told().contains(detail));
        eventually(&format!("{row}: it is tried again"), || told() == WORKS);
        evicted(&bed.stub, "here", "n1", &bed.stub.get("pods", "shop", "web").unwrap());
        eventually(&row, || pod(&bed, "web").is_some_and(|pod| pod.is_evicted));
    }
}

#[test]
fn kube_victims_between_two_watches_are_known() {
    let bed = Bed::new();
    eventually("the pod is listed", || pod(&bed, "web").is_some());
    // Each watch ends at once, and well.
    let ended = Effect::Text { code: 200, text: String::new() };
    bed.stub.add_fault(Fault::new("watch", "/api/v1/events", ended));
    bed.api.set_may_kubelet_evict(true);
    let watches = || bed.bodies("watch", "events", "").len();
    eventually("one watch has ended", || watches() == 1);
    evicted(&bed.stub, "here", "n1", &bed.stub.get("pods", "shop", "web").unwrap());
    let n_before = watches();
    std::thread::sleep(Duration::from_secs(5));
    let n = watches() - n_before;
    assert!((3..=7).contains(&n), "{n} watches in five seconds");
    assert_eq!(bed.bodies("list", "events", "").len(), 1);
    bed.stub.clear_faults();
    eventually("it is known", || pod(&bed, "web").is_some_and(|pod| pod.is_evicted));
}

/// The watch is open for a minute after the last reason to evict, also if the server ends one in between.
#[test]
fn kube_victims_are_known_while_the_watch_lingers() {
    let bed = Bed::new();
    eventually("the pod is listed", || pod(&bed, "web").is_some());
    bed.api.set_may_kubelet_evict(true);
    eventually(WORKS, || bed.capability("kubelet evictions").as_deref() == Some(WORKS));
    bed.api.set_may_kubelet_evict(false);
    let ended = Effect::Text { code: 200, text: String::new() };
    bed.stub.add_fault(Fault::new("watch", "/api/v1/events", ended).times(1));
    bed.stub.cut_connections();
    evicted(&bed.stub, "here", "n1", &bed.stub.get("pods", "shop", "web").unwrap());
    eventually("it is known", || pod(&bed, "web").is_some_and(|pod| pod.is_evicted));
    assert_eq!(bed.bodies("list", "events", "").len(), 1, "no event is passed over");
}

#[test]
fn kube_victims_are_listed_anew_once_the_version_is_forgotten() {
    let bed = Bed::new();
    eventually("the pod is listed", || pod(&bed, "web").is_some());
    bed.api.set_may_kubelet_evict(true);
    eventually(WORKS, || bed.capability("kubelet evictions").as_deref() == Some(WORKS));
    bed.stub.add_fault(Fault::new("watch", "/api/v1/events", Effect::Reset).times(1));
    bed.stub.cut_connections();
    bed.stub.put(generate::pod("n1", "shop", "db")).unwrap();
    bed.stub.compact();
    let lists = || bed.bodies("list", "events", "").len();
    eventually("they are listed anew", || lists() == 2);
    evicted(&bed.stub, "here", "n1", &bed.stub.get("pods", "shop", "web").unwrap());
    eventually("it is known", || pod(&bed, "web").is_some_and(|pod| pod.is_evicted));
}
