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
        let field = Field { outsiders: &outsiders, ..field };
        assert_eq!(field.is_harm_of_outsider(), want, "{signal} {own} {other:?}");
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
