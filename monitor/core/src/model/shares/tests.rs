use super::*;

#[test]
fn requests_become_shares_and_weights_as_the_kubelet_and_the_runtimes_have_it() {
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
fn a_weight_that_was_written_reads_back_as_about_the_shares_it_came_from() {
    for written in [2, 102, 1_024, 65_536, MAX_SHARES] {
        let read = shares_of_weight(weight(written));
        assert!(read <= written && written - read <= 27, "{written} reads as {read}");
    }
}
