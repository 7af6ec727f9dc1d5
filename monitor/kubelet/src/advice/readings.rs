//! What daemons used in one sample: the kubelet with its runtime, and all else that is no pod.

use std::collections::BTreeMap;

use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::names;
use isobar_core::model::pod::Place;
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Enforcement::{KubeReserved, SystemReserved};
use isobar_core::model::settings::{Node, WorkloadRule};
use isobar_core::model::snapshot::working_set;
use isobar_core::model::units::{Bytes, MilliCpu, Nanos};

use crate::daemons::{self, Daemon};

/// What one group used.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// `None` if the memory of none of its cgroups was read.
    pub(super) memory: Option<Bytes>,
    /// `None` without two readings.
    pub(super) cpu: Option<MilliCpu>,
    pub(super) cgroups: Vec<Part>,
}

/// A cgroup of a group, without what belongs to another group within it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) path: CgroupPath,
    pub(super) memory: Option<Bytes>,
    pub(super) cpu: Option<MilliCpu>,
}

/// The cgroup of all pods, with the CPU that it used; `None` without two readings.
pub(super) type AllPods<'a> = Option<(&'a Cgroup, Option<MilliCpu>)>;

/// What each group used in one sample.
pub(super) struct All<'a> {
    /// What `kubeReserved` is for.
    pub(super) kube: Used,
    pub(super) kubelet: Used,
    pub(super) runtime: Used,
    pub(super) system: Used,
    pub(super) pods: AllPods<'a>,
}

#[derive(Debug, Default)]
pub(super) struct Readings {
    node: Node,
    /// Which cgroups outside pods are work, and nothing of the system.
    workloads: Vec<WorkloadRule>,
    /// CPU time at the sample before.
    before: BTreeMap<CgroupId, Nanos>,
    /// A cgroup of the kubelet or its runtime, and the cgroup of the system around it, whose figures are
    /// told without it.
    pub(super) left_out: Option<(CgroupPath, CgroupPath)>,
    /// The same of one that is counted as a part of `systemReservedCgroup` around it, and not as the
    /// kubelet's: node allocatable is less by both reservations.
    pub(super) counted_in: Option<(CgroupPath, CgroupPath)>,
}

impl Readings {
    pub(super) fn new(node: Node, workloads: Vec<WorkloadRule>) -> Self {
        Self { node, workloads, ..Self::default() }
    }

    /// What each group used. `passed` is the time since the sample before.
    pub(super) fn of<'a>(&mut self, sample: &'a Sample, passed: Option<Nanos>) -> All<'a> {
        let places = sample.places();
        let node = names::as_spelled(&self.node, |path| sample.kubepods.as_ref() == Some(path));
        let of_kube = reserved(&node, &node.kube_reserved_cgroup, sample);
        let of_system = reserved(&node, &node.system_reserved_cgroup, sample);
        let is_kube = |path: &CgroupPath| match &of_kube {
            Some(kube) => path == kube,
            None => daemons::named(path).is_some(),
        };
        let (mut kube, mut top, mut pods) = (Vec::new(), Vec::new(), Vec::new());
        for (id, cgroup) in all_cgroups(sample) {
            let path = &cgroup.path;
            if places.place(path) == Place::Kubepods {
                pods.push((id, cgroup));
            } else if is_kube(path) && !matches!(places.place(path), Place::Container { .. }) {
                kube.push((id, cgroup));
            }
            if path.segments().count() == 1 {
                top.push((id, cgroup));
            }
        }
        let mut kube = outermost(kube);
        let is_work = |(_, one): &(CgroupId, &Cgroup)| {
            let is_other = places.place(&one.path) == Place::Other && !is_kube(&one.path);
            is_other && self.workloads.iter().any(|rule| rule.path.fits(&one.path))
        };
        let mut work = outermost(all_cgroups(sample).filter(is_work).collect());
        top.retain(|(_, cgroup)| {
            let path = &cgroup.path;
            !pods.iter().chain(&kube).chain(&work).any(|(_, other)| other.path == *path)
        });
        // The limit of a reserved cgroup is one of all in it, the kubelet's services too.
        let is_system = |one: &&(CgroupId, &Cgroup)| Some(&one.1.path) == of_system.as_ref();
        let is_both = kube.iter().any(|one| is_system(&one));
        let mut inner = match all_cgroups(sample).find(|one| is_system(&one)) {
            // Where one cgroup has both names, it is counted once.
            Some(_) if is_both => {
                top.clear();
                self.left_out = None;
                pods.clone()
            }
            Some(system) => {
                let top_path = &system.1.path;
                let has_limit = node.enforce.contains(&KubeReserved);
                kube.retain(|(_, one)| {
                    let is_counted = !has_limit && one.path.is_within(top_path);
                    if is_counted {
                        self.counted_in = Some((one.path.clone(), top_path.clone()));
                    }
                    !is_counted
                });
                top = vec![system];
                self.left_out = None;
                // So is what workloads in it use.
                let has_limit = node.enforce.contains(&SystemReserved);
                work.retain(|(_, one)| !has_limit || !one.path.is_within(top_path));
                pods.clone()
            }
            None => {
                let around = kube.iter().find_map(|(_, one)| {
                    let above = top.iter().find(|(_, above)| one.path.is_within(&above.path));
                    Some((one.path.clone(), above?.1.path.clone()))
                });
                self.left_out = around.or_else(|| self.left_out.take());
                pods.iter().chain(&kube).copied().collect()
            }
        };
        inner.extend(&work);
        let used = |group: &[(CgroupId, &Cgroup)], within: &[(CgroupId, &Cgroup)]| Used {
            memory: memory(group, within),
            cpu: passed.and_then(|passed| self.cpu(group, within, passed)),
            cgroups: group
                .iter()
                .map(|(id, one)| Part {
                    path: one.path.clone(),
                    memory: memory(&[(*id, *one)], within),
                    cpu: passed.and_then(|passed| self.cpu(&[(*id, *one)], within, passed)),
                })
                .collect(),
        };
        let of_pods = pods.first().map(|(id, one)| {
            (*one, passed.and_then(|passed| self.cpu(&[(*id, *one)], &[], passed)))
        });
        let [kubelet, runtime] = [Daemon::Kubelet, Daemon::Runtime].map(|daemon| {
            let all = all_cgroups(sample).filter(|(_, one)| {
                let is_container = matches!(places.place(&one.path), Place::Container { .. });
                daemons::named(&one.path) == Some(daemon) && !is_container
            });
            outermost(all.collect())
        });
        let all_used = All {
            kube: used(&kube, &pods),
            kubelet: used(&kubelet, &pods),
            runtime: used(&runtime, &pods),
            system: used(&top, &inner),
            pods: of_pods,
        };
        let all = [&kube, &kubelet, &runtime, &top, &pods, &work].into_iter().flatten();
        self.before = all.filter_map(|(id, one)| Some((*id, one.cpu.usage?.into()))).collect();
        all_used
    }

    /// CPU of a group, without that of cgroups within it that belong to another.
    fn cpu(
        &self,
        group: &[(CgroupId, &Cgroup)],
        within: &[(CgroupId, &Cgroup)],
        passed: Nanos,
    ) -> Option<MilliCpu> {
        let used = |(id, one): &(CgroupId, &Cgroup)| {
            let before = self.before.get(id)?;
            Some(Nanos::from(one.cpu.usage?).since(*before))
        };
        let sum = |all: &mut dyn Iterator<Item = &(CgroupId, &Cgroup)>| {
            all.filter_map(used).reduce(Nanos::plus)
        };
        let all = sum(&mut group.iter())?;
        let others = sum(&mut inside(group, within)).unwrap_or_default();
        Some(MilliCpu::rate(all.since(others), passed))
    }
}

/// Without those that lie within another one, which are counted there.
fn outermost(all: Vec<(CgroupId, &Cgroup)>) -> Vec<(CgroupId, &Cgroup)> {
    let is_inner = |path: &CgroupPath| {
        all.iter().any(|(_, above)| above.path != *path && path.is_within(&above.path))
    };
    all.iter().filter(|(_, one)| !is_inner(&one.path)).copied().collect()
}

fn all_cgroups(sample: &Sample) -> impl Iterator<Item = (CgroupId, &Cgroup)> {
    sample.cgroups.iter().map(|(id, cgroup)| (*id, &**cgroup))
}

/// The cgroup that `kubeReservedCgroup` or `systemReservedCgroup` names: as the kubelet understands the
/// name, or else as it is written. `None` if it names none.
fn reserved(node: &Node, name: &str, sample: &Sample) -> Option<CgroupPath> {
    let understood = names::reserved(node.cgroup_driver, name)?;
    let written = CgroupPath(name.into());
    let is_there = |path: &CgroupPath| all_cgroups(sample).any(|(_, one)| one.path == *path);
    Some(if is_there(&understood) || !is_there(&written) { understood } else { written })
}

fn memory(group: &[(CgroupId, &Cgroup)], within: &[(CgroupId, &Cgroup)]) -> Option<Bytes> {
    let sum = |all: &mut dyn Iterator<Item = &(CgroupId, &Cgroup)>| {
        all.filter_map(|(_, one)| working_set(one)).map(|bytes| bytes.0).reduce(u64::saturating_add)
    };
    let all = sum(&mut group.iter())?;
    Some(Bytes(all.saturating_sub(sum(&mut inside(group, within)).unwrap_or(0))))
}

/// Those of `within` that lie below a cgroup of `group`.
fn inside<'a, 'b>(
    group: &'a [(CgroupId, &'b Cgroup)],
    within: &'a [(CgroupId, &'b Cgroup)],
) -> impl Iterator<Item = &'a (CgroupId, &'b Cgroup)> {
    within.iter().filter(|(_, one)| {
        group.iter().any(|(_, above)| one.path != above.path && one.path.is_within(&above.path))
    })
}
