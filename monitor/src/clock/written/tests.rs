use proptest::prelude::*;

use super::*;

const MINUTE: u64 = 60;
const DAY: u64 = 86_400;
/// 2026-11-22 12:00 UTC.
const NOON: u64 = 1_795_348_800;

fn seconds(n: u64) -> Nanos {
    Nanos(n * Nanos::SECOND.0)
}

fn noon() -> Moment {
    Moment { wall: seconds(NOON), ..Moment::default() }
}

#[test]
fn length_has_one_grammar() {
    #[rustfmt::skip]
    let table = [
        // text, seconds
        ("90",         Some(90)),
        ("0",          Some(0)),
        ("10s",        Some(10)),
        ("10m",        Some(10 * MINUTE)),
        ("10 min",     Some(10 * MINUTE)),
        ("2 minutes",  Some(2 * MINUTE)),
        ("1h30m",      Some(90 * MINUTE)),
        ("1h 30m",     Some(90 * MINUTE)),
        ("7d",         Some(7 * DAY)),
        ("1 day",      Some(DAY)),
        ("1d12h",      Some(36 * 3_600)),
        (" 5m ",       Some(5 * MINUTE)),
        ("1.5h",       Some(90 * MINUTE)),
        ("-5s",        None),
        ("-10",        None),
        ("5m ago",     None),
        ("1.5",        None),
        ("1 month",    None), // of which length?
        ("99999999999999999999", None),
        ("999999999d", None),
        ("soon",       None),
        ("",           None),
    ];
    for (text, want) in table {
        assert_eq!(length(text), want.map(seconds), "{text:?}");
    }
    assert_eq!(length("1500ms"), Some(Nanos(1_500_000_000)));
}

#[test]
fn when_is_the_last_of_two_where_the_clock_is_set_back() {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    // 2026-10-25 00:40 and 01:40 UTC are both 02:40.
    let (first, second) = (1_792_888_800, 1_792_892_400);
    #[rustfmt::skip]
    let table = [
        // the present, 02:40, whether that comes again today
        (first - 60,          first - 25 * 3_600 + 3_600, false),
        (first + 600,         first,                      true),
        (second - 60,         first,                      true),
        (second,              second,                     false),
        (second + 10 * 3_600, second,                     false),
        (second + 22 * 3_600, second,                     false), // on the next day
    ];
    for (present, want, again) in table {
        let now = Moment { wall: seconds(present), ..Moment::default() };
        assert_eq!(When::parse("02:40", now, &zone), Some(When::Wall(seconds(want))), "{present}");
        assert_eq!(When::comes_again("02:40", now, &zone), again, "{present}");
    }
}

#[test]
fn when_has_one_grammar() {
    #[rustfmt::skip]
    let table = [
        // text, seconds since 1970
        ("now",                       Some(NOON)),
        ("-10m",                      Some(NOON - 600)),
        ("-90",                       Some(NOON - 90)),
        ("-1d",                       Some(NOON - DAY)),
        ("10m ago",                   Some(NOON - 600)),
        ("10 min ago",                Some(NOON - 600)),
        ("1h30m ago",                 Some(NOON - 5_400)),
        ("1d ago",                    Some(NOON - DAY)),
        ("1795348700",                Some(NOON - 100)),
        ("2026-11-22T11:59:00Z",      Some(NOON - 60)),
        ("2026-11-22T12:59:00+01:00", Some(NOON - 60)),
        ("2026-11-20T02:40",          Some(NOON - 2 * DAY - 33_600)), // of that day, not of today
        ("2030-01-01T00:00:00Z",      Some(1_893_456_000)),
        ("11:40",                     Some(NOON - 1_200)),
        ("11:40:30",                  Some(NOON - 1_170)),
        ("12:40",                     Some(NOON + 2_400 - DAY)), // not yet today
        ("10 min",                    None),
        ("-10 min ago",               None),
        ("--5m",                      None),
        ("25:00",                     None),
        ("1950-01-01T00:00:00Z",      None),
        ("yesterday",                 None),
        ("ago",                       None),
        ("-",                         None),
        ("",                          None),
    ];
    for (text, want) in table {
        let got = When::parse(text, noon(), &TimeZone::UTC).map(|when| when.wall(noon()));
        assert_eq!(got, want.map(seconds), "{text:?}");
    }
}

#[test]
fn when_ago_of_a_clock_that_was_not_set() {
    let early = Moment { wall: seconds(5), ..Moment::default() };
    let ago = |text| When::parse(text, early, &TimeZone::UTC).unwrap().ago(early);
    assert_eq!(ago("-1h"), seconds(3_600), "the boot clock has an hour all the same");
    assert_eq!(ago("3"), seconds(2));
    assert_eq!(ago("2026-11-22T11:59:00Z"), seconds(0));
}

proptest! {
    #[test]
    fn length_reads_what_is_printed(n in 0_u64..1 << 33) {
        let (day, hour, minute, second) = (n / DAY, n / 3_600 % 24, n / 60 % 60, n % 60);
        let printed = [
            n.to_string(),
            format!("{n}s"),
            format!("{n} seconds"),
            format!("{day}d{hour}h{minute}m{second}s"),
            format!("{day} days {hour} hours {minute} min {second} s"),
        ];
        for text in printed {
            prop_assert_eq!(length(&text), Some(seconds(n)), "{}", text);
            for ago in [format!("-{text}"), format!("{text} ago")] {
                let when = When::parse(&ago, noon(), &TimeZone::UTC);
                prop_assert_eq!(when, Some(When::Ago(seconds(n))), "{}", ago);
            }
        }
    }

    #[test]
    fn when_reads_what_is_printed(n in 0_u64..1 << 33) {
        let at = Timestamp::from_second(n.cast_signed()).unwrap();
        for text in [at.to_string(), at.to_zoned(TimeZone::UTC).datetime().to_string(), n.to_string()] {
            let when = When::parse(&text, noon(), &TimeZone::UTC);
            prop_assert_eq!(when, Some(When::Wall(seconds(n))), "{}", text);
        }
    }

    #[test]
    fn length_and_when_never_panic(
        text in "-?([0-9]{0,20}(\\.[0-9]{0,20})?[ :T-]?(s|m|min|h|d|ago|now|Z|\\PC)?){0,4}",
        wall: u64,
    ) {
        let now = Moment { wall: Nanos(wall), ..Moment::default() };
        _ = length(&text);
        _ = When::parse(&text, now, &TimeZone::UTC).map(|when| (when.wall(now), when.ago(now)));
    }
}
