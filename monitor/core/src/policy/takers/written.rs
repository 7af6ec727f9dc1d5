//! The readings of all parties as they are written: as differences, because most stay as they were.

use std::collections::{BTreeMap, VecDeque};
use std::iter::{repeat, repeat_n};

use serde::{Deserialize, Serialize};

use super::acted::Killed;
use super::anew::Anew;
use super::figures::Holding;
use super::fills::Fills;
use super::heirs::Heirs;
use super::{Slot, TakerStanding};
use crate::model::cgroup::CgroupId;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Written {
    slots: VecDeque<Slot>,
    /// What a party held, and its cache, by turns: each less that of the reading before.
    readings: BTreeMap<CgroupId, Vec<i64>>,
    /// What a party held, its cache and its threads, which were the same in so many readings.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    steady: BTreeMap<CgroupId, (Holding, usize)>,
    /// Its threads, each less those of the reading before, without the zeros at the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    threads: BTreeMap<CgroupId, Vec<i64>>,
    /// By how much it held more at most since the reading before, without the zeros at the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    more: BTreeMap<CgroupId, Vec<u64>>,
    /// In full, in recordings of before.
    #[serde(skip_serializing)]
    parties: BTreeMap<CgroupId, VecDeque<Holding>>,
    #[serde(skip_serializing_if = "Fills::is_empty")]
    fills: Fills,
    #[serde(skip_serializing_if = "Heirs::is_empty")]
    heirs: Heirs,
    #[serde(skip_serializing_if = "Anew::is_empty")]
    anew: Anew,
    #[serde(skip_serializing_if = "Killed::is_empty")]
    killed: Killed,
}

impl From<TakerStanding> for Written {
    fn from(
        TakerStanding { slots, mut parties, fills, heirs, anew, killed }: TakerStanding,
    ) -> Self {
        let (mut threads, mut more) = (BTreeMap::new(), BTreeMap::new());
        let is_steady = |_: &CgroupId, readings: &mut VecDeque<Holding>| {
            readings.len() > 1 && readings.iter().all(|one| *one == readings[0])
        };
        let steady = parties.extract_if(.., is_steady);
        let steady = steady.map(|(id, readings)| (id, (readings[0], readings.len()))).collect();
        let readings = parties.into_iter().map(|(id, readings)| {
            let (mut before, mut n_differences) = (Holding::default(), Vec::new());
            let mut at_most: Vec<u64> = readings.iter().map(|reading| reading.3).collect();
            at_most.truncate(at_most.iter().rposition(|n| *n != 0).map_or(0, |n| n + 1));
            if !at_most.is_empty() {
                more.insert(id, at_most);
            }
            let differences = readings.into_iter().flat_map(|now| {
                let less = std::mem::replace(&mut before, now);
                n_differences.push(now.2.wrapping_sub(less.2).cast_signed());
                [now.0.wrapping_sub(less.0), now.1.wrapping_sub(less.1)].map(u64::cast_signed)
            });
            let differences = differences.collect();
            n_differences
                .truncate(n_differences.iter().rposition(|n| *n != 0).map_or(0, |n| n + 1));
            if !n_differences.is_empty() {
                threads.insert(id, n_differences);
            }
            (id, differences)
        });
        let readings = readings.collect();
        let parties = BTreeMap::new();
        Self { slots, readings, steady, threads, more, parties, fills, heirs, anew, killed }
    }
}

impl From<Written> for TakerStanding {
    fn from(written: Written) -> Self {
        let Written {
            slots,
            readings,
            steady,
            threads,
            more,
            mut parties,
            fills,
            heirs,
            anew,
            killed,
        } = written;
        // The number is of a file, and may be any.
        let as_many = |(held, n): (Holding, usize)| repeat_n(held, n.min(slots.len())).collect();
        parties.extend(steady.into_iter().map(|(id, one)| (id, as_many(one))));
        parties.extend(readings.into_iter().map(|(id, differences)| {
            let mut now = Holding::default();
            let n_differences = threads.get(&id).into_iter().flatten().chain(repeat(&0));
            let at_most = more.get(&id).into_iter().flatten().chain(repeat(&0));
            let all = differences.as_chunks().0.iter().zip(n_differences).zip(at_most);
            let readings = all.map(|(([held, cache], threads), more)| {
                now.3 = *more;
                now.0 = now.0.wrapping_add_signed(*held);
                now.1 = now.1.wrapping_add_signed(*cache);
                now.2 = now.2.wrapping_add_signed(*threads);
                now
            });
            (id, readings.collect())
        }));
        Self { slots, parties, fills, heirs, anew, killed }
    }
}

#[cfg(test)]
mod tests {
    use super::super::heirs::{Left, Named};
    use super::*;
    use crate::model::units::{Bytes, Nanos};

    #[test]
    fn written_readings_come_back() {
        let slots =
            VecDeque::from([Slot { at: Nanos(7), node: Some(Bytes(9)), ..Slot::default() }]);
        let parties = BTreeMap::from([
            (
                CgroupId(1),
                VecDeque::from([Holding(5, 9, 0, 0), Holding(5, 9, 0, 0), Holding(3, 10, 0, 0)]),
            ),
            (CgroupId(2), VecDeque::from([Holding(u64::MAX, 0, 0, 0), Holding(0, u64::MAX, 0, 0)])),
            (CgroupId(3), VecDeque::new()),
        ]);
        let standing = TakerStanding { slots, parties, ..TakerStanding::default() };
        let text = serde_json::to_string(&standing).unwrap();
        let want = r#""readings":{"1":[5,9,0,0,-2,1],"2":[-1,0,1,-1],"3":[]}"#;
        assert!(text.contains(want), "{text}");
        assert_eq!(serde_json::from_str::<TakerStanding>(&text).unwrap(), standing);
        let before = r#"{"slots":[{"at":7,"node":9}],"parties":{
            "1":[[5,9],[5,9],[3,10]],"2":[[18446744073709551615,0],[0,18446744073709551615]],"3":[]}}"#;
        assert_eq!(serde_json::from_str::<TakerStanding>(before).unwrap(), standing);
        let threads = [7, 9, 4, 4].map(|n| Holding(0, 0, n, 0));
        let (mut slots, parties) = (standing.slots, [(CgroupId(1), threads.into())].into());
        slots[0].ended = Bytes(3);
        let mut heirs = Heirs::default();
        let named = Named::default();
        for (id, at) in [(1, 1), (2, 2)] {
            let left = Left { at: Nanos(at), held: Holding(4, 0, 1, 0) };
            heirs.leave(CgroupId(id), named.clone(), left, false);
        }
        let new = [CgroupId(3)].into_iter();
        heirs.update(Nanos(2), |_| true, new, |_| Some(named.clone()));
        assert_eq!(heirs.of(CgroupId(3), Nanos(2)), Some(Holding(4, 0, 1, 0)));
        let mut standing = TakerStanding { slots, parties, heirs, ..TakerStanding::default() };
        let text = serde_json::to_string(&standing).unwrap();
        assert!(text.contains(r#""threads":{"1":[7,2,-5]}"#), "{text}");
        assert_eq!(serde_json::from_str::<TakerStanding>(&text).unwrap(), standing);
        // What was held between the readings.
        let more = [0, 7, 0].map(|more| Holding(5, 9, 0, more));
        standing.parties = [(CgroupId(1), more.into()), (CgroupId(2), [more[1]; 3].into())].into();
        let slot = Slot { most: [4, 2], short: [true, false], ..standing.slots[0] };
        standing.slots = [slot; 3].into();
        let text = serde_json::to_string(&standing).unwrap();
        assert!(text.contains(r#""more":{"1":[0,7]}"#), "{text}");
        assert_eq!(serde_json::from_str::<TakerStanding>(&text).unwrap(), standing);
    }
}
