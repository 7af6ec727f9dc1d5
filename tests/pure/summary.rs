//! `/stats/summary` beside what a real kubelet 1.36.2 answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::http::{get, text};
use crate::made_up::{self, POD_A};
use isobar::serve::router;
use isobar_core::model::node::{Filesystem, Filesystems};
use isobar_core::model::pod::Place;
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::units::Bytes;
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

/// The paths that a schema permits.
fn of_schema(api: &Value, schema: &Value, at: &str, all: &mut BTreeSet<String>) {
    all.insert(at.to_owned());
    if let Some(name) = schema["$ref"].as_str() {
        of_schema(api, api.pointer(name.trim_start_matches('#')).unwrap(), at, all);
    }
    for each in ["anyOf", "allOf", "oneOf"] {
        let choices = schema[each].as_array().into_iter().flatten();
        choices.for_each(|choice| of_schema(api, choice, at, all));
    }
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields.for_each(|(name, of)| of_schema(api, of, &format!("{at}/{name}"), all));
    if schema["items"].is_object() {
        of_schema(api, &schema["items"], &format!("{at}/*"), all);
    }
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
    let paths = paths_of(&ours);
    for (path, kind) in &paths {
        assert_eq!(real.get(path), Some(kind), "{path}");
    }
    let api: Value =
        serde_json::from_str(include_str!("../../monitor/src/serve/openapi.json")).unwrap();
    let mut told = BTreeSet::new();
    of_schema(&api, &api["components"]["schemas"]["Summary"], "", &mut told);
    let is_of = |path: &str, other: &String| path.starts_with(&format!("{other}/"));
    let omitted: Vec<_> = real.keys().filter(|path| !told.contains(*path)).collect();
    let omitted = omitted.iter().filter(|path| !omitted.iter().any(|other| is_of(path, other)));
    insta::assert_snapshot!(omitted.map(|path| path.as_str()).collect::<Vec<_>>().join("\n"));
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
async fn summary_tells_of_disks_what_the_kubelet_does() {
    let real: Value =
        serde_json::from_str(include_str!("../data/kubernetes/stats-summary.json")).unwrap();
    let of = |name: &str| real["node"]["fs"][name].as_u64().unwrap();
    let (capacity, available) = (Bytes(of("capacityBytes")), Bytes(of("availableBytes")));
    let free = Some(Bytes(capacity.0 - of("usedBytes")));
    let (inodes, inodes_free) = (of("inodes"), of("inodesFree"));
    let fs = Filesystem { device: 1, available, free, capacity, inodes_free, inodes };
    let mut snapshot = snapshot();
    let all = Filesystems { nodefs: Some(fs), imagefs: Some(fs), ..Filesystems::default() };
    snapshot.node.filesystems = all;
    let ours = &summary(snapshot).await["node"];
    let without = |of: &Value, names: &[&str]| {
        let mut fields = of.as_object().unwrap().clone();
        fields.retain(|name, _| !names.contains(&name.as_str()));
        Value::Object(fields)
    };
    assert_eq!(without(&ours["fs"], &["time"]), without(&real["node"]["fs"], &["time"]));
    let unknown = ["time", "usedBytes", "inodesUsed"];
    let images = without(&real["node"]["runtime"]["imageFs"], &unknown);
    assert_eq!(without(&ours["runtime"]["imageFs"], &["time"]), images);
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
