//! Tells who made whom wait in as many figures as a recording can carry.
//! In: the entries of the matrix of one tick. Out: [`Aggression`]s, by victim and aggressor.

use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::stall::Aggression;
use isobar_core::model::units::Nanos;
use isobar_ebpf::Pair;

/// All times of a tick add up to at most this many units, so no more pairs are told.
const UNITS: u64 = 1_000;

/// The pairs of the `n`th tick in units of [`unit`]: what a wait is charged to is sampled, and more
/// digits are noise that every recorded tick would carry. What is rounded off one pair goes to the
/// aggressor's next one, so that its harm is right to a unit, however many victims share it. Where
/// the first unit begins moves from tick to tick, so that over some ticks each victim gets its part.
/// A pair that comes to 0 is left out.
pub(super) fn aggressions(mut pairs: Vec<(Pair, u64)>, n: u64) -> Vec<Aggression> {
    let unit = unit(pairs.iter().map(|(_, time)| time).sum());
    // Steps of the golden ratio: each falls into the widest gap between those before.
    let from = unit / 1_000 * (n.wrapping_mul(618) % 1_000);
    pairs.sort_unstable_by_key(|(pair, _)| (pair.aggressor, pair.victim));
    let of_one = |pairs: &[(Pair, u64)]| {
        let mut rest = from;
        let told = pairs.iter().map(|(pair, time)| {
            rest += time;
            let time = rest / unit * unit;
            rest -= time;
            let [victim, aggressor] = [pair.victim, pair.aggressor].map(CgroupId);
            Aggression { victim, aggressor, time: Nanos(time) }
        });
        told.filter(|one| one.time.0 != 0).collect::<Vec<_>>()
    };
    let mut told: Vec<_> =
        pairs.chunk_by(|a, b| a.0.aggressor == b.0.aggressor).flat_map(of_one).collect();
    told.sort_unstable(); // so that a recording names each victim once
    told
}

/// 1, 2 or 5 with zeros behind it, in ns; at least a microsecond.
fn unit(all: u64) -> u64 {
    let decades = (3..=18).map(|zeros| 10_u64.pow(zeros));
    let mut units = decades.flat_map(|decade| [1, 2, 5].map(|n| n * decade));
    units.find(|unit| all / unit <= UNITS).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn pair(victim: u64, aggressor: u64, time: u64) -> (Pair, u64) {
        (Pair { victim, aggressor }, time)
    }

    #[test]
    fn unit_is_a_thousandth_of_all_or_more() {
        #[rustfmt::skip]
        let table = [
            // ns of all pairs, unit
            (0,               1_000),
            (1_000_999,       1_000),
            (1_001_000,       2_000),
            (3_000_000_000,   5_000_000),
            (70_000_000_000,  100_000_000),
            (u64::MAX,        20_000_000_000_000_000),
        ];
        for (all, want) in table {
            assert_eq!(unit(all), want, "{all} ns");
        }
    }

    #[test]
    fn aggressions_keep_the_harm_of_each_aggressor_and_in_time_the_wait_of_each_victim() {
        #[rustfmt::skip]
        let table = [
            // victims of each of two aggressors, ns of each pair
            (2,     1_600_499),
            (250,   1_600_500),
            (500,   1_000_000), // a whole number of units
            (2_000, 400_100),   // a unit is 2 ms, which five victims share
            (2_750, 4_000_777),
        ];
        for (n, time) in table {
            let case = format!("{n} victims, {time} ns");
            let pairs: Vec<_> = (0..2 * n).map(|i| pair(10 + i / 2, 5_000 + i % 2, time)).collect();
            let unit = unit(2 * n * time);
            let n_ticks = 60;
            let mut of = BTreeMap::new();
            for tick in 0..n_ticks {
                let told = aggressions(pairs.clone(), tick);
                assert!(told.len() as u64 <= UNITS + 2, "{case}: {} pairs are told", told.len());
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
}
