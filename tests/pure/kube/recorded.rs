//! What a real node of Kubernetes 1.36.2 answered: its object, its pods by the API server and by the
//! kubelet, and the kubelet's configuration.

use super::*;
use isobar::config::{self, pods};
use isobar_apistub::{Effect, Fault};
use isobar_core::model::pod::QosClass;
use isobar_core::model::pod::QosClass::{BestEffort, Burstable, Guaranteed};
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::workload::Pod;
use isobar_kubelet::{oom, qos};

const NODE: &str = include_str!("../../data/kubernetes/node.json");
const CONFIGZ: &str = include_str!("../../data/kubernetes/configz.json");
const API_PODS: &str = include_str!("../../data/kubernetes/api-pods.json");
const KUBELET_PODS: &str = include_str!("../../data/kubernetes/kubelet-pods.json");

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// What a verb answers about files of that node.
fn told(verb: &[&str]) -> Value {
    let output = crate::program::isobar(verb).args(["-o", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn file(name: &str) -> String {
    format!("{}/../tests/data/kubernetes/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn recorded_node_has_the_allocatable_that_isobar_computes() {
    let mut node = parsed(NODE);
    let (capacity, allocatable) = (&node["status"]["capacity"], &node["status"]["allocatable"]);
    let given = ["cpu", "memory", "ephemeral-storage", "pods"];
    let given = given.map(|name| format!("{name}={}", capacity[name].as_str().unwrap())).join(",");
    let config = file("configz.json");
    let computed = told(&["allocatable", "--kubelet-config", &config, "--capacity", &given]);
    let quantities = |of: &Value| -> ResourceList { serde_json::from_value(of.clone()).unwrap() };
    let (theirs, ours) = (quantities(allocatable), quantities(&computed["allocatable"]));
    for (name, want) in [
        ("cpu", "3"),
        ("memory", "2376862433"),
        ("ephemeral-storage", "6859041377"),
        ("pods", "60"),
    ] {
        assert_eq!(theirs[name], want.parse().unwrap(), "{name}");
        assert_eq!(ours[name], theirs[name], "{name}");
    }
    let pods = &computed["enforced"]["pods"];
    assert_eq!((&pods["memoryMax"], &pods["cpuWeight"]), (&2_595_307_520_u64.into(), &118.into()));

    // The node's object, as the client has it.
    node["metadata"]["name"] = "n1".into();
    let bed = Bed::with(|stub| {
        stub.put(node).unwrap();
    });
    eventually("the node is known", || bed.api.allocatable().is_some_and(|all| *all == theirs));
    bed.publish_until(Status::True, |node| taint_keys(node) == [TAINT]);
    let labels = &bed.node()["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/hostname"], "worker-1", "what is not isobar's stays");
    assert_eq!(bed.node()["status"]["conditions"].as_array().unwrap().len(), 5);
}

#[test]
fn recorded_cpus_are_those_of_the_state_file() {
    let (config, state) = (file("configz.json"), file("cpu_manager_state"));
    let cpus = told(&["cpus", "--kubelet-config", &config, "--online", "0-3", "--state", &state]);
    assert_eq!((&cpus["reserved"], &cpus["strict"]), (&"0".into(), &true.into()));
    assert_eq!((&cpus["defaultCpuSet"], &cpus["exclusiveCpus"]), (&"2-3".into(), &1.into()));
    assert_eq!(cpus["sharedPoolMillicores"], 2_000);
    let gu_excl = serde_json::json!([
        {"pod": "c0db01a4-4f55-4735-9e53-843420b0c301", "container": "a", "cpus": "1"},
    ]);
    assert_eq!(cpus["state"]["assignments"], gu_excl);
    assert_eq!(cpus["state"]["checksum"], "ok");
    assert_eq!(cpus["state"]["problems"], serde_json::json!([]));
}

fn named(text: &str) -> Vec<Pod> {
    pods::read("recorded", text.as_bytes()).unwrap().pods
}

#[test]
fn recorded_kubelet_names_the_pods_that_the_api_server_names() {
    let refused = Effect::Status { code: 500, retry_after_seconds: None };
    let bed = Bed::with(|stub| {
        let summary = include_str!("../../data/kubernetes/stats-summary.json");
        stub.kubelet_says("/stats/summary", parsed(summary));
        let mut pods = parsed(KUBELET_PODS);
        for pod in pods["items"].as_array_mut().unwrap() {
            pod["spec"]["nodeName"] = serde_json::json!("n1");
        }
        stub.kubelet_says("/pods", pods);
        stub.add_fault(Fault::new("list", "/api/v1/pods", refused));
    });
    eventually("the kubelet's pods are known", || {
        bed.api.pods().is_some_and(|pods| pods.len() == 26)
    });
    let of_kubelet = bed.api.pods().unwrap();
    let of_api = named(API_PODS);
    type Row<'a> = (&'a str, &'a str, QosClass, Option<i32>, &'a [&'a str]);
    #[rustfmt::skip]
    let table: [Row<'_>; 6] = [
        // pod, name of its cgroup, class, priority, containers
        ("default/gu-two",                   "28221970-8f3a-4115-ab87-b4de654b8124", Guaranteed, Some(0),             &["a", "b"]),
        ("default/bu-sidecar",               "a3d2bf17-35c7-40c3-90cc-4b0c9a473a2c", Burstable,  Some(0),             &["s", "i", "a", "b"]),
        ("default/be-none",                  "09faeff9-32b8-4f01-a1d0-d544b6252566", BestEffort, Some(0),             &["a"]),
        ("kube-system/crit-node",            "61266959-5ffe-41de-b96b-681cf0802a73", Burstable,  Some(2_000_001_000), &["a"]),
        ("kube-system/static-crit-worker-1", "9cf5aacb94861a319d7714edecde1e11",     Burstable,  Some(2_000_001_000), &["a"]),
        ("kube-system/static-plain-worker-1","fd3546a9480ff98357cddf7deaea096d",     Burstable,  None,                &["a"]),
    ];
    for (name, cgroup, class, priority, containers) in table {
        let kubelets = of_kubelet.values().find(|pod| pod.full_name() == name).unwrap();
        assert_eq!((&*kubelets.uid, kubelets.priority), (cgroup, priority), "{name}");
        assert_eq!(qos::class(kubelets), class, "{name}");
        let names: Vec<_> = kubelets.containers.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, containers, "{name}");
        let same = of_api.iter().find(|pod| pod.full_name() == name).unwrap();
        let ids = |pod: &Pod| pod.containers.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
        assert_eq!((qos::class(same), ids(same)), (class, ids(kubelets)), "{name}");
    }
    // By either, each cgroup has the same name.
    let by_uid = |pods: Vec<Pod>| -> std::collections::BTreeMap<String, Pod> {
        pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect()
    };
    let of_api = std::sync::Arc::new(by_uid(of_api));
    let of_api = isobar_core::model::workload::by_cgroup_uid(&of_api);
    for pod in of_kubelet.values() {
        let named = of_api.get(&*pod.uid).map(|pod| pod.full_name());
        assert_eq!(named, Some(pod.full_name()), "{}", pod.uid);
    }
}

#[test]
fn recorded_scores_are_those_that_isobar_computes() {
    let settings = config::kubelet_of(CONFIGZ).unwrap();
    assert!(settings.node.strict_cpu_reservation);
    let capacity = (3_047_504_u64 << 10).try_into().unwrap();
    let scores = include_str!("../../data/kubernetes/oom-score-adj.txt");
    let scores: Vec<(&str, i32)> = scores
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(id, score)| (id, score.parse().unwrap()))
        .collect();
    for (source, pods) in [("API server", named(API_PODS)), ("kubelet", named(KUBELET_PODS))] {
        let mut n = 0;
        for (id, want) in &scores {
            let of = pods.iter().find_map(|pod| Some((pod, pod.container(id)?)));
            let Some((pod, container)) = of else { continue };
            let got = oom::score(pod, container, capacity);
            assert_eq!(got, *want, "{source}: {} {}", pod.full_name(), container.name);
            n += 1;
        }
        assert_eq!(n, scores.len(), "{source}");
    }
}
