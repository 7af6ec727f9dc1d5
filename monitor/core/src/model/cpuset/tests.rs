use proptest::collection::btree_set;
use proptest::prelude::*;

use super::*;

#[test]
fn cpuset_parses_and_prints() {
    #[rustfmt::skip]
    let table: [(&str, &[u32], &str); 13] = [
        // text, CPUs, printed
        ("",            &[],                ""),
        ("0",           &[0],               "0"),
        ("0-1",         &[0, 1],            "0-1"), // two are a range, too
        ("0,1",         &[0, 1],            "0-1"),
        ("3-3",         &[3],               "3"),
        ("0-1,8-9",     &[0, 1, 8, 9],      "0-1,8-9"),
        ("0,2-4,7",     &[0, 2, 3, 4, 7],   "0,2-4,7"),
        ("9,8,1,0",     &[0, 1, 8, 9],      "0-1,8-9"), // unordered
        ("0-3,2-5,5",   &[0, 1, 2, 3, 4, 5], "0-5"),    // twice
        ("1,2,3,5",     &[1, 2, 3, 5],      "1-3,5"),
        ("007",         &[7],               "7"),
        ("+1,2-+3,0--0", &[0, 1, 2, 3],     "0-3"),     // as strconv.Atoi reads
        ("65535",       &[65_535],          "65535"),
    ];
    for (text, cpus, printed) in table {
        let got: CpuSet = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(got.0.iter().eq(cpus), "{text}: {got:?}");
        assert_eq!(got.to_string(), printed, "{text}");
    }
}

#[test]
fn cpuset_refuses() {
    let syntax = |number: &str| format!("strconv.Atoi: parsing {number:?}: invalid syntax");
    let range = |number: &str| format!("strconv.Atoi: parsing {number:?}: value out of range");
    let large = |part: &str| format!("{part:?} names a CPU above 65535");
    #[rustfmt::skip]
    let table = [
        // text, what Go says, printed by Go 1.19 with these; isobar's own for what Go takes
        ("0-",             syntax("")),
        ("-1",             syntax("")),
        ("-",              syntax("")),
        (",",              syntax("")),
        ("0,",             syntax("")),
        (",0",             syntax("")),
        ("0,,1",           syntax("")),
        ("a",              syntax("a")),
        ("x-1",            syntax("x")),
        ("0-a",            syntax("a")),
        ("0-1-2",          syntax("1-2")),
        ("0 - 1",          syntax("0 ")),
        (" 0",             syntax(" 0")),
        ("0\n",            syntax("0\n")),
        ("0\u{7f}",        "strconv.Atoi: parsing \"0\\x7f\": invalid syntax".into()),
        ("0x1",            syntax("0x1")),
        ("1.5",            syntax("1.5")),
        ("1--2",           "invalid range \"1--2\" (1 > -2)".into()),
        ("3-1",            "invalid range \"3-1\" (3 > 1)".into()),
        ("0,007-+4",       "invalid range \"007-+4\" (7 > 4)".into()),
        ("9223372036854775808", range("9223372036854775808")),
        ("9223372036854775808x", syntax("9223372036854775808x")),
        ("18446744073709551616x", range("18446744073709551616x")),
        ("0-65536",        large("0-65536")),
        ("0-4294967295",   large("0-4294967295")), // would take gigabytes
        ("99999999999999", large("99999999999999")),
        ("70000,x",        syntax("x")),
    ];
    for (text, want) in table {
        let error = text.parse::<CpuSet>().expect_err(text);
        assert_eq!(error.in_go(), want, "{text:?}");
    }
}

#[test]
fn cpuset_refuses_options_in_plain_words() {
    #[rustfmt::skip]
    let table = [
        // text, what is said
        ("0-a", "\"0-a\" is no CPU number and no range of them, as 8 or 0-3"),
        ("7-4", "the range \"7-4\" ends before it starts"),
    ];
    for (text, want) in table {
        assert_eq!(text.parse::<CpuSet>().map_err(|error| error.to_string()), Err(want.into()));
    }
}

#[test]
fn cpuset_repeated_ranges_are_cheap() {
    let text = vec!["0-65535"; 2_000].join(",");
    assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), "0-65535");
}

#[test]
fn cpuset_json_is_text() {
    let cpus: CpuSet = "0-3,8".parse().unwrap();
    assert_eq!(serde_json::to_string(&cpus).unwrap(), "\"0-3,8\"");
    assert_eq!(serde_json::from_str::<CpuSet>("\"0-3,8\"").unwrap(), cpus);
    assert!(serde_json::from_str::<CpuSet>("\"0-\"").is_err());
}

proptest! {
    #[test]
    fn cpuset_round_trip(cpus in btree_set(0..=LARGEST, 0..64)) {
        let set = CpuSet(cpus);
        prop_assert_eq!(set.to_string().parse(), Ok(set));
    }

    #[test]
    fn cpuset_print_never_panics(cpus in btree_set(u32::MAX - 4..=u32::MAX, 0..5)) {
        let n_commas = CpuSet(cpus.clone()).to_string().matches(',').count();
        prop_assert!(n_commas <= cpus.len());
    }

    #[test]
    fn cpuset_parse_never_panics(text in "[0-9,+ -]{0,40}|\\PC{0,12}") {
        if let Ok(set) = text.parse::<CpuSet>() {
            prop_assert_eq!(set.to_string().parse(), Ok(set));
        }
    }
}
