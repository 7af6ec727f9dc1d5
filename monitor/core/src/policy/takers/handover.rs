//! What one agent leaves to the next of who took memory.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::iter::repeat_n;

use super::figures::{Counts, Holding, held};
use super::fills::Fills;
use super::{Slot, TakerStanding, taker_from};
use crate::model::cgroup::CgroupId;
use crate::model::node::Meminfo;
use crate::model::sample::Sample;
use crate::model::threshold::Resource;
use crate::model::units::{Bytes, Nanos};
use crate::policy::workload::Parties;

/// After a longer pause what an agent before this one knew is no use.
const PAUSE: Nanos = Nanos(60 * Nanos::SECOND.0);
/// Of so many parties the next agent knows how they changed.
const KEPT: usize = 64;

impl TakerStanding {
    /// Goes on from what the agent before left. What came and went meanwhile, and is none of what it
    /// knew, is not looked at.
    pub(super) fn go_on(&mut self, sample: &Sample, parties: &Parties<'_>) {
        let is_other = |id: &CgroupId| !parties.contains_key(id) && sample.cgroups.contains_key(id);
        let Some(last) = self.slots.back().copied() else { return };
        if sample.at.boot.since(last.at) > PAUSE || self.parties.keys().any(is_other) {
            *self = Self::default();
            return;
        }
        self.parties.retain(|id, _| parties.contains_key(id));
        let now = sample.node.memory.map(Meminfo::in_use);
        let Some((now, then)) = now.zip(last.node) else { return };
        let grown = self.parties.iter().map(|(id, readings)| {
            let has = parties[id].files.as_deref().and_then(held);
            let had = readings.back().map(|last| last.amount(Counts::Held));
            has.zip(had).map_or(0, |(has, had)| i128::from(has.0) - i128::from(had))
        });
        let unknown = i128::from(now.0) - i128::from(then.0) - grown.sum::<i128>();
        self.slots.iter_mut().for_each(|slot| slot.had_more(unknown));
    }

    /// For the next agent: all readings of the parties that changed most, the last one of the others.
    pub(crate) fn who_changed(&self) -> Self {
        let changed = |readings: &VecDeque<Holding>| {
            let spread = |counts| {
                let all = readings.iter().map(|reading| reading.amount(counts));
                all.clone().max().unwrap_or_default() - all.min().unwrap_or_default()
            };
            let memory = spread(Counts::Held) / taker_from(0, Resource::Memory);
            memory.max(spread(Counts::Threads) / taker_from(0, Resource::Pids))
        };
        let all = self.parties.iter().map(|(id, readings)| (Reverse(changed(readings)), *id));
        let mut all: Vec<_> = all.filter(|(Reverse(changed), _)| *changed > 0).collect();
        all.sort_unstable();
        let kept: BTreeSet<_> = all.into_iter().take(KEPT).map(|(_, id)| id).collect();
        let (mut slots, heirs) = (self.slots.clone(), self.heirs.clone());
        let (anew, killed) = (self.anew.clone(), self.killed.clone());
        let mut one = |(id, readings): (&CgroupId, &VecDeque<Holding>)| {
            let last = readings.back().copied().unwrap_or_default();
            if kept.contains(id) {
                return (*id, readings.clone());
            }
            // What it changed by would belong to no party.
            for (slot, reading) in slots.iter_mut().rev().zip(readings.iter().rev()) {
                slot.had_more(i128::from(last.0) - i128::from(reading.0));
            }
            (*id, repeat_n(last, readings.len()).collect())
        };
        let parties = self.parties.iter().map(&mut one).collect();
        Self { slots, parties, heirs, anew, killed, fills: Fills::default() }
    }
}

impl Slot {
    fn had_more(&mut self, bytes: i128) {
        let more = |node: Bytes| (i128::from(node.0) + bytes).clamp(0, i128::from(u64::MAX));
        self.node = self.node.map(|node| Bytes(u64::try_from(more(node)).expect("it is clamped")));
    }
}
