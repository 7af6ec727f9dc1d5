//! The list and the watch of pods.

use super::*;
use isobar_apistub::generate::pod;
use isobar_core::model::pod::QosClass;
use isobar_core::model::workload::Pod;
use serde_json::json;

fn names(bed: &Bed) -> Vec<String> {
    let pods = bed.api.pods().unwrap_or_default();
    let mut names: Vec<_> = pods.values().map(Pod::full_name).collect();
    names.sort();
    names
}

#[test]
fn kube_pods_of_a_real_node() {
    let text = include_str!("../../data/kubernetes/api-pods.json");
    let list: Value = serde_json::from_str(text).unwrap();
    let bed = Bed::with(|stub| {
        stub.remove("pods", "shop", "web");
        for mut item in list["items"].as_array().unwrap().clone() {
            item["apiVersion"] = json!("v1");
            item["kind"] = json!("Pod");
            item["spec"]["nodeName"] = json!("n1");
            stub.put(item).unwrap();
        }
    });
    eventually("all are listed", || names(&bed).len() == 26);
    let pods = bed.api.pods().unwrap();
    let of = |name: &str| pods.values().find(|pod| pod.name == name).unwrap();
    assert_eq!(of("gu-two").qos_class, Some(QosClass::Guaranteed));
    assert_eq!(of("gu-two").containers.len(), 2);
    assert!(of("gu-two").containers.iter().all(|c| c.id.as_ref().is_some_and(|id| id.len() == 64)));
    assert_eq!(of("crit-node").priority, Some(2_000_001_000));
}

#[test]
fn kube_pods_follow_the_watch_and_survive_its_end() {
    let bed = Bed::new();
    eventually("the pod is listed", || names(&bed) == ["shop/web"]);
    bed.stub.put(pod("n1", "shop", "db")).unwrap();
    eventually("a new pod is seen", || names(&bed) == ["shop/db", "shop/web"]);
    bed.stub.expire_watches();
    bed.stub.compact();
    bed.stub.put(pod("n1", "shop", "queue")).unwrap();
    bed.stub.remove("pods", "shop", "db");
    eventually("after 410 all are listed anew", || names(&bed) == ["shop/queue", "shop/web"]);
    bed.stub.cut_connections();
    bed.stub.remove("pods", "shop", "web");
    eventually("after a reset the watch goes on", || names(&bed) == ["shop/queue"]);
}

#[test]
fn kube_pods_that_are_lies_are_left_out() {
    let bed = Bed::with(|stub| {
        let mut no_spec = pod("n1", "shop", "no-spec");
        no_spec["spec"]["containers"] = json!("none");
        let mut no_uid = pod("n1", "shop", "no-uid");
        no_uid["metadata"]["uid"] = json!("");
        let mut odd = pod("n1", "shop", "odd");
        odd["metadata"]["labels"] = json!({"number": "7", "empty": ""});
        for object in [no_spec, no_uid, odd] {
            stub.put(object).unwrap();
        }
    });
    eventually("the rest is listed", || names(&bed) == ["shop/odd", "shop/web"]);
    assert_eq!(
        bed.capability("pods").as_deref(),
        Some("2 pods by the API server; 2 are left out, see the log")
    );
}

#[test]
fn kube_pods_that_end_say_so() {
    let bed = Bed::new();
    eventually("the pod is listed", || names(&bed).len() == 1);
    let mut ending = bed.stub.get("pods", "shop", "web").unwrap();
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    ending["metadata"]["deletionGracePeriodSeconds"] = json!(7);
    bed.stub.put(ending.clone()).unwrap();
    let ends_within = || bed.api.pods().unwrap().values().next().and_then(|pod| pod.ends_within);
    eventually("its deletion is seen", || ends_within() == Some(7));
}
