//! `/stats/summary` beside what a real kubelet 1.36.2 answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::http::{get, text};
use crate::made_up::{self, POD_A};
use isobar::clock;
use isobar::serve::router;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::disk::{ContainerDisk, DiskReading, DiskSource, DiskUse, PodDisk};
use isobar_core::model::node::{Filesystem, Filesystems};
use isobar_core::model::pod::Place;
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
use isobar_core::model::snapshot::{Scope, Snapshot};
use isobar_core::model::units::{Bytes, MilliCpu};
use isobar_core::model::workload::{Container, Pod, Volume};
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
    told(snapshot, &Sample::default(), &Settings::default()).await
}

/// What is told of a tick with this sample, under these settings.
async fn told(snapshot: Snapshot, sample: &Sample, settings: &Settings) -> Value {
    let (mut publisher, latest) = made_up::publisher();
    let step = Step { snapshot, ..Step::default() };
    publisher.note(sample, settings, &step);
    made_up::publish_step(&mut publisher, step);
    serde_json::from_str(&text(get(&router(latest), "/stats/summary").await).await).unwrap()
}

/// The made-up node, with a pod and its container by name.
fn snapshot() -> Snapshot {
    let mut snapshot = made_up::snapshot(1);
    let id = snapshot.scopes.values().find_map(|scope| match &scope.place {
        Place::Container { pod, id, .. } if **pod == *POD_A => Some(id.as_ref().into()),
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

/// A sample with what the pod has on disks.
fn with_disk(containers: BTreeMap<String, ContainerDisk>, disk: PodDisk) -> Sample {
    let pods = [(POD_A.to_owned(), PodDisk { containers, ..disk })].into();
    let disks = DiskReading { at: clock::now().boot, pods, source: DiskSource::Walk };
    Sample { pod_disks: Some(Arc::new(disks)), ..Sample::default() }
}

fn used(bytes: u64, inodes: u64) -> DiskUse {
    DiskUse { bytes: Some(Bytes(bytes)), inodes: Some(inodes) }
}

fn real() -> Value {
    serde_json::from_str(include_str!("../data/kubernetes/stats-summary.json")).unwrap()
}

/// The file system of the recorded kubelet.
fn filesystem(real: &Value) -> Filesystem {
    let of = |name: &str| real["node"]["fs"][name].as_u64().unwrap();
    let (capacity, available) = (Bytes(of("capacityBytes")), Bytes(of("availableBytes")));
    let free = Some(Bytes(capacity.0 - of("usedBytes")));
    let (inodes, inodes_free) = (of("inodes"), of("inodesFree"));
    Filesystem { device: 1, available, free, capacity, inodes_free, inodes }
}

fn without(of: &Value, names: &[&str]) -> Value {
    let mut fields = of.as_object().unwrap().clone();
    fields.retain(|name, _| !names.contains(&name.as_str()));
    Value::Object(fields)
}

#[tokio::test]
async fn summary_has_the_shape_of_the_kubelets() {
    let real = paths_of(&real());
    let container = ContainerDisk { layer: used(8_192, 5), logs: used(8_192, 2) };
    let whole = PodDisk { whole: used(20_480, 8), ..PodDisk::default() };
    let sample = with_disk([("app".to_owned(), container)].into(), whole);
    let ours = told(snapshot(), &sample, &Settings::default()).await;
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
    let real = real();
    let fs = filesystem(&real);
    let mut snapshot = snapshot();
    let all = Filesystems { nodefs: Some(fs), imagefs: Some(fs), ..Filesystems::default() };
    snapshot.node.filesystems = all;
    let ours = &summary(snapshot).await["node"];
    assert_eq!(without(&ours["fs"], &["time"]), without(&real["node"]["fs"], &["time"]));
    let unknown = ["time", "usedBytes", "inodesUsed"];
    let images = without(&real["node"]["runtime"]["imageFs"], &unknown);
    assert_eq!(without(&ours["runtime"]["imageFs"], &["time"]), images);
}

#[tokio::test]
async fn summary_tells_of_disks_of_pods_what_the_kubelet_does() {
    let real = real();
    let fs = filesystem(&real);
    let mut snapshot = snapshot();
    let all = Filesystems { nodefs: Some(fs), imagefs: Some(fs), ..Filesystems::default() };
    snapshot.node.filesystems = all;
    let pods = Arc::make_mut(snapshot.pods.as_mut().unwrap());
    pods.get_mut(POD_A).unwrap().volumes =
        vec![Volume { name: "cache".into(), is_local: true, limit: None }];
    // As the first pod of the recorded answer has them.
    let container = ContainerDisk { layer: used(8_192, 5), logs: used(8_192, 2) };
    let disk = PodDisk {
        whole: used(20_480, 8),
        volumes: [
            ("cache".to_owned(), used(4_096, 1)),
            ("remote".to_owned(), used(7, 1)),
            ("unread".to_owned(), DiskUse::default()),
        ]
        .into(),
        ..PodDisk::default()
    };
    let sample = with_disk([("app".to_owned(), container)].into(), disk);
    let ours = &told(snapshot.clone(), &sample, &Settings::default()).await["pods"][0];
    let its = &real["pods"][0];
    let (mine, kubelets) = (&ours["containers"][0], &its["containers"][0]);
    #[rustfmt::skip]
    let table = [
        ("ephemeral-storage", &ours["ephemeral-storage"], &its["ephemeral-storage"]),
        ("rootfs",            &mine["rootfs"],            &kubelets["rootfs"]),
        ("logs",              &mine["logs"],              &kubelets["logs"]),
    ];
    for (name, ours, its) in table {
        assert_eq!(without(ours, &["time"]), without(its, &["time"]), "{name}");
        assert!(ours["time"].is_string(), "{name}");
    }
    let volumes = ours["volume"].as_array().unwrap();
    let names: Vec<_> = volumes.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cache", "remote"], "of those of which something is known");
    let own = without(&volumes[0], &["name", "time", "usedBytes", "inodesUsed"]);
    let fs = without(&its["ephemeral-storage"], &["time", "usedBytes", "inodesUsed"]);
    assert_eq!((&volumes[0]["usedBytes"], own), (&4_096.into(), fs));
    assert_eq!(volumes[1]["capacityBytes"], Value::Null, "another file system is not known");
    // Of a pod that was walked, and of which nothing could be read.
    let container = ContainerDisk { layer: used(8_192, 5), logs: DiskUse::default() };
    let sample = with_disk([("app".to_owned(), container)].into(), PodDisk::default());
    let ours = &told(snapshot, &sample, &Settings::default()).await["pods"][0];
    let fields = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(!fields(ours).iter().any(|name| name == "ephemeral-storage" || name == "volume"));
    let container = fields(&ours["containers"][0]);
    assert!(container.contains(&"rootfs".into()) && !container.contains(&"logs".into()));
}

#[tokio::test]
async fn summary_names_system_containers_as_they_are_configured() {
    let mut snapshot = snapshot();
    let mut add = |id: u64, path: &str, milli: u64| {
        let path = CgroupPath(path.into());
        let scope = Scope { path, cpu_usage: Some(MilliCpu(milli)), ..Scope::default() };
        snapshot.scopes.insert(CgroupId(id), Scope { place: Place::Other, ..scope });
    };
    add(9_001, "/kube/own", 11);
    add(9_002, "/system.slice/kubelet.service", 12);
    add(9_003, "/rest", 13);
    let node = |kubelet: &str, misc: &str| {
        let mut settings = Settings::default();
        settings.node.kubelet_cgroups = kubelet.into();
        settings.node.system_cgroups = misc.into();
        settings
    };
    #[rustfmt::skip]
    let table = [
        // kubeletCgroups, systemCgroups; thousandths of a CPU of kubelet, of misc
        ("",                "",       Some(12), None),
        ("/kube/own",       "/rest/", Some(11), Some(13)),
        ("/kube/elsewhere", "/none",  None,     None), // not that of another
    ];
    for (kubelet, misc, of_kubelet, of_misc) in table {
        let ours = told(snapshot.clone(), &Sample::default(), &node(kubelet, misc)).await;
        let all = ours["node"]["systemContainers"].as_array().unwrap();
        let milli = |name: &str| {
            let found = all.iter().find(|one| one["name"] == name)?;
            Some(found["cpu"]["usageNanoCores"].as_u64()? / 1_000_000)
        };
        assert_eq!((milli("kubelet"), milli("misc")), (of_kubelet, of_misc), "{kubelet} {misc}");
    }
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
