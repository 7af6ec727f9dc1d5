//! What a scope lost: over which time it is looked at, and which growth counts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use super::acted::{acted_on, ended_by_isobar, is_of_taker};
use super::figures::{Counts, Holding, cache};
use super::lost::{Lost, capacity};
use super::{ALONG, RECENT, SHORTEST, TakerStanding, taker_from};
use crate::model::cgroup::CgroupId;
use crate::model::condition::ScopeName;
use crate::model::decision::Phase;
use crate::model::sample::Sample;
use crate::model::snapshot::Snapshot;
use crate::model::threshold::Resource;
use crate::model::units::Nanos;
use crate::policy::scope;

/// The time in which this part of the scope's memory was lost is looked at: short for a fast leak,
/// long for a slow one.
const PART: u64 = 20;
/// A smaller part that was lost is no cause of a shortage: what pods take and give back is as much.
const LEAST_PART: u64 = 200;
/// What a party held for so long it may give back and take again: that is no growth.
const STEADY: Nanos = Nanos(30 * Nanos::SECOND.0);
/// In the first seconds of watching so large a part of what is left is a cause.
const OF_LEFT: u64 = 4;
/// Of the time that is looked at, the newest part, in which who has stopped took nothing.
const OF_WINDOW: u64 = 8;

/// A look at the parties of a scope.
struct Look<'a> {
    scope: ScopeName,
    standing: &'a TakerStanding,
    parties: Vec<(CgroupId, &'a VecDeque<Holding>)>,
    counts: Counts,
    /// What the scope has.
    capacity: u64,
    /// What is left of memory, where that is known.
    left: Option<u64>,
    /// Less growth has no cause.
    least: u64,
    /// What the node has in use and no party holds counts.
    is_whole: bool,
    /// Takers that isobar ended: what they held before counts as growth again.
    ended: BTreeSet<CgroupId>,
    /// What a party held before and gave back is no growth: it goes up and down.
    is_of_swings: bool,
    half_minutes: Rc<[Option<usize>]>,
    /// What each party held throughout the half minute from each slot on, if its readings differ.
    steady: Rc<BTreeMap<CgroupId, Vec<u64>>>,
}

impl<'a> Look<'a> {
    fn of(
        standing: &'a TakerStanding,
        scope: ScopeName,
        counts: Counts,
        sample: &Sample,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let now = standing.slots.back()?.at;
        let pods = scope::kubepods(snapshot);
        let within = (scope == ScopeName::Kubepods).then_some(pods).flatten();
        let is_in = |id: &CgroupId| match (scope, within) {
            (ScopeName::System, _) => true,
            (_, Some((_, pods))) => {
                snapshot.scopes.get(id).is_some_and(|scope| scope.path.is_within(&pods.path))
            }
            (_, None) => false,
        };
        let parties = standing.parties.iter().filter(|(id, _)| is_in(id));
        let (capacity, resource) = match counts {
            Counts::Threads => (sample.node.max_threads?, Resource::Pids),
            _ => (capacity(scope, sample, within.map(|(_, pods)| pods))?, Resource::Memory),
        };
        let left = match (counts, within) {
            (Counts::Threads, _) => None,
            (_, Some((_, pods))) => {
                let files = pods.files.as_deref();
                let used = files.and_then(|files| files.memory.current.zip(cache(files)));
                used.map(|(all, cache)| capacity.saturating_sub(all.0).saturating_add(cache.0))
            }
            (_, None) => sample.node.memory.map(|memory| memory.available.0),
        };
        let parties: Vec<_> = parties.map(|(id, readings)| (*id, readings)).collect();
        let (least, half_minutes) = (taker_from(0, resource), standing.half_minutes());
        let has_grown = |readings: &VecDeque<Holding>| {
            let all = readings.iter().map(|reading| reading.amount(counts));
            let range = all.clone().max().zip(all.min());
            range.is_some_and(|(most, fewest)| most - fewest >= least)
        };
        let grown = parties.iter().filter(|(_, readings)| has_grown(readings));
        let steady =
            grown.map(|(id, readings)| (*id, standing.steady(readings, counts, &half_minutes)));
        let mut ended = ended_by_isobar(sample, now, |action| is_of_taker(action, &[resource]));
        ended.extend(standing.killed.ids().filter(|_| resource == Resource::Memory));
        Some(Self {
            scope,
            left,
            standing,
            steady: Rc::new(steady.collect()),
            half_minutes: half_minutes.into(),
            parties,
            counts,
            capacity,
            least,
            is_whole: scope == ScopeName::System && counts == Counts::Held,
            ended,
            is_of_swings: false,
        })
    }

    fn age(&self, slot: usize) -> Nanos {
        let slots = &self.standing.slots;
        slots[slots.len() - 1].at.since(slots[slot].at)
    }

    /// Whether what a party had before is no growth. Page cache was not given back: want of memory took it.
    fn may_be_kept(&self, id: CgroupId) -> bool {
        self.counts != Counts::WithCache && !self.ended.contains(&id)
    }

    /// How far it is looked back: to know what goes up and down takes as long a time before.
    fn longest(&self) -> Nanos {
        let all = self.age(0);
        if self.is_of_swings { Nanos(all.0 / 2) } else { all }
    }

    /// What was lost since a slot.
    fn since(&self, slot: usize) -> Lost {
        let Self { standing, counts, .. } = *self;
        let last = standing.slots.len() - 1;
        let (now, then) = (standing.slots[last], standing.slots[slot]);
        let mut taken = BTreeMap::new();
        let (mut sum, mut net) = (0u64, 0i128);
        for (id, readings) in &self.parties {
            let at = |slot| standing.at(readings, slot, counts);
            let (has, had) = (at(last), at(slot));
            let least = if self.ended.contains(id) { (slot..last).map(at).min() } else { None };
            let mut grown = has.saturating_sub(least.unwrap_or(had));
            if grown >= self.least && self.may_be_kept(*id) {
                let left = standing.heirs.of(*id, then.at);
                let left = left.map_or(0, |left| left.amount(counts));
                let top = match self.is_of_swings {
                    true => self.top(*id, readings, slot),
                    false => 0,
                };
                let steady = self.steady.get(id);
                let kept = steady
                    .map_or(0, |steady| standing.most_steady(slot, &self.half_minutes, steady));
                let kept = kept.max(left).max(top);
                grown = has.saturating_sub(had.max(kept));
            }
            net += i128::from(has) - i128::from(had);
            sum = sum.saturating_add(grown);
            if grown > 0 {
                taken.insert(*id, grown);
            }
        }
        let node = now.node.zip(then.node).filter(|_| self.is_whole);
        let ended = i128::from(then.ended.0);
        let rest =
            node.map_or(0, |(now, then)| i128::from(now.0) - i128::from(then.0) - net + ended);
        let unattributed = u64::try_from(rest.max(0)).unwrap_or(u64::MAX);
        let lost = sum.saturating_add(unattributed);
        let is_established = lost >= self.capacity / LEAST_PART;
        let over = now.at.since(then.at);
        let is_large = lost >= self.capacity / PART;
        Lost { lost, over, taken, unattributed, is_established, is_large, ..Lost::default() }
    }

    /// What was lost over the time that is looked at; `None` before there are readings over ten seconds.
    fn lately(&self) -> Option<Lost> {
        let last = self.standing.slots.len() - 1;
        let mut most: Option<Lost> = None;
        let longest = self.longest();
        let ages = |slot: &usize| (SHORTEST..=longest).contains(&self.age(*slot));
        for slot in (0..last).rev().filter(ages) {
            // Further back only for what is too little to have a cause: pods have started since.
            let is_known = most.as_ref().is_some_and(|most| most.is_established);
            if is_known && self.age(slot) > ALONG {
                break;
            }
            let lost = self.since(slot);
            let is_enough = lost.is_large;
            if most.as_ref().is_none_or(|most| lost.lost > most.lost) {
                most = Some(lost);
            }
            if is_enough {
                break;
            }
        }
        // Of the first seconds of watching so much is a cause, too: it cannot be one allocation more.
        let least =
            self.left.map_or(u64::MAX, |left| (left / OF_LEFT).max(self.capacity / LEAST_PART));
        let early = || {
            let lost = (last > 0 && self.age(0) >= RECENT).then(|| self.since(0))?;
            (lost.lost >= least.min(self.capacity / PART)).then_some(lost)
        };
        most.or_else(early)
    }

    /// What was lost all along, where `lately` is looked at.
    fn along(&self, lately: &Lost) -> Lost {
        let longest = ALONG.min(self.longest()).max(lately.over);
        let slot = (0..self.standing.slots.len() - 1).find(|slot| self.age(*slot) <= longest);
        self.since(slot.unwrap_or(0))
    }

    /// The same, without the growth of parties that go up and down up to where they were before that time:
    /// the scope had room for it. `None` where that makes no difference, where what is left of the loss has
    /// no cause, or where all together never held so much.
    fn without_swings(&self, lately: &Lost) -> Option<(Self, Lost)> {
        let Self { scope, standing, counts, capacity, left, least, is_whole, .. } = *self;
        let (parties, ended) = (self.parties.clone(), self.ended.clone());
        let is_of_swings = true;
        let look = Self {
            scope,
            standing,
            parties,
            counts,
            capacity,
            left,
            least,
            is_whole,
            ended,
            is_of_swings,
            half_minutes: Rc::clone(&self.half_minutes),
            steady: Rc::clone(&self.steady),
        };
        let mut slots = (0..standing.slots.len()).rev();
        let same = look.since(slots.find(|slot| self.age(*slot) >= lately.over)?);
        let is_less =
            |(id, taken): (&CgroupId, &u64)| taken.saturating_sub(same.taken_by(*id)) >= least;
        if !lately.taken.iter().any(is_less) {
            return None;
        }
        let lately = look.lately().filter(|lately| lately.is_established)?;
        let most = look.along(&lately).taken.into_values().max()?;
        (look.beyond_top() < most).then_some((look, lately))
    }

    /// The most that a party's processes held in the five minutes before a slot, while memory of the scope
    /// was not short.
    fn top(&self, id: CgroupId, readings: &VecDeque<Holding>, slot: usize) -> u64 {
        let Self { standing, counts, .. } = *self;
        let (slots, since) = (&standing.slots, standing.anew.since(id));
        let is_near = |at: &usize| {
            let when = slots[*at].at;
            slots[slot].at.since(when) <= ALONG && when >= since
        };
        let near = (0..=slot).rev().take_while(is_near);
        let most = near.filter(|at| !self.was_short(*at)).filter_map(|at| {
            let reading = standing.reading(readings, at)?;
            // The time since the reading before may begin with processes that are gone.
            let is_whole = at == 0 || slots[at - 1].at >= since;
            Some(if is_whole { reading.most(counts) } else { reading.amount(counts) })
        });
        most.max().unwrap_or_default()
    }

    fn was_short(&self, slot: usize) -> bool {
        let [node, pods] = self.standing.slots[slot].short;
        if self.scope == ScopeName::System { node } else { pods }
    }

    /// By how much all hold more together than ever before the last ten seconds.
    fn beyond_top(&self) -> u64 {
        let Self { standing, counts, .. } = *self;
        let together = |slot| {
            let each = self.parties.iter().map(|(_, readings)| standing.at(readings, slot, counts));
            each.fold(0, u64::saturating_add)
        };
        let last = standing.slots.len() - 1;
        let is_near = |slot: &usize| (SHORTEST..=ALONG).contains(&self.age(*slot));
        let before = (0..last).filter(is_near).filter(|slot| !self.was_short(*slot));
        let most = before.map(|slot| match (counts, standing.slots[slot].most) {
            (Counts::Held, [all, _]) if self.is_whole => all,
            (Counts::Held, [_, pods]) => pods,
            (Counts::WithCache | Counts::Threads, _) => together(slot),
        });
        together(last).saturating_sub(most.max().unwrap_or_default())
    }
}

impl TakerStanding {
    /// What was lost in `scope`, and who took it; `None` before there are readings over ten seconds.
    pub(crate) fn loss(
        &self,
        scope: ScopeName,
        counts: Counts,
        sample: &Sample,
        snapshot: &Snapshot,
    ) -> Option<Lost> {
        let look = Look::of(self, scope, counts, sample, snapshot)?;
        let lately = look.lately()?;
        let (look, lately) = look.without_swings(&lately).unwrap_or((look, lately));
        // In a slow loss two seconds tell nothing: a leak may come in steps.
        let late = Nanos(lately.over.0 / OF_WINDOW).max(RECENT);
        let recent = (0..self.slots.len() - 1).rev().find(|slot| look.age(*slot) >= late);
        let recent = recent.map(|slot| look.since(slot));
        let squeezed = acted_on(sample, |entry| {
            let against = entry.action.reason.threshold.resource();
            entry.phase == Phase::Squeezed && against == Resource::Memory
        });
        let lasting = lately.lasting(&look.along(&lately), recent.as_ref(), &squeezed);
        Some(Lost { lasting, ..lately })
    }

    fn reading(&self, readings: &VecDeque<Holding>, slot: usize) -> Option<Holding> {
        let missing = self.slots.len().saturating_sub(readings.len());
        readings.get(slot.checked_sub(missing)?).copied()
    }

    /// What a party held at a slot; 0 before it was there.
    pub(super) fn at(&self, readings: &VecDeque<Holding>, slot: usize, counts: Counts) -> u64 {
        self.reading(readings, slot).map_or(0, |reading| reading.amount(counts))
    }

    /// For each slot, the one half a minute later; `None` before it is there, and where two lie so far apart
    /// that they do not tell what was held between them.
    fn half_minutes(&self) -> Vec<Option<usize>> {
        let slots = &self.slots;
        let later = |from: usize| {
            let apart = |to: &usize| slots[*to].at.since(slots[from].at);
            let to = (from + 1..slots.len()).find(|to| apart(to) >= STEADY)?;
            (apart(&to) <= STEADY.plus(STEADY)).then_some(to)
        };
        (0..slots.len()).map(later).collect()
    }

    /// What a party held throughout the half minute from each slot on.
    fn steady(
        &self,
        readings: &VecDeque<Holding>,
        counts: Counts,
        half_minutes: &[Option<usize>],
    ) -> Vec<u64> {
        let least = |(from, to): (usize, &Option<usize>)| {
            to.and_then(|to| (from..=to).map(|at| self.at(readings, at, counts)).min())
        };
        half_minutes.iter().enumerate().map(|one| least(one).unwrap_or_default()).collect()
    }

    /// The most of that in the five minutes before a slot: a container takes it again when it is started
    /// anew, which is no growth.
    fn most_steady(&self, slot: usize, half_minutes: &[Option<usize>], steady: &[u64]) -> u64 {
        let until = self.slots[slot].at;
        let near = (0..slot).rev().take_while(|from| until.since(self.slots[*from].at) <= ALONG);
        let known = near.filter(|from| half_minutes[*from].is_some_and(|to| to <= slot));
        known.map(|from| steady[from]).max().unwrap_or_default()
    }

    /// The most that one party held throughout half a minute in the five minutes before a slot.
    pub(super) fn kept(&self, readings: &VecDeque<Holding>, slot: usize, counts: Counts) -> u64 {
        let half_minutes = self.half_minutes();
        self.most_steady(slot, &half_minutes, &self.steady(readings, counts, &half_minutes))
    }
}
