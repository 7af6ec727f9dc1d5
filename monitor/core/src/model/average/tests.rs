use proptest::prelude::*;

use super::*;

/// The kernel's functions written down line by line, with the kernel's names, to compare with.
mod kernel {
    pub(super) const PSI_PERIOD: u64 = 2_004_000_000;
    const FSHIFT: u32 = 11;
    const FIXED_1: u64 = 1 << FSHIFT;

    #[derive(Debug, Default)]
    pub(super) struct Group {
        pub(super) avg_next_update: u64,
        pub(super) avg_last_update: u64,
        pub(super) avg_total: u64,
        pub(super) avg: [u64; 3],
    }

    pub(super) fn psi_show(group: &mut Group, now: u64, total: u64) -> [String; 3] {
        if now >= group.avg_next_update {
            group.avg_next_update = update_averages(group, now, total);
        }
        group.avg.map(|x| format!("{}.{:02}", x >> FSHIFT, ((x & (FIXED_1 - 1)) * 100) >> FSHIFT))
    }

    fn update_averages(group: &mut Group, now: u64, total: u64) -> u64 {
        let mut missed_periods = 0;
        let expires = group.avg_next_update;
        if now - expires >= PSI_PERIOD {
            missed_periods = (now - expires) / PSI_PERIOD;
        }
        let avg_next_update = expires + (1 + missed_periods) * PSI_PERIOD;
        let period = now - (group.avg_last_update + missed_periods * PSI_PERIOD);
        group.avg_last_update = now;
        // The one addition: the kernel's total never shrinks.
        if total < group.avg_total {
            group.avg_total = total;
        }
        let mut sample = total - group.avg_total;
        if sample > period {
            sample = period;
        }
        group.avg_total += sample;
        calc_avgs(&mut group.avg, missed_periods, sample, period);
        avg_next_update
    }

    fn calc_avgs(avg: &mut [u64; 3], missed_periods: u64, time: u64, period: u64) {
        if missed_periods > 0 {
            avg[0] = calc_load_n(avg[0], 1677, 0, missed_periods);
            avg[1] = calc_load_n(avg[1], 1981, 0, missed_periods);
            avg[2] = calc_load_n(avg[2], 2034, 0, missed_periods);
        }
        let mut pct = time * 100 / period;
        pct *= FIXED_1;
        avg[0] = calc_load(avg[0], 1677, pct);
        avg[1] = calc_load(avg[1], 1981, pct);
        avg[2] = calc_load(avg[2], 2034, pct);
    }

    fn calc_load_n(load: u64, exp: u64, active: u64, n: u64) -> u64 {
        calc_load(load, fixed_power_int(exp, n), active)
    }

    fn calc_load(load: u64, exp: u64, active: u64) -> u64 {
        let mut newload = load * exp + active * (FIXED_1 - exp);
        if active >= load {
            newload += FIXED_1 - 1;
        }
        newload / FIXED_1
    }

    fn fixed_power_int(mut x: u64, mut n: u64) -> u64 {
        let mut result = 1 << FSHIFT;
        if n > 0 {
            loop {
                if n & 1 > 0 {
                    result *= x;
                    result += 1 << (FSHIFT - 1);
                    result >>= FSHIFT;
                }
                n >>= 1;
                if n == 0 {
                    break;
                }
                x *= x;
                x += 1 << (FSHIFT - 1);
                x >>= FSHIFT;
            }
        }
        result
    }
}

fn shown(average: &Average) -> [String; 3] {
    [average.avg10(), average.avg60(), average.avg300()].map(|p| p.to_string())
}

/// Steps of the clock (mostly about a second; standing still, backwards and gaps among them) and
/// growths of the total (mostly within the step, at times beyond it or backwards).
fn steps() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let clock = prop_oneof![
        6 => 900_000_000..1_100_000_000_i64,
        2 => 0..5_000_000_i64,
        1 => -3_000_000_000..=0_i64,
        1 => 2_000_000_000..4_000_000_000_000_i64,
    ];
    let total = prop_oneof![
        6 => 0..1_100_000_000_i64,
        1 => Just(0),
        1 => -2_000_000_000..0_i64,
        1 => 0..60_000_000_000_i64,
    ];
    prop::collection::vec((clock, total), 0..200)
}

proptest! {
    #[test]
    fn average_matches_the_kernel(steps in steps()) {
        let (mut now, mut total) = (1_000_000_000_000_u64, 7_000_000_000_u64);
        let mut ours = Average::new(Nanos(now), Nanos(total));
        let mut theirs = kernel::Group {
            avg_next_update: now + kernel::PSI_PERIOD,
            avg_last_update: now,
            avg_total: total,
            avg: [0; 3],
        };
        for (i, (clock, growth)) in steps.into_iter().enumerate() {
            now = now.saturating_add_signed(clock);
            total = total.saturating_add_signed(growth);
            ours.update(Nanos(now), Nanos(total));
            prop_assert_eq!(shown(&ours), kernel::psi_show(&mut theirs, now, total), "step {}", i);
        }
    }

    #[test]
    fn average_never_exceeds_full(
        readings in prop::collection::vec((any::<u64>(), any::<u64>()), 1..50),
    ) {
        let mut average = Average::new(Nanos(readings[0].0), Nanos(readings[0].1));
        for pair in readings.windows(2) {
            let [before, now] = [pair[0], pair[1]]
                .map(|(at, total)| Reading { at: Nanos(at), total: Nanos(total) });
            average.catch_up(before, now);
            prop_assert!(average.avg10() <= Percent::FULL);
            average.update(now.at, now.total);
            prop_assert!(average.avg300() <= Percent::FULL);
        }
    }
}

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

#[test]
fn average_of_a_full_stall() {
    let mut average = Average::new(Nanos(0), Nanos(0));
    #[rustfmt::skip]
    let table = [
        // periods of full stall, avg10 in whole percents, rounded down: 1 - exp(-2n/10)
        (1, 18), (2, 32), (5, 63), (15, 95), (100, 100),
    ];
    let mut n = 0;
    for (until, want) in table {
        while n < until {
            n += 1;
            average.update(Nanos(n * PERIOD.0), Nanos(n * PERIOD.0));
        }
        assert_eq!(average.avg10().0 / 100, want, "after {until} periods");
    }
}

#[test]
fn average_of_a_late_reader() {
    #[rustfmt::skip]
    let table = [
        // share of each second that is stalled, length of the gap in seconds
        (100, 5), (50, 5), (10, 61), (100, 1_900), (0, 30), (100, 1_000_000),
    ];
    for (percent, gap) in table {
        let total = |s: u64| Nanos(s * 10_000_000 * percent);
        let mut late = Average::new(Nanos(0), Nanos(0));
        for s in 1..=20 {
            late.update(seconds(s), total(s));
        }
        let mut punctual = late;
        let reading = |s| Reading { at: seconds(s), total: total(s) };
        late.catch_up(reading(20), reading(20 + gap));
        for s in 21..=20 + gap.min(5_000) {
            punctual.update(seconds(s), total(s));
        }
        for (late, punctual) in [(late.avg10(), punctual.avg10()), (late.avg60(), punctual.avg60())]
        {
            assert!(late.0.abs_diff(punctual.0) <= 4_00, "{percent} % {gap} s: {late} {punctual}");
        }
    }
}

#[test]
fn average_after_a_gap() {
    let mut average = Average::new(Nanos(0), Nanos(0));
    let gap = Reading { at: seconds(40), total: seconds(40) };
    average.catch_up(Reading::default(), gap);
    assert!(average.avg10() > Percent(95_00), "{}", average.avg10());
    for s in 41..=60 {
        average.update(seconds(s), gap.total);
    }
    assert!(average.avg10() < Percent(20_00), "{}", average.avg10());
}

#[test]
fn average_between_readings() {
    let reading = |at, total| Reading { at: Nanos(at), total: Nanos(total) };
    #[rustfmt::skip]
    let table = [
        // from, to, moment, total
        (reading(10, 100), reading(20, 200), 15, 150),
        (reading(10, 100), reading(20, 200),  5, 100), // not before
        (reading(10, 100), reading(20, 200), 25, 200), // not beyond
        (reading(10, 100), reading(10, 200), 10, 200), // no time between
        (reading(10, 100), reading(20,  50), 15, 100), // a total that shrinks does not count
    ];
    for (from, to, moment, want) in table {
        assert_eq!(from.on_the_way_to(to, Nanos(moment)), Nanos(want), "{from:?} {to:?} {moment}");
    }
}
