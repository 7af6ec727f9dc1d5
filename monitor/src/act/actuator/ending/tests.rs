use super::*;
use crate::act::ledger::tests::action;

#[test]
fn longest_has_room_for_the_grace() {
    #[rustfmt::skip]
    let table = [
        // step, grace and how long it is followed at most, in seconds
        (StepKind::StopContainers, Some(300), 420),
        (StepKind::Evict,          Some(300), 420),
        (StepKind::StopContainers, None,      120),
        (StepKind::KillContainers, Some(300), 120), // it waits for none
    ];
    for (step, grace, want) in table {
        let second = Nanos::SECOND.0;
        let grace = grace.map(|n: u64| Nanos(n * second));
        let action = Action { grace, ..action(1, step, true) };
        assert_eq!(longest(&action), Nanos(want * second), "{step:?} {grace:?}");
    }
}

#[test]
fn time_watched_leaves_out_what_was_not_seen() {
    #[rustfmt::skip]
    let table: [(&[u64], u64); 5] = [
        // looks, watched until the last, in milliseconds since it began
        (&[100, 200],                200),
        (&[5_000, 10_000],           10_000),
        (&[5_001],                   1_000),
        // A suspended node, and what was watched before and after.
        (&[2_000, 3_602_000, 3_602_100], 3_100),
        (&[10_000, 10_100, 30_000],  2_100),
    ];
    for (looks, want) in table {
        let ms = |n: u64| Nanos(n * 1_000_000);
        let began = ms(50_000);
        let mut time = Time::new(began);
        let each = looks.iter().map(|at| time.watched(began.plus(ms(*at))));
        assert_eq!(each.last(), Some(ms(want)), "{looks:?}");
    }
}
