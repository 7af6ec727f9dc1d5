//! Processes that may run on reserved CPUs although no pod should: a set that was written counts for what
//! runs there already too, but for those whose cgroup has no cpuset above it.

use serde::Serialize;

use crate::source::processes::{Members, Process, Processes};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::places::{self, Places};
use isobar_core::model::pod::Place;
use isobar_core::model::sample::Gap;
use isobar_core::model::settings::Node;
use isobar_kubelet::{cpus, oom};

/// A process of a pod that may run where none should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Intruder {
    pub pid: u32,
    /// What it is called.
    pub name: String,
    /// The uid of its pod.
    pub pod: String,
    /// Where it runs.
    pub cgroup: CgroupPath,
    /// Which of the reserved CPUs.
    pub cpus: CpuSet,
}

/// Processes of pods that may run on `reserved` CPUs, by the first thread of each; and what could
/// not be read. Sandboxes are left out: the kubelet never pins them, and only root gives their score.
pub fn intruders(
    processes: &Processes,
    node: &Node,
    reserved: &CpuSet,
) -> (Vec<Intruder>, Vec<Gap>) {
    let cgroups = processes.cgroups();
    let kubepods = places::kubepods(node, &cgroups);
    let places = Places::of(&cgroups, Some(&kubepods));
    let is_pods = |path: &CgroupPath| {
        matches!(places.place(path), Place::Pod { .. } | Place::Container { .. })
    };
    let (members, gaps) = processes.read(is_pods);
    let mut found = Vec::new();
    for Members { path, processes } in members {
        let (Place::Pod { uid: pod, .. } | Place::Container { pod, .. }) = places.place(&path)
        else {
            continue;
        };
        let work = processes.into_iter().filter(|process| process.oom_score_adj != oom::SANDBOX);
        let on_reserved = work.filter_map(|process| {
            let cpus = cpus::common(&process.cpus_allowed, reserved);
            let (pod, cgroup) = (pod.as_ref().into(), path.clone());
            let Process { pid, name, .. } = process;
            (!cpus.0.is_empty()).then_some(Intruder { pid, name, pod, cgroup, cpus })
        });
        found.extend(on_reserved);
    }
    (found, gaps)
}

/// How many, and the first few.
pub(super) fn words(found: &[Intruder]) -> String {
    const NAMED: usize = 3;
    let first = found.iter().take(NAMED).map(|one| format!("{} ({})", one.name, one.pid));
    let first = first.collect::<Vec<_>>().join(", ");
    let more = if found.len() > NAMED { ", .." } else { "" };
    format!("{} processes of pods may still run on reserved CPUs: {first}{more}", found.len())
}
