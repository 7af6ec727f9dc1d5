use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::series::ALL;
use super::*;

const PRESSURE: &str = "system.cpu.some";
const STALL: &str = "system.memory.stall.global";
const LEFT: &str = "system.memory.available";
const WAIT: &str = "system.cpu.wait.p99";

fn place(name: &str) -> usize {
    ALL.iter().position(|series| series.name == name).unwrap()
}

/// A row in which one series is known.
fn row(name: &str, value: Option<u64>) -> Vec<u16> {
    let mut row = vec![Code::UNKNOWN; ALL.len()];
    row[place(name)] = Code::stored(value.map(Code::exact));
    row
}

fn at(milliseconds: u64) -> Nanos {
    Nanos(milliseconds * 1_000_000)
}

fn read(
    rings: &Rings,
    name: &str,
    range: (u64, u64, u64, bool),
) -> Vec<(Option<u64>, Option<u64>)> {
    let (begin, end, step, is_fine) = range;
    let points = rings.read(place(name), Grid { begin, end, until: end, step, is_fine });
    let number = |code: Option<Code>| code.map(Code::number);
    points.map(|(value, peak)| (number(value), number(peak))).collect()
}

/// At, interval and value of a tick.
type Put = (u64, u64, u64);

#[test]
fn put_fills_the_seconds_of_a_tick() {
    #[rustfmt::skip]
    let table: [(&[Put], [Option<u64>; 5]); 6] = [
        // ticks: at in ms, interval in ms, value; seconds 10 to 14
        (&[(10_000, 0, 1), (11_000, 1_000, 2)],                      [Some(1), Some(2), None, None, None]),
        (&[(10_999, 0, 1), (12_001, 1_002, 2)],                      [Some(1), Some(2), Some(2), None, None]),
        (&[(10_500, 0, 1), (13_500, 3_000, 2)],                      [Some(1), None, None, Some(2), None]),
        (&[(10_500, 0, 5), (10_600, 100, 9), (10_700, 100, 7)],      [Some(9), None, None, None, None]),
        (&[(12_000, 0, 5), (11_000, 0, 9)],                          [None, None, Some(5), None, None]),
        (&[],                                                        [None; 5]),
    ];
    for (ticks, want) in table {
        let mut rings = Rings::new(&ALL);
        for &(when, interval, value) in ticks {
            rings.put(at(when), at(interval), &row(PRESSURE, Some(value)));
        }
        let got: Vec<_> = read(&rings, PRESSURE, (10, 15, 1, true));
        assert_eq!(got.iter().map(|(value, _)| *value).collect::<Vec<_>>(), want, "{ticks:?}");
    }
}

#[test]
fn second_weighs_parts_of_time() {
    let mut rings = Rings::new(&ALL);
    rings.put(at(10_000), at(900), &row(STALL, Some(10)));
    rings.put(at(10_100), at(100), &row(STALL, Some(100)));
    assert_eq!(read(&rings, STALL, (10, 11, 1, true)), [(Some(19), None)]);
}

#[test]
fn thin_keeps_what_a_mean_hides() {
    #[rustfmt::skip]
    let table = [
        // series, of ten seconds, of which nine are 10 and one is 90
        (PRESSURE, (Some(18), Some(90))),
        (STALL,    (Some(18), None)),
        (WAIT,     (Some(90), None)),
        (LEFT,     (Some(10), None)),
    ];
    for (name, want) in table {
        let mut rings = Rings::new(&ALL);
        for second in 20..30 {
            let value = if second == 24 { 90 } else { 10 };
            rings.put(at(second * 1_000), Nanos::SECOND, &row(name, Some(value)));
        }
        for is_fine in [true, false] {
            assert_eq!(read(&rings, name, (20, 30, 10, is_fine)), [want], "{name} {is_fine}");
        }
    }
}

#[test]
fn read_tells_nothing_of_later_seconds() {
    let mut rings = Rings::new(&ALL);
    for second in 20..40 {
        let value = if second < 25 { 10 } else { 90 };
        rings.put(at(second * 1_000), Nanos::SECOND, &row(PRESSURE, Some(value)));
    }
    for (until, is_fine, want) in [(25, true, [Some(10), None]), (30, false, [Some(50), None])] {
        let grid = Grid { begin: 20, end: 40, until, step: 10, is_fine };
        let got: Vec<_> = rings.read(place(PRESSURE), grid).map(|(value, _)| value).collect();
        assert_eq!(got, want.map(|value| value.map(Code::exact)), "until {until}");
    }
}

#[test]
fn rings_take_what_the_documentation_says() {
    let mut rings = Rings::new(&ALL);
    assert_eq!(rings.bytes(), 0, "nothing is paid for in advance");
    for second in 0..=REACH {
        rings.put(at(second * 1_000), Nanos::SECOND, &row(PRESSURE, Some(1)));
    }
    let (fine, coarse) = (3_600 * 52 * 2, 8_640 * (52 + 16) * 2);
    assert_eq!((ALL.len(), rings.bytes()), (52, fine + coarse));
    let text = include_str!("../../../../../docs/performance.md");
    let kib = (fine + coarse).div_ceil(1_024);
    assert!(text.contains(&format!("{kib} KiB")), "docs/performance.md does not say {kib} KiB");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Ticks at any distance: each known second is there, thinned as documented, or too old.
    #[test]
    fn rings_give_back_what_was_put_in(
        begun in 0_u64..1_000_000,
        ticks in prop::collection::vec(
            (prop_oneof![8 => 900_u64..1_100, 1 => 100_u64..400, 1 => 2_001_u64..900_000], 0_u64..100_00),
            1..400,
        ),
    ) {
        let mut rings = Rings::new(&ALL);
        let mut seconds = BTreeMap::<u64, u64>::new();
        let (mut now, mut last) = (begun, None);
        for (distance, value) in ticks {
            now += distance;
            let interval = last.map_or(0, |last| now - last);
            rings.put(at(now), at(interval), &row(PRESSURE, Some(value)));
            let (slot, before) = (now / 1_000, (now - interval) / 1_000);
            let first = if interval <= 2_000 { (before + 1).min(slot) } else { slot };
            for slot in first..=slot {
                let worst = seconds.entry(slot).or_default();
                *worst = value.max(*worst);
            }
            last = Some(now);
        }
        let end = now / 1_000 + 1;
        let begin = end.saturating_sub(SECONDS);
        let fine = read(&rings, PRESSURE, (begin, end, 1, true));
        for (second, (value, _)) in (begin..end).zip(fine) {
            prop_assert_eq!(value, seconds.get(&second).copied(), "second {}", second);
        }
        let end = end.next_multiple_of(COARSE);
        let begin = end.saturating_sub(REACH);
        let coarse = read(&rings, PRESSURE, (begin, end, COARSE, false));
        for (first, point) in (begin..end).step_by(10).zip(coarse) {
            let known: Vec<u64> = seconds.range(first..first + COARSE).map(|(_, v)| *v).collect();
            let mean = known.iter().sum::<u64>().checked_div(known.len() as u64);
            prop_assert_eq!(point, (mean, known.into_iter().max()), "from second {}", first);
        }
        prop_assert!(rings.bytes() <= (3_600 * 51 + 8_640 * 67) * 2);
    }
}
