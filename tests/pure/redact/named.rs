//! Settings and samples in which every text is somebody's name.

use std::collections::BTreeMap;
use std::sync::Arc;

use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::{
    Action, InForce, Outcome, OutcomeResult, Phase, Target, TargetGroup, made,
};
use isobar_core::model::disk::{ContainerDisk, DiskReading, DiskSource, DiskUse, PodDisk};
use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::sample::{Gap, GapReason, Runner, Sample};
use isobar_core::model::settings::{
    CgroupDriver, Conditions, Node, Ranking, Relief, Settings, TaintEffect, WorkloadRule,
};
use isobar_core::model::stall::ShortLived;
use isobar_core::model::units::{Bytes, MilliCpu, Nanos, Percent};
use isobar_core::model::workload::{
    Container, ContainerKind, Owner, Pod, Resources, RestartPolicy, RestartRule, Toleration, Volume,
};

/// Nothing is left out of structs that have texts: a field that is added is missing here.
pub(super) fn settings(before: Settings) -> Settings {
    let list = || ResourceList::from([("acme.example/gpu".into(), Quantity::count(2))]);
    let Settings { generation, eviction, conditions, ranking, relief, node, workloads: _ } = before;
    let Conditions { prefix: _, taint_effect: _, rules, raise_after, clear_after, stale_after } =
        conditions;
    let Ranking { order, opt_out_label: _, group_below } = ranking;
    Settings {
        generation,
        eviction,
        conditions: Conditions {
            prefix: "acme.example/".into(),
            taint_effect: TaintEffect::NoSchedule,
            rules,
            raise_after,
            clear_after,
            stale_after,
        },
        ranking: Ranking { order, opt_out_label: "acme.example/keep".into(), group_below },
        relief: Relief {
            never_touch: vec!["/acme.slice/*".parse().unwrap(), "/pay-*.service".parse().unwrap()],
            ..relief
        },
        node: Node {
            kube_reserved: list(),
            system_reserved: list(),
            kube_reserved_cgroup: "acme-kube".into(),
            system_reserved_cgroup: "/acme-system".into(),
            kubelet_cgroups: "/acme-kubelet".into(),
            system_cgroups: "/acme-misc".into(),
            enforce: node.enforce,
            reserved_cpus: Some("0-1,3".parse().unwrap()),
            static_cpus: true,
            strict_cpu_reservation: true,
            min_shared_cpus: 1,
            cgroup_driver: CgroupDriver::Systemd,
            cgroup_root: "/acme".into(),
            cgroups_per_qos: true,
            pod_pids_limit: 5,
            max_pods: 110,
            pods_per_core: 0,
            kubelet_root: "/acme/kubelet".into(),
            pods_file: "/etc/acme/pods.json".into(),
            write_limits: node.write_limits,
        },
        workloads: vec![WorkloadRule {
            path: "/acme.slice/pay-?.service".parse().unwrap(),
            qos_class: QosClass::Burstable,
            priority: 5,
            requests: list(),
        }],
    }
}

/// The same as [`settings`] of a pod.
pub(super) fn pod(uid: &str, name: &str) -> Pod {
    let notes = |key: &str| BTreeMap::from([(key.into(), "acme-payments".into())]);
    let list = || ResourceList::from([("acme.example/gpu".into(), Quantity::count(2))]);
    Pod {
        uid: uid.into(),
        namespace: "acme-shop".into(),
        name: name.into(),
        labels: notes("acme.example/team"),
        annotations: notes("acme.example/contact"),
        owner: Some(Owner { kind: "AcmeJob".into(), name: "acme-web".into(), uid: uid.into() }),
        started: Some(5),
        priority: Some(5),
        priority_class: "acme-gold".into(),
        termination_grace: Some(30),
        resources: Some(Resources { requests: list(), limits: list() }),
        overhead: list(),
        containers: vec![Container {
            name: "acme-main".into(),
            kind: ContainerKind::Regular,
            resources: Resources { requests: list(), limits: list() },
            id: Some("acme-id".into()),
            n_restarts: Some(1),
            restart_policy: Some(RestartPolicy::Never),
            restart_rules: vec![RestartRule::default()],
        }],
        qos_class: Some(QosClass::Burstable),
        is_over: false,
        ends_within: Some(5),
        is_evicted: false,
        evicted_for: None,
        restart_policy: Some(RestartPolicy::Always),
        tolerations: vec![Toleration {
            key: "acme.example/dedicated".into(),
            operator: "AcmeOperator".into(),
            value: "acme-batch".into(),
            effect: "AcmeEffect".into(),
        }],
        volumes: vec![Volume {
            name: "acme-data".into(),
            is_local: true,
            limit: Some(Quantity::bytes(1 << 30)),
        }],
    }
}

fn action(like: &Action) -> Action {
    let path = CgroupPath("/acme.slice/acme-web.service".into());
    Action {
        target: Target {
            name: "acme-web".into(),
            namespace: "acme-shop".into(),
            uid: "acme-uid".into(),
            members: vec!["acme-member".into()],
            cgroup: Some(CgroupId(5)),
            path: Some(path.clone()),
            groups: vec![TargetGroup { id: CgroupId(5), path }],
            containers: vec!["acme-id".into()],
            is_payer: true,
        },
        message: "The node was low on resource: memory. Container acme-main was using 5Mi.".into(),
        annotations: BTreeMap::from([("offending_containers".into(), "acme-main".into())]),
        ..like.clone()
    }
}

/// A process that no recorded sample has.
pub(super) fn runner() -> Runner {
    let (name, used) = ("acme-daemon".into(), MilliCpu(5));
    Runner { pid: 5, name, used, is_of_machine: true, ..Runner::default() }
}

/// What a sample may have beside what the recorded one has.
pub(super) fn sample(mut sample: Sample, like: &Action) -> Sample {
    let (used, limit) = (DiskUse { bytes: Some(Bytes(5)), inodes: Some(5) }, 3);
    sample.cgroups = sample.cgroups.into_iter().take(40).collect();
    let uids = ["acme-static-pod", "3f2a77b0-1c9d-4a10-9c52-1f00aa00bb00"];
    let pods = Arc::make_mut(sample.pods.get_or_insert_default());
    pods.extend(uids.map(|uid| (uid.into(), pod(uid, "acme-web-1"))));
    let disk = PodDisk {
        containers: [("acme-main".into(), ContainerDisk { layer: used, logs: used })].into(),
        volumes: [("acme-data".into(), used)].into(),
        whole: used,
    };
    let disks = DiskReading {
        at: Nanos(5),
        pods: uids.map(|uid| (uid.into(), disk.clone())).into(),
        source: DiskSource::Walk,
    };
    sample.pod_disks = Some(disks.into());
    sample.outcomes = vec![Outcome {
        detail: "acme-web is gone".into(),
        took: Nanos(5),
        ended: Some(1),
        ..made::outcome(like.id, OutcomeResult::Failed)
    }];
    let since = Nanos(5);
    (sample.node.n_cpus, sample.node.pressure_read) = (Some(5), Some(since));
    sample.in_force = vec![InForce {
        action: action(like),
        since,
        held: None,
        phase: Phase::Marked,
        largest: Some(Percent(5)),
    }];
    sample.runners = vec![runner()];
    let gap = |object: &str| Gap {
        object: object.into(),
        why: GapReason::Failed,
        detail: "cannot read acme-web".into(),
    };
    sample.gaps = vec![gap("/acme.slice/acme-web.service"), gap("acme-probe")];
    let kernel = sample.kernel.get_or_insert_default();
    let path = |n: u64| CgroupPath(format!("/acme.slice/acme-{n}.scope").into());
    kernel.short_lived =
        (0..limit).map(|n| ShortLived { id: CgroupId(n), path: path(n) }).collect();
    kernel.groups = std::mem::take(&mut kernel.groups).into_iter().take(5).collect();
    sample
}
