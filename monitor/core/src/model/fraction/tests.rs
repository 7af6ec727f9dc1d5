use proptest::prelude::*;

use super::*;

#[test]
fn fraction_of_matches_the_kubelet() {
    #[rustfmt::skip]
    let table = [
        // percent, capacity, share
        (5.0,   10_737_418_240,      536_870_920),
        (10.0,  10_737_418_240,    1_073_741_840),
        (10.0,  34_359_738_368,    3_435_973_888),
        (5.0,    1_048_576_000,       52_428_800),
        (25.5,           1_000,              254), // a float's 0.255 is a little less
        (0.0,   34_359_738_368,                0),
        (100.0, 34_359_738_368,   34_359_738_368),
        (15.0,               0,                0),
        (100.0,       u64::MAX,         u64::MAX),
    ];
    for (percent, capacity, want) in table {
        let got = Fraction::of_percent(percent).map(|fraction| fraction.of(capacity));
        assert_eq!(got, Some(want), "{percent} % of {capacity}");
    }
}

#[test]
fn fraction_of_is_bounded() {
    for percent in [-15.0, -0.001, 100.01, 150.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(Fraction::of_percent(percent), None, "{percent} %");
    }
    assert_eq!(Fraction::of_percent(-0.0), Fraction::of_percent(0.0), "there is one nothing");
    for json in ["-0.1", "1.5", "null", "\"0.5\""] {
        assert!(serde_json::from_str::<Fraction>(json).is_err(), "{json}");
    }
}

proptest! {
    #[test]
    fn fraction_round_trip(a in 0.0_f32..=100.0, b in 0.0_f32..=100.0) {
        let [a, b] = [a, b].map(|percent| Fraction::of_percent(percent).unwrap());
        let json = serde_json::to_string(&a).unwrap();
        prop_assert_eq!(serde_json::from_str::<Fraction>(&json).unwrap(), a, "{}", json);
        prop_assert!(a > b || a.of(1 << 40) <= b.of(1 << 40));
    }
}

#[test]
fn fraction_prints_percent() {
    for text in ["0%", "5%", "10%", "15%", "0.1%", "33.3%", "99.99%", "100%", "0.001%"] {
        let percent = text.trim_end_matches('%').parse().unwrap();
        assert_eq!(Fraction::of_percent(percent).unwrap().to_string(), text);
    }
}
