//! Tells which cgroup made which other one wait, in no more pairs than a recording can carry.
//! In: the entries of the matrix of one tick. Out: [`Aggression`]s, by victim and aggressor.

use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::stall::Aggression;
use isobar_core::model::units::Nanos;
use isobar_ebpf::Pair;

/// About as many pairs are told of a tick at most.
const PAIRS: u64 = 500;

/// The pairs of the `n`th tick in units of [`unit`]: a node of 500 cgroups on pressed CPUs has 5,000
/// in a second, most of them short, and every recorded tick would carry them. What is rounded off one
/// pair goes to the aggressor's next one, so that its harm is right to a unit, however many victims
/// share it. Where the first unit begins differs from aggressor to aggressor and from tick to tick,
/// so that over some ticks each pair gets its part. A pair that comes to 0 is left out.
pub(super) fn aggressions(mut pairs: Vec<(Pair, u64)>, n: u64) -> Vec<Aggression> {
    let unit = unit(&pairs);
    pairs.sort_unstable_by_key(|(pair, _)| (pair.aggressor, pair.victim));
    let of_one = |(pairs, step): (&[(Pair, u64)], u64)| {
        // Steps of the golden ratio: each falls into the widest gap between those before.
        let mut rest = unit / 1_000 * (step * 618 % 1_000);
        let told = pairs.iter().map(|(pair, time)| {
            rest = rest.saturating_add(*time);
            let time = rest / unit * unit;
            rest -= time;
            let [victim, aggressor] = [pair.victim, pair.aggressor].map(CgroupId);
            Aggression { victim, aggressor, time: Nanos(time) }
        });
        told.filter(|one| one.time.0 != 0).collect::<Vec<_>>()
    };
    let by_aggressor = pairs.chunk_by(|a, b| a.0.aggressor == b.0.aggressor);
    let mut told: Vec<_> = by_aggressor.zip(n..).flat_map(of_one).collect();
    told.sort_unstable(); // so that a recording names each victim once
    told
}

/// In ns: the first of 1 µs, 2, 5, 10 and so on by which about [`PAIRS`] pairs are told at most. It
/// is at most a two hundredth of all waits of the tick.
fn unit(pairs: &[(Pair, u64)]) -> u64 {
    let decades = (3..=18).map(|zeros| 10_u64.pow(zeros));
    let mut units = decades.flat_map(|decade| [1, 2, 5].map(|n| n * decade));
    let told = |unit: u64| {
        let times = pairs.iter().map(|(_, time)| (*time).min(unit));
        times.fold(0, u64::saturating_add) / unit
    };
    units.find(|unit| told(*unit) <= PAIRS).expect("what fits a u64 is at most 18 of 10^18")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn pair(victim: u64, aggressor: u64, time: u64) -> (Pair, u64) {
        (Pair { victim, aggressor }, time)
    }

    #[test]
    fn unit_leaves_five_hundred_pairs() {
        #[rustfmt::skip]
        let table = [
            // short pairs and ns of each, long pairs and ns of each, unit
            (0,     0,       0,     0,              1_000),
            (500,   900_000, 0,     0,              1_000),
            (501,   900_000, 0,     0,              1_000_000),  // 450.9 units
            (5_000, 900_000, 0,     0,              10_000_000),
            (5_000, 900_000, 2,     20_000_000_000, 10_000_000), // long ones change little
            (5_000, 900_000, 400,   20_000_000_000, 50_000_000),
            (0,     0,       5_000, 60_000_000_000, 1_000_000_000_000),
            (0,     0,       5_000, u64::MAX,       50_000_000_000_000_000), // counters of no use
        ];
        for (n_short, short, n_long, long, want) in table {
            let times = [vec![short; n_short], vec![long; n_long]].concat();
            let pairs: Vec<_> = times.into_iter().map(|time| pair(1, 2, time)).collect();
            assert_eq!(unit(&pairs), want, "{n_short} of {short} ns, {n_long} of {long} ns");
        }
    }

    #[test]
    fn aggressions_keep_the_harm_of_each_aggressor_and_in_time_the_wait_of_each_victim() {
        #[rustfmt::skip]
        let table = [
            // victims of each of two aggressors, ns of each pair
            (2,     1_600_499),
            (250,   1_600_500),
            (1_000, 1_000_000), // a whole number of units
            (2_000, 400_100),   // five victims share a unit
            (2_750, 4_000_777),
        ];
        for (n, time) in table {
            let case = format!("{n} victims, {time} ns");
            let pairs: Vec<_> = (0..2 * n).map(|i| pair(10 + i / 2, 5_000 + i % 2, time)).collect();
            let unit = unit(&pairs);
            let n_ticks = 60;
            let mut of = BTreeMap::new();
            for tick in 0..n_ticks {
                let told = aggressions(pairs.clone(), tick);
                assert!(told.len() as u64 <= PAIRS + 2, "{case}: {} pairs are told", told.len());
                for aggressor in [5_000, 5_001].map(CgroupId) {
                    let its = told.iter().filter(|one| one.aggressor == aggressor);
                    let off = its.map(|one| one.time.0).sum::<u64>().abs_diff(n * time);
                    assert!(off <= unit, "{case}: harm of {aggressor:?} is {off} ns off");
                }
                for one in told {
                    *of.entry(one.victim).or_insert(0) += one.time.0;
                }
            }
            assert_eq!(of.len() as u64, n, "{case}: victims that were told");
            for (victim, told) in of {
                let off: u64 = told.abs_diff(n_ticks * 2 * time);
                assert!(off <= 5 * unit, "{case}: wait of {victim:?} is {off} ns off");
            }
        }
    }

    #[test]
    fn aggressions_of_huge_times_do_not_overflow() {
        let told = aggressions(vec![pair(1, 3, u64::MAX), pair(2, 3, u64::MAX)], 1);
        assert!(!told.is_empty());
    }

    #[test]
    fn aggressions_of_many_aggressors_are_spread_over_the_ticks() {
        let pairs: Vec<_> = (0..3_000).map(|i| pair(1, 10 + i, 100_000)).collect();
        for tick in 0..100 {
            let told = aggressions(pairs.clone(), tick);
            let all: u64 = told.iter().map(|one| one.time.0).sum();
            assert!(told.len() <= 500, "tick {tick}: {} pairs", told.len());
            assert!(all.abs_diff(300_000_000) < 5_000_000, "tick {tick}: {all} ns");
        }
    }
}
