//! Which cgroups made others wait in each minute.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::spans::newest;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::sample::Moment;
use isobar_core::model::snapshot::Blame;
use isobar_core::model::units::Nanos;
use isobar_core::view::cpu_loss::Harm;

/// Pairs of cgroups that are kept of a tick and of a minute, and that are counted within one.
pub(super) const OF_TICK: usize = 8;
const OF_MINUTE: usize = 6;
const COUNTED: usize = 64;
const MINUTE: u64 = 60 * Nanos::SECOND.0;

/// Which cgroups made which others wait in a minute.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Minute {
    pub(super) begin: Moment,
    /// How long its ticks were together: less than a minute if it is not over, or if ticks are missing.
    over: Nanos,
    aggressions: Vec<Blame>,
    /// Its last tick so far, on the boot clock.
    #[serde(skip)]
    last: Nanos,
}

#[derive(Debug)]
pub(super) struct Minutes {
    room: usize,
    kept: VecDeque<Minute>,
    /// Of the last minute, all pairs that are counted.
    pairs: BTreeMap<(CgroupId, CgroupId), Blame>,
    first: Option<Moment>,
}

impl Minutes {
    pub(super) fn new(room: usize) -> Self {
        let (kept, pairs, first) = Default::default();
        Self { room, kept, pairs, first }
    }

    /// Adds the waits of a tick that cost most to those of its minute.
    pub(super) fn put(&mut self, at: Moment, interval: Nanos, aggressions: Vec<Blame>) {
        self.first.get_or_insert(at);
        let into = at.boot.0 % MINUTE;
        let begin = Moment { boot: Nanos(at.boot.0 - into), wall: at.wall.since(Nanos(into)) };
        if self.kept.back().is_none_or(|minute| minute.begin.boot != begin.boot) {
            self.pairs.clear();
            self.kept.push_back(Minute { begin, ..Minute::default() });
            newest(&mut self.kept, self.room);
        }
        for blame in aggressions {
            let pair = (blame.victim, blame.aggressor);
            if self.pairs.len() >= COUNTED && !self.pairs.contains_key(&pair) {
                let least = self.pairs.iter().min_by_key(|(_, blame)| Harm::of(blame));
                let least = least.map(|(pair, _)| *pair);
                least.and_then(|pair| self.pairs.remove(&pair));
            }
            match self.pairs.get_mut(&pair) {
                Some(known) => {
                    let Harm { loss, time } = Harm::of(known).plus(Harm::of(&blame));
                    (known.loss, known.time) = (Some(loss), time);
                }
                None => _ = self.pairs.insert(pair, blame),
            }
        }
        let mut most: Vec<_> = self.pairs.values().collect();
        most.sort_by_key(|blame| Reverse(Harm::of(blame)));
        if let Some(minute) = self.kept.back_mut() {
            (minute.over, minute.last) = (minute.over.plus(interval), at.boot);
            minute.aggressions = most.into_iter().take(OF_MINUTE).cloned().collect();
        }
    }

    /// Every minute of which a part lies between, and that has nothing of what came after `now`: what
    /// a minute was up to a moment in it is not kept.
    pub(super) fn between(&self, begin: Nanos, end: Nanos, now: Nanos) -> Vec<&Minute> {
        let within = |minute: &&Minute| {
            let over = minute.begin.boot.plus(Nanos(MINUTE));
            minute.begin.boot < end && over > begin && minute.last <= now
        };
        self.kept.iter().filter(within).collect()
    }

    /// The first tick, or the begin of the first minute that is kept.
    pub(super) fn known_since(&self) -> Option<Moment> {
        self.kept.front().map(|minute| minute.begin).max(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Moment {
        Moment { boot: Nanos(second * Nanos::SECOND.0), ..Moment::default() }
    }

    fn blame(victim: u64, aggressor: u64, seconds: u64, lost: u64) -> Blame {
        Blame {
            victim: CgroupId(victim),
            aggressor: CgroupId(aggressor),
            time: Nanos(seconds * Nanos::SECOND.0),
            loss: Some(Nanos(lost * Nanos::SECOND.0)),
            ..Blame::default()
        }
    }

    #[test]
    fn minutes_keep_the_waits_that_cost_most() {
        let mut minutes = Minutes::new(60);
        for second in 120..=180 {
            let mut waits = vec![blame(1, 2, 2, 1)];
            waits.extend((0..OF_TICK as u64 - 1).map(|n| blame(second * 10 + n, 7, 200, 0)));
            minutes.put(at(second), Nanos::SECOND, waits);
            assert!(minutes.pairs.len() <= COUNTED);
        }
        let all = minutes.between(at(0).boot, at(1_000).boot, at(1_000).boot);
        let told: Vec<_> = all.iter().map(|one| (one.begin, one.over, &one.aggressions)).collect();
        let [(first, minute, most), (second, so_far, few)] = told[..] else { panic!("{told:?}") };
        assert_eq!((first, minute, most.len()), (at(120), at(60).boot, OF_MINUTE));
        assert_eq!(most[0], blame(1, 2, 120, 60));
        assert_eq!((second, so_far, &few[0]), (at(180), at(1).boot, &blame(1, 2, 2, 1)));
        assert!(minutes.between(at(0).boot, at(120).boot, at(1_000).boot).is_empty());
    }

    #[test]
    fn minutes_tell_nothing_of_what_came_after_the_moment() {
        let mut minutes = Minutes::new(2);
        assert_eq!(minutes.known_since(), None);
        for second in 150..=310 {
            minutes.put(at(second), Nanos::SECOND, vec![blame(1, 2, 1, 1)]);
            let since = minutes.known_since().unwrap();
            let first = if second < 240 { 150 } else { second / 60 * 60 - 60 };
            assert_eq!(since, at(first), "second {second}");
        }
        #[rustfmt::skip]
        let table = [
            // the moment, the begins of the minutes that are told
            (310, &[240, 300][..]),
            (309, &[240]),
            (299, &[240]),
            (298, &[]),
        ];
        for (now, want) in table {
            let told = minutes.between(Nanos(0), at(now).boot, at(now).boot);
            let begins: Vec<_> = told.iter().map(|one| one.begin).collect();
            assert_eq!(begins, want.iter().map(|second| at(*second)).collect::<Vec<_>>(), "{now}");
        }
    }
}
