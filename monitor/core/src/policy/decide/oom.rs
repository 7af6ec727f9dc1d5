//! Whether the kernel's OOM killer would take a marked target before all others.
//! Source: `oom_badness`, mm/oom_kill.c; the kubelet's scores, `pkg/kubelet/qos/policy.go`.

use std::sync::Arc;

use super::Question;
use super::standing::ReliefStanding;
use crate::model::cgroup::{Cgroup, CgroupId, MemoryStat};
use crate::model::condition::ScopeName;
use crate::model::decision::{Action, Taker};
use crate::model::pod::{Place, QosClass};
use crate::model::request::request;
use crate::model::sample::Sample;
use crate::model::units::{Percent, scale};
use crate::model::workload::Pod;
use crate::policy::assess::critical::is_node_critical;
use crate::policy::scope;
use crate::policy::takers::{capacity, held, locked, swapped};

/// A mark's score, of the whole scope.
const HIGHEST: u64 = 1_000;

/// Whether the kernel's OOM killer would take this one first where the scope has no memory left, and its
/// end would help: its badness, by its mark or of itself, is above that of all others in the scope, but for
/// marked ones that took of the same memory; and it is not in shared memory.
pub(super) fn kernel_takes(
    question: &Question<'_>,
    standing: &ReliefStanding,
    taker: &Taker,
    scope: ScopeName,
) -> bool {
    let sample = question.sample;
    let Some(own) = sample.cgroups.values().find(|group| group.path == taker.path) else {
        return false;
    };
    let is_in_memory = held(own).is_some_and(|held| oom_size(own) >= held.0 / 2);
    if !is_in_memory {
        return false;
    }
    let places = sample.places();
    let total = sample.node.memory.map_or(0, |memory| memory.total.0);
    // Scores are parts of what the scope has, huge pages included.
    let pods = scope::kubepods(question.snapshot).map(|(_, pods)| pods);
    let all = match scope {
        ScopeName::System => total,
        ScopeName::Kubepods => capacity(scope, sample, pods).map_or(total, |all| all.min(total)),
    };
    // Its uid, and what it has of 1000 by its mark or its class.
    let scored = |group: &Cgroup| {
        let (uid, score) = match places.place(&group.path) {
            Place::Pod { uid, class } => {
                let score = oom_score(class, sample.pod(&uid), total);
                (uid.to_string(), score)
            }
            Place::Other => (group.path.0.to_string(), 0),
            _ => return None,
        };
        let score = if is_marked(question, standing, &uid) { HIGHEST } else { score };
        Some((uid, score))
    };
    // Below 0 it may be anything, and so may that of a pod that no source tells of.
    let Some((uid, own_score @ 1..)) = scored(own) else { return false };
    if sample.pod(&uid).is_none() && !is_marked(question, standing, &uid) {
        return false;
    }
    let is_pod = matches!(places.place(&own.path), Place::Pod { .. });
    // The kernel compares processes, and kills the rest of the cgroup with the one it takes. Until the
    // largest is known it counts as one of many alike. A pod's sandbox is one of them.
    let mut marks = sample.marks().filter(|entry| entry.action.target.uid == taker.uid);
    let largest = marks.find_map(|entry| entry.largest).map_or_else(
        || {
            let n = n_processes(own, sample).saturating_sub(u64::from(is_pod)).max(1);
            oom_size(own) / n
        },
        |share| scale(oom_size(own), share.0.into(), Percent::FULL.0.into()),
    );
    let badness = |size: u64, score| size.saturating_add(scale(all, score, HIGHEST));
    let other = |(id, group): (&CgroupId, &Arc<Cgroup>)| {
        let is_outside = !matches!(places.place(&group.path), Place::Pod { .. });
        if group.path == own.path || (is_outside && scope != ScopeName::System) {
            return None;
        }
        let (uid, score) = scored(group)?;
        // A mark that is left of another shortage has the kernel take who took nothing of this one.
        let took = question.field.is_some_and(|field| field.took(*id));
        (score < HIGHEST || !is_marked(question, standing, &uid) || !took)
            .then(|| badness(oom_size(group), score))
    };
    let own = badness(largest, own_score);
    sample.cgroups.iter().filter_map(other).all(|other| other < own)
}

/// Whether this one is marked, or will be.
pub(super) fn is_marked(question: &Question<'_>, standing: &ReliefStanding, uid: &str) -> bool {
    let sample = question.sample;
    let mut marks = sample.marks().map(|entry| &entry.action);
    marks.any(|mark| mark.target.uid == uid && is_real(question, mark))
        || standing.is_mark_ordered(uid, sample.at.boot)
}

/// Processes in the cgroup and below it, as counted up to ten ticks ago; its threads where one of these
/// cgroups does not tell.
fn n_processes(own: &Cgroup, sample: &Sample) -> u64 {
    let within = sample.cgroups.values().filter(|group| group.path.is_within(&own.path));
    within.map(|group| group.n_procs).sum::<Option<u64>>().or(own.pids_current).unwrap_or(1)
}

/// What counts for the kernel's `oom_badness` (mm/oom_kill.c): resident and swapped memory, and no
/// memory that the kernel holds for a process, but its page tables.
fn oom_size(group: &Cgroup) -> u64 {
    let resident = |stat: MemoryStat| stat.anon.0.saturating_add(locked(&stat).0);
    group.memory.stat.map_or(0, resident).saturating_add(swapped(group).0)
}

/// The kubelet's `oom_score_adj`, 0 for those below; the most that it can be where the pod is not known.
fn oom_score(class: QosClass, pod: Option<&Pod>, total: u64) -> u64 {
    match class {
        _ if pod.is_some_and(is_node_critical) => 0,
        QosClass::BestEffort => 1_000,
        QosClass::Guaranteed => 0,
        QosClass::Burstable => {
            let request = pod.map(|pod| request(pod, "memory").to_u64());
            let promised = request.map_or(0, |request| scale(request, 1_000, total.max(1)));
            1_000_u64.saturating_sub(promised).clamp(3, 999)
        }
    }
}

/// A mark that is only observed is none, where anything is really ended.
fn is_real(question: &Question<'_>, mark: &Action) -> bool {
    mark.is_enforced || !question.relief.enforce.iter().any(|step| step.is_final())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::{CgroupId, CgroupPath};
    use crate::model::units::Bytes;
    use crate::model::workload::{Container, Resources};

    #[test]
    fn n_processes_counts_those_below_and_no_threads() {
        #[rustfmt::skip]
        let table = [
            // processes of the service itself, and below it; its processes
            (Some(1), Some(0), 1),
            (Some(0), Some(3), 3),
            (Some(1), None,    40),
        ];
        for (own, below, want) in table {
            let group = |path: &str, n_procs, pids_current| {
                let path = CgroupPath(path.into());
                Arc::new(Cgroup { path, n_procs, pids_current, ..Cgroup::default() })
            };
            let service = group("/system.slice/a.service", own, Some(40));
            let groups = [
                service.clone(),
                group("/system.slice/a.service/inner", below, None),
                group("/system.slice/other.service", Some(9), None),
            ];
            let cgroups = (1..).map(CgroupId).zip(groups).collect();
            let sample = Sample { cgroups, ..Sample::default() };
            assert_eq!(n_processes(&service, &sample), want, "{own:?} {below:?}");
        }
    }

    #[test]
    fn oom_score_is_the_kubelets() {
        let pod = |priority_class: &str, source: &str, request: &str| Pod {
            priority_class: priority_class.into(),
            annotations: [("kubernetes.io/config.source".into(), source.into())].into(),
            containers: vec![Container {
                resources: Resources {
                    requests: [("memory".into(), request.parse().unwrap())].into(),
                    ..Resources::default()
                },
                ..Container::default()
            }],
            ..Pod::default()
        };
        use QosClass::{BestEffort, Burstable, Guaranteed};
        #[rustfmt::skip]
        let table = [
            // class, pod; score on a node of 1000 bytes
            (Guaranteed, None,                                           0),
            (BestEffort, None,                                           1_000),
            (Burstable,  None,                                           999),
            (Burstable,  Some(pod("", "api", "250")),                    750),
            (Burstable,  Some(pod("", "file", "250")),                   750),
            (Burstable,  Some(pod("system-node-critical", "file", "1")), 0),
            (BestEffort, Some(pod("system-node-critical", "file", "0")), 0),
        ];
        for (class, pod, want) in table {
            assert_eq!(oom_score(class, pod.as_ref(), 1_000), want, "{class:?} {pod:?}");
        }
    }

    #[test]
    fn oom_size_is_what_the_kernel_counts() {
        let none = MemoryStat::default();
        #[rustfmt::skip]
        let table = [
            // memory.stat, swap; size
            (MemoryStat { anon: Bytes(7), ..none },                       None,           7),
            (MemoryStat { anon: Bytes(7), ..none },                       Some(Bytes(5)), 12),
            (MemoryStat { kernel: Bytes(9), sock: Bytes(9), ..none },     None,           0),
            (MemoryStat { file: Bytes(9), shmem: Bytes(9), ..none },      None,           0), // outlives it
            (MemoryStat { file: Bytes(9), active_file: Bytes(5), ..none }, None,          4), // locked
        ];
        for (stat, swap_current, want) in table {
            let mut group = Cgroup::default();
            (group.memory.stat, group.memory.swap_current) = (Some(stat), swap_current);
            assert_eq!(oom_size(&group), want, "{stat:?}");
        }
    }
}
