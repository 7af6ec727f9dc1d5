//! `/stats/summary` beside what a real kubelet 1.36.2 answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::http::{get, text};
use crate::made_up::{self, POD_A};
use isobar::serve::router;
use isobar_core::model::pod::Place;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::workload::{Container, Pod};
use isobar_core::policy::engine::Step;
use serde_json::Value;

/// Every path below `value`, with the type of what is there; `*` stands for an index.
fn paths(value: &Value, at: &str, all: &mut BTreeMap<String, &'static str>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            items.iter().for_each(|item| paths(item, &format!("{at}/*"), all));
            "array"
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, of)| paths(of, &format!("{at}/{name}"), all));
            "object"
        }
    };
    all.insert(at.to_owned(), kind);
}

fn paths_of(value: &Value) -> BTreeMap<String, &'static str> {
    let mut all = BTreeMap::new();
    paths(value, "", &mut all);
    all
}

async fn summary(snapshot: Snapshot) -> Value {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish_step(&mut publisher, Step { snapshot, ..Step::default() });
    serde_json::from_str(&text(get(&router(latest), "/stats/summary").await).await).unwrap()
}

/// The made-up node, with a pod and its container by name.
fn snapshot() -> Snapshot {
    let mut snapshot = made_up::snapshot(1);
    let id = snapshot.scopes.values().find_map(|scope| match &scope.place {
        Place::Container { pod, id, .. } if pod == POD_A => Some(id.clone()),
        _ => None,
    });
    let container = Container { name: "app".into(), id, ..Container::default() };
    let pod = Pod {
        uid: POD_A.into(),
        namespace: "shop".into(),
        name: "web".into(),
        started: Some(1_800_000_000),
        containers: vec![container],
        ..Pod::default()
    };
    snapshot.pods = Some(Arc::new([(POD_A.to_owned(), pod)].into()));
    snapshot
}

#[tokio::test]
async fn summary_has_the_shape_of_the_kubelets() {
    let real = include_str!("../data/kubernetes/stats-summary.json");
    let real = serde_json::from_str(real).unwrap();
    let real = paths_of(&real);
    let ours = summary(snapshot()).await;
    for (path, kind) in paths_of(&ours) {
        assert_eq!(real.get(&path), Some(&kind), "{path}");
    }
    let pod = &ours["pods"][0];
    assert_eq!(pod["podRef"]["name"], "web");
    assert_eq!(pod["startTime"], "2027-01-15T08:00:00Z");
    assert_eq!(pod["containers"][0]["name"], "app");
    assert!(pod["cpu"]["psi"]["some"]["total"].is_u64(), "{pod}");
    let containers = ours["node"]["systemContainers"].as_array().unwrap();
    let names: Vec<_> = containers.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["runtime", "pods"], "of those that the made-up node has");
}

#[tokio::test]
async fn summary_leaves_out_what_is_not_known() {
    let mut snapshot = snapshot();
    for scope in snapshot.scopes.values_mut() {
        (scope.pressure, scope.files, scope.cpu_usage) = Default::default();
    }
    let ours = summary(snapshot).await;
    let pod = ours["pods"][0].as_object().unwrap();
    let left: Vec<_> = pod.keys().map(String::as_str).collect();
    assert_eq!(left, ["containers", "podRef", "startTime"], "no zero stands for what is not known");
    let unnamed = summary(made_up::snapshot(1)).await;
    assert_eq!(unnamed["pods"].as_array().map(Vec::len), Some(0), "the kubelet lists pods by name");
}
