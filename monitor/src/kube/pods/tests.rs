use super::*;
use isobar_core::model::decision::SparedReason;
use isobar_core::policy::assess::critical::spared_as;
use serde_json::{Value, json};

/// A pod of node `n1`, with `more` in its status.
fn told(uid: usize, node: &str, status: &Value) -> Told {
    let metadata = json!({"name": format!("p{uid}"), "uid": format!("u{uid}")});
    let spec = json!({"nodeName": node, "containers": [{"name": "app"}]});
    let pod = json!({"kind": "Pod", "metadata": metadata, "spec": spec, "status": status});
    serde_json::from_value(pod).unwrap()
}

#[test]
fn put_has_room_for_the_pods_of_a_node() {
    #[rustfmt::skip]
    let table = [
        // told of this node, of another, known, left out by name
        (10,       0,        10,   0),
        (MOST,     0,        MOST, 0),
        (MOST + 2, 0,        MOST, 2),
        (1,        MOST + 2, 1,    MOST),
    ];
    for (own, others, n_known, n_left_out) in table {
        let mut seen = Seen::default();
        (0..own).for_each(|uid| seen.put(told(uid, "n1", &json!({})), "n1"));
        (own..own + others).for_each(|uid| seen.put(told(uid, "n2", &json!({})), "n1"));
        // A change of a pod that is known is taken note of in any case.
        seen.put(told(0, "n1", &json!({})), "n1");
        let found = (seen.pods.len(), seen.left_out.len());
        assert_eq!(found, (n_known, n_left_out), "{own} {others}");
    }
}

#[test]
fn put_keeps_what_runs_and_is_small() {
    let over = json!({"phase": "Failed"});
    let large = json!({"containerStatuses": (0..2000).map(|n| json!({"name": n.to_string()})).collect::<Value>()});
    let mut seen = Seen::default();
    (0..MOST).for_each(|uid| seen.put(told(uid, "n1", &over), "n1"));
    (MOST..MOST + 3000).for_each(|uid| seen.put(told(uid, "n1", &json!({})), "n1"));
    seen.put(told(0, "n1", &over), "n1");
    let running = |seen: &Seen| seen.pods.values().filter(|(pod, _)| !pod.is_over).count();
    assert_eq!((seen.pods.len(), running(&seen)), (MOST, 3000));
    // Each takes all the room that one has: fewer of them than there are small ones.
    (0..1000).for_each(|uid| seen.put(told(uid, "n1", &large), "n1"));
    let n_small =
        (MOST..MOST + 3000).filter(|uid| seen.pods.contains_key(&format!("u{uid}"))).count();
    let n_large = seen.pods.len() - n_small;
    assert!(n_small == 3000 && (50..400).contains(&n_large), "{n_small} and {n_large}");
    assert!(
        seen.bytes <= ROOM && seen.left_out.len() > 500,
        "{} {}",
        seen.bytes,
        seen.left_out.len()
    );
    (0..MOST + 3000).for_each(|uid| seen.remove(&told(uid, "n1", &json!({}))));
    assert_eq!((seen.pods.len(), seen.bytes, seen.left_out.len()), (0, 0, 0));
}

#[test]
fn told_by_the_api_server_no_pod_makes_itself_static() {
    #[rustfmt::skip]
    let table = [
        // annotations, by the API server; why it is spared
        (json!({SOURCE: "file"}),                true,  None),
        (json!({SOURCE: "file", MIRROR: "abc"}), true,  Some(SparedReason::Mirror)),
        (json!({SOURCE: "file"}),                false, Some(SparedReason::Static)),
        (json!({SOURCE: "api"}),                 false, None),
    ];
    for (annotations, is_by_api, want) in table {
        let metadata = json!({"name": "p", "uid": "u", "annotations": annotations});
        let spec = json!({"nodeName": "n1", "containers": [{"name": "app"}]});
        let pod = json!({"kind": "Pod", "metadata": metadata, "spec": spec});
        let told: Told = serde_json::from_value(pod).unwrap();
        let mut seen = Seen::default();
        match is_by_api {
            true => _ = take(Event::Apply(told), "n1", &mut seen, &mut None),
            false => seen.list(vec![told], "n1"),
        }
        assert_eq!(spared_as(&seen.pods["u"].0), want, "{annotations} {is_by_api}");
    }
}

#[test]
fn told_takes_room_for_what_is_read() {
    let text = include_str!("../../../../tests/data/kubernetes/api-pods.json");
    #[derive(Deserialize)]
    struct List {
        items: Vec<Told>,
    }
    let List { items } = serde_json::from_str(text).unwrap();
    for Told { pod, bytes, faults, .. } in &items {
        assert!((5_000..20_000).contains(bytes) && faults.is_empty(), "{bytes} {faults} {pod:?}");
    }
}

#[test]
fn told_of_this_node_with_a_uid() {
    let spec = json!({"nodeName": "n1", "containers": [{"name": "app"}]});
    let with = |uid: &str, spec: &Value| {
        let metadata = json!({"name": "web", "namespace": "shop", "uid": uid});
        json!({"kind": "Pod", "metadata": metadata, "spec": spec})
    };
    let elsewhere = json!({"nodeName": "n2", "containers": [{"name": "app"}]});
    let odd = json!({"nodeName": "n1", "containers": "none", "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "x"}}]});
    #[rustfmt::skip]
    let table = [
        // object, error contains, faults contain
        (with("u1", &spec),                         None, ""),
        (with("", &spec),                           Some("no uid"), ""),
        (with("u1", &elsewhere),                    Some("on node n2"), ""),
        (with("u1", &json!({})),        Some("on node "), ""),
        // What its owner may write costs no pod its name.
        (with("u1", &odd),                          None, "spec.containers: expected a list, found the text \"none\"; spec.volumes[0].emptyDir.sizeLimit: "),
        (json!(7),                      Some("on node "), ""),
        (json!({"metadata": 7}),        Some("on node "), ""),
    ];
    for (json, want, faults) in table {
        let got = serde_json::from_value::<Told>(json.clone()).unwrap().of_node("n1");
        match want {
            None => {
                let got = got.unwrap();
                assert_eq!(got.pod.full_name(), "shop/web");
                assert!(
                    got.faults.contains(faults) && got.faults.is_empty() == faults.is_empty(),
                    "{got:?}"
                );
            }
            Some(part) => assert!(got.as_ref().unwrap_err().contains(part), "{json}: {got:?}"),
        }
    }
}
