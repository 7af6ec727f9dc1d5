//! Who makes others wait, how much, lately: for each pod, and for each cgroup outside pods.
//! In: what happened in one interval. Out: a [`HarmStanding`], per second, smoothed over
//! [`MEMORY`] in integers.
//!
//! For a CPU it is measured directly: who waited while whom ran. For memory and disks nobody can
//! say whose page or request a task waited for, so the waiting of all others is laid on each by
//! its share of what was taken in that interval: memory charged, bytes read and written.

mod taken;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::contender::Harm;
use super::workload::Workloads;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::decision::Outsider;
use crate::model::pod::Place;
use crate::model::sample::{GapReason, Sample};
use crate::model::snapshot::{Blame, Snapshot};
use crate::model::stall::Coverage;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;

use taken::Share;

/// Time in which what is remembered falls to some 40 %, as in a ten seconds' average.
const MEMORY: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Less than this a second is forgotten: a millionth of a CPU.
const NOTHING: Nanos = Nanos(1_000);
/// Levels of cgroups that are walked up to find the pod that a cgroup belongs to.
const DEPTH: usize = 64;

/// What is remembered of harm, from tick to tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HarmStanding {
    /// Waiting for a CPU.
    pub cpu: Ledger,
    /// Stalling on memory because the node or its allocatable is short.
    pub memory: Ledger,
    /// Asleep in IO wait.
    pub io: Ledger,
    /// Cgroups that could not be read lately: when they are back, nobody can say how much of what
    /// they hold was taken in the last interval.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    unread: BTreeSet<CgroupId>,
}

/// Harm of one kind, by who does it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ledger {
    /// It is measured; if not, nobody is known to do any, or none.
    pub is_measured: bool,
    /// It was measured before, and is not now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
    /// By pod uid. Who is missing does none.
    pub pods: BTreeMap<String, Entry>,
    /// By path, outside pods.
    pub outside: BTreeMap<CgroupPath, Entry>,
}

/// What one does, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Entry {
    /// To whom.
    #[serde(flatten)]
    pub harm: Harm,
    /// How much it takes of what is waited for: bytes of memory charged, or read and written.
    pub taken: u64,
}

/// Whose doing something is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    /// A pod's, by uid.
    Pod(String),
    /// A cgroup's outside pods: a system service, as a rule.
    Outside(CgroupPath),
}

/// What each did in one interval; not yet per second.
type Doings = BTreeMap<Party, Entry>;

impl HarmStanding {
    /// Adds what happened from `before` to `sample`, which `snapshot` has compared. What a workload
    /// does is the doing of all of it.
    pub fn update(
        &mut self,
        before: Option<&Sample>,
        sample: &Sample,
        snapshot: &Snapshot,
        workloads: &Workloads<'_>,
    ) {
        let Some(before) = before.filter(|_| snapshot.interval > Nanos(0)) else { return };
        let covered = |of: fn(&Coverage) -> bool| {
            [before, sample].iter().all(|s| s.kernel.as_ref().is_some_and(|k| of(&k.covers)))
        };
        let waits = covered(|covers| covers.waits);
        let memory = covered(|covers| covers.memory);
        let tree = Tree::new(snapshot, workloads);
        let there = tree.parties();
        let interval = snapshot.interval;
        self.cpu.add(waits.then(|| tree.run_queue()), &there, interval);
        let unread = &self.unread;
        let share = memory.then(|| Share::of_memory(&tree, before, unread).doings());
        self.memory.add(share, &there, interval);
        let share = waits.then(|| Share::of_io(&tree, before, unread).doings());
        self.io.add(share, &there, interval);
        self.forget_unread(before, sample);
    }

    /// Cgroups that were there and are not stay in mind as long as anything fails to be read.
    fn forget_unread(&mut self, before: &Sample, sample: &Sample) {
        let mut gaps = sample.gaps.iter();
        let any = [GapReason::Denied, GapReason::Torn, GapReason::Failed, GapReason::Full];
        if !gaps.any(|gap| any.contains(&gap.why)) {
            self.unread.clear();
            return;
        }
        let missing = before.cgroups.keys().filter(|id| !sample.cgroups.contains_key(id));
        self.unread.extend(missing);
        self.unread.retain(|id| !sample.cgroups.contains_key(id));
    }

    /// The ledger for what is short; `None` where nobody waits for it, or it is not measured.
    #[must_use]
    pub fn ledger(&self, resource: Resource) -> Option<&Ledger> {
        self.of(resource).filter(|ledger| ledger.is_measured)
    }

    /// True if it was measured before who makes others wait for this, and is not now.
    #[must_use]
    pub fn is_paused(&self, resource: Resource) -> bool {
        self.of(resource).is_some_and(|ledger| ledger.is_paused)
    }

    fn of(&self, resource: Resource) -> Option<&Ledger> {
        match resource {
            Resource::Cpu => Some(&self.cpu),
            Resource::Memory => Some(&self.memory),
            Resource::Io => Some(&self.io),
            Resource::Storage | Resource::Inodes | Resource::Pids => None,
        }
    }
}

impl Ledger {
    /// Those outside pods that harm others most, at most `n` of those that `counts` picks; nobody
    /// below a millisecond a second.
    #[must_use]
    pub fn outsiders(&self, n: usize, counts: impl Fn(&CgroupPath) -> bool) -> Vec<Outsider> {
        let outside = self.outside.iter().filter(|(path, _)| counts(path));
        let harmful = outside.filter(|(_, entry)| entry.harm.millis() > 0);
        let mut all: Vec<Outsider> = harmful
            .map(|(path, entry)| Outsider { path: path.clone(), harm: entry.harm.others })
            .collect();
        // Stable: those of equal harm keep the order of their paths.
        all.sort_by_key(|outsider| std::cmp::Reverse(outsider.harm));
        all.truncate(n);
        all
    }

    /// Blends in an interval; `None` if it was not measured, and then nothing is remembered but
    /// that it was before: what somebody did a while ago is no reason to evict it now.
    fn add(&mut self, doings: Option<Doings>, there: &BTreeSet<Party>, interval: Nanos) {
        let Some(mut doings) = doings else {
            let is_paused = self.is_measured || self.is_paused;
            *self = Self { is_paused, ..Self::default() };
            return;
        };
        self.is_paused = false;
        // The first interval there is stands for all that came before.
        let memory = if self.is_measured { MEMORY } else { Nanos(0) };
        self.is_measured = true;
        let old = std::mem::take(&mut self.pods).into_iter().map(|(uid, e)| (Party::Pod(uid), e));
        let outside = std::mem::take(&mut self.outside).into_iter();
        let old = old.chain(outside.map(|(path, e)| (Party::Outside(path), e)));
        let old = old.filter(|(party, _)| there.contains(party));
        let mut blended: Vec<(Party, Entry)> = old
            .map(|(party, old)| {
                let now = doings.remove(&party).unwrap_or_default();
                (party, old.blend(now, interval, memory))
            })
            .collect();
        let fresh = Entry::default();
        let new = doings.into_iter();
        blended.extend(new.map(|(party, now)| (party, fresh.blend(now, interval, memory))));
        for (party, entry) in blended.into_iter().filter(|(_, entry)| !entry.is_nothing()) {
            match party {
                Party::Pod(uid) => self.pods.insert(uid, entry),
                Party::Outside(path) => self.outside.insert(path, entry),
            };
        }
    }
}

impl Entry {
    /// `self`, per second, after an interval in which `now` was done in all.
    ///
    /// `(rate * memory + now) / (memory + interval)`: the filter of first order, in integers. A
    /// longer interval weighs more, so a late tick changes nothing.
    fn blend(self, now: Self, interval: Nanos, memory: Nanos) -> Self {
        let blend = |rate: u64, now: u64| {
            let now = u128::from(now) * u128::from(Nanos::SECOND.0);
            let sum = u128::from(rate) * u128::from(memory.0) + now;
            let length = u128::from(memory.0) + u128::from(interval.0);
            u64::try_from(sum / length.max(1)).unwrap_or(u64::MAX)
        };
        let time = |rate: Nanos, now: Nanos| Nanos(blend(rate.0, now.0));
        Self {
            harm: Harm {
                others: time(self.harm.others, now.harm.others),
                own: time(self.harm.own, now.harm.own),
            },
            taken: blend(self.taken, now.taken),
        }
    }

    fn is_nothing(&self) -> bool {
        self.harm.others < NOTHING && self.harm.own < NOTHING && self.taken == 0
    }
}

/// The cgroups of a snapshot, and to whom each belongs.
pub(super) struct Tree<'a> {
    parties: BTreeMap<CgroupId, Party>,
    /// Cgroups with others below them.
    parents: BTreeSet<CgroupId>,
    snapshot: &'a Snapshot,
    workloads: &'a Workloads<'a>,
}

impl<'a> Tree<'a> {
    fn new(snapshot: &'a Snapshot, workloads: &'a Workloads<'a>) -> Self {
        let party = |&id: &CgroupId| (id, Self::party(snapshot, workloads, id));
        let parties = snapshot.scopes.keys().map(party).collect();
        let parents = snapshot.scopes.values().filter_map(|scope| scope.parent).collect();
        Self { parties, parents, snapshot, workloads }
    }

    /// The pod or workload that the cgroup is, or lies in; else itself. CRI-O's monitor beside the
    /// containers is the pod's, too.
    fn party(snapshot: &Snapshot, workloads: &Workloads<'_>, id: CgroupId) -> Party {
        let mut at = Some(id);
        for _ in 0..DEPTH {
            let Some(scope) = at.and_then(|id| snapshot.scopes.get(&id)) else { break };
            match &scope.place {
                Place::Pod { uid, .. } | Place::Container { pod: uid, .. } => {
                    return Party::Pod(uid.clone());
                }
                Place::Other if at.is_some_and(|id| workloads.has(id)) => {
                    return Party::Outside(scope.path.clone());
                }
                Place::Other => at = scope.parent,
                Place::Node | Place::Kubepods | Place::Qos { .. } => break,
            }
        }
        Party::Outside(snapshot.scopes.get(&id).map(|scope| scope.path.clone()).unwrap_or_default())
    }

    fn of(&self, id: CgroupId, path: Option<&CgroupPath>) -> Option<Party> {
        let told = || match Place::of(path?) {
            Place::Pod { uid, .. } | Place::Container { pod: uid, .. } => Some(Party::Pod(uid)),
            _ => Some(Party::Outside(path?.clone())),
        };
        self.parties.get(&id).cloned().or_else(told)
    }

    fn parties(&self) -> BTreeSet<Party> {
        let root = Party::Outside(CgroupPath::root());
        self.parties.values().cloned().chain([root]).collect()
    }

    /// Who kept whom from a CPU. The idle task keeps nobody: that is the latency of a wake-up.
    /// Time spent at a quota of its own is a pod's harm to itself, too.
    fn run_queue(&self) -> Doings {
        let snapshot = self.snapshot;
        let mut doings = Doings::new();
        for Blame { victim, victim_path, aggressor, aggressor_path, time } in &snapshot.aggressions
        {
            let Some(by) = self.of(*aggressor, aggressor_path.as_ref()) else { continue };
            if *aggressor == CgroupId(0) {
                continue;
            }
            let is_own = self.of(*victim, victim_path.as_ref()).as_ref() == Some(&by);
            let harm = &mut doings.entry(by).or_default().harm;
            let to = if is_own { &mut harm.own } else { &mut harm.others };
            *to = to.plus(time.now);
        }
        for (id, scope) in &snapshot.scopes {
            let throttled = scope.cpu.as_ref().and_then(|cpu| cpu.throttled_own);
            let Some(throttled) = throttled.filter(|time| time.now > Nanos(0)) else { continue };
            let is_whole = matches!(scope.place, Place::Pod { .. }) || self.workloads.has(*id);
            if let Some(party) = self.parties.get(id).filter(|_| is_whole) {
                let harm = &mut doings.entry(party.clone()).or_default().harm;
                harm.own = harm.own.plus(throttled.now);
            }
        }
        doings
    }
}

#[cfg(test)]
mod tests;
