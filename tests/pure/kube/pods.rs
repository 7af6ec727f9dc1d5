//! The list and the watch of pods.

use super::*;
use isobar_apistub::generate::pod;
use isobar_apistub::{Effect, Fault};
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

/// Much of a pod's text is its owner's, and of no use here.
fn large(name: &str) -> Value {
    let mut large = pod("n1", "shop", name);
    let text = "v".repeat(1_400_000);
    large["spec"]["containers"][0]["env"] = json!([{"name": "TEXT", "value": text}]);
    large
}

#[test]
fn kube_pods_that_are_too_large_for_one_answer_come_in_pages() {
    let bed = Bed::with(|stub| {
        for n in 0..24 {
            stub.put(large(&format!("large{n:02}"))).unwrap();
        }
    });
    eventually("all are listed", || names(&bed).len() == 25);
    let lists = bed.stub.seen().into_iter().map(|seen| seen.call);
    let lists: Vec<_> =
        lists.filter(|call| call.resource == "pods" && call.verb == "list").collect();
    let option = |n: usize, name: &str| lists[n].query.get(name).map(String::as_str);
    let limits: Vec<_> = (0..lists.len()).map(|n| option(n, "limit")).collect();
    assert_eq!(limits, [[None, Some("16")].as_slice(), &[Some("4"); 7]].concat());
    assert_eq!((option(0, "resourceVersion"), option(1, "resourceVersion")), (Some("0"), None));
    // A change afterwards is seen, as of any other.
    bed.stub.remove("pods", "shop", "large07");
    eventually("its end is seen", || names(&bed).len() == 24);
    // Once they are fewer, a new list is one from the cache again.
    for n in 0..20 {
        bed.stub.remove("pods", "shop", &format!("large{n:02}"));
    }
    eventually("few are left", || names(&bed).len() == 5);
    // A watch that ends at once says that the server has trouble.
    std::thread::sleep(Duration::from_secs(11));
    eventually("all come at once", || {
        // Between two watches there is none that could expire.
        bed.stub.expire_watches();
        let last = bed.stub.seen().into_iter().map(|seen| seen.call);
        let last = last.filter(|call| call.resource == "pods" && call.verb == "list").last();
        !last.unwrap().query.contains_key("limit")
    });
    bed.stub.put(pod("n1", "shop", "new")).unwrap();
    eventually("a new pod is seen", || names(&bed).len() == 6);
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

/// Without it the next step would be one after which the kubelet starts the leak again.
#[test]
fn kube_pods_watch_that_is_cut_leaves_evictions_offered() {
    let expire = Effect::Expire;
    let refused = Effect::Status { code: 500, retry_after_seconds: None };
    for effect in [expire, refused, Effect::Reset] {
        let bed = Bed::new();
        let way = bed.api.way();
        let is_answering = || way.is_answering.load(std::sync::atomic::Ordering::Relaxed);
        eventually("the pod is listed", || names(&bed) == ["shop/web"] && is_answering());
        let fault = Fault::new("watch", "/api/v1/pods", effect.clone());
        bed.stub.add_fault(fault.times(2));
        let n_before = bed.bodies("watch", "pods", "").len();
        bed.stub.cut_connections();
        within(Duration::from_secs(40), "the watch goes on", || {
            assert!(is_answering(), "{effect:?}");
            bed.bodies("watch", "pods", "").len() > n_before + 2
        });
    }
}

/// kube asks for ever for a watch from where the server has forgotten it.
#[test]
fn kube_pods_are_listed_anew_where_the_watch_cannot_begin() {
    let bed = Bed::new();
    eventually("the pod is listed", || names(&bed) == ["shop/web"]);
    let gone = Effect::Status { code: 410, retry_after_seconds: None };
    bed.stub.add_fault(Fault::new("watch", "/api/v1/pods", gone));
    bed.stub.cut_connections();
    bed.stub.put(pod("n1", "shop", "db")).unwrap();
    within(Duration::from_secs(40), "a new list has it", || names(&bed) == ["shop/db", "shop/web"]);
}

#[test]
fn kube_pods_are_named_by_the_kubelet_while_the_watch_is_refused() {
    for code in [429, 500] {
        let bed = Bed::with(|stub| {
            let mut told = pod("n1", "shop", "static");
            told["metadata"]["uid"] = json!("u1");
            stub.kubelet_says("/pods", json!({"items": [told]}));
        });
        eventually("the pod is listed", || names(&bed) == ["shop/web"]);
        let refused = Effect::Status { code, retry_after_seconds: None };
        bed.stub.add_fault(Fault::new("watch", "/api/v1/pods", refused));
        bed.stub.cut_connections();
        within(Duration::from_secs(40), &format!("{code}: the kubelet names them"), || {
            names(&bed) == ["shop/static"]
        });
        bed.stub.clear_faults();
        bed.stub.put(pod("n1", "shop", "db")).unwrap();
        within(Duration::from_secs(60), &format!("{code}: the API server knows better"), || {
            names(&bed) == ["shop/db", "shop/web"]
        });
    }
}

#[test]
fn kube_pods_go_on_with_a_token_that_was_replaced() {
    let of = |url: &str, token: &str| {
        kubeconfig(url).replace("user: {}", &format!("user: {{token: {token}}}"))
    };
    let bed = Bed::new();
    eventually("the pod is listed", || names(&bed) == ["shop/web"]);
    fs::write(bed.dir.path().join("kubeconfig"), of(&bed.stub.url(), "new")).unwrap();
    bed.stub.accept_tokens(&["new"]);
    bed.stub.cut_connections();
    bed.stub.put(pod("n1", "shop", "db")).unwrap();
    within(Duration::from_secs(40), "the watch goes on", || names(&bed) == ["shop/db", "shop/web"]);
    let is_answering = || bed.api.way().is_answering.load(std::sync::atomic::Ordering::Relaxed);
    eventually("evictions are offered", is_answering);
}

/// A cluster may keep its version to itself.
#[test]
fn kube_pods_server_that_refuses_its_version_answers() {
    #[rustfmt::skip]
    let table = [
        // code of /version, it answers
        (403, true),
        (404, true),
        (401, false), // nor anything else
        (503, false), // a load balancer without a server
    ];
    for (code, want) in table {
        let refused = |code| Effect::Status { code, retry_after_seconds: None };
        let bed = Bed::with(|stub| stub.add_fault(Fault::new("*", "/version", refused(code))));
        let is_answering = || bed.api.way().is_answering.load(std::sync::atomic::Ordering::Relaxed);
        eventually("the pod is listed", || names(&bed) == ["shop/web"] && is_answering());
        bed.stub.add_fault(Fault::new("watch", "/api/v1/pods", refused(500)));
        let n_asked = || bed.stub.seen().iter().filter(|seen| seen.call.path == "/version").count();
        bed.stub.cut_connections();
        eventually("it was asked", || n_asked() >= 2);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(is_answering(), want, "{code}");
    }
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
    // One that can be read in part has its name all the same.
    eventually("the rest is listed", || names(&bed) == ["shop/no-spec", "shop/odd", "shop/web"]);
    assert_eq!(
        bed.capability("pods").as_deref(),
        Some("3 pods by the API server; 1 are left out, see the log")
    );
}

/// A server that takes no notice of what was asked for.
#[test]
fn kube_pods_of_a_list_that_lies() {
    let told = |node: &str, name: &str, uid: &str| {
        let mut one = pod(node, "shop", name);
        one["metadata"]["uid"] = json!(uid);
        one
    };
    let own = || told("n1", "web", "u1");
    #[rustfmt::skip]
    let table = [
        // items, known, detail
        (vec![own(), told("n2", "web", "u2")],  vec!["shop/web"],           "1 pods by the API server; 1 are left out, see the log"),
        (vec![own(), told("n2", "db", "u2")],   vec!["shop/web"],           "1 pods by the API server; 1 are left out, see the log"),
        (vec![told("n2", "db", "u2")],          vec![],                     "0 pods by the API server; 1 are left out, see the log"),
        (vec![own(), told("n1", "db", "")],     vec!["shop/web"],           "1 pods by the API server; 1 are left out, see the log"),
        (vec![own(), own()],                    vec!["shop/web"],           "1 pods by the API server"),
        (vec![own(), told("n1", "db", "u1")],   vec!["shop/db"],            "1 pods by the API server"), // one cgroup is one pod
        (vec![own(), told("n1", "web", "u2")],  vec!["shop/web", "shop/web"], "2 pods by the API server"), // as while it is made anew
    ];
    for (items, known, detail) in table {
        let list = json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items,
        });
        let bed = Bed::with(|stub| {
            let text = Effect::Text { code: 200, text: list.to_string() };
            stub.add_fault(Fault::new("list", "/api/v1/pods", text));
            stub.add_fault(Fault::new("watch", "/api/v1/pods", Effect::Hang));
        });
        eventually(detail, || bed.capability("pods").as_deref() == Some(detail));
        assert_eq!(names(&bed), known, "{items:?}");
    }
}

#[test]
fn kube_pods_stay_known_while_the_token_is_not_accepted() {
    let bed = Bed::new();
    let is_answering = || bed.api.way().is_answering.load(std::sync::atomic::Ordering::Relaxed);
    eventually("the pod is listed", || names(&bed) == ["shop/web"] && is_answering());
    let expired = Effect::Status { code: 401, retry_after_seconds: None };
    bed.stub.add_fault(Fault::new("*", "*", expired));
    bed.stub.cut_connections();
    bed.stub.expire_watches();
    eventually("it is told", || {
        let all = bed.api.capabilities();
        let pods = all.into_iter().find(|one| one.name == "pods").unwrap();
        pods.detail.contains("401")
            && pods.detail.ends_with("the last known 1 pods are used")
            && pods.remedy.is_some_and(|remedy| remedy.contains("the token is not accepted"))
    });
    assert_eq!(names(&bed), ["shop/web"]);
    assert!(!is_answering(), "no eviction is tried");
    bed.stub.clear_faults();
    bed.stub.put(pod("n1", "shop", "db")).unwrap();
    within(Duration::from_secs(60), "with a new token the watch goes on", || {
        names(&bed) == ["shop/db", "shop/web"] && is_answering()
    });
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
