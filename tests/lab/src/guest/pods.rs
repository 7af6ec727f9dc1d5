//! The pods of a scenario as the kubelet and containerd would have made them: cgroups, OOM score
//! seeds, and the manifests that agents are told.

use std::collections::BTreeMap;

use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::CgroupDriver;
use serde_json::json;

use super::driver;
use crate::amount::{Cpu, Memory};
use crate::form::Form;
use crate::form::group::{Load, Pod};

/// One pod, worked out.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    /// With its number, where there are several alike.
    pub(super) name: String,
    /// The name without the number.
    pub(super) kind: String,
    /// Paths of the cgroups: the pod's, its sandbox's, its first container's, and those of the others.
    pub(super) cgroup: String,
    pub(super) sandbox: String,
    pub(super) container: String,
    pub(super) others: Vec<String>,
    /// What the kubelet seeds the container's processes with.
    pub(super) oom_score_adj: i32,
    /// What is written to the files of pod and container.
    pub(super) write: Vec<(String, String)>,
    /// More of what is written to the files of the container.
    pub(super) write_container: Vec<(String, String)>,
    /// What runs in the container.
    pub(super) loads: Vec<Load>,
    /// As the API has it.
    pub(super) manifest: String,
}

/// What requests and limits make of a pod (kubelet, `GetPodQOS`). A limit without a request
/// counts as a request too, as the API server has it.
pub(crate) fn class(pod: &Pod) -> QosClass {
    let nothing = pod.memory_request.is_none()
        && pod.memory_limit.is_none()
        && pod.cpu_request.is_none()
        && pod.cpu_limit.is_none();
    let all = pod.memory_limit.is_some()
        && pod.cpu_limit.is_some()
        && pod.memory_request.is_none_or(|request| Some(request) == pod.memory_limit)
        && pod.cpu_request.is_none_or(|request| Some(request) == pod.cpu_limit);
    match (nothing, all) {
        (true, _) => QosClass::BestEffort,
        (_, true) => QosClass::Guaranteed,
        _ => QosClass::Burstable,
    }
}

/// `GetContainerOOMScoreAdjust` of the kubelet, for a node with `capacity`.
fn oom_score_adj(class: QosClass, request: u64, capacity: u64) -> i32 {
    match class {
        QosClass::Guaranteed => -997,
        QosClass::BestEffort => 1000,
        QosClass::Burstable => {
            let share = 1000 - 1000 * request / capacity.max(1);
            i32::try_from(share).unwrap_or(1000).clamp(3, 999)
        }
    }
}

/// `cpu.weight` for thousandths of a CPU, by way of shares, as runtimes convert them.
pub(super) fn weight(milli: u64) -> u64 {
    let shares = (milli * 1024 / 1000).clamp(2, 262_144);
    1 + (shares - 2) * 9999 / 262_142
}

/// `cpu.max` for a limit in thousandths of a CPU.
pub(super) fn cpu_max(milli: u64) -> String {
    format!("{} 100000", milli * 100)
}

/// All pods of a scenario on a node with `capacity` bytes of memory, as they are made.
pub(super) fn placed(form: &Form, capacity: u64) -> Vec<Placed> {
    let mut all = Vec::new();
    for pod in &form.pod {
        for i in 1..=pod.count.unwrap_or(1) {
            let kind = pod.name.get_ref().clone();
            let name = pod.count.map_or(kind.clone(), |_| format!("{kind}-{i}"));
            all.push(place(pod, name, all.len() + 1, capacity, form.driver));
        }
    }
    all
}

pub(super) fn place(
    pod: &Pod,
    name: String,
    number: usize,
    capacity: u64,
    driver: CgroupDriver,
) -> Placed {
    let class = class(pod);
    let uid = format!("{number:08x}-1111-4111-8111-{number:012x}");
    let id = |what: &str| format!("{what}{number:062x}");
    let ids: Vec<_> = (0..pod.containers).map(|n| id(&format!("c{n:x}"))).collect();
    let cgroup = driver::pod(driver, class, &uid);
    let mut containers = ids.iter().map(|id| driver::container(driver, &cgroup, id));
    let request = pod.memory_request.or(pod.memory_limit).map_or(0, |memory| memory.0);
    let milli = pod.cpu_request.or(pod.cpu_limit).map_or(0, |cpu| cpu.0);
    let mut write = vec![("cpu.weight".into(), weight(milli).to_string())];
    if let Some(Memory(limit)) = pod.memory_limit {
        write.push(("memory.max".into(), limit.to_string()));
    }
    if let Some(Cpu(limit)) = pod.cpu_limit {
        write.push(("cpu.max".into(), cpu_max(limit)));
    }
    Placed {
        manifest: manifest(pod, &name, class, &uid, &ids),
        sandbox: driver::container(driver, &cgroup, &id("5a")),
        container: containers.next().unwrap_or_default(),
        others: containers.collect(),
        cgroup,
        kind: pod.name.get_ref().clone(),
        name,
        oom_score_adj: oom_score_adj(class, request, capacity),
        write,
        write_container: pod.write.clone().into_iter().collect(),
        loads: pod.load.clone(),
    }
}

/// A manifest is YAML, and so is JSON.
fn manifest(pod: &Pod, name: &str, class: QosClass, uid: &str, ids: &[String]) -> String {
    let list = |cpu: Option<Cpu>, memory: Option<Memory>| {
        let cpu = cpu.map(|cpu| ("cpu", format!("{}m", cpu.0)));
        let memory = memory.map(|memory| ("memory", memory.0.to_string()));
        cpu.into_iter().chain(memory).collect::<BTreeMap<_, _>>()
    };
    let limits = list(pod.cpu_limit, pod.memory_limit);
    let requests = list(pod.cpu_request.or(pod.cpu_limit), pod.memory_request.or(pod.memory_limit));
    let owner = pod.name.get_ref();
    let owners = pod.count.map(|_| {
        json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner,
                "controller": true })
    });
    let metadata = json!({ "name": name, "namespace": "scenario", "uid": uid,
                           "labels": { "app": owner }, "ownerReferences": Vec::from_iter(owners) });
    let resources = json!({ "requests": requests, "limits": limits });
    let name_of = |n| if n == 0 { "main".into() } else { format!("more-{n}") };
    let container = |(n, _)| match n {
        0 => json!({ "name": name_of(n), "resources": resources }),
        _ => json!({ "name": name_of(n) }),
    };
    let state =
        |(n, id)| json!({ "name": name_of(n), "containerID": format!("containerd://{id}") });
    let all = || ids.iter().enumerate();
    let volume = |name: &String| json!({ "name": name, "emptyDir": {} });
    let volumes = pod.volumes.iter().map(volume).collect::<Vec<_>>();
    let spec = json!({ "priority": pod.priority, "volumes": volumes,
                       "containers": all().map(container).collect::<Vec<_>>() });
    let status = json!({ "phase": "Running", "qosClass": class,
                         "containerStatuses": all().map(state).collect::<Vec<_>>() });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec,
                      "status": status });
    format!("---\n{pod}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Scenario;

    const GIB: u64 = 1 << 30;

    fn pods(fields: &str, class: &str) -> Vec<Placed> {
        let text = format!(
            "# Why.\nseconds = \"1s\"\n[[pod]]\nname = \"p\"\nclass = \"{class}\"\n{fields}\n\
             [expect]\nno_kill = true\n"
        );
        placed(&Scenario::parse("x".into(), text).unwrap().form, GIB)
    }

    #[test]
    fn class_and_seed_follow_from_requests_and_limits() {
        #[rustfmt::skip]
        let table = [
            // fields,                                                      class,        seed
            ("",                                                            "BestEffort", 1000),
            ("memory_request = \"512MiB\"",                                 "Burstable",  500),
            ("memory_request = \"4KiB\"",                                   "Burstable",  999),
            ("memory_request = \"1GiB\"",                                   "Burstable",  3),
            ("memory_limit = \"512MiB\"",                                   "Burstable",  500),
            ("memory_limit = \"64MiB\"\ncpu_limit = \"1\"",                 "Guaranteed", -997),
            ("memory_limit = \"64MiB\"\ncpu_limit = \"1\"\ncpu_request = \"1m\"", "Burstable", 938),
        ];
        for (fields, class, seed) in table {
            let pod = &pods(fields, class)[0];
            assert_eq!(pod.oom_score_adj, seed, "{fields}");
            assert!(pod.manifest.contains(&format!("\"qosClass\":\"{class}\"")), "{fields}");
        }
    }

    #[test]
    fn a_pod_lies_where_the_systemd_driver_puts_it() {
        let many = pods("count = 2", "BestEffort");
        assert_eq!((many[1].name.as_str(), many[1].kind.as_str()), ("p-2", "p"));
        let slice = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod00000002_1111_\
                     4111_8111_000000000002.slice";
        assert_eq!(many[1].cgroup, slice);
        let id = many[1].container.strip_prefix(&format!("{slice}/cri-containerd-")).unwrap();
        assert_eq!(id.len(), "6".repeat(64).len() + ".scope".len());
        let guaranteed = &pods("memory_limit = \"64MiB\"\ncpu_limit = \"500m\"", "Guaranteed")[0];
        assert!(guaranteed.cgroup.starts_with("/kubepods.slice/kubepods-pod"));
        assert!(guaranteed.write.contains(&("cpu.max".into(), "50000 100000".into())));
        assert!(guaranteed.manifest.contains(r#""limits":{"cpu":"500m","memory":"67108864"}"#));
    }

    #[test]
    fn a_pod_may_have_several_containers() {
        let pod = &pods("containers = 3", "BestEffort")[0];
        let id = |n| format!("c{n}{:062x}", 1);
        let scope = |n| format!("{}/cri-containerd-{}.scope", pod.cgroup, id(n));
        assert_eq!((&pod.container, &pod.others[..]), (&scope(0), &[scope(1), scope(2)][..]));
        for (name, n) in [("main", 0), ("more-1", 1), ("more-2", 2)] {
            let state = format!(r#"{{"containerID":"containerd://{}","name":"{name}"}}"#, id(n));
            assert!(pod.manifest.contains(&state), "{}", pod.manifest);
        }
    }

    #[test]
    fn weights_are_what_runtimes_make_of_requests() {
        // thousandths, weight
        for (milli, want) in [(0, 1), (100, 4), (1000, 39), (2000, 79)] {
            assert_eq!(weight(milli), want, "{milli}m");
        }
    }
}
