//! What the kubelet would say of an eviction: gathered from the sample, worded by `explain`.

use crate::model::decision::{Met, Observation, Target, Trigger};
use crate::model::pod::Place;
use crate::model::quantity::Quantity;
use crate::model::sample::Sample;
use crate::model::snapshot::working_set;
use crate::model::threshold::{Amount, Resource};
use crate::model::units::Bytes;
use crate::model::workload::{Container, ContainerKind, Pod};
use crate::policy::explain::message::{Consumer, Shortage};

/// What an eviction of `target` is about; `None` if it is not about something that runs out.
pub(super) fn shortage(
    met: &Met,
    target: &Target,
    observations: &[Observation],
    sample: &Sample,
) -> Option<Shortage> {
    let Trigger::Eviction(threshold) = &met.threshold else { return None };
    let signal = threshold.signal;
    let line = match threshold.value {
        Amount::Quantity(quantity) => Some(quantity),
        Amount::Percentage(part) => observations
            .iter()
            .find(|seen| seen.signal == signal)
            .map(|seen| signal.quantity(part.of(seen.capacity))),
    };
    let resource = signal.resource();
    let pod = target.uids().find_map(|uid| sample.pod(uid));
    let containers = match (resource, pod) {
        (Resource::Memory, Some(pod)) => each(pod, "memory", |c| in_memory(c, sample)),
        (Resource::Storage, Some(pod)) => {
            each(pod, "ephemeral-storage", |c| on_disk(pod, c, sample))
        }
        _ => Vec::new(),
    };
    let pod = pod.filter(|_| resource == Resource::Memory);
    Some(Shortage {
        resource: resource.name().into(),
        amounts: line.map(|line| (line, signal.quantity(met.measured))),
        pod: pod.and_then(|pod| whole(pod, sample)),
        containers,
    })
}

/// The pod, if it asked for memory as a whole.
fn whole(pod: &Pod, sample: &Sample) -> Option<Consumer> {
    let request = *pod.resources.as_ref()?.requests.get("memory")?;
    let is_it = |place: &Place| matches!(place, Place::Pod { uid, .. } if **uid == *pod.uid);
    Some(Consumer { name: pod.name.clone(), usage: used(is_it, sample)?, request })
}

/// Each container whose use is known; one made for debugging is never blamed.
fn each(
    pod: &Pod,
    resource: &str,
    usage: impl Fn(&Container) -> Option<Quantity>,
) -> Vec<Consumer> {
    let blamed = pod.containers.iter().filter(|c| c.kind != ContainerKind::Ephemeral);
    let consumers = blamed.filter_map(|container| {
        let request = container.resources.requests.get(resource).copied().unwrap_or_default();
        Some(Consumer { name: container.name.clone(), usage: usage(container)?, request })
    });
    consumers.collect()
}

fn in_memory(container: &Container, sample: &Sample) -> Option<Quantity> {
    let id = container.id.as_ref()?;
    used(|place| matches!(place, Place::Container { id: own, .. } if **own == **id), sample)
}

/// Writable layer and logs; both have to be known.
fn on_disk(pod: &Pod, container: &Container, sample: &Sample) -> Option<Quantity> {
    let disk = sample.pod_disks.as_ref()?.pods.get(&pod.uid)?.containers.get(&container.name)?;
    let (Bytes(layer), Bytes(logs)) = (disk.layer.bytes?, disk.logs.bytes?);
    Some(Quantity::bytes(layer.saturating_add(logs)))
}

/// The working set of the cgroup that `is_it` picks.
fn used(is_it: impl Fn(&Place) -> bool, sample: &Sample) -> Option<Quantity> {
    let places = sample.places();
    let group = sample.cgroups.values().find(|group| is_it(&places.place(&group.path)))?;
    Some(Quantity::bytes(working_set(group)?.0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryFiles, MemoryStat};
    use crate::model::disk::{ContainerDisk, DiskReading, DiskUse, PodDisk};
    use crate::model::threshold::{Signal, Threshold};
    use crate::model::units::Nanos;
    use crate::model::workload::Resources;
    use crate::policy::explain::message::message;

    const MIB: u64 = 1 << 20;

    fn group(path: String, mib: u64) -> Cgroup {
        let stat = MemoryStat { inactive_file: Bytes(20 * MIB), ..MemoryStat::default() };
        let current = Some(Bytes((mib + 20) * MIB));
        let memory = MemoryFiles { current, stat: Some(stat), ..MemoryFiles::default() };
        Cgroup { path: CgroupPath(path.into()), memory, ..Cgroup::default() }
    }

    #[test]
    fn shortage_names_containers_above_their_requests() {
        let ids = ["a", "b", "c"].map(|digit| digit.repeat(64));
        let pod_path = "/kubepods/burstable/podu1";
        let paths = ids.iter().map(|id| format!("{pod_path}/{id}"));
        let groups = std::iter::once(group(pod_path.into(), 600))
            .chain(paths.zip([250, 100, 250]).map(|(path, mib)| group(path, mib)));
        let container = |name: &str, kind, id: &String| Container {
            name: name.into(),
            kind,
            id: Some(id.clone()),
            resources: Resources {
                requests: ["memory", "ephemeral-storage"]
                    .map(|name| (name.into(), Quantity::bytes(200 * MIB)))
                    .into(),
                ..Resources::default()
            },
            ..Container::default()
        };
        let pod = Pod {
            uid: "u1".into(),
            name: "p".into(),
            containers: vec![
                container("main", ContainerKind::Regular, &ids[0]),
                container("small", ContainerKind::Sidecar, &ids[1]),
                container("debug", ContainerKind::Ephemeral, &ids[2]),
            ],
            ..Pod::default()
        };
        let used = |mib: u64| DiskUse { bytes: Some(Bytes(mib * MIB)), inodes: None };
        let disk = |layer: u64, logs| ContainerDisk { layer: used(layer), logs };
        let unknown = DiskUse::default();
        let disks = [("main", disk(1, used(200))), ("small", disk(900, unknown))];
        let containers = disks.map(|(name, disk)| (name.to_owned(), disk)).into();
        let disks = [("u1".into(), PodDisk { containers, ..PodDisk::default() })].into();
        let sample = Sample {
            pod_disks: Some(Arc::new(DiskReading { pods: disks, ..DiskReading::default() })),
            cgroups: (1..).map(CgroupId).zip(groups.map(Arc::new)).collect(),
            pods: Some(Arc::new([("u1".to_owned(), pod)].into())),
            ..Sample::default()
        };
        let value = Amount::Percentage(serde_json::from_str("0.1").unwrap());
        let target = Target { uid: "u1".into(), ..Target::default() };
        #[rustfmt::skip]
        let table = [
            // signal, resource, what the container that is above its request uses
            (Signal::MemoryAvailable,  "memory",            "250Mi"),
            (Signal::NodefsAvailable,  "ephemeral-storage", "201Mi"),
            (Signal::ImagefsAvailable, "ephemeral-storage", "201Mi"),
        ];
        for (signal, resource, usage) in table {
            let threshold = Threshold { signal, value, grace: Nanos(0), min_reclaim: None };
            let met = Met {
                threshold: Trigger::Eviction(threshold),
                since: Nanos(0),
                is_due: true,
                measured: 512 * MIB,
                missing: None,
            };
            let seen =
                Observation { signal, available: 512 * MIB, capacity: 10 << 30, at: Nanos(0) };
            let got = message(&shortage(&met, &target, &[seen], &sample).unwrap());
            // A tenth of 10Gi in the kubelet's single precision.
            let want = format!(
                "The node was low on resource: {resource}. Threshold quantity: 1073741840, \
                 available: 512Mi. Container main was using {usage}, request is 200Mi, has larger \
                 consumption of {resource}. "
            );
            assert_eq!(got, want);
        }
    }
}
