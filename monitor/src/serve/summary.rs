//! `/stats/summary` in the kubelet's shape, out of the newest view. What is not known is absent: the
//! kubelet's own zeros cannot be told from a measurement.
//! Source: kubelet `pkg/apis/stats/v1alpha1/types.go`; `total` of PSI is in microseconds there, too.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use isobar_core::model::cgroup::Limit;
use isobar_core::model::node::{Filesystem, NodeReading};
use isobar_core::model::pod::Place;
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::snapshot::{Scope, working_set};
use isobar_core::model::threshold::Signal;
use isobar_core::model::units::{Bytes, MilliCpu, Nanos};
use isobar_core::model::workload::{Pod, by_cgroup_uid};
use isobar_core::view::View;

/// Nanocores in a thousandth of a CPU.
const NANO_OF_MILLI: u64 = 1_000_000;

pub(super) fn render(view: &View) -> Vec<u8> {
    let summary = pruned(json!({"node": node(view), "pods": pods(view)}));
    let whole = summary.unwrap_or_default();
    serde_json::to_vec(&whole).expect("writing to memory cannot fail")
}

fn node(view: &View) -> Value {
    let (snapshot, at) = (&view.snapshot, time(view.snapshot.at.wall));
    let NodeReading { memory, cpu, n_threads, max_threads, filesystems, .. } = &snapshot.node;
    let observed = &view.decision.assessment.observations;
    let left = observed.iter().find(|one| one.signal == Signal::MemoryAvailable);
    let whole = &snapshot.whole;
    let swap = memory.map(|memory| {
        let used = memory.swap_total.0.saturating_sub(memory.swap_free.0);
        json!({"time": at, "swapAvailableBytes": memory.swap_free, "swapUsageBytes": used})
    });
    let pods = snapshot.scopes.values().find(|scope| scope.place == Place::Kubepods);
    json!({
        "nodeName": view.facts.name,
        "systemContainers": pods.map(|pods| json!([named("pods", pods, &at)])),
        "startTime": time(Nanos(snapshot.at.wall.0.saturating_sub(snapshot.at.boot.0))),
        "cpu": {
            "time": at,
            "usageNanoCores": nanocores(whole),
            "usageCoreNanoSeconds": cpu.map(|cpu| cpu.busy),
            "psi": psi(whole.pressure.cpu),
        },
        "memory": {
            "time": at,
            "availableBytes": left.map(|left| left.available),
            "usageBytes": memory.map(|memory| memory.total.0.saturating_sub(memory.free.0)),
            "workingSetBytes": left.map(|left| left.capacity.saturating_sub(left.available)),
            "psi": psi(whole.pressure.memory),
        },
        "io": {"time": at, "psi": psi(whole.pressure.io)},
        "fs": filesystems.nodefs.map(|fs| filesystem(fs, &at)),
        "runtime": {
            "imageFs": filesystems.imagefs.map(|fs| filesystem(fs, &at)),
            "containerFs": filesystems.containerfs.map(|fs| filesystem(fs, &at)),
        },
        "rlimit": {"time": at, "maxpid": max_threads, "curproc": n_threads},
        "swap": swap,
    })
}

/// Pods that the API names, as the kubelet lists no others.
fn pods(view: &View) -> Value {
    let (snapshot, at) = (&view.snapshot, time(view.snapshot.at.wall));
    let known = snapshot.pods.as_ref().map(by_cgroup_uid).unwrap_or_default();
    let mut containers = BTreeMap::<&str, Vec<Value>>::new();
    for scope in snapshot.scopes.values() {
        let Place::Container { pod, id, .. } = &scope.place else { continue };
        let Some((uid, pod)) = known.get_key_value(pod.as_str()) else { continue };
        // What the API does not list is the sandbox.
        let its = pod.containers.iter().find(|one| one.id.as_deref() == Some(id));
        let list = containers.entry(uid).or_default();
        list.extend(its.map(|container| named(&container.name, scope, &at)));
    }
    let of_pod = |scope: &Scope| {
        let Place::Pod { uid, .. } = &scope.place else { return None };
        let pod: &Pod = known.get(uid.as_str())?;
        let mut of_pod = stats(scope, &at);
        let reference = json!({"name": pod.name, "namespace": pod.namespace, "uid": pod.uid});
        of_pod.insert("podRef".into(), reference);
        let started = pod.started.and_then(|started| Timestamp::from_second(started).ok());
        of_pod.insert("startTime".into(), json!(started.map(|started| started.to_string())));
        of_pod.insert("containers".into(), json!(containers.get(uid.as_str())));
        let tasks = scope.files.as_deref().and_then(|files| files.pids_current);
        of_pod.insert("process_stats".into(), json!({"process_count": tasks}));
        Some(Value::Object(of_pod))
    };
    snapshot.scopes.values().filter_map(of_pod).collect::<Vec<_>>().into()
}

fn named(name: &str, scope: &Scope, at: &str) -> Value {
    let mut stats = stats(scope, at);
    stats.insert("name".into(), name.into());
    Value::Object(stats)
}

/// A cgroup's part: of a pod, of a container, of all pods.
fn stats(scope: &Scope, at: &str) -> Map<String, Value> {
    let files = scope.files.as_deref();
    let memory = files.map(|files| files.memory);
    let working_set = files.and_then(working_set);
    let limit = memory.and_then(|memory| match memory.max? {
        Limit::At(limit) => Some(limit),
        Limit::Max => None,
    });
    let left = limit.zip(working_set).map(|(limit, Bytes(used))| limit.saturating_sub(used));
    let stat = memory.and_then(|memory| memory.stat);
    let stats = json!({
        "cpu": {
            "time": at,
            "usageNanoCores": nanocores(scope),
            "usageCoreNanoSeconds": files.and_then(|files| files.cpu.usage).map(|us| us.0 * 1_000),
            "psi": psi(scope.pressure.cpu),
        },
        "memory": {
            "time": at,
            "availableBytes": left,
            "usageBytes": memory.and_then(|memory| memory.current),
            "workingSetBytes": working_set,
            "rssBytes": stat.map(|stat| stat.anon),
            "majorPageFaults": stat.map(|stat| stat.pgmajfault),
            "psi": psi(scope.pressure.memory),
        },
        "io": {"time": at, "psi": psi(scope.pressure.io)},
        "swap": {"time": at, "swapUsageBytes": memory.and_then(|memory| memory.swap_current)},
    });
    match stats {
        Value::Object(stats) => stats,
        _ => Map::new(),
    }
}

fn nanocores(scope: &Scope) -> Option<u64> {
    scope.cpu_usage.map(|MilliCpu(milli)| milli.saturating_mul(NANO_OF_MILLI))
}

fn psi(pressure: Option<Pressure>) -> Value {
    let line = |line: Line| {
        let Line { avg10, avg60, avg300, total } = line;
        json!({"total": total, "avg10": avg10, "avg60": avg60, "avg300": avg300})
    };
    let Some(Pressure { some, full }) = pressure else { return Value::Null };
    json!({"full": full.map(line), "some": some.map(line)})
}

fn filesystem(fs: Filesystem, at: &str) -> Value {
    // A file system without a fixed number of inodes has none to count.
    let inodes = (fs.inodes > 0).then_some(fs.inodes);
    json!({
        "time": at,
        "availableBytes": fs.available,
        "capacityBytes": fs.capacity,
        "usedBytes": fs.capacity.0.saturating_sub(fs.available.0),
        "inodesFree": inodes.map(|_| fs.inodes_free),
        "inodes": inodes,
        "inodesUsed": inodes.map(|inodes| inodes.saturating_sub(fs.inodes_free)),
    })
}

fn time(Nanos(wall): Nanos) -> String {
    let seconds = i64::try_from(wall / Nanos::SECOND.0).unwrap_or_default();
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// Without what is null, and without what has nothing left but its time.
fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(name, of)| Some((name, pruned(of)?)));
            let fields: Map<_, _> = fields.collect();
            let is_empty = fields.keys().all(|name| name == "time");
            (!is_empty).then_some(Value::Object(fields))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(pruned).collect()),
        other => Some(other),
    }
}
