use super::*;

#[test]
fn shares_and_weight_of_requests() {
    #[rustfmt::skip]
    let table = [
        // milli CPUs, shares, weight
        (0,               2,      1),
        (1,               2,      1),
        (10,             10,      1),
        (100,           102,      4),
        (500,           512,     20),
        (1_000,       1_024,     39),
        (4_000,       4_096,    157),
        (64_000,     65_536,  2_500),
        (256_000,   262_144, 10_000),
        (300_000,   262_144, 10_000),
        (u64::MAX,  262_144, 10_000),
    ];
    for (milli, want, want_weight) in table {
        let got = shares(milli);
        assert_eq!((got, weight(got)), (want, want_weight), "{milli}m");
    }
}

#[test]
fn shares_of_weight_round_trip() {
    for written in [2, 102, 1_024, 65_536, MAX_SHARES] {
        let read = shares_of_weight(weight(written));
        assert!(read <= written && written - read <= 27, "{written} reads as {read}");
    }
}
