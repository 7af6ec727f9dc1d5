use super::*;

#[test]
fn shares_and_weight_of_requests() {
    #[rustfmt::skip]
    let table = [
        // milli CPUs, shares, weight by the kubelet, weight by the runtime
        (0,               2,      1,      1),
        (1,               2,      1,      1),
        (10,             10,      1,      4),
        (100,           102,      4,     17),
        (500,           512,     20,     59),
        (1_000,       1_024,     39,    100),
        (4_000,       4_096,    157,    303),
        (64_000,     65_536,  2_500,  3_023),
        (256_000,   262_144, 10_000, 10_000),
        (300_000,   262_144, 10_000, 10_000),
        (u64::MAX,  262_144, 10_000, 10_000),
    ];
    for (milli, want, old, new) in table {
        let got = shares(milli);
        assert_eq!((got, weight(got), container_weight(got)), (want, old, new), "{milli}m");
    }
}

#[test]
fn shares_weight_of_the_runtimes_cases() {
    #[rustfmt::skip]
    let table = [
        // shares, weight
        (0, 0), (1, 1), (2, 1), (3, 2), (1_024, 100),
        (262_143, 10_000), (262_144, 10_000), (262_145, 10_000), (u64::MAX, 10_000),
    ];
    for (shares, want) in table {
        assert_eq!(container_weight(shares), want, "{shares} shares");
    }
}

#[test]
fn shares_weight_equals_floating_point() {
    for shares in 3..MAX_SHARES {
        let l = (shares as f64).log2();
        let exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
        let want = 10_f64.powf(exponent).ceil() as u64;
        assert_eq!(container_weight(shares), want, "{shares} shares");
    }
}

/// Weights that nearly reach what is wanted are taken for reaching it, so none may come near
/// without meeting it.
#[test]
fn shares_weight_equal_only_if_equal() {
    let (ten, mut nearest) = (log2(10), u128::MAX);
    for shares in (3..MAX_SHARES).filter(|shares| *shares != 1_024) {
        let l = log2(shares);
        let wanted = (((l * l) >> FRACTION) + 125 * l) * ten;
        let offered = |weight: u64| ((612 * log2(weight)) << FRACTION) + 126 * ten * ONE;
        let weight = container_weight(shares);
        nearest = nearest.min(offered(weight).abs_diff(wanted));
        nearest = nearest.min(offered(weight - 1).abs_diff(wanted));
    }
    assert!(nearest > 1_000 * NEARLY, "{nearest} is near {NEARLY}");
}

#[test]
fn shares_of_weight_round_trip() {
    for written in [2, 102, 1_024, 65_536, MAX_SHARES] {
        let read = shares_of_weight(weight(written));
        assert!(read <= written && written - read <= 27, "{written} reads as {read}");
    }
}
