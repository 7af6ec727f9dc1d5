//! Memory is short while a step against want of something else is waited for.

use super::*;

#[test]
fn decide_emergency_has_a_victim_of_its_own_beside_one_of_another_resource() {
    let mut node = Node::new();
    let pids = met(threshold(Signal::PidAvailable, Nanos(0)));
    assert_eq!(short(&node.at(1, &[pids])), Some(("a", Evict)));
    // Of memory another one is the first candidate.
    node.ranking.candidates.rotate_left(1);
    let exhaustion = pressure(PressureSignal::Exhaustion(seconds(10)));
    let gone = Met { measured: seconds(1).0, ..met(exhaustion) };
    assert_eq!(short(&node.at(2, &[gone, pids])), Some(("b", KillContainers)));
    // Once that is over, it goes on with the one that it had begun.
    node.end("b");
    node.at(3, &[pids]);
    assert!(matches!(node.at(5, &[pids]).held, Some(Hold::Settling { action: 1, .. })));
}

#[test]
fn decide_memory_does_not_wait_for_a_victim_of_another_resource() {
    let soft = threshold(Signal::MemoryAvailable, seconds(30));
    let hard = threshold(Signal::MemoryAvailable, Nanos(0));
    for (memory, want) in [(hard, Some(("b", Evict))), (soft, None)] {
        let mut node = Node::new();
        let disk = met(threshold(Signal::NodefsAvailable, Nanos(0)));
        assert_eq!(short(&node.at(1, &[disk])), Some(("a", Evict)));
        node.ranking.candidates.rotate_left(1);
        assert_eq!(short(&node.at(2, &[met(memory), disk])), want, "{}", memory.name());
    }
}

/// A disruption budget forbids the eviction for a disk while a victim for memory is waited for.
#[test]
fn decide_hears_of_a_step_that_is_put_aside() {
    for (answer, want) in [(Some(OutcomeResult::Refused), "c"), (None, "a")] {
        let mut node = Node::new();
        let disk = met(threshold(Signal::NodefsAvailable, Nanos(0)));
        let memory = met(threshold(Signal::MemoryAvailable, Nanos(0)));
        assert_eq!(short(&node.at(1, &[disk])), Some(("a", Evict)));
        node.ranking.candidates.rotate_left(1);
        assert_eq!(short(&node.at(2, &[memory, disk])), Some(("b", Evict)));
        answer.into_iter().for_each(|answer| node.hear(1, answer));
        node.at(3, &[memory, disk]);
        node.end("b");
        let next = (4..120).find_map(|second| {
            let verdict = node.at(second, &[disk]);
            short(&verdict).map(|(uid, step)| (uid.to_owned(), step))
        });
        let (uid, step) = next.unwrap();
        assert_eq!(uid, want, "{answer:?}: {step:?}");
    }
}

#[test]
fn decide_memory_rests_beside_a_victim_of_another_resource_as_without() {
    let memory = met(threshold(Signal::MemoryAvailable, Nanos(0)));
    let disk = met(threshold(Signal::NodefsAvailable, Nanos(0)));
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &[memory])), Some(("a", Evict)));
    node.end("a");
    node.at(2, &[]);
    node.standing.cooling = Default::default();
    assert_eq!(short(&node.at(3, &[disk])), Some(("b", Evict)));
    // The readings are of before the end of `a`.
    node.is_stale = true;
    assert_eq!(short(&node.at(4, &[memory, disk])), None);
    node.is_stale = false;
    assert_eq!(short(&node.at(5, &[memory, disk])), Some(("b", Evict)));
}

#[test]
fn decide_observed_of_one_disk_keeps_no_other_disk_from_being_looked_at() {
    let [nodefs, soft, imagefs] = [
        (Signal::NodefsAvailable, Nanos(0)),
        (Signal::NodefsAvailable, seconds(30)),
        (Signal::ImagefsAvailable, Nanos(0)),
    ]
    .map(|(signal, grace)| met(threshold(signal, grace)));
    for (then, want) in [(imagefs, Some(("b", Evict))), (soft, None)] {
        let mut node = Node::new();
        node.relief.enforce.clear();
        (1..=100).for_each(|second| drop(node.at(second, &[nodefs])));
        node.ranking.candidates.rotate_left(1);
        assert_eq!(short(&node.at(101, &[then, nodefs])), want, "{}", then.threshold.name());
    }
}
