//! `/stats/summary` in the kubelet's shape, out of the newest view. What is not known is absent: the
//! kubelet's own zeros cannot be told from a measurement.
//! Source: kubelet `pkg/apis/stats/v1alpha1/types.go`; `total` of PSI is in microseconds there, too.

mod disks;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use isobar_core::model::disk::DiskReading;
use isobar_core::model::node::{Filesystem, NodeReading};
use isobar_core::model::pod::Place;
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::settings;
use isobar_core::model::snapshot::{Scope, Snapshot, working_set};
use isobar_core::model::threshold::Signal;
use isobar_core::model::units::{Bytes, MilliCpu, Nanos};
use isobar_core::model::workload::{Pod, by_cgroup_uid};
use isobar_core::view::View;
use isobar_kubelet::daemons::{self, Daemon};

use self::disks::Disks;
use super::parts::Beside;

/// Nanocores in a thousandth of a CPU.
const NANO_OF_MILLI: u64 = 1_000_000;

/// The kubelet's Summary API: the node, and its pods that the API server names.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Summary {
    node: NodeStats,
    pods: Vec<PodStats>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct NodeStats {
    node_name: String,
    system_containers: Option<Vec<ContainerStats>>,
    start_time: String,
    cpu: CpuStats,
    memory: MemoryStats,
    io: IoStats,
    /// The kubelet's directory.
    fs: Option<FsStats>,
    runtime: RuntimeStats,
    rlimit: RlimitStats,
    swap: Option<SwapStats>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct PodStats {
    pod_ref: PodReference,
    start_time: Option<String>,
    containers: Option<Vec<ContainerStats>>,
    #[serde(flatten)]
    stats: Stats,
    volume: Option<Vec<VolumeStats>>,
    #[serde(rename = "ephemeral-storage")]
    ephemeral_storage: Option<FsStats>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PodReference {
    name: String,
    namespace: String,
    uid: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ContainerStats {
    name: String,
    #[serde(flatten)]
    stats: Stats,
    /// What it has written over its image.
    rootfs: Option<FsStats>,
    logs: Option<FsStats>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct VolumeStats {
    name: String,
    #[serde(flatten)]
    fs: FsStats,
}

/// A cgroup's part: of a pod, of a container, of all pods.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Stats {
    cpu: CpuStats,
    memory: MemoryStats,
    io: IoStats,
    swap: SwapStats,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct CpuStats {
    time: String,
    /// Billionths of a CPU.
    usage_nano_cores: Option<u64>,
    usage_core_nano_seconds: Option<Nanos>,
    psi: Option<Psi>,
}

#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct MemoryStats {
    time: String,
    available_bytes: Option<u64>,
    usage_bytes: Option<Bytes>,
    working_set_bytes: Option<Bytes>,
    rss_bytes: Option<Bytes>,
    major_page_faults: Option<u64>,
    psi: Option<Psi>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct IoStats {
    time: String,
    psi: Option<Psi>,
}

/// PSI as the kernel printed it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Psi {
    full: Option<Line>,
    some: Option<Line>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct SwapStats {
    time: String,
    swap_available_bytes: Option<Bytes>,
    swap_usage_bytes: Option<Bytes>,
}

#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct FsStats {
    time: String,
    available_bytes: Option<Bytes>,
    capacity_bytes: Option<Bytes>,
    used_bytes: Option<Bytes>,
    inodes_free: Option<u64>,
    inodes: Option<u64>,
    inodes_used: Option<u64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct RuntimeStats {
    image_fs: Option<FsStats>,
    container_fs: Option<FsStats>,
}

/// Threads, and how many there may be.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RlimitStats {
    time: String,
    maxpid: Option<u64>,
    curproc: Option<u64>,
}

pub(super) fn render(view: &View, Beside { settings, disks, .. }: Beside<'_>) -> Vec<u8> {
    let names = settings.map(|settings| &settings.node);
    let summary = pruned(json!(Summary { node: node(view, names), pods: pods(view, disks) }));
    let whole = summary.unwrap_or_default();
    serde_json::to_vec(&whole).expect("writing to memory cannot fail")
}

fn node(view: &View, names: Option<&settings::Node>) -> NodeStats {
    let (snapshot, at) = (&view.snapshot, &time(view.snapshot.at.wall));
    let NodeReading { memory, cpu, n_threads, max_threads, filesystems, .. } = &snapshot.node;
    let observed = &view.decision.assessment.observations;
    let left = observed.iter().find(|one| one.signal == Signal::MemoryAvailable);
    let whole = &snapshot.whole;
    let less = |of: Bytes, part: Bytes| Bytes(of.0.saturating_sub(part.0));
    NodeStats {
        node_name: view.facts.name.clone(),
        system_containers: system_containers(snapshot, names, at),
        start_time: time(Nanos(snapshot.at.wall.0.saturating_sub(snapshot.at.boot.0))),
        cpu: CpuStats {
            time: at.clone(),
            usage_nano_cores: nanocores(whole),
            usage_core_nano_seconds: cpu.map(|cpu| cpu.busy),
            psi: psi(whole.pressure.cpu),
        },
        memory: MemoryStats {
            time: at.clone(),
            available_bytes: left.map(|left| left.available),
            usage_bytes: memory.map(|memory| less(memory.total, memory.free)),
            working_set_bytes: left.map(|left| less(Bytes(left.capacity), Bytes(left.available))),
            psi: psi(whole.pressure.memory),
            ..MemoryStats::default()
        },
        io: IoStats { time: at.clone(), psi: psi(whole.pressure.io) },
        fs: filesystems.nodefs.map(|fs| filesystem(fs, at)),
        runtime: RuntimeStats {
            image_fs: filesystems.imagefs.map(|fs| shared(filesystem(fs, at))),
            container_fs: filesystems.containerfs.map(|fs| shared(filesystem(fs, at))),
        },
        rlimit: RlimitStats { time: at.clone(), maxpid: *max_threads, curproc: *n_threads },
        swap: memory.map(|memory| SwapStats {
            time: at.clone(),
            swap_available_bytes: Some(memory.swap_free),
            swap_usage_bytes: Some(less(memory.swap_total, memory.swap_free)),
        }),
    }
}

/// The kubelet and `misc` (where it moves all other processes to) are the cgroups that its
/// configuration names. The kubelet that is not told finds its own cgroup, and the runtime's is told
/// by a flag alone: these go by the names of units.
fn system_containers(
    snapshot: &Snapshot,
    names: Option<&settings::Node>,
    at: &str,
) -> Option<Vec<ContainerStats>> {
    let of = |name, is_it: &dyn Fn(&Scope) -> bool| {
        // Of several by one name that which is no part of another.
        let all = snapshot.scopes.values().filter(|scope| is_it(scope));
        Some(named(name, all.min_by_key(|scope| scope.path.segments().count())?, at))
    };
    let is = |daemon| {
        move |scope: &Scope| {
            scope.place == Place::Other && daemons::named(&scope.path) == Some(daemon)
        }
    };
    let configured = |path: fn(&settings::Node) -> &String| {
        names.map(path).map(|path| path.trim_matches('/')).filter(|path| !path.is_empty())
    };
    let at_path = |path| move |scope: &Scope| scope.path.0.trim_matches('/') == path;
    let all = [
        match configured(|names| &names.kubelet_cgroups) {
            Some(path) => of("kubelet", &at_path(path)),
            None => of("kubelet", &is(Daemon::Kubelet)),
        },
        of("runtime", &is(Daemon::Runtime)),
        configured(|names| &names.system_cgroups).and_then(|path| of("misc", &at_path(path))),
        of("pods", &|scope| scope.place == Place::Kubepods),
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    (!all.is_empty()).then_some(all)
}

/// Pods that the API names, as the kubelet lists no others.
fn pods(view: &View, disks: Option<&DiskReading>) -> Vec<PodStats> {
    let (snapshot, at) = (&view.snapshot, time(view.snapshot.at.wall));
    let on = Disks::of(snapshot, disks);
    let known = snapshot.pods.as_ref().map(by_cgroup_uid).unwrap_or_default();
    let mut containers = BTreeMap::<&str, Vec<ContainerStats>>::new();
    for scope in snapshot.scopes.values() {
        let Place::Container { pod, id, .. } = &scope.place else { continue };
        let Some((uid, pod)) = known.get_key_value(&**pod) else { continue };
        // What the API does not list is the sandbox.
        let its = pod.containers.iter().find(|one| one.id.as_deref() == Some(id));
        let list = containers.entry(uid).or_default();
        list.extend(its.map(|container| {
            let disk = on.pod(uid).and_then(|disk| disk.containers.get(&container.name));
            ContainerStats {
                rootfs: disk.map(|disk| on.used(on.layers, disk.layer)),
                logs: disk.map(|disk| on.used(on.nodefs, disk.logs)),
                ..named(&container.name, scope, &at)
            }
        }));
    }
    let of_pod = |scope: &Scope| {
        let Place::Pod { uid, .. } = &scope.place else { return None };
        let pod: &Pod = known.get(&**uid)?;
        let pod_ref = PodReference {
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: pod.uid.clone(),
        };
        let started = pod.started.and_then(|started| Timestamp::from_second(started).ok());
        Some(PodStats {
            pod_ref,
            start_time: started.map(|started| started.to_string()),
            containers: containers.remove(&**uid),
            stats: stats(scope, &at),
            volume: on.pod(uid).and_then(|disk| on.volumes(disk, pod)),
            ephemeral_storage: on.pod(uid).map(|disk| on.used(on.nodefs, disk.whole)),
        })
    };
    snapshot.scopes.values().filter_map(of_pod).collect()
}

fn named(name: &str, scope: &Scope, at: &str) -> ContainerStats {
    ContainerStats { name: name.into(), stats: stats(scope, at), rootfs: None, logs: None }
}

fn stats(scope: &Scope, at: &str) -> Stats {
    let files = scope.files.as_deref();
    let memory = files.map(|files| files.memory);
    let working_set = files.and_then(working_set);
    let limit = memory.and_then(|memory| memory.max?.at());
    let left = limit.zip(working_set).map(|(limit, Bytes(used))| limit.saturating_sub(used));
    let stat = memory.and_then(|memory| memory.stat);
    Stats {
        cpu: CpuStats {
            time: at.into(),
            usage_nano_cores: nanocores(scope),
            usage_core_nano_seconds: files.and_then(|files| files.cpu.usage).map(Nanos::from),
            psi: psi(scope.pressure.cpu),
        },
        memory: MemoryStats {
            time: at.into(),
            available_bytes: left,
            usage_bytes: memory.and_then(|memory| memory.current),
            working_set_bytes: working_set,
            rss_bytes: stat.map(|stat| stat.anon),
            major_page_faults: stat.map(|stat| stat.pgmajfault),
            psi: psi(scope.pressure.memory),
        },
        io: IoStats { time: at.into(), psi: psi(scope.pressure.io) },
        swap: SwapStats {
            time: at.into(),
            swap_available_bytes: None,
            swap_usage_bytes: memory.and_then(|memory| memory.swap_current),
        },
    }
}

fn nanocores(scope: &Scope) -> Option<u64> {
    scope.cpu_usage.map(|MilliCpu(milli)| milli.saturating_mul(NANO_OF_MILLI))
}

fn psi(pressure: Option<Pressure>) -> Option<Psi> {
    pressure.map(|Pressure { some, full }| Psi { full, some })
}

fn filesystem(fs: Filesystem, at: &str) -> FsStats {
    // A file system without a fixed number of inodes has none to count.
    let inodes = (fs.inodes > 0).then_some(fs.inodes);
    FsStats {
        time: at.into(),
        available_bytes: Some(fs.available),
        capacity_bytes: Some(fs.capacity),
        used_bytes: fs.free.map(|free| Bytes(fs.capacity.0.saturating_sub(free.0))),
        inodes_free: inodes.map(|_| fs.inodes_free),
        inodes,
        inodes_used: inodes.map(|inodes| inodes.saturating_sub(fs.inodes_free)),
    }
}

/// What images and containers use is the runtime's to say: their file system may hold much else.
fn shared(fs: FsStats) -> FsStats {
    FsStats { used_bytes: None, inodes_used: None, ..fs }
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
