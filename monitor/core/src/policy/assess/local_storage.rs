//! Pods that have more on the node's disks than they are allowed. The kubelet evicts them, whether
//! the node is short of anything or not; isobar names them.
//! Source: kubelet `pkg/kubelet/eviction/eviction_manager.go`, `localStorageEviction`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::decision::{Event, Overrun, OverrunOf};
use crate::model::disk::{DiskSource, DiskUse, PodDisk};
use crate::model::node::DiskLayout;
use crate::model::quantity::Quantity;
use crate::model::request::limit_of_containers;
use crate::model::sample::Sample;
use crate::model::units::Bytes;
use crate::model::workload::{ContainerKind, Pod, by_cgroup_uid};

const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// What has been told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct OverrunStanding(BTreeSet<(String, OverrunOf, String)>);

/// All of them, and events for those that are new.
pub(super) fn judge(sample: &Sample, standing: &mut OverrunStanding) -> (Vec<Overrun>, Vec<Event>) {
    // Without a reading nothing has ended and nothing has begun.
    let (Some(disks), Some(pods)) = (&sample.pod_disks, &sample.pods) else {
        return Default::default();
    };
    let pods = by_cgroup_uid(pods);
    let layout = sample.node.filesystems.layout();
    let told = |uid: &String, disk| Some((*pods.get(uid.as_str())?, disk));
    let overruns = disks.pods.iter().filter_map(|(uid, disk)| told(uid, disk));
    let overruns: Vec<_> = overruns
        .filter(|(pod, _)| !pod.is_over)
        .flat_map(|(pod, disk)| of(pod, disk, layout))
        .collect();
    let key = |one: &Overrun| (one.uid.clone(), one.of, one.name.clone());
    let new = overruns
        .iter()
        .filter(|one| !standing.0.contains(&key(one)))
        .map(|one| event(one, disks.source))
        .collect();
    standing.0 = overruns.iter().map(key).collect();
    (overruns, new)
}

/// In the kubelet's order: it evicts for the first.
fn of(pod: &Pod, disk: &PodDisk, layout: DiskLayout) -> Vec<Overrun> {
    let overrun = |of, name: &str, used: DiskUse, limit: Option<Quantity>| {
        let (used, limit) = used.bytes.zip(limit)?;
        let Bytes(n) = used;
        let (pod, uid, name) = (pod.full_name(), pod.uid.clone(), name.to_owned());
        (Quantity::bytes(n) > limit).then_some(Overrun { pod, uid, of, name, used, limit })
    };
    let volumes = pod.volumes.iter().filter_map(|volume| {
        let used = *disk.volumes.get(&volume.name)?;
        overrun(OverrunOf::Volume, &volume.name, used, volume.limit)
    });
    let limit = limit_of_containers(pod, EPHEMERAL_STORAGE);
    let whole = overrun(OverrunOf::Pod, &pod.name, disk.whole, limit);
    let regular = pod.containers.iter().filter(|c| c.kind == ContainerKind::Regular);
    let containers = regular.filter_map(|container| {
        let limit = *container.resources.limits.get(EPHEMERAL_STORAGE)?;
        let disk = disk.containers.get(&container.name)?;
        // What lies with the images is none of the kubelet's own disk.
        let layer = (layout != DiskLayout::WithLayers).then_some(disk.layer);
        let used = disk.logs.plus(layer.unwrap_or_default());
        let limit = (!limit.is_zero()).then_some(limit);
        overrun(OverrunOf::Container, &container.name, used, limit)
    });
    volumes.chain(whole).chain(containers).collect()
}

fn event(overrun: &Overrun, source: DiskSource) -> Event {
    let Overrun { pod, of, name, used, limit, .. } = overrun;
    let what = match of {
        OverrunOf::Volume => format!("in its emptyDir volume {name}"),
        OverrunOf::Pod => "of ephemeral storage".into(),
        OverrunOf::Container => format!("of ephemeral storage in container {name}"),
    };
    let used = Quantity::bytes(used.0);
    let next = match source {
        DiskSource::Kubelet => "the kubelet evicts it",
        DiskSource::Walk => "no kubelet tells whether it evicts it",
    };
    let message = format!("{pod} has {used} {what}, its limit is {limit}: {next}");
    Event { reason: "LocalStorageLimitExceeded".into(), message, is_warning: true }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::disk::{ContainerDisk, DiskReading};
    use crate::model::workload::{Container, Resources, Volume};

    const GIB: u64 = 1 << 30;

    fn used(gib: u64) -> DiskUse {
        DiskUse { bytes: Some(Bytes(gib * GIB)), inodes: None }
    }

    /// `shop/web` with a container and a volume, limited as given, and what it has on disk.
    fn sample(limits: [Option<&str>; 2], [layer, logs, volume]: [u64; 3]) -> Sample {
        let [container, sized] = limits.map(|text| text.map(|text| text.parse().unwrap()));
        let limits = container.map(|limit| (EPHEMERAL_STORAGE.to_owned(), limit)).into_iter();
        let resources = Resources { limits: limits.collect(), ..Resources::default() };
        let cache = Volume { name: "cache".into(), is_local: true, limit: sized };
        let pod = Pod {
            uid: "u1".into(),
            namespace: "shop".into(),
            name: "web".into(),
            containers: vec![Container { name: "app".into(), resources, ..Container::default() }],
            volumes: vec![cache],
            ..Pod::default()
        };
        let disk = PodDisk {
            containers: [("app".into(), ContainerDisk { layer: used(layer), logs: used(logs) })]
                .into(),
            volumes: [("cache".into(), used(volume))].into(),
            whole: used(layer + logs + volume),
        };
        let pods = [("u1".into(), disk)].into();
        Sample {
            pods: Some(Arc::new([("u1".to_owned(), pod)].into())),
            pod_disks: Some(Arc::new(DiskReading { pods, ..DiskReading::default() })),
            ..Sample::default()
        }
    }

    #[test]
    fn judge_counts_the_limits_of_sidecars() {
        let mut sample = sample([Some("2Gi"), None], [1, 1, 1]);
        let pods = Arc::get_mut(sample.pods.as_mut().unwrap()).unwrap();
        let containers = &mut pods.get_mut("u1").unwrap().containers;
        let sidecar = Container {
            name: "proxy".into(),
            kind: ContainerKind::Sidecar,
            ..containers[0].clone()
        };
        containers.insert(0, sidecar);
        assert_eq!(judge(&sample, &mut OverrunStanding::default()).0, [], "3Gi of 4Gi");
    }

    #[test]
    fn judge_names_who_is_above_a_limit() {
        #[rustfmt::skip]
        let table = [
            // limit of container, of volume; GiB of layer, logs, volume; said
            ([None, None],             [9, 9, 9], vec![]),
            ([Some("3Gi"), None],      [1, 1, 1], vec![]), // at the limit is not above it
            ([None, Some("1Gi")],      [0, 0, 2], vec!["has 2Gi in its emptyDir volume cache, its limit is 1Gi"]),
            ([Some("2Gi"), None],      [1, 1, 1], vec!["has 3Gi of ephemeral storage, its limit is 2Gi"]),
            ([Some("1Gi"), None],      [1, 1, 0], vec!["has 2Gi of ephemeral storage, its limit is 1Gi",
                                                       "has 2Gi of ephemeral storage in container app, its limit is 1Gi"]),
        ];
        for (limits, disk, want) in table {
            let sample = sample(limits, disk);
            let mut standing = OverrunStanding::default();
            let (overruns, events) = judge(&sample, &mut standing);
            assert_eq!(overruns.len(), want.len(), "{limits:?} {disk:?}");
            for (event, want) in events.iter().zip(want) {
                assert_eq!(event.message, format!("shop/web {want}: the kubelet evicts it"));
            }
            let (again, events) = judge(&sample, &mut standing);
            assert_eq!((again, events), (overruns, vec![]), "told once");
        }
    }
}
