use proptest::prelude::*;

use super::*;

const US: i64 = 1_000;
const MS: i64 = 1_000 * US;
const S: i64 = 1_000 * MS;
const M: i64 = 60 * S;
const H: i64 = 60 * M;

#[test]
fn duration_parses_and_prints() {
    #[rustfmt::skip]
    let table = [
        // text, nanoseconds, as Go prints it
        ("0",            0,                      "0s"),
        ("+0",           0,                      "0s"),
        ("-0",           0,                      "0s"),
        ("0s",           0,                      "0s"),
        ("5s",           5 * S,                  "5s"),
        ("30s",          30 * S,                 "30s"),
        ("1478s",        1_478 * S,              "24m38s"),
        ("-5s",          -5 * S,                 "-5s"),
        ("+5s",          5 * S,                  "5s"),
        ("5.0s",         5 * S,                  "5s"),
        ("5.6s",         5 * S + 600 * MS,       "5.6s"),
        ("5.s",          5 * S,                  "5s"),
        (".5s",          500 * MS,               "500ms"),
        ("1.004s",       S + 4 * MS,             "1.004s"),
        ("1.0040s",      S + 4 * MS,             "1.004s"),
        ("100.00100s",   100 * S + MS,           "1m40.001s"),
        ("10ns",         10,                     "10ns"),
        ("11us",         11 * US,                "11µs"),
        ("12µs",         12 * US,                "12µs"), // U+00B5
        ("12μs",         12 * US,                "12µs"), // U+03BC
        ("1.5us",        1_500,                  "1.5µs"),
        ("13ms",         13 * MS,                "13ms"),
        ("14s",          14 * S,                 "14s"),
        ("15m",          15 * M,                 "15m0s"),
        ("-1m",          -M,                     "-1m0s"),
        ("1h",           H,                      "1h0m0s"),
        ("1.5h",         90 * M,                 "1h30m0s"),
        ("16h",          16 * H,                 "16h0m0s"),
        ("1m30s",        90 * S,                 "1m30s"),
        ("3h30m",        3 * H + 30 * M,         "3h30m0s"),
        ("10.5s4m",      4 * M + 10 * S + 500 * MS, "4m10.5s"),
        ("-2m3.4s",      -(2 * M + 3 * S + 400 * MS), "-2m3.4s"),
        ("1h2m3s4ms5us6ns", H + 2 * M + 3 * S + 4 * MS + 5 * US + 6, "1h2m3.004005006s"),
        ("39h9m14.425s", 39 * H + 9 * M + 14 * S + 425 * MS, "39h9m14.425s"),
        ("52763797000ns", 52_763_797_000,        "52.763797s"),
        ("0.3ns",        0,                      "0s"),
        ("0.100000000000000000000h", 6 * M,      "6m0s"),
        ("0.830103483285477580700h", 49 * M + 48 * S + 372_539_827, "49m48.372539827s"),
        ("9223372036854775807ns", i64::MAX,      "2562047h47m16.854775807s"),
        ("-9223372036854775808ns", i64::MIN,     "-2562047h47m16.854775808s"),
        ("2562047h47m16.854775807s", i64::MAX,   "2562047h47m16.854775807s"),
        ("-2562047h47m16.854775808s", i64::MIN,  "-2562047h47m16.854775808s"),
        ("000000000000000000000000000005s", 5 * S, "5s"),
    ];
    for (text, nanos, printed) in table {
        let got: GoDuration = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(got.0, nanos, "{text}");
        assert_eq!(got.to_string(), printed, "{text}");
    }
}

#[test]
fn duration_refuses() {
    let many = "9".repeat(10_000);
    let whole = format!("{many}h");
    let sum = "9223372036854775807ns".repeat(10_000);
    #[rustfmt::skip]
    let table = [
        // text, beginning of the error
        ("",                       "time: invalid duration \"\""),
        ("3",                      "time: missing unit in duration \"3\""),
        ("30mins",                 "time: unknown unit \"mins\" in duration \"30mins\""),
        ("-",                      "time: invalid duration \"-\""),
        ("s",                      "time: invalid duration \"s\""),
        (".",                      "time: invalid duration \".\""),
        ("-.",                     "time: invalid duration \"-.\""),
        (".s",                     "time: invalid duration \".s\""),
        ("+.s",                    "time: invalid duration \"+.s\""),
        ("1d",                     "time: unknown unit \"d\" in duration \"1d\""),
        ("1w",                     "time: unknown unit \"w\" in duration \"1w\""),
        ("1S",                     "time: unknown unit \"S\" in duration \"1S\""),
        ("1 s",                    "time: unknown unit \" s\" in duration \"1 s\""),
        (" 1s",                    "time: invalid duration \" 1s\""),
        ("1m-1s",                  "time: unknown unit \"m-\" in duration \"1m-1s\""),
        ("--1s",                   "time: invalid duration \"--1s\""),
        ("1m3",                    "time: missing unit in duration \"1m3\""),
        ("1e3s",                   "time: unknown unit \"e\" in duration \"1e3s\""),
        ("9223372036854775808ns",  "time: invalid duration"),
        ("-9223372036854775809ns", "time: invalid duration"),
        ("3000000h",               "time: invalid duration"),
        ("9223372036854775807h",   "time: invalid duration"),
        ("18446744073709551616ns", "time: invalid duration"),
        ("2562047h47m16.854775808s", "time: invalid duration"),
        (&whole,                   "time: invalid duration"),
        (&sum,                     "time: invalid duration"),
    ];
    for (text, want) in table {
        let error = text.parse::<GoDuration>().map(|d| d.0).unwrap_err().to_string();
        assert!(error.starts_with(want), "{:.40}: {error:.80}", text);
    }
}

#[test]
fn duration_negative_is_none() {
    #[rustfmt::skip]
    let table = [(-1, 0), (i64::MIN, 0), (0, 0), (5, 5), (i64::MAX, i64::MAX.cast_unsigned())];
    for (nanos, want) in table {
        assert_eq!(GoDuration(nanos).nanos(), Nanos(want), "{nanos}");
    }
    assert_eq!(GoDuration::from(Nanos(u64::MAX)), GoDuration(i64::MAX), "cut to what it holds");
}

proptest! {
    #[test]
    fn duration_round_trip(nanos: i64) {
        let text = GoDuration(nanos).to_string();
        prop_assert_eq!(text.parse(), Ok(GoDuration(nanos)), "{}", text);
    }

    #[test]
    fn duration_parse_never_panics(text in "[+-]?([0-9]{0,40}(\\.[0-9]{0,40})?(ns|us|µs|ms|s|m|h|\\PC)?){0,4}") {
        if let Ok(duration) = text.parse::<GoDuration>() {
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
