//! What the agent would read on a generated node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Kib, Node, Party, nanos};
use crate::model::cgroup::{
    Cgroup, CgroupId, CgroupPath, Limit, MemoryEvents, MemoryFiles, MemoryStat,
};
use crate::model::decision::StepKind;
use crate::model::node::Meminfo;
use crate::model::psi::{Line, Pressure};
use crate::model::quantity::Quantity;
use crate::model::sample::{Moment, Sample};
use crate::model::units::Bytes;
use crate::model::workload::{Container, Owner, Pod as Told, Resources};

impl Node {
    pub(in crate::policy::tests) fn sample(&self, tick: u64, now: u64) -> Sample {
        let group = |path: &str, anon: Kib, shmem: Kib, max: Limit| {
            let stat = MemoryStat {
                anon: bytes(anon),
                file: bytes(shmem),
                shmem: bytes(shmem),
                ..MemoryStat::default()
            };
            let memory = MemoryFiles {
                current: Some(bytes(anon + shmem)),
                max: Some(max),
                stat: Some(stat),
                ..MemoryFiles::default()
            };
            // A pod's sandbox, and one process of each, with some threads.
            let n = if path.contains("/pod") { 2 } else { 1 };
            let n = if anon + shmem > 0 { n } else { 0 };
            let (path, pids_current, n_procs) = (CgroupPath(path.into()), Some(8 * n), Some(n));
            Cgroup { path, memory, pids_current, n_procs, ..Cgroup::default() }
        };
        let in_pods = |party: &&Party| party.class.is_some();
        let sum = |all: &dyn Fn(&&Party) -> bool| {
            self.parties.iter().filter(|party| all(party)).map(|party| party.held).sum::<Kib>()
        };
        let pods = sum(&in_pods);
        let used = self.base + self.parties.iter().map(|party| party.held).sum::<Kib>();
        let limit = |kib: Kib| Limit::At(bytes(kib).0);
        let mut cgroups = vec![
            group("/", used, 0, Limit::Max),
            group("/kubepods", pods, 0, limit(self.pods_limit)),
            group("/kubepods/besteffort", 0, 0, Limit::Max),
            group("/kubepods/burstable", 0, 0, Limit::Max),
            group("/system.slice", self.base + used - self.base - pods, 0, Limit::Max),
            group("/system.slice/kubelet.service", self.base, 0, Limit::Max),
        ];
        for party in &self.parties {
            let (anon, shmem) = if party.is_shared { (0, party.held) } else { (party.held, 0) };
            let max = party.limit.map_or(Limit::Max, limit);
            let mut own = group(&party.path, anon, shmem, max);
            let oom_kill = party.n_oom_kills;
            own.n_procs =
                own.n_procs.map(|n| n + party.n_alike.unsigned_abs() - 1 + party.n_helpers);
            own.memory.events = Some(MemoryEvents { oom_kill, ..MemoryEvents::default() });
            cgroups.push(own);
        }
        let ids: BTreeMap<String, CgroupId> = cgroups
            .iter()
            .zip(1..)
            .map(|(group, id)| (group.path.0.to_string(), CgroupId(id)))
            .collect();
        for group in &mut cgroups {
            let above = group.path.0.rsplit_once('/').map(|(above, _)| above);
            group.parent = above
                .filter(|_| !group.path.is_root())
                .and_then(|above| ids.get(if above.is_empty() { "/" } else { above }).copied());
        }
        let first = cgroups.len() - self.parties.len();
        let is_there = |at: usize| at.checked_sub(first).is_none_or(|at| !self.parties[at].is_gone);
        let available = bytes(self.available());
        let memory =
            Meminfo { total: bytes(self.memory), free: available, available, ..Meminfo::default() };
        let calm = Pressure { some: Some(Line::default()), full: Some(Line::default()) };
        let mut sample = Sample {
            tick,
            at: Moment { boot: nanos(now), wall: nanos(now) },
            cgroups: cgroups
                .into_iter()
                .enumerate()
                .filter(|(at, _)| is_there(*at))
                .map(|(at, group)| (CgroupId(at as u64 + 1), Arc::new(group)))
                .collect(),
            pods: Some(Arc::clone(self.told.get_or_init(|| Arc::new(self.tell())))),
            in_force: self.in_force.clone(),
            available_steps: Some(
                StepKind::ALL
                    .into_iter()
                    .filter(|step| self.has_api || *step != StepKind::Evict)
                    .collect(),
            ),
            ..Sample::default()
        };
        sample.node.memory = Some(memory);
        sample.node.pressure.memory = Some(calm);
        sample
    }

    /// What the API tells of its pods.
    fn tell(&self) -> BTreeMap<String, Told> {
        let pods = self.parties.iter().enumerate();
        let pods = pods.filter(|(_, party)| party.class.is_some() && !party.is_gone);
        let told = pods.map(|(at, party)| {
            let request = Quantity::bytes(bytes(party.request).0);
            let resources = Resources {
                requests: [("memory".to_owned(), request)].into(),
                ..Resources::default()
            };
            let uid = at.to_string();
            let owner = party.owner.map(|name| Owner {
                kind: "ReplicaSet".into(),
                name: name.into(),
                uid: name.into(),
            });
            let pod = Told {
                uid: uid.clone(),
                name: uid.clone(),
                qos_class: party.class,
                owner,
                priority: party.is_critical.then_some(2_000_000_000),
                containers: vec![Container { resources, ..Container::default() }],
                ..Told::default()
            };
            (uid, pod)
        });
        told.collect()
    }
}

fn bytes(kib: Kib) -> Bytes {
    Bytes(u64::try_from(kib.max(0)).unwrap() * 1024)
}
