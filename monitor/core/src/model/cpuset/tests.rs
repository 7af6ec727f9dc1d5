use proptest::collection::btree_set;
use proptest::prelude::*;

use super::*;

#[test]
fn cpuset_parses_and_prints() {
    #[rustfmt::skip]
    let table: [(&str, &[u32], &str); 12] = [
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
    let number = |part: &str| CpuSetError::Number(part.into());
    let backwards = |part: &str| CpuSetError::Backwards(part.into());
    #[rustfmt::skip]
    let table = [
        // text, error
        ("0-",             number("0-")),
        ("-1",             number("-1")),
        ("-",              number("-")),
        (",",              number("")),
        ("0,",             number("")),
        (",0",             number("")),
        ("0,,1",           number("")),
        ("a",              number("a")),
        ("0-a",            number("0-a")),
        ("0-1-2",          number("0-1-2")),
        ("1--2",           number("1--2")),
        ("0 - 1",          number("0 - 1")),
        (" 0",             number(" 0")),
        ("0\n",            number("0\n")),
        ("0x1",            number("0x1")),
        ("1.5",            number("1.5")),
        ("3-1",            backwards("3-1")),
        ("0,7-4",          backwards("7-4")),
        ("0-65536",        number("0-65536")),
        ("0-4294967295",   number("0-4294967295")), // would take gigabytes
        ("99999999999999", number("99999999999999")),
    ];
    for (text, want) in table {
        assert_eq!(text.parse::<CpuSet>(), Err(want), "{text:?}");
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
    fn cpuset_round_trip(cpus in btree_set(0..TOO_LARGE, 0..64)) {
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
