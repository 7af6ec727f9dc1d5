//! Steps that the actuator did not begin: they are no attempts.

use super::*;

/// The uids of the victims that count.
fn victims(node: &Node) -> Vec<&str> {
    node.standing.victims.iter().map(|(_, uid)| uid.as_str()).collect()
}

#[test]
fn decide_orders_again_what_was_not_begun() {
    let gone = pressure(PressureSignal::Exhaustion(seconds(10)));
    let gone = [Met { measured: seconds(1).0, ..met(gone) }];
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &gone)), Some(("a", KillContainers)));
    for id in 1..=10 {
        node.leave(id);
        let verdict = node.at(id + 1, &gone);
        assert_eq!(short(&verdict), Some(("a", KillContainers)), "order {id}");
        assert_eq!(victims(&node), ["a"], "order {id}");
    }
    // The memory of what lives cannot be released.
    node.leave(11);
    let verdict = node.at(12, &gone);
    assert_eq!(short(&verdict), Some(("b", KillContainers)));
    assert_eq!(victims(&node), ["b"]);
    let told = "the actuator began no step on a in time; continuing with the next candidate";
    assert_eq!(verdict.events[0].message, told);
}

#[test]
fn decide_goes_on_once_the_step_was_begun() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &hard)), Some(("a", Evict)));
    node.leave(1);
    assert_eq!(short(&node.at(2, &hard)), Some(("a", Evict)));
    node.hear(2, OutcomeResult::Failed);
    assert_eq!(short(&node.at(3, &hard)), Some(("a", StopContainers)));
    assert_eq!(victims(&node), ["a"]);
}

#[test]
fn a_step_that_was_not_begun_leaves_the_budget_if_none_follows() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let begun = restart::entry(1, Evict, 30, Phase::Ending);
    #[rustfmt::skip]
    let table: [(_, _, &[&str]); 3] = [
        // it was begun, and is in the ledger; those that count once the shortage is over
        (true,  vec![begun.clone()], &["a"]),
        (false, vec![],              &[]),
        (false, vec![begun],         &["a"]), // an earlier step on it was
    ];
    for (is_begun, in_force, want) in table {
        let mut node = Node::new();
        node.at(1, &hard);
        node.sample.in_force = in_force;
        match is_begun {
            true => node.hear(1, OutcomeResult::Failed),
            false => node.leave(1),
        }
        node.at(2, &[]);
        assert_eq!(victims(&node), want, "{is_begun}");
    }
}

#[test]
fn a_step_that_is_put_aside_and_was_not_begun_leaves_the_budget_with_its_shortage() {
    let disk = met(threshold(Signal::NodefsAvailable, Nanos(0)));
    let memory = met(threshold(Signal::MemoryAvailable, Nanos(0)));
    for (is_begun, want) in [(true, vec!["a", "b"]), (false, vec!["b"])] {
        let mut node = Node::new();
        assert_eq!(short(&node.at(1, &[disk])), Some(("a", Evict)));
        node.ranking.candidates.rotate_left(1);
        assert_eq!(short(&node.at(2, &[memory, disk])), Some(("b", Evict)));
        if !is_begun {
            node.leave(1);
        }
        node.at(3, &[memory, disk]);
        node.at(4, &[memory]);
        assert_eq!(victims(&node), want, "{is_begun}");
    }
}
