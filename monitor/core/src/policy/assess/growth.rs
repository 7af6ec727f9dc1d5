//! How long memory lasts: what is left, how fast usage grows, and whether reclaim still helps.
//! Works without pressure files, so it warns of a node that freezes at low pressure.
//! In: the sample, kubepods, and readings of the last ten seconds. Out: an `Outlook` per scope.
//! Rules: docs/policy.md, "Pressure signals and growth".

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::kept::kept_cache;
use crate::model::cgroup::{CgroupId, Limit};
use crate::model::condition::ScopeName;
use crate::model::decision::{Met, Outlook, Trigger};
use crate::model::node::Reclaim;
use crate::model::sample::Sample;
use crate::model::snapshot::Scope;
use crate::model::units::{Bytes, Nanos, Percent, scale};
use crate::policy::takers::{self, Limited};

/// Growth is averaged over this window.
const WINDOW: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Over less time, a single allocation would look like growth.
const SHORTEST: Nanos = Nanos(2 * Nanos::SECOND.0);
/// Minimum distance of stored readings, however fast the ticks come.
const APART: Nanos = Nanos(Nanos::SECOND.0 / 2);

/// With fewer scanned pages efficiency is unknown: `vmpressure_win`, mm/vmpressure.c.
const FEWEST_SCANNED: u64 = 512;
/// Reclaim efficiency above which all cache counts as available: `vmpressure_level_med` (60 of 100
/// pages in vain).
const GOOD: u64 = 40_00;
/// Reclaim efficiency below which no cache counts: `vmpressure_level_critical` (95 of 100 in vain).
const VAIN: u64 = 5_00;

/// Memory is low if a tenth or less of it is left.
const LOW: u64 = 10;

/// The readings of both scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrowthStanding {
    system: VecDeque<Reading>,
    kubepods: VecDeque<Reading>,
    /// The cgroup that the readings are of: a new kubepods starts again.
    kubepods_id: CgroupId,
}

impl GrowthStanding {
    /// Pages read back per second between the last two readings; `None` where [`Outlook::refaults`]
    /// is, too.
    pub(super) fn latest_refaults(&self, scope: ScopeName) -> Option<u64> {
        let ring = match scope {
            ScopeName::System => &self.system,
            ScopeName::Kubepods => &self.kubepods,
        };
        let (now, last) = (ring.back()?, ring.iter().nth_back(1)?);
        let is_long = now.at.since(ring.front()?.at) >= SHORTEST;
        is_long.then_some(refaults(last.reclaim?, now.reclaim?, now.at.since(last.at)))
    }
}

/// One reading of one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reading {
    at: Nanos,
    /// In use: of the node `MemTotal` - `MemAvailable`, of pods what is no page cache; plus swap.
    demand: Bytes,
    /// The same of pods with page cache in use, which counts while it is read back as fast as it is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    with_active: Option<Bytes>,
    reclaim: Option<Reclaim>,
}

/// Memory that is free, and memory that reclaim could free.
#[derive(Debug, Clone, Copy)]
struct Room {
    free: Bytes,
    cache: Bytes,
    /// Of that cache, what cannot be freed while it is read back as fast as it is dropped.
    active: Bytes,
    /// Of that cache, what `memory.min` keeps.
    kept: Bytes,
    /// Whether only pods at limits of their own drop cache.
    is_apart: bool,
    /// Whether poor reclaim efficiency reduces the cache that counts.
    in_vain_counts: bool,
}

/// One outlook per scope; a scope whose memory was not read is left out.
pub fn outlooks(
    sample: &Sample,
    kubepods: Option<(CgroupId, &Scope)>,
    limited: Limited,
    standing: &mut GrowthStanding,
) -> Vec<Outlook> {
    let GrowthStanding { system, kubepods: pods, kubepods_id } = standing;
    let id = kubepods.map(|(id, _)| id).unwrap_or_default();
    if id != *kubepods_id {
        (*pods, *kubepods_id) = (VecDeque::new(), id);
    }
    let now = sample.at.boot;
    let node = read_node(sample, now).map(|(reading, room)| {
        push(system, reading);
        outlook(ScopeName::System, system, reading, room, limited.node)
    });
    let pods = kubepods.and_then(|(id, scope)| {
        let knows_causes = sample.kernel.as_ref().is_some_and(|kernel| kernel.covers.memory_causes);
        let (reading, room) = read_pods(scope, knows_causes, now)?;
        let room = room.map(|room| Room { kept: kept_cache(sample, Some(id)), ..room });
        push(pods, reading);
        Some(outlook(ScopeName::Kubepods, pods, reading, room, limited.pods))
    });
    node.into_iter().chain(pods).collect()
}

/// Scopes with a tenth of their memory or less left. With more left a forecast is too early: of 64
/// GiB with 50 free, ten growing in a second is most likely a program that starts.
pub fn low(
    outlooks: &[Outlook],
    sample: &Sample,
    kubepods: Option<(CgroupId, &Scope)>,
) -> Vec<ScopeName> {
    let all = |scope| match scope {
        ScopeName::System => sample.node.memory.map(|memory| memory.usual().0),
        ScopeName::Kubepods => kubepods?.1.files.as_ref()?.memory.max?.at(),
    };
    let is_low = |outlook: &&Outlook| {
        outlook.left.zip(all(outlook.scope)).is_some_and(|(left, all)| left.0 <= all / LOW)
    };
    outlooks.iter().filter(is_low).map(|outlook| outlook.scope).collect()
}

/// From so many refaults a second on, cache that is dropped is read back at once: it is in use.
pub(crate) const THRASH: u64 = 1_000;

/// Whether a threshold that is not about an amount is met while page cache is in use. Of an amount,
/// as the kubelet has it, cache is what it counts itself.
pub fn is_thrashing(met: &Met, outlooks: &[Outlook]) -> bool {
    let Trigger::Pressure(threshold) = met.threshold else { return false };
    let outlook = outlooks.iter().find(|outlook| outlook.scope == threshold.scope);
    outlook.and_then(|outlook| outlook.refaults).is_some_and(|refaults| refaults >= THRASH)
}

/// The node: `MemAvailable`, of which `MemFree` is free at once, and what `memory.min` keeps is not left.
fn read_node(sample: &Sample, at: Nanos) -> Option<(Reading, Option<Room>)> {
    let memory = sample.node.memory?;
    let free = Bytes(memory.free.0.min(memory.available.0));
    let cache = Bytes(memory.available.0.saturating_sub(free.0));
    let demand = memory.in_use();
    let reading = Reading { at, demand, with_active: None, reclaim: sample.node.reclaim };
    let active = Bytes(0);
    let kept = kept_cache(sample, None);
    Some((reading, Some(Room { free, cache, active, kept, is_apart: false, in_vain_counts: true })))
}

/// kubepods: the limit less its usage, and its page cache, also what is active of it, as `MemAvailable`
/// counts it. With it most nodes are full.
///
/// Its reclaim counters include reclaim at each pod's own limit, which is mostly in vain, and what such
/// a pod reads back. Both count only while tasks stall at the allocatable limit, refaults also where that
/// is not known.
fn read_pods(kubepods: &Scope, knows_causes: bool, at: Nanos) -> Option<(Reading, Option<Room>)> {
    let files = kubepods.files.as_ref()?;
    let memory = files.memory;
    let (current, cache) = (memory.current?, takers::cache(files)?);
    let active = memory.stat.map(|stat| stat.active_file).unwrap_or_default();
    let used = current.0.saturating_sub(cache.0);
    let stalls = kubepods.shortage.map(|union| union.avg10 > Percent(0));
    let room = memory.max.and_then(Limit::at).map(|max| Room {
        free: Bytes(max.saturating_sub(current.0)),
        cache: Bytes(current.0 - used),
        active,
        kept: Bytes(0),
        is_apart: stalls == Some(false) && knows_causes,
        in_vain_counts: stalls == Some(true),
    });
    let demand = Bytes(used.saturating_add(takers::swapped(files).0));
    let with_active = Some(Bytes(demand.0.saturating_add(active.0)));
    let reclaim = memory.stat.map(|stat| Reclaim {
        scanned: stat.pgscan,
        reclaimed: stat.pgsteal,
        refaults: stat.workingset_refault_anon.saturating_add(stat.workingset_refault_file),
    });
    Some((Reading { at, demand, with_active, reclaim }, room))
}

/// Adds a reading. The last is the newest, the first the oldest of the window.
fn push(ring: &mut VecDeque<Reading>, reading: Reading) {
    if ring.back().is_some_and(|last| last.at >= reading.at) {
        ring.clear();
    }
    let n = ring.len();
    if n >= 2 && reading.at.since(ring[n - 2].at) < APART {
        ring.pop_back();
    }
    ring.push_back(reading);
    while ring.len() > 2 && reading.at.since(ring[1].at) >= WINDOW {
        ring.pop_front();
    }
    // After a pause the old reading says nothing about the present growth.
    if ring.len() == 2 && reading.at.since(ring[0].at).0 > 2 * WINDOW.0 {
        ring.pop_front();
    }
}

fn outlook(
    scope: ScopeName,
    ring: &VecDeque<Reading>,
    now: Reading,
    room: Option<Room>,
    limited: Vec<(u64, u64)>,
) -> Outlook {
    let then = ring.front().copied().unwrap_or(now);
    let over = now.at.since(then.at);
    let is_long = over >= SHORTEST;
    let reclaim = then.reclaim.zip(now.reclaim).filter(|_| is_long);
    let efficiency = reclaim.and_then(|(then, now)| efficiency(then, now));
    let refaults = reclaim.map(|(then, now)| refaults(then, now, over));
    let is_apart = room.is_some_and(|room| room.is_apart);
    let is_read_back = refaults.is_some_and(|refaults| refaults >= THRASH) && !is_apart;
    // Readings of before it was kept do not tell.
    let is_known = ring.iter().all(|reading| reading.with_active.is_some());
    let in_use = |reading: &Reading| {
        let with_active = reading.with_active.filter(|_| is_read_back && is_known);
        with_active.unwrap_or(reading.demand).0
    };
    let readings = ring.iter().rev().map(|reading| (reading.at, in_use(reading)));
    let growth = takers::rate(readings).map(|rate| u64::try_from(rate).unwrap_or(0));
    let left = room.map(|room| {
        let kept = if is_read_back { room.active.max(room.kept).0 } else { room.kept.0 };
        left(Room { cache: Bytes(room.cache.0.saturating_sub(kept)), ..room }, efficiency)
    });
    let lasts = left.zip(growth).and_then(|(left, growth)| lasts(left.0, growth, limited));
    Outlook { scope, left, growth: growth.map(Bytes), lasts, efficiency, refaults }
}

/// Pages per second.
fn refaults(then: Reclaim, now: Reclaim, over: Nanos) -> u64 {
    per_second(now.refaults.saturating_sub(then.refaults), over)
}

/// Until nothing is left; `None` if that does not come. A party that is `limited` (its growth per
/// second, and its room) grows until it meets its own limit and no further.
fn lasts(mut left: u64, mut growth: u64, mut limited: Vec<(u64, u64)>) -> Option<Nanos> {
    let until = |(rate, room): &(u64, u64)| scale(*room, Nanos::SECOND.0, *rate);
    limited.sort_by_key(until);
    let mut passed = 0;
    for party in limited {
        let stretch = until(&party).saturating_sub(passed);
        let lost = scale(growth, stretch, Nanos::SECOND.0);
        if lost >= left {
            break;
        }
        left -= lost;
        passed = passed.saturating_add(stretch);
        growth = growth.saturating_sub(party.0);
    }
    let rest = || scale(left, Nanos::SECOND.0, growth);
    (growth > 0).then(|| Nanos(passed.saturating_add(rest())))
}

/// Cache counts fully at good efficiency, not at all at critical efficiency, linearly in between.
fn left(room: Room, efficiency: Option<Percent>) -> Bytes {
    let efficiency = efficiency.filter(|_| room.in_vain_counts);
    let efficiency = efficiency.map_or(GOOD, |efficiency| u64::from(efficiency.0));
    let counts = efficiency.clamp(VAIN, GOOD) - VAIN;
    Bytes(room.free.0.saturating_add(scale(room.cache.0, counts, GOOD - VAIN)))
}

/// Share of scanned pages that were reclaimed; `None` if too few were scanned or a counter
/// decreased.
fn efficiency(then: Reclaim, now: Reclaim) -> Option<Percent> {
    let scanned = now.scanned.checked_sub(then.scanned)?;
    let reclaimed = now.reclaimed.checked_sub(then.reclaimed)?;
    (scanned >= FEWEST_SCANNED).then(|| Percent::share(reclaimed, scanned))
}

fn per_second(amount: u64, over: Nanos) -> u64 {
    scale(amount, Nanos::SECOND.0, over.0)
}

#[cfg(test)]
mod tests;
