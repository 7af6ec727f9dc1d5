use proptest::prelude::*;

use super::super::series::ALL;
use super::*;

/// 100,000 s after the boot, and 2026-11-22T12:00:00Z.
const NOW: Moment =
    Moment { boot: Nanos(100_000 * Nanos::SECOND.0), wall: Nanos(1_795_348_800 * Nanos::SECOND.0) };

/// Two parameters, and what they come to or what is wrong.
type Row<T> = (Option<&'static str>, Option<&'static str>, Result<T, &'static str>);

#[test]
fn stretch_parse_takes_moments() {
    #[rustfmt::skip]
    let table: [Row<(u64, u64)>; 19] = [
        // begin, end, seconds of the boot clock or what is wrong
        (None,                              None,            Ok((99_400, 100_000))),
        (Some("-1h"),                       None,            Ok((96_400, 100_000))),
        (Some("-1h"),                       Some("-30m"),    Ok((96_400, 98_200))),
        (Some("-90"),                       None,            Ok((99_910, 100_000))),
        (None,                              Some("-1h"),     Ok((95_800, 96_400))),
        (Some("2026-11-22T11:59:00Z"),      None,            Ok((99_940, 100_000))),
        (Some("2026-11-22T12:59:00+01:00"), None,            Ok((99_940, 100_000))),
        (Some("1795348700"),                None,            Ok((99_900, 100_000))),
        (Some("-1m"),                       Some("2030-01-01T00:00:00Z"), Ok((99_940, 100_000))),
        (Some("-24h"),                      None,            Ok((13_600, 100_000))),
        (Some("1d ago"),                    Some("now"),     Ok((13_600, 100_000))),
        (Some("20 min ago"),                Some("10m ago"), Ok((98_800, 99_400))),
        (Some("-25h"),                      None,            Err("goes back 24 h")),
        (Some("1970-01-01T00:00:00Z"),      None,            Err("goes back 24 h")),
        (Some("1950-01-01T00:00:00Z"),      None,            Err("begin: expected now")),
        (Some("-1m"),                       Some("-5m"),     Err("begin must be before end")),
        (Some("2030-01-01T00:00:00Z"),      None,            Err("begin must be before end")),
        (Some("yesterday"),                 None,            Err("begin: expected now")),
        (None,                              Some("--5m"),    Err("end: expected now")),
    ];
    for (begin, end, want) in table {
        let got = Stretch::parse(begin, end, 600, NOW);
        let got =
            got.map(|Stretch { begin, end }| (begin.0 / 1_000_000_000, end.0 / 1_000_000_000));
        match want {
            Ok(want) => assert_eq!(got, Ok(want), "{begin:?} {end:?}"),
            Err(text) => assert!(got.is_err_and(|why| why.contains(text)), "{begin:?} {end:?}"),
        }
    }
}

/// Begin, end and step of points, and whether they are made of seconds.
type Expected = Result<(u64, u64, u64, bool), &'static str>;

#[test]
fn points_fit_into_an_answer() {
    #[rustfmt::skip]
    let table: [((u64, u64), Option<&str>, Expected); 16] = [
        // begin, end, step; begin, end and step of points, from seconds
        ((99_400, 100_000), None, Ok((99_400, 100_000, 1, true))),
        ((99_401, 100_000), Some("10s"), Ok((99_400, 100_000, 10, true))),
        ((99_401, 99_999), Some("7"), Ok((99_400, 100_002, 7, true))),
        ((96_400, 100_000), None, Ok((96_400, 100_000, 1, true))),
        ((96_399, 100_000), None, Ok((96_390, 100_000, 10, false))),
        ((96_399, 96_500), Some("1m"), Ok((96_360, 96_540, 60, false))),
        ((96_399, 96_500), Some("5"), Err("step must be a multiple of 10 s")),
        ((13_600, 100_000), None, Ok((13_590, 100_020, 30, false))),
        ((13_600, 100_000), Some("10s"), Err("a step of 30 s has fewer")),
        ((13_600, 100_000), Some("1h"), Ok((10_800, 100_800, 3_600, false))),
        ((99_400, 100_000), Some("0"), Err("step must be a multiple of 1 s")),
        ((99_400, 100_000), Some("1.5s"), Err("step: expected a length")),
        ((99_400, 100_000), Some("-5"), Err("step: expected a length")),
        ((99_400, 100_000), Some("24h"), Ok((86_400, 172_800, 86_400, true))),
        ((99_400, 100_000), Some("86401"), Err("and 24 h at most")),
        ((0, 0), None, Ok((0, 0, 10, false))),
    ];
    for ((begin, end), step, want) in table {
        let seconds = |n| Nanos(n * Nanos::SECOND.0);
        let got = Stretch { begin: seconds(begin), end: seconds(end) }.points(step, NOW.boot);
        let got = got.map(|Grid { begin, end, step, is_fine, .. }| (begin, end, step, is_fine));
        match want {
            Ok(want) => assert_eq!(got, Ok(want), "{begin} {end} {step:?}"),
            Err(text) => {
                assert!(got.clone().is_err_and(|why| why.contains(text)), "{step:?}: {got:?}");
            }
        }
    }
}

#[test]
fn points_end_before_what_came_after_the_moment() {
    #[rustfmt::skip]
    let table = [
        // begin, end, step; the end of points, and the second from which on nothing is told
        ((99_400, 99_995),  "10", (100_000, 99_995)),
        ((96_399, 96_495),  "10", (96_490,  96_490)), // not whole at that moment
        ((96_399, 96_495),  "60", (96_540,  96_490)),
        ((96_399, 100_000), "10", (100_000, 100_000)),
        ((96_399, 96_400),  "10", (96_400,  96_400)),
        ((96_391, 96_395),  "10", (96_390,  96_390)), // none
    ];
    for ((begin, end), step, want) in table {
        let seconds = |n| Nanos(n * Nanos::SECOND.0);
        let of = Stretch { begin: seconds(begin), end: seconds(end) };
        let got = of.points(Some(step), NOW.boot).unwrap();
        assert_eq!((got.end, got.until), want, "{begin} {end} {step}");
    }
    // The newest ten seconds go on.
    let newest = Stretch { begin: Nanos(0), end: Nanos(99_995 * Nanos::SECOND.0) };
    let got = newest.points(Some("30"), newest.end).unwrap();
    assert_eq!((got.end, got.until), (100_020, 100_000));
}

#[test]
fn wanted_names_what_there_is() {
    assert_eq!(wanted(&ALL, "agent.cpu,agent,agent.cpu").unwrap().len(), 3);
    let why = wanted(&ALL, "system.cpu.some,sytem.cpu").unwrap_err();
    assert!(why.contains("\"sytem.cpu\"") && why.contains("system.cpu.contention"), "{why}");
}

#[test]
fn only_refuses_other_parameters() {
    let pairs = [("begin".to_owned(), "-5m".to_owned()), ("stepp".to_owned(), "1".to_owned())];
    assert_eq!(only(&pairs[..1], ["begin", "end"]), Ok([Some("-5m".into()), None]));
    let why = only(&pairs, ["begin", "end"]).unwrap_err();
    assert_eq!(why, "there is no parameter \"stepp\", only begin, end");
}

proptest! {
    /// Whatever is asked for, an answer is bounded, or there is a reason why there is none.
    #[test]
    fn points_are_bounded(
        begin in prop::option::of("-?[0-9]{0,20}[smhd]?|.{0,30}"),
        end in prop::option::of("-?[0-9]{0,20}[smhd]?|.{0,30}"),
        step in prop::option::of("[0-9]{0,20}[smhd]?|.{0,20}"),
        booted in 0_u64..1 << 62,
        wall in 0_u64..u64::MAX,
    ) {
        let now = Moment { boot: Nanos(booted), wall: Nanos(wall) };
        let stretch = Stretch::parse(begin.as_deref(), end.as_deref(), 600, now);
        match stretch.and_then(|stretch| stretch.points(step.as_deref(), now.boot)) {
            Ok(range) => {
                prop_assert!((1..=REACH).contains(&range.step), "{:?}", range);
                prop_assert!((range.end - range.begin) / range.step <= POINTS + 1, "{:?}", range);
                prop_assert!(range.end <= now.boot.0 / Nanos::SECOND.0 + 1 + range.step, "{:?}", range);
            }
            Err(why) => prop_assert!(!why.is_empty()),
        }
    }
}
