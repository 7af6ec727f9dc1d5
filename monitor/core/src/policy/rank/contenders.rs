//! The pods of a node as contenders: who they are from the API, as far as anybody told; what they
//! use from their cgroups; whom they harm from what was measured.

mod service;

use std::collections::{BTreeMap, BTreeSet};

use super::Node;
use super::contender::Contender;
use super::harm::{Entry, HarmStanding};
use super::protected::Protected;
use super::purpose::Purpose;
use crate::model::cgroup::{Cgroup, CgroupId, Preference};
use crate::model::decision::{Order, Outsider, SparedReason, StepKind};
use crate::model::pod::{Place, QosClass};
use crate::model::quantity::Quantity;
use crate::model::request;
use crate::model::sample::Sample;
use crate::model::snapshot::{Scope, Snapshot, working_set};
use crate::model::threshold::Resource;
use crate::model::units::{Bytes, Nanos};
use crate::model::workload::{Pod, by_cgroup_uid};
use crate::policy::takers::{Counts, Lost, counted, freed_by_end};
use crate::policy::workload::Workloads;

/// As many outsiders as are named.
const N_OUTSIDERS: usize = 3;

/// One contender for each pod that has a cgroup, and for each workload of the configuration; a pod
/// without one runs nothing and could give nothing back. (The kubelet, which goes by its pods,
/// would rank it first.)
///
/// What is not known is `None`, never 0: a request without the API (but a BestEffort pod has none
/// by definition), use without the controller's files, disk use without a source of it.
pub(super) fn of_node(
    node: Node<'_>,
    purpose: Purpose,
    (lost, counts): (Option<&Lost>, Counts),
    protected: &Protected<'_>,
) -> Vec<Contender> {
    let Node { sample, snapshot, harm, settings, .. } = node;
    let told = sample.pods.as_ref().map(by_cgroup_uid).unwrap_or_default();
    let resource = purpose.resource;
    let (by_party, order) = (harm.measured(resource), settings.ranking.order);
    let protected_pods = protected.pods();
    // With its pod, shared memory ends too.
    let steps = sample.available_steps.as_ref();
    let can_evict = steps.is_some_and(|steps| steps.contains(&StepKind::Evict));
    let gone_into = |(uid, uses): (&str, Uses<'_>)| {
        let pod = told.get(uid).copied();
        let class = pod.and_then(|pod| pod.qos_class).unwrap_or(uses.class);
        let entry = by_party.map(|by_party| by_party.pods.get(uid).copied().unwrap_or_default());
        let (harm, part) = (entry.map(|entry| entry.harm_of(resource)), part(entry, resource));
        let known = pod.map(|pod| Contender::of(pod, class, &settings.ranking));
        let contender = known.unwrap_or_else(|| Contender::unknown(uid, class));
        let is_new = || uses.id.is_some_and(|id| node.takers.is_new(id));
        let is_not_yet_named = sample.awaits_names && pod.is_none() && is_new();
        let not_yet_named = is_not_yet_named.then_some(SparedReason::NotYetNamed);
        let spared =
            contender.spared.or_else(|| protected_pods.get(uid).copied()).or(not_yet_named);
        let usage = match resource {
            Resource::Io => entry.map(|entry| Quantity::bytes(entry.taken)),
            Resource::Storage | Resource::Inodes => on_disk(sample, purpose, uid, pod),
            Resource::Cpu => cpu_usage(uses.of(resource, order), entry, order),
            resource => uses.of(resource, order),
        };
        let files = uses.pod.filter(|_| resource == Resource::Memory);
        let files = files.and_then(|scope| scope.files.as_deref());
        let memory = |files: &Cgroup| {
            let freed = freed_by_end(files, counts)?;
            let shared = files.memory.stat.filter(|_| can_evict && pod.is_some());
            Some(freed.saturating_add(shared.map_or(0, |stat| stat.shmem.0)))
        };
        Contender {
            // Its cgroup is named after this one, whatever the API's picture of it is called.
            uid: uid.into(),
            request: request(pod, class, resource),
            usage,
            holds: files.and_then(|files| counted(files, counts)),
            harm,
            part,
            taken: lost.zip(uses.id).map(|(lost, id)| lost.taken_by(id)),
            lasting: lost.zip(uses.id).map(|(lost, id)| lost.lasting_of(id)),
            frees: match resource {
                Resource::Memory => files.and_then(memory),
                _ => usage.map(Quantity::to_u64),
            },
            spared,
            ..contender
        }
        .preferred(uses.preference())
    };
    let services = Workloads::of(&settings.workloads, snapshot);
    let services = services.each().filter_map(|(id, rule)| {
        let outside = purpose.is_pods_limit.then_some(SparedReason::OutsideLimit);
        let spared = protected.why_workload(id, rule).or(outside);
        let scope = snapshot.scopes.get(&id)?;
        let contender = service::contender(scope, rule, by_party, (resource, order));
        let spared = spared.or(contender.spared);
        let taken = lost.map(|lost| lost.taken_by(id));
        let lasting = lost.map(|lost| lost.lasting_of(id));
        let memory = || freed_by_end(scope.files.as_ref()?, counts);
        let frees = match resource {
            Resource::Memory => memory(),
            _ => contender.usage.map(Quantity::to_u64),
        };
        Some(Contender { spared, taken, lasting, frees, ..contender })
    });
    // Of one that was not read in this tick nothing can be compared.
    let is_read = |uses: &Uses<'_>| {
        let files = uses.pod.and_then(|pod| pod.files.as_ref());
        files.is_none_or(|files| !files.is_unread())
    };
    let pods = uses(snapshot).into_iter().filter(|(_, uses)| is_read(uses));
    pods.map(gone_into).chain(services).collect()
}

/// Those outside pods that do most of the harm and are no workloads: not to be evicted, but to be
/// named.
pub(super) fn outsiders(
    standing: &HarmStanding,
    purpose: Purpose,
    contenders: &[Contender],
) -> Vec<Outsider> {
    let resource = purpose.resource;
    let Some(by_party) = standing.measured(resource) else { return Vec::new() };
    let ranked = contenders.iter().map(|contender| contender.uid.as_str());
    let ranked: BTreeSet<&str> = ranked.filter(|uid| uid.starts_with('/')).collect();
    by_party.outsiders(N_OUTSIDERS, resource, |path| !ranked.contains(&*path.0))
}

/// Its part of all waiting for disks.
fn part(entry: Option<Entry>, resource: Resource) -> Option<Nanos> {
    entry.filter(|_| resource == Resource::Io).map(Entry::part)
}

/// CPU time used. In the order `cause` it is averaged as harm is: one tick does not tell whether a pod
/// that runs in bursts exceeds what it requests.
fn cpu_usage(now: Option<Quantity>, entry: Option<Entry>, order: Order) -> Option<Quantity> {
    let average = entry.filter(|_| order == Order::Cause).map(Entry::cpu_usage);
    now.map(|now| average.unwrap_or(now))
}

/// What a pod has of what the signal counts, on the file system that is short.
fn on_disk(sample: &Sample, purpose: Purpose, uid: &str, pod: Option<&Pod>) -> Option<Quantity> {
    let disk = sample.pod_disks.as_ref()?.pods.get(uid)?;
    let layout = sample.node.filesystems.layout();
    disk.counted(purpose.signal?, layout, pod).of(purpose.resource)
}

fn request(pod: Option<&Pod>, class: QosClass, resource: Resource) -> Option<Quantity> {
    let name = match resource {
        Resource::Memory => "memory",
        Resource::Cpu => "cpu",
        Resource::Storage | Resource::Inodes => "ephemeral-storage",
        Resource::Pids | Resource::Io => return None,
    };
    match pod {
        Some(pod) => Some(request::request(pod, name)),
        // By definition it asks for no memory and no CPU. Of disk space it may.
        None => (class == QosClass::BestEffort
            && matches!(resource, Resource::Memory | Resource::Cpu))
        .then_some(Quantity::ZERO),
    }
}

/// What one pod's cgroups said.
struct Uses<'a> {
    class: QosClass,
    /// The pod's cgroup.
    id: Option<CgroupId>,
    pod: Option<&'a Scope>,
    containers: Vec<&'a Scope>,
}

/// By pod uid.
fn uses(snapshot: &Snapshot) -> BTreeMap<&str, Uses<'_>> {
    let mut uses = BTreeMap::<&str, Uses<'_>>::new();
    for (id, scope) in &snapshot.scopes {
        let (uid, class, is_pod) = match &scope.place {
            Place::Pod { uid, class } => (uid, *class, true),
            Place::Container { pod, class, .. } => (pod, *class, false),
            _ => continue,
        };
        let new = Uses { class, id: None, pod: None, containers: Vec::new() };
        let uses = uses.entry(uid).or_insert(new);
        match is_pod {
            true => (uses.id, uses.pod) = (Some(*id), Some(scope)),
            false => uses.containers.push(scope),
        }
    }
    uses
}

impl Uses<'_> {
    fn of(&self, resource: Resource, order: Order) -> Option<Quantity> {
        match resource {
            Resource::Memory => {
                let bytes = |Bytes(n)| Quantity::bytes(n);
                self.whole(|scope| scope.files.as_deref().and_then(working_set).map(bytes))
            }
            Resource::Cpu => self.whole(|scope| scope.cpu_usage.map(|cpu| Quantity::milli(cpu.0))),
            // What runs out is threads; the kubelet counts processes all the same.
            Resource::Pids if order != Order::Kubelet => self.whole(|scope| {
                scope.files.as_ref().and_then(|files| files.pids_current).map(Quantity::count)
            }),
            Resource::Pids => {
                let scopes = self.pod.iter().chain(&self.containers);
                let n = scopes.filter_map(|scope| scope.files.as_ref()?.n_procs);
                n.map(Quantity::count).reduce(Quantity::plus)
            }
            // Not by cgroup.
            Resource::Storage | Resource::Inodes | Resource::Io => None,
        }
    }

    /// The most careful of what the pod's and its containers' own cgroups say: a cgroup that a
    /// container made for itself has no say.
    fn preference(&self) -> Option<Preference> {
        let said = |scope: &Scope| scope.files.as_ref().and_then(|files| files.preference);
        let containers = self.containers.iter().filter(|scope| said(scope).is_some());
        let containers = containers.filter(|scope| self.is_outermost(scope));
        self.pod.iter().chain(containers).filter_map(|scope| said(scope)).max()
    }

    /// The pod's own figure, or the sum of its containers'.
    fn whole(&self, of: impl Fn(&Scope) -> Option<Quantity>) -> Option<Quantity> {
        self.pod.and_then(&of).or_else(|| {
            let outermost = self.containers.iter().filter(|scope| self.is_outermost(scope));
            outermost.filter_map(|scope| of(scope)).reduce(Quantity::plus)
        })
    }

    /// A container's own cgroup; one that the container made below itself is part of it.
    fn is_outermost(&self, scope: &Scope) -> bool {
        let mut others = self.containers.iter().filter(|other| other.path != scope.path);
        !others.any(|other| scope.path.is_within(&other.path))
    }
}

#[cfg(test)]
mod tests;
