use std::path::Path;

use crate::config;
use isobar_core::model::fraction::Fraction;
use isobar_core::model::threshold::Amount;

/// The thresholds of a configuration with these fields, one a line, or what is wrong with it.
fn parsed(fields: &str) -> String {
    let text = format!("apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n{fields}\n");
    let settings = match config::settings(&text, "f", Path::new("")) {
        Ok(settings) => settings,
        Err(invalid) => return invalid.problems.iter().map(|p| p.message.as_str()).collect(),
    };
    let amount = |amount: Amount| match amount {
        Amount::Quantity(quantity) => quantity.to_string(),
        Amount::Percentage(fraction) => serde_json::to_string(&fraction).unwrap(),
    };
    let thresholds = settings.eviction.thresholds.into_iter().map(|threshold| {
        let reclaim = threshold.min_reclaim.map_or("-".into(), amount);
        let (signal, value) = (threshold.signal, amount(threshold.value));
        format!("{signal}<{value} {} {reclaim}", threshold.grace.0 / 1_000_000_000)
    });
    thresholds.collect::<Vec<_>>().join(", ")
}

fn fields(hard: &str, soft: &str, grace: &str, reclaim: &str) -> String {
    parsed(&format!(
        "enforceNodeAllocatable: [none]\nevictionHard: {hard}\nevictionSoft: {soft}\n\
         evictionSoftGracePeriod: {grace}\nevictionMinimumReclaim: {reclaim}"
    ))
}

#[test]
fn thresholds_parse_as_in_the_kubelet() {
    #[rustfmt::skip]
    let table = [
        // case, hard, soft, grace, minimum reclaim, signal<amount grace reclaim
        ("T1",  "{}", "{}", "{}", "{}", ""),
        ("T3",  "{memory.available: 10%}", "{memory.available: 30%}", "{memory.available: 30s}", "{memory.available: 5%}",
            "memory.available<0.1 0 0.05, memory.available<0.3 30 0.05"),
        ("T4",  "{imagefs.available: 150Mi, nodefs.available: 100Mi}", "{imagefs.available: 300Mi, nodefs.available: 200Mi}",
            "{imagefs.available: 30s, nodefs.available: 30s}", "{imagefs.available: 2Gi, nodefs.available: 1Gi}",
            "imagefs.available<150Mi 0 2Gi, nodefs.available<100Mi 0 1Gi, imagefs.available<300Mi 30 2Gi, nodefs.available<200Mi 30 1Gi"),
        ("T7",  "{memory.available: 0%}", "{memory.available: 0%}", "{}", "{}", ""),
        ("T8",  "{memory.available: 100%}", "{memory.available: 100%}", "{}", "{}", ""),
        ("T9",  "{mem.available: 150Mi}", "{}", "{}", "{}", "unsupported eviction signal mem.available"),
        ("T10", "{memory.available: -150Mi}", "{}", "{}", "{}", "eviction threshold memory.available must be positive: -150Mi"),
        ("T11", "{memory.available: -15%}", "{}", "{}", "{}", "eviction percentage threshold memory.available must be >= 0%: -15%"),
        ("T12", "{memory.available: 150%}", "{}", "{}", "{}", "eviction percentage threshold memory.available must be <= 100%: 150%"),
        ("T17", "{}", "{}", "{}", "{memory.available: -300Mi}", "negative eviction minimum reclaim specified for memory.available"),
        ("T18", "{}", "{}", "{}", "{mem.available: 300Mi}", "unsupported eviction signal mem.available"),
        ("T19", "{}", "{}", "{}", "{memory.available: ''}",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("T22", "{memory.available: ''}", "{}", "{}", "{}",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("T23", "{memory.available: 10..5%}", "{}", "{}", "{}", "strconv.ParseFloat: parsing \"10..5\": invalid syntax"),
        ("T25", "{}", "{memory.available: 150Mi}", "{memory.available: 30mins}", "{}",
            "time: unknown unit \"mins\" in duration \"30mins\""),
        ("T26", "{memory.available: blah}", "{}", "{}", "{}",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("T26", "{memory.available: foo%}", "{}", "{}", "{}", "strconv.ParseFloat: parsing \"foo\": invalid syntax"),
        ("T26", "{memory.available: 12%345}", "{}", "{}", "{}",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("T26", "{memory.available: 25.5%}", "{}", "{}", "{}", "memory.available<0.255 0 -"),
        ("T27", "{memory.available: 0}", "{}", "{}", "{}", "eviction threshold memory.available must be positive: 0"),
        ("T28", "{memory.available: 0.0%}", "{}", "{}", "{}", "memory.available<0.0 0 -"), // can never be met
        ("T32", "{swap.available: 100Mi}", "{}", "{}", "{}", "unsupported eviction signal swap.available"),
        ("not a number", "{memory.available: NaN%}", "{}", "{}", "{}", "strconv.ParseFloat: parsing \"NaN\": invalid syntax"),
        ("infinite", "{memory.available: inf%}", "{}", "{}", "{}", "strconv.ParseFloat: parsing \"inf\": invalid syntax"),
        ("hexadecimal", "{memory.available: 0x1p3%}", "{}", "{}", "{}", "strconv.ParseFloat: parsing \"0x1p3\": invalid syntax"),
        ("exponent", "{memory.available: +1e1%}", "{}", "{}", "{}", "memory.available<0.1 0 -"),
        ("signs", "{memory.available: '10%%'}", "{}", "{}", "{}", "memory.available<0.1 0 -"), // all are taken off
        ("all of it", "{memory.available: 100.0%}", "{}", "{}", "{}", "memory.available<1.0 0 -"),
        ("no grace", "{}", "{memory.available: 1Gi}", "{}", "{}",
            "grace period must be specified for the soft eviction threshold memory.available"),
        ("grace < 0", "{}", "{memory.available: 1Gi}", "{memory.available: -1s}", "{}",
            "invalid eviction grace period specified: -1s, must be a positive value"),
        ("grace of no signal", "{}", "{}", "{a.b: 1s}", "{}", "unsupported eviction signal a.b"),
        ("no reclaim", "{}", "{}", "{}", "{memory.available: 0%}",
            "eviction percentage minimum reclaim memory.available must be positive: 0%"),
        ("reclaim > all", "{}", "{}", "{}", "{memory.available: 101%}",
            "eviction percentage minimum reclaim memory.available must be <= 100%: 101%"),
        ("reclaim 0", "{memory.available: 1Gi}", "{}", "{}", "{memory.available: '0'}", "memory.available<1Gi 0 0"),
        ("empty", "{memory.available: }", "{}", "{}", "{}", "expected an amount, found nothing"),
        ("a list", "{memory.available: [1]}", "{}", "{}", "{}", "expected an amount, found a list"),
    ];
    for (case, hard, soft, grace, reclaim, want) in table {
        assert_eq!(fields(hard, soft, grace, reclaim), want, "{case}");
    }
}

#[test]
fn thresholds_copies_hard_memory_for_allocatable() {
    #[rustfmt::skip]
    let table = [
        // case, fields, signal<amount grace reclaim
        ("T2", "evictionHard: {memory.available: 150Mi}\nevictionSoft: {memory.available: 300Mi}\n\
                evictionSoftGracePeriod: {memory.available: 30s}\nevictionMinimumReclaim: {memory.available: '0'}",
            "memory.available<150Mi 0 0, memory.available<300Mi 30 0, allocatableMemory.available<150Mi 0 0"),
        ("a soft one without grace is hard", "evictionHard: {}\nevictionSoft: {memory.available: 1Gi}\n\
                evictionSoftGracePeriod: {memory.available: 0s}",
            "memory.available<1Gi 0 -, allocatableMemory.available<1Gi 0 -"),
        ("not enforced", "evictionHard: {memory.available: 1Gi}\nenforceNodeAllocatable: []", "memory.available<1Gi 0 -"),
        ("by name", "evictionHard: {allocatableMemory.available: 1Gi, memory.available: 2Gi}",
            "allocatableMemory.available<1Gi 0 -, memory.available<2Gi 0 -, allocatableMemory.available<2Gi 0 -"),
    ];
    for (case, fields, want) in table {
        assert_eq!(parsed(fields), want, "{case}");
    }
}

#[test]
fn thresholds_default_until_one_is_given() {
    let disks = "imagefs.available<0.15 0 -, imagefs.inodesFree<0.05 0 -, ";
    let nodefs = "nodefs.available<0.1 0 -, nodefs.inodesFree<0.05 0 -";
    let defaults = format!("{disks}memory.available<100Mi 0 -, {nodefs}");
    let merged = format!("{disks}memory.available<1Gi 0 -, {nodefs}");
    #[rustfmt::skip]
    let table = [
        // fields, thresholds
        ("",                                                                   defaults.as_str()),
        ("evictionHard:",                                                      &defaults), // null is absent
        ("evictionHard: {}",                                                   ""),
        ("evictionHard: {}\nmergeDefaultEvictionSettings: true",               &defaults),
        ("evictionHard: {memory.available: 1Gi}",                              "memory.available<1Gi 0 -"),
        ("evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true", &merged),
    ];
    for (fields, want) in table {
        assert_eq!(parsed(&format!("enforceNodeAllocatable: [none]\n{fields}")), want, "{fields}");
    }
}

#[test]
fn thresholds_use_single_precision() {
    #[rustfmt::skip]
    let table = [
        // percent, capacity, threshold
        (5,  10_737_418_240_u64, 536_870_920),
        (10, 10_737_418_240,     1_073_741_840),
        (10, 34_359_738_368,     3_435_973_888),
        (5,  1_048_576_000,      52_428_800),
    ];
    for (percent, capacity, want) in table {
        let text = format!(
            "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n\
             evictionHard: {{memory.available: {percent}%}}"
        );
        let settings = config::settings(&text, "f", Path::new("")).unwrap();
        let value = settings.eviction.thresholds[0].value;
        assert!(matches!(value, Amount::Percentage(Fraction { .. })), "{percent} %");
        assert_eq!(value.of(capacity), want, "{percent} % of {capacity}");
    }
}
