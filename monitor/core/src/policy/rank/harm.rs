//! Who makes others wait, and for how long: an average for each pod and each cgroup outside pods.
//! In: one interval. Out: a [`HarmStanding`], rates per second, averaged over [`MEMORY`] in
//! integers.
//!
//! For a CPU, sufferer and aggressor are measured. For memory and disks nothing tells whose page
//! or request a task waited for, so all waiting is divided by the share that each party took in
//! the interval: memory charged, bytes and requests of disks.

mod entry;
mod squeezed;
mod taken;
mod there;

use std::borrow::{Borrow, Cow};
use std::cell::LazyCell;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::contender::Harm;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::decision::{Outsider, Target};
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::snapshot::{Blame, Scope, Snapshot};
use crate::model::stall::Coverage;
use crate::model::threshold::Resource;
use crate::model::units::{Nanos, scale};
use crate::policy::entitled::Entitled;
use crate::policy::scope;
use crate::policy::workload::{Parties, Workloads, above};

pub use entry::Entry;
use squeezed::Squeezed;
use taken::Share;
use there::There;

/// Time constant of the average: after ten seconds about 40 % of an old value is left.
const MEMORY: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Averages of harm, from tick to tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HarmStanding {
    /// Waits for a CPU.
    pub cpu: HarmByParty,
    /// Memory stalls because the node or its allocatable is short.
    pub memory: HarmByParty,
    /// IO wait.
    pub io: HarmByParty,
}

/// Harm of one kind, by aggressor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HarmByParty {
    /// Without a measurement nothing is known: an absent entry is not 0.
    pub is_measured: bool,
    /// Not measured now: it was before, or of no party it is known what it took.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
    /// By pod uid. A missing pod causes none.
    pub pods: BTreeMap<String, Entry>,
    /// By path, for cgroups outside pods.
    pub outside: BTreeMap<CgroupPath, Entry>,
}

/// Who causes harm: a pod, or a cgroup outside pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party<'a> {
    /// By uid.
    Pod(Cow<'a, str>),
    /// By path; typically a system service.
    Outside(Cow<'a, CgroupPath>),
}

/// Totals of one interval by aggressor, not yet per second.
#[derive(Debug, Default)]
pub(super) struct Doings<'a> {
    pods: BTreeMap<Cow<'a, str>, Entry>,
    outside: BTreeMap<Cow<'a, CgroupPath>, Entry>,
}

impl<'a> Doings<'a> {
    fn of(&mut self, party: Party<'a>) -> &mut Entry {
        match party {
            Party::Pod(uid) => self.pods.entry(uid).or_default(),
            Party::Outside(path) => self.outside.entry(path).or_default(),
        }
    }
}

impl HarmStanding {
    /// Adds the interval from `before` to `sample`, which `snapshot` compares. A workload includes
    /// all its descendants.
    pub fn update(
        &mut self,
        before: Option<&Sample>,
        sample: &Sample,
        snapshot: &Snapshot,
        workloads: &Workloads<'_>,
        parties: &Parties<'_>,
    ) {
        let Some(before) = before.filter(|_| snapshot.interval > Nanos(0)) else { return };
        let covered = |of: fn(&Coverage) -> bool| {
            [before, sample].iter().all(|s| s.kernel.as_ref().is_some_and(|k| of(&k.covers)))
        };
        let waits = covered(|covers| covers.waits);
        let memory = covered(|covers| covers.memory);
        let tree = Tree::new(snapshot, workloads);
        let there = LazyCell::new(|| There::of(&tree));
        let interval = snapshot.interval;
        self.cpu.add(
            waits.then(|| tree.run_queue(&Squeezed::of(sample, Resource::Cpu))),
            &there,
            interval,
        );
        let share = memory.then(|| Share::of_memory(&tree, parties, before).doings());
        self.memory.add(share, &there, interval);
        let share = waits
            .then(|| Share::of_io(&tree, parties, before, &Squeezed::of(sample, Resource::Io)));
        // Where no disk use is known, it was not measured either, and it is not said that there is none.
        let is_unknown = share.as_ref().is_some_and(Option::is_none);
        let share = share.flatten();
        let share = share.map(|share| share.averaged(&self.io, &there, interval).doings());
        self.io.add(share, &there, interval);
        self.io.is_paused |= is_unknown;
    }

    /// Harm for want of `resource`; `None` if no task waits for it, or if it is not measured.
    pub fn measured(&self, resource: Resource) -> Option<&HarmByParty> {
        self.of(resource).filter(|harm| harm.is_measured)
    }

    /// True if harm for want of `resource` was measured before, but is not now, or if of no party it is
    /// known what it took.
    pub fn is_paused(&self, resource: Resource) -> bool {
        self.of(resource).is_some_and(|harm| harm.is_paused)
    }

    /// For how long others waited lately for a CPU or a disk because of a target with these uids, and would
    /// not if it were squeezed; `None` for other resources, and if it is not measured.
    pub(in crate::policy) fn in_reach(&self, resource: Resource, target: &Target) -> Option<Nanos> {
        let harm = match resource {
            Resource::Cpu | Resource::Io => self.measured(resource)?,
            _ => return None,
        };
        Some(target.uids().map(|uid| harm.late(uid)).fold(Nanos(0), Nanos::plus))
    }

    fn of(&self, resource: Resource) -> Option<&HarmByParty> {
        match resource {
            Resource::Cpu => Some(&self.cpu),
            Resource::Memory => Some(&self.memory),
            Resource::Io => Some(&self.io),
            Resource::Storage | Resource::Inodes | Resource::Pids => None,
        }
    }
}

impl HarmByParty {
    /// The `n` worst aggressors outside pods among those that `counts` picks; at least a
    /// millisecond per second.
    pub fn outsiders(
        &self,
        n: usize,
        resource: Resource,
        counts: impl Fn(&CgroupPath) -> bool,
    ) -> Vec<Outsider> {
        let outside = self.outside.iter().filter(|(path, _)| counts(path));
        let outside = outside.map(|(path, entry)| (path, entry.harm_of(resource)));
        let harmful = outside.filter(|(_, harm)| harm.millis() > 0);
        let mut all: Vec<Outsider> = harmful
            .map(|(path, harm)| Outsider { path: path.clone(), harm: harm.others })
            .collect();
        // A stable sort: equal ones stay in order of their paths.
        all.sort_by_key(|outsider| std::cmp::Reverse(outsider.harm));
        all.truncate(n);
        all
    }

    /// The largest part of all waiting that a party has.
    pub(super) fn largest_part(&self) -> Nanos {
        let all = self.pods.values().chain(self.outside.values());
        all.map(|entry| entry.part()).max().unwrap_or_default()
    }

    /// For how long others waited lately because of a pod, by its uid, or a workload, by its path.
    fn late(&self, uid: &str) -> Nanos {
        let outside = || self.outside.iter().find(|(path, _)| *path.0 == *uid);
        let entry = self.pods.get(uid).or_else(|| Some(outside()?.1));
        entry.map_or(Nanos(0), |entry| entry.late)
    }

    /// What the party does that a cgroup outside pods is or belongs to.
    pub(super) fn of_outside(&self, path: &CgroupPath) -> Option<&Entry> {
        let above = path.0.match_indices('/').map(|(at, _)| at).skip(1).chain([path.0.len()]);
        above.filter_map(|at| self.outside.get(&CgroupPath(path.0[..at].into()))).last()
    }

    /// The time constant of averages. The first interval is the average.
    fn memory(&self) -> Nanos {
        if self.is_measured { MEMORY } else { Nanos(0) }
    }

    /// The average, per second, after an interval with `now`.
    fn average(&self, rate: u64, now: u64, interval: Nanos) -> u64 {
        entry::blend_over(self.memory(), interval, rate, now)
    }

    /// Adds an interval; `None` if it was not measured. Then old rates are dropped: harm done a
    /// while ago is no reason to evict now.
    fn add(&mut self, doings: Option<Doings<'_>>, there: &There<'_>, interval: Nanos) {
        let Some(Doings { pods, outside }) = doings else {
            let is_paused = self.is_measured || self.is_paused;
            *self = Self { is_paused, ..Self::default() };
            return;
        };
        self.is_paused = false;
        let memory = self.memory();
        self.is_measured = true;
        let blend = |entry: Entry, now| entry.blend(now, interval, memory);
        blend_all(&mut self.pods, pods, |uid| there.has_pod(uid), blend);
        blend_all(&mut self.outside, outside, |path| there.has_outside(path), blend);
    }
}

/// Blends what each one did `now` into its entry. Drops those that are gone or did nothing.
fn blend_all<K, B>(
    entries: &mut BTreeMap<K, Entry>,
    mut now: BTreeMap<Cow<'_, B>, Entry>,
    is_there: impl Fn(&B) -> bool,
    blend: impl Fn(Entry, Entry) -> Entry,
) where
    K: Borrow<B> + Ord,
    B: ToOwned<Owned = K> + Ord + ?Sized,
{
    entries.retain(|key, entry| {
        let key = (*key).borrow();
        if !is_there(key) {
            return false;
        }
        *entry = blend(*entry, now.remove(key).unwrap_or_default());
        !entry.is_nothing()
    });
    let new = now.into_iter().map(|(key, now)| (key, blend(Entry::default(), now)));
    let new = new.filter(|(_, entry)| !entry.is_nothing());
    entries.extend(new.map(|(key, entry)| (key.into_owned(), entry)));
}

/// The cgroups of a snapshot, and the party that each belongs to.
pub(super) struct Tree<'a> {
    parties: BTreeMap<CgroupId, Party<'a>>,
    snapshot: &'a Snapshot,
    workloads: &'a Workloads<'a>,
    /// The cgroup of all pods.
    pods: Option<&'a CgroupPath>,
}

impl<'a> Tree<'a> {
    fn new(snapshot: &'a Snapshot, workloads: &'a Workloads<'a>) -> Self {
        let scopes = snapshot.scopes.iter();
        let party = |(id, scope): (&CgroupId, &'a Scope)| {
            (*id, Self::party(snapshot, workloads, *id, scope))
        };
        let pods = scope::kubepods(snapshot).map(|(_, pods)| &pods.path);
        Self { parties: scopes.map(party).collect(), snapshot, workloads, pods }
    }

    /// The pod or workload that the cgroup is or belongs to, else the outermost cgroup above it that is
    /// no slice: a service with many cgroups is one party. CRI-O's monitor beside the containers belongs
    /// to the pod.
    fn party(
        snapshot: &'a Snapshot,
        workloads: &Workloads<'_>,
        id: CgroupId,
        own: &'a Scope,
    ) -> Party<'a> {
        let up = above(id, snapshot).map_while(|id| Some((id, snapshot.scopes.get(&id)?)));
        let mut unit = &own.path;
        for (id, scope) in std::iter::once((id, own)).chain(up) {
            match &scope.place {
                Place::Pod { uid, .. } | Place::Container { pod: uid, .. } => {
                    return Party::Pod(Cow::Borrowed(uid));
                }
                Place::Other if workloads.has(id) => {
                    return Party::Outside(Cow::Borrowed(&scope.path));
                }
                Place::Other if !scope.path.is_slice() => unit = &scope.path,
                Place::Other => {}
                Place::Node | Place::Kubepods | Place::Qos { .. } => break,
            }
        }
        Party::Outside(Cow::Borrowed(unit))
    }

    /// The outermost cgroup of a path that is no slice, as of one that is there.
    fn unit(path: &CgroupPath) -> CgroupPath {
        let ends = path.0.match_indices('/').map(|(at, _)| at).skip(1);
        let mut all = ends.map(|at| CgroupPath(path.0[..at].into()));
        all.find(|above| !above.is_slice()).unwrap_or_else(|| path.clone())
    }

    fn of(&self, id: CgroupId, path: Option<&'a CgroupPath>) -> Option<Party<'a>> {
        // Gone since: what lay below the cgroup of all pods was a pod's.
        let is_among_pods = |path: &CgroupPath| self.pods.is_some_and(|pods| path.is_within(pods));
        let by_path = || match Place::of(path?) {
            Place::Pod { uid, .. } | Place::Container { pod: uid, .. } if is_among_pods(path?) => {
                Some(Party::Pod(Cow::Owned(uid.as_ref().into())))
            }
            _ => Some(Party::Outside(Cow::Owned(Self::unit(path?)))),
        };
        self.parties.get(&id).cloned().or_else(by_path)
    }

    /// Waits for a CPU. The idle task is no aggressor: that time is the latency of a wake-up. Nor is who
    /// ran by right, while the one that waited had more than its part. Time throttled by its own quota is
    /// harm that a pod does to itself, and so is what a party waits that isobar squeezed.
    fn run_queue(&self, squeezed: &Squeezed<'_>) -> Doings<'a> {
        let snapshot = self.snapshot;
        // By cgroup first: there are many more pairs than aggressors.
        let (mut aggressors, mut entitled) = (BTreeMap::new(), Entitled::new(snapshot));
        let pairs = snapshot.aggressions.iter().filter(|pair| pair.aggressor != CgroupId(0));
        for Blame { victim, victim_path, aggressor, aggressor_path, time, .. } in pairs {
            let by = || (self.of(*aggressor, aggressor_path.as_ref()), Entry::default());
            let (by, Entry { harm, late, .. }) = aggressors.entry(*aggressor).or_insert_with(by);
            let of_victim = self.of(*victim, victim_path.as_ref());
            if of_victim == *by {
                harm.own = harm.own.plus(*time);
                continue;
            }
            if of_victim.is_some_and(|party| squeezed.has(&party)) {
                continue;
            }
            let chosen = entitled.siblings(*victim, *aggressor);
            if chosen.is_some_and(|(victim, aggressor)| entitled.is_by_right(victim, aggressor)) {
                continue;
            }
            harm.others = harm.others.plus(*time);
            if chosen.is_some_and(|(_, aggressor)| self.parties.get(&aggressor) == by.as_ref()) {
                *late = late.plus(*time);
            }
        }
        let mut doings = Doings::default();
        for (by, Entry { harm, late, .. }) in aggressors.into_values() {
            let Some(by) = by else { continue };
            let sum = doings.of(by);
            let Harm { others, own } = sum.harm;
            sum.harm = Harm { others: others.plus(harm.others), own: own.plus(harm.own) };
            sum.late = sum.late.plus(late);
        }
        for (id, scope) in &snapshot.scopes {
            let throttled = scope.cpu.as_ref().and_then(|cpu| cpu.throttled_own);
            let throttled = throttled.map_or(Nanos(0), |time| time.now);
            let used = scope.cpu_usage.map_or(0, |cpu| scale(cpu.0, snapshot.interval.0, 1_000));
            let is_whole = matches!(scope.place, Place::Pod { .. }) || self.workloads.has(*id);
            if is_whole
                && (throttled > Nanos(0) || used > 0)
                && let Some(party) = self.parties.get(id)
            {
                let entry = doings.of(party.clone());
                entry.harm.own = entry.harm.own.plus(throttled);
                entry.taken = entry.taken.saturating_add(used);
            }
        }
        doings
    }
}

#[cfg(test)]
mod tests;
