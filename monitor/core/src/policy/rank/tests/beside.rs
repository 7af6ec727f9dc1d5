//! The order `cause`: candidates beside parties that are none.

use super::*;

/// What it took and what its end gives back, in MiB.
fn of(taken: u64, frees: u64, pod: Contender) -> Contender {
    Contender { taken: Some(taken << 20), frees: Some(frees << 20), ..pod }
}

#[test]
fn harm_of_an_outsider_is_compared_with_that_of_candidates() {
    let one = |ms| Contender {
        harm: harm(ms, 0),
        ..of(0, 100, pod("one", QosClass::BestEffort, 0, "0", "100Mi"))
    };
    #[rustfmt::skip]
    let table = [
        // what is short; ms of harm by the candidate and by an outsider; does the outsider do more
        ("system.memory.pressure", 800, Some(5),   Some(false)),
        ("system.memory.pressure", 100, Some(300), Some(true)),
        ("system.memory.pressure", 100, None,      Some(false)),
        ("memory.available",       100, Some(300), None),
    ];
    for (signal, own, other, want) in table {
        let (pods, rules) = ([one(own)], settings::Ranking::default());
        let field = Field::for_need(&pods, purpose(signal), Order::Cause, &rules, &Need::default());
        let outsiders: Vec<_> = other
            .map(|ms| Outsider { path: CgroupPath("/a".into()), harm: Nanos(ms * 1_000_000) })
            .into_iter()
            .collect();
        let known = Known { outsiders, ..Known::default() };
        let field = Field { known: Some(&known), ..field };
        assert_eq!(field.is_harm_of_outsider(), want, "{signal} {own} {other:?}");
    }
}

/// A leak takes the memory in which another pod keeps what it reads, and that one reads it back: it charges
/// far more than the leak.
#[test]
fn who_reads_back_within_its_request_is_no_cause() {
    let one = |name: &str, request: &str, ms, taken| Contender {
        harm: harm(ms, 0),
        ..of(taken, 4_000, pod(name, QosClass::Burstable, 0, request, "9Gi"))
    };
    type Row = (&'static str, u64, u64, Option<u64>, bool, &'static [&'static str]);
    #[rustfmt::skip]
    let table: [Row; 9] = [
        // what it requests that reads back, ms of harm by it and by the leak, MiB that count as taken, whether
        // pages are read back while much is lost; the causes
        ("16Gi", 270, 41,  Some(200),  false, &["leak"]),
        ("16Gi", 270, 41,  None,       false, &[]),       // what was lost has no cause
        ("1Gi",  270, 41,  Some(200),  false, &["reads"]),
        ("1Gi",  270, 41,  Some(200),  true,  &["leak"]),
        ("1Gi",  270, 80,  Some(200),  false, &["reads", "leak"]),
        ("1Gi",  270, 80,  Some(200),  true,  &["leak"]),
        ("16Gi", 270, 80,  Some(9000), false, &["leak"]), // by the harm that it does
        ("16Gi", 0,   80,  Some(9000), false, &["leak"]),
        ("16Gi", 0,   0,   Some(200),  false, &["leak"]),
    ];
    for (request, reads, leaks, from, is_read_back, want) in table {
        let pods = [one("reads", request, reads, 0), one("leak", "1Gi", leaks, 500)];
        let taker_from = Some(from.map_or(u64::MAX, |mib| mib << 20));
        let reads_back_below = taker_from.filter(|_| is_read_back);
        let need = Need { taker_from, reads_back_below, ..Need::default() };
        let rules = settings::Ranking::default();
        let memory = purpose("kubepods.memory.pressure");
        let takers = Field::for_need(&pods, memory, Order::Cause, &rules, &need).takers(9);
        let takers: Vec<_> = takers.iter().map(|taker| taker.name.as_str()).collect();
        assert_eq!(takers, want, "{request} {reads} {leaks} {from:?}");
    }
}

/// Where requests promised all that was lost, no party took it from one that does harm.
#[test]
fn reads_back_what_another_took_beyond_its_request() {
    #[rustfmt::skip]
    let table = [
        // what the pod that grew requests, whether a twentieth was lost, and pages are read back; takers
        ("1Gi",  true,  true,  &["grew"][..]),
        ("1Gi",  false, true,  &["reads"]),
        ("1Gi",  true,  false, &["reads"]),
        ("16Gi", true,  true,  &["reads"]),
    ];
    for (request, is_large, is_thrashing, want) in table {
        let one = |name: &str, request: &str, ms, taken, used: &str| Contender {
            harm: harm(ms, 0),
            ..of(taken, 4_000, pod(name, QosClass::Burstable, 0, request, used))
        };
        let pods = vec![one("reads", "1Gi", 270, 0, "5Gi"), one("grew", request, 0, 1_000, "2Gi")];
        let shortfall = Shortfall { missing: 0, is_thrashing };
        let mut lost = Lost::established(1_000 << 20);
        lost.is_large = is_large;
        let (pods, need) =
            need::causes(pods, (shortfall, Resource::Memory), &lost, &Snapshot::default());
        let rules = settings::Ranking::default();
        let memory = purpose("kubepods.memory.refaults");
        let takers = Field::for_need(&pods, memory, Order::Cause, &rules, &need).takers(9);
        let takers: Vec<_> = takers.iter().map(|taker| taker.name.as_str()).collect();
        assert_eq!(takers, want, "{request} {is_large} {is_thrashing}");
    }
}

/// What was swapped out counts against the request, too.
#[test]
fn takers_above_request_hold_more_than_they_request() {
    #[rustfmt::skip]
    let table = [
        // MiB that it holds, swap included, beside a request of 512; is it above that
        (None,        false),
        (Some(500),   false),
        (Some(2_400), true),
    ];
    for (holds, want) in table {
        let swapped = pod("swapped", QosClass::Burstable, 0, "512Mi", "400Mi");
        let holds = holds.map(|mib: u64| mib << 20);
        let pods = [Contender { holds, ..of(900, 400, swapped) }];
        let rules = settings::Ranking::default();
        let memory = purpose("memory.available");
        let field = Field::for_need(&pods, memory, Order::Cause, &rules, &Need::default());
        assert_eq!(field.takers_above_request(1, 0).len(), usize::from(want), "{holds:?}");
    }
}

/// How much a disk lacks, its minimum reclaim included, tells nothing of what was taken in a minute.
#[test]
fn cause_of_a_disk_or_pids_is_who_took_it_however_much_is_missing() {
    for (signal, resource, want) in [
        ("nodefs.available", Resource::Storage, true),
        ("pid.available", Resource::Pids, true),
        ("memory.available", Resource::Memory, false),
    ] {
        let one = of(200, 36_000, pod("one", QosClass::BestEffort, 0, "0", "36Gi"));
        let shortfall = Shortfall { missing: 10 << 30, is_thrashing: false };
        let lost = Lost::established(200 << 20);
        let (pods, need) =
            need::causes(vec![one], (shortfall, resource), &lost, &Snapshot::default());
        let rules = settings::Ranking::default();
        let field = Field::for_need(&pods, purpose(signal), Order::Cause, &rules, &need);
        assert_eq!(field.takers(1).len(), usize::from(want), "{signal}");
    }
}

/// Where too little was taken lately, who has most of a disk is named, and may be spared.
#[test]
fn largest_user_may_be_one_that_is_never_ended() {
    let db = pod("db", QosClass::Burstable, 0, "0", "60Gi");
    let db = Contender { spared: Some(SparedReason::Critical), ..db };
    let web = pod("web", QosClass::BestEffort, 0, "0", "2Mi");
    let pods = [db, web];
    let rules = settings::Ranking::default();
    let disk = purpose("nodefs.available");
    let field = Field::for_need(&pods, disk, Order::Cause, &rules, &Need::default());
    assert!(field.is_of_causes() && field.takers(1).is_empty());
    assert_eq!(field.largest_user().as_deref(), Some("db"));
    let memory = purpose("memory.available");
    let field = Field::for_need(&pods, memory, Order::Cause, &rules, &Need::default());
    assert_eq!(field.largest_user(), None);
}

/// What no pod took of a disk is no reason to evict one that grew within its request.
#[test]
fn cause_of_a_full_disk_is_no_growth_within_a_request_beside_what_no_pod_took() {
    for (request, unattributed, want) in
        [("10Gi", 4_000, false), ("10Gi", 100, true), ("1Gi", 4_000, true)]
    {
        let one = of(1_200, 5_000, pod("one", QosClass::Burstable, 0, request, "5Gi"));
        let lost = Lost::established((1_200 + unattributed) << 20).of_no_party(unattributed << 20);
        let shortfall = (Shortfall::default(), Resource::Storage);
        let (pods, need) = need::causes(vec![one], shortfall, &lost, &Snapshot::default());
        let (disk, rules) = (purpose("nodefs.available"), settings::Ranking::default());
        let field = Field::for_need(&pods, disk, Order::Cause, &rules, &need);
        assert_eq!(field.takers(1).len(), usize::from(want), "{request} {unattributed}");
    }
}

#[test]
fn may_be_slowed_is_what_the_cluster_needs_and_holds_more_than_it_requests() {
    use SparedReason::{Critical, Isobar, Mirror, NeverTouch, NotYetNamed, OptedOut, Static};
    #[rustfmt::skip]
    let table = [
        // why it is spared, request, use; may be slowed down
        (Some(Critical),    "64Mi", "65Mi", true),
        (Some(Static),      "0",    "1Mi",  true),
        (Some(Mirror),      "64Mi", "1Gi",  true),
        (Some(Critical),    "64Mi", "64Mi", false),
        (Some(Critical),    "-",    "1Gi",  false), // what it was promised is not known
        (Some(Critical),    "64Mi", "-",    false),
        (Some(OptedOut),    "64Mi", "1Gi",  false),
        (Some(NeverTouch),  "64Mi", "1Gi",  false),
        (Some(Isobar),      "64Mi", "1Gi",  false),
        (Some(NotYetNamed), "64Mi", "1Gi",  false),
        (None,              "64Mi", "1Gi",  false), // a candidate
    ];
    for (spared, request, usage, want) in table {
        let one = Contender { spared, ..pod("one", QosClass::Burstable, 0, request, usage) };
        let pods = [one, pod("other", QosClass::Burstable, 0, "64Mi", "1Gi")];
        let rules = settings::Ranking::default();
        let field = Field::new(&pods, purpose("memory.available"), Order::Cause, &rules);
        assert_eq!(field.may_be_slowed("one"), want, "{spared:?} {request} {usage}");
        assert!(!field.may_be_slowed("other"));
    }
}
