//! What each party has taken of the memory that a scope lost, of pids and of disks. A party is a pod,
//! a workload, or a cgroup outside pods without children.
//! In: each sample. Out: a [`Loss`] for a scope, and how fast each party grows.
//!
//! Of memory what cannot be dropped counts: anonymous memory, shared memory, pages that are locked, the
//! kernel's own, network buffers, and what was swapped out. Page cache does not: the kernel can drop
//! it.

mod acted;
mod anew;
mod figures;
mod fills;
mod handover;
mod heirs;
mod look;
mod lost;
mod room;
mod unattributed;
mod written;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use self::acted::{Killed, acted_on, ended_by_isobar, is_of_taker};
use self::anew::{Anew, n_oom_kills};
use self::figures::Holding;
pub(crate) use self::figures::{Counts, cache, counted, freed_by_end, held, locked, swapped};
use self::fills::Fills;
use self::heirs::{Heirs, Left, Named, pod_at};
pub(crate) use self::lost::{Lost, NOISE, capacity};
pub(crate) use self::room::Limited;
use self::room::Rooms;
use self::written::Written;
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::condition::ScopeName;
use crate::model::decision::{Action, Met, Phase, StepKind};
use crate::model::node::Meminfo;
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::snapshot::{Along, Scope, Snapshot};
use crate::model::threshold::{Resource, Signal};
use crate::model::units::{Bytes, Nanos};
use crate::model::workload::Pod;
use crate::policy::rank::Purpose;
use crate::policy::workload::Parties;

/// A loss is looked at over this time at least: in less, one allocation would be the whole of it.
const SHORTEST: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Readings are kept for so long: in less, a leak of 100 KiB a second is not told from noise.
const LONGEST: Nanos = Nanos(3_600 * Nanos::SECOND.0);
/// Over so long it is looked at who took memory all along.
const ALONG: Nanos = Nanos(300 * Nanos::SECOND.0);
/// Distance of readings that are kept, by their age.
const SPACING: [(Nanos, Nanos); 4] = [
    (Nanos(12 * Nanos::SECOND.0), Nanos(Nanos::SECOND.0 * 3 / 4)),
    (Nanos(60 * Nanos::SECOND.0), Nanos(5 * Nanos::SECOND.0)),
    (ALONG, Nanos(20 * Nanos::SECOND.0)),
    (Nanos(u64::MAX), Nanos(600 * Nanos::SECOND.0)),
];
/// A party is a taker if it took this part of what the largest one took.
pub(crate) const OF_LARGEST: u64 = 4;
/// And this much, in bytes.
const LEAST: u64 = 1 << 20;
/// What a smaller service takes again is no cause of anything; of these there may be very many.
const LEAST_OF_SERVICE: u64 = 16 << 20;
/// Who holds less by this part has given back what was its own.
const GIVEN_BACK: u64 = 8;
/// In so much time a leak shows that is too slow to be seen in ten seconds.
const YOUNG: Nanos = Nanos(30 * Nanos::SECOND.0);
/// The last two seconds count more than the eight before: growth that slows ends soon.
const RECENT: Nanos = Nanos(2 * Nanos::SECOND.0);

/// Readings of every party, oldest first. 45 readings of 500 parties take some 350 KiB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct TakerStanding {
    slots: VecDeque<Slot>,
    /// By the party's cgroup. The last reading belongs to the last slot; one that is younger than
    /// the first slot has fewer.
    parties: BTreeMap<CgroupId, VecDeque<Holding>>,
    fills: Fills,
    heirs: Heirs,
    anew: Anew,
    killed: Killed,
}

/// When readings were taken, and what the node had in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slot {
    at: Nanos,
    node: Option<Bytes>,
    /// What parties held then, and gave back when they ended since.
    #[serde(default)]
    ended: Bytes,
    /// The most that all parties held together since the slot before, and all pods.
    #[serde(default)]
    most: [u64; 2],
    /// Since the slot before memory of the node was short, and that of all pods.
    #[serde(default)]
    short: [bool; 2],
}

impl Slot {
    /// In place of one that is not kept.
    fn after(&mut self, dropped: Self) {
        let [all, pods] = dropped.most;
        self.most = [self.most[0].max(all), self.most[1].max(pods)];
        self.short = [self.short[0] || dropped.short[0], self.short[1] || dropped.short[1]];
    }
}

impl TakerStanding {
    /// Takes in one sample; `before` is the one before it.
    pub(crate) fn update(
        &mut self,
        before: Option<&Sample>,
        sample: &Sample,
        parties: &Parties<'_>,
    ) {
        let now = sample.at.boot;
        if self.slots.back().is_some_and(|last| last.at >= now) {
            *self = Self::default();
        }
        if before.is_none() {
            self.go_on(sample, parties);
        }
        self.fills.update(sample, parties);
        let mut anew = std::mem::take(&mut self.anew);
        anew.update(before, sample, parties, |id| self.has_given_back(id, now, parties));
        self.anew = anew;
        self.killed.update(before, sample);
        self.forget_ended(before, sample, parties);
        let n = self.slots.len();
        let is_dense = n >= 2 && now.since(self.slots[n - 2].at) < SPACING[0].1;
        let dropped = if is_dense { self.slots.pop_back() } else { None };
        let node = sample.node.memory.map(Meminfo::in_use);
        let mut slot = Slot { at: now, node, most: together(parties), ..Slot::default() };
        dropped.into_iter().for_each(|dropped| slot.after(dropped));
        self.slots.push_back(slot);
        let mut known = before.map(|before| Along::of(&before.cgroups));
        let is_new = |id: &&CgroupId| known.as_mut().is_some_and(|known| known.get(id).is_none());
        let new: Vec<CgroupId> = parties.keys().filter(is_new).copied().collect();
        for id in &new {
            self.parties.entry(*id).or_default();
        }
        let n_slots = self.slots.len();
        for (id, scope) in parties {
            let Entry::Vacant(vacant) = self.parties.entry(*id) else { continue };
            let held = scope.files.as_deref().and_then(|files| Holding::of(files, None));
            if let Some(held) = held {
                // It existed before it became a party of its own: no growth is known yet.
                vacant.insert(vec![held; n_slots - usize::from(!is_dense)].into());
            }
        }
        let mut there = Along::of(parties);
        for (id, readings) in &mut self.parties {
            let files = there.get(id).and_then(|scope| scope.files.as_deref());
            let last = readings.back().copied();
            let dropped = if is_dense { readings.pop_back() } else { None };
            // One that cannot be read just now has neither grown nor shrunk.
            match files.and_then(|files| Holding::of(files, last)).or(last) {
                Some(mut reading) => {
                    dropped.into_iter().for_each(|dropped| reading.after(dropped));
                    readings.push_back(reading);
                }
                None => readings.clear(),
            }
        }
        self.mend();
        self.thin_out(now);
        let named = |id| {
            let scope = parties.get(&id)?;
            Named::at(&scope.place, scope.files.as_deref()?, sample)
        };
        self.heirs.update(now, |id| parties.contains_key(&id), new.into_iter(), named);
    }

    /// Takes note of which memory is short at the last sample.
    pub(crate) fn note_short(&mut self, met: &[Met]) {
        let Some(last) = self.slots.back_mut() else { return };
        self.fills.note_short(met, last.at);
        let of_memory = |met: &&Met| met.threshold.resource() == Resource::Memory;
        for met in met.iter().filter(of_memory).filter(|met| met.is_hard()) {
            let scope = Purpose::of(&met.threshold).scope;
            last.short[usize::from(scope == ScopeName::Kubepods)] = true;
        }
    }

    /// Whether it is looked for too short a time to know what a slow leak takes.
    pub(crate) fn is_young(&self) -> bool {
        let ends = self.slots.front().zip(self.slots.back());
        ends.is_none_or(|(first, last)| last.at.since(first.at) < YOUNG)
    }

    /// Whether a party has been there for less than half a minute.
    pub(crate) fn is_new(&self, id: CgroupId) -> bool {
        let n = self.parties.get(&id).map(VecDeque::len);
        let first = n.and_then(|n| self.slots.get(self.slots.len().checked_sub(n)?));
        first.zip(self.slots.back()).is_some_and(|(first, last)| last.at.since(first.at) < YOUNG)
    }

    /// Whether a party holds less by a real part than it did within the last ten seconds, or when it was
    /// read last; true too where that is not known.
    fn has_given_back(&self, id: CgroupId, now: Nanos, there: &Parties<'_>) -> bool {
        let has = there.get(&id).and_then(|scope| held(scope.files.as_deref()?));
        let readings = self.parties.get(&id).into_iter().flat_map(|readings| readings.iter().rev());
        let lately = self.slots.iter().rev().zip(readings).enumerate();
        let lately = lately.take_while(|(n, (slot, _))| *n == 0 || now.since(slot.at) <= SHORTEST);
        let had = lately.map(|(_, (_, reading))| reading.most(Counts::Held)).max();
        has.zip(had).is_none_or(|(has, had)| has.0 <= had - had / GIVEN_BACK)
    }

    /// Drops parties that ended: what they held came back to the node, but for shared memory and tmpfs.
    fn forget_ended(&mut self, before: Option<&Sample>, sample: &Sample, there: &Parties<'_>) {
        let gone: Vec<_> = self.parties.extract_if(.., |id, _| !there.contains_key(id)).collect();
        let Some(before) = before.filter(|_| !gone.is_empty()) else { return };
        let (places, now) = (before.places(), sample.at.boot);
        let mut marked = acted_on(sample, |entry| entry.phase == Phase::Marked);
        // The actuator may have forgotten the mark with the cgroup.
        marked.extend(acted_on(before, |entry| entry.phase == Phase::Marked));
        let of = [Resource::Memory, Resource::Pids];
        let takers = ended_by_isobar(sample, now, |action| is_of_taker(action, &of));
        let is_of_payer = |one: &Action| one.target.is_payer && one.step == StepKind::Evict;
        let payers = ended_by_isobar(sample, now, is_of_payer);
        for (id, readings) in gone {
            // What is no party of its own any more still holds it.
            let has_ended = !sample.cgroups.contains_key(&id);
            let known = before.cgroups.get(&id).filter(|_| has_ended);
            let Some(cgroup) = known else { continue };
            let Some(last) = cgroup.memory.stat else { continue };
            for (slot, reading) in self.slots.iter_mut().rev().zip(readings.iter().rev()) {
                let freed = reading.amount(Counts::Held).saturating_sub(last.shmem.0);
                slot.ended.0 = slot.ended.0.saturating_add(freed);
            }
            let place = places.place(&cgroup.path);
            let Some(slot) = self.slots.len().checked_sub(1) else { continue };
            let Some(named) = Named::at(&place, cgroup, before) else { continue };
            // The kernel took a service that was marked, or at its limit; of a pod it takes containers.
            let is_evicted = match place {
                Place::Other => marked.contains(&id) || was_killed(cgroup, before, sample),
                _ => {
                    let was_killed = self.killed.ids().any(|killed| killed == id);
                    was_killed || pod_at(&place, before).is_some_and(is_evicted)
                }
            };
            let is_victim = takers.contains(&id) || is_evicted && !payers.contains(&id);
            let kept = |counts| self.kept(&readings, slot, counts);
            // Shared memory outlives it.
            let held = kept(Counts::Held).saturating_sub(last.shmem.0);
            if place == Place::Other && held < LEAST_OF_SERVICE {
                continue;
            }
            let held = Holding(held, 0, kept(Counts::Threads), 0);
            self.heirs.leave(id, named, Left { at: now, held }, is_victim);
        }
    }

    /// Drops readings that are too old, or closer to their neighbours than their age needs.
    fn thin_out(&mut self, now: Nanos) {
        let spacing = |age: Nanos| SPACING.iter().find(|(until, _)| age <= *until).map(|s| s.1);
        let is_close = |i: usize| {
            let (before, at, after) =
                (self.slots[i - 1].at, self.slots[i].at, self.slots[i + 1].at);
            spacing(now.since(at)).is_some_and(|spacing| after.since(before) <= spacing)
        };
        let n = self.slots.len();
        let mut surplus: Vec<usize> = (1..n.saturating_sub(1)).filter(|i| is_close(*i)).collect();
        // Of neighbours, every other one: what is left lies further apart.
        surplus.dedup_by(|next, before| *next == *before + 1);
        let is_old = self.slots.front().is_some_and(|slot| now.since(slot.at) > LONGEST);
        if is_old {
            surplus.insert(0, 0);
        }
        for i in surplus.into_iter().rev() {
            let dropped = self.slots.remove(i).filter(|_| i > 0);
            let next = self.slots.get_mut(i);
            next.into_iter().zip(dropped).for_each(|(next, dropped)| next.after(dropped));
            for readings in self.parties.values_mut() {
                // Readings are aligned at their end.
                let missing = (self.slots.len() + 1).saturating_sub(readings.len());
                let Some(own) = i.checked_sub(missing) else { continue };
                let dropped = readings.remove(own).filter(|_| i > 0);
                let next = readings.get_mut(own);
                next.into_iter().zip(dropped).for_each(|(next, dropped)| next.after(dropped));
            }
        }
    }

    /// What a disk lost, and which pods took it; `None` if that is not known.
    pub(crate) fn filled(&self, signal: Signal, snapshot: &Snapshot) -> Option<Lost> {
        self.fills.lost(signal, snapshot)
    }

    pub(crate) fn parties(&self) -> impl Iterator<Item = CgroupId> {
        self.parties.keys().copied()
    }

    /// How fast a party grows, in bytes a second; negative if it shrinks.
    fn rate(&self, readings: &VecDeque<Holding>) -> Option<i64> {
        // Readings are aligned at their end.
        let newest_first = self.slots.iter().rev().zip(readings.iter().rev());
        rate(newest_first.map(|(slot, reading)| (slot.at, reading.0)))
    }

    /// Parties that grow and have a limit of their own: how fast, and how much room is left.
    pub(crate) fn limited(&self, snapshot: &Snapshot, pods: Option<&Scope>) -> Limited {
        let (rooms, mut limited) = (Rooms::of(snapshot), Limited::default());
        for (id, readings) in &self.parties {
            let rate = self.rate(readings).and_then(|rate| u64::try_from(rate).ok());
            let Some(rate) = rate.filter(|rate| *rate > 0) else { continue };
            let scope = snapshot.scopes.get(id);
            let left = scope.and_then(|scope| Some((scope, rooms.left(*id, scope)?)));
            let Some((scope, left)) = left else { continue };
            limited.node.push((rate, left));
            if pods.is_some_and(|pods| scope.path.is_within(&pods.path)) {
                limited.pods.push((rate, left));
            }
        }
        limited
    }
}

/// What all parties hold, and all pods.
fn together(parties: &Parties<'_>) -> [u64; 2] {
    let mut sums = [0u64; 2];
    for scope in parties.values() {
        let held = scope.files.as_deref().and_then(held).unwrap_or_default();
        sums[0] = sums[0].saturating_add(held.0);
        if scope.place != Place::Other {
            sums[1] = sums[1].saturating_add(held.0);
        }
    }
    sums
}

/// Whether the kernel's OOM killer has ended processes of a cgroup that is gone now.
fn was_killed(cgroup: &Cgroup, before: &Sample, sample: &Sample) -> bool {
    let above = |sample: &Sample| n_oom_kills(sample.cgroups.get(&cgroup.parent?)?);
    let ends = above(before).zip(above(sample));
    n_oom_kills(cgroup).is_some_and(|n| n > 0) || ends.is_some_and(|(was, is)| was < is)
}

/// Whether the kubelet has evicted this pod for want of something that it holds as memory or threads.
fn is_evicted(pod: &Pod) -> bool {
    let is_of_disk = matches!(pod.evicted_for, Some(Resource::Storage | Resource::Inodes));
    pod.is_evicted && !is_of_disk
}

/// From how much on a party is a cause where the largest taker took `largest`: a quarter of that.
pub(crate) fn taker_from(largest: u64, resource: Resource) -> u64 {
    let least = match resource {
        Resource::Pids => 8,
        Resource::Inodes => 100,
        _ => LEAST,
    };
    least.max(largest / OF_LARGEST)
}

/// Growth per second over the last ten seconds of readings, newest first; `None` before there are
/// readings over two seconds. Growth that slows counts for what it is now, more than for what it
/// was.
pub(crate) fn rate(newest_first: impl Iterator<Item = (Nanos, u64)>) -> Option<i64> {
    let per_second = |now: (Nanos, u64), then: (Nanos, u64)| {
        let over = i128::from(now.0.since(then.0).0).max(1);
        (i128::from(now.1) - i128::from(then.1)) * i128::from(Nanos::SECOND.0) / over
    };
    let mut readings = newest_first;
    let now = readings.next()?;
    let recent = readings.find(|then| now.0.since(then.0) >= RECENT)?;
    let mut oldest = recent;
    for then in readings {
        if now.0.since(oldest.0) >= SHORTEST {
            break;
        }
        oldest = then;
    }
    let late = per_second(now, recent);
    let early = if oldest.0 < recent.0 { per_second(recent, oldest) } else { late };
    i64::try_from((3 * late + early) / 4).ok()
}

#[cfg(test)]
mod tests;
