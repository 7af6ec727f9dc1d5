//! Where some of the steps that end work are enforced, and others are only observed.

use super::*;

/// What is decided in 200 s in which nothing helps: who, how, and whether it is enforced.
fn decided(node: &mut Node, short_of: Met) -> Vec<(String, StepKind, bool)> {
    let mut all = Vec::new();
    for second in 1..=200 {
        let actions = node.at(second, &[short_of]).actions.into_iter();
        all.extend(actions.map(|one| (one.target.name, one.step, one.is_enforced)));
    }
    all
}

#[test]
fn decide_enforced_in_part_is_held_up_by_no_observed_end() {
    let hard = met(threshold(Signal::MemoryAvailable, Nanos(0)));
    let exhaustion = pressure(PressureSignal::Exhaustion(seconds(10)));
    let emergency = Met { measured: 0, ..met(exhaustion) };
    type Row<'a> = (Met, &'a [StepKind], &'a [StepKind], &'a [(&'a str, StepKind, bool)]);
    #[rustfmt::skip]
    let table: [Row<'_>; 7] = [
        // short of, enforced, what the node offers; decided, where the API does not know pod `a`
        (hard,      &[Evict],          &StepKind::ALL,    &[("b", Evict, true), ("c", Evict, true)]),
        (emergency, &[Evict],          &StepKind::ALL,    &[("b", Evict, true), ("c", Evict, true)]),
        (hard,      &[KillContainers], &StepKind::ALL,    &[("a", KillContainers, true), ("b", KillContainers, true), ("c", KillContainers, true)]),
        (hard,      &[Evict, StopContainers], &[Evict, StopContainers], &[("a", StopContainers, true), ("b", Evict, true), ("b", StopContainers, true), ("c", Evict, true), ("c", StopContainers, true)]),
        // Nothing that ends work can be enforced.
        (hard,      &[Evict],          &[StopContainers], &[("a", StopContainers, false)]),
        (hard,      &[],               &StepKind::ALL,    &[("a", StopContainers, false)]),
        (emergency, &[],               &StepKind::ALL,    &[("a", KillContainers, false)]),
    ];
    for (short_of, enforced, offered, want) in table {
        let mut node = Node::new();
        Arc::make_mut(node.sample.pods.as_mut().unwrap()).remove("a");
        node.sample.available_steps = Some(offered.iter().copied().collect());
        node.relief.enforce = enforced.iter().copied().collect();
        let got = decided(&mut node, short_of);
        let got: Vec<_> = got.iter().map(|(name, step, is)| (name.as_str(), *step, *is)).collect();
        assert_eq!(got, want, "{short_of:?} {enforced:?} {offered:?}");
    }
}

#[test]
fn decide_observed_keeps_no_other_shortage_waiting() {
    let disk = met(threshold(Signal::NodefsAvailable, Nanos(0)));
    let memory = met(threshold(Signal::MemoryAvailable, Nanos(0)));
    let mut node = Node::new();
    node.relief.enforce.clear();
    assert_eq!(short(&node.at(1, &[disk])), Some(("a", Evict)));
    let observed = Hold::Observed { action: 1 };
    (32..60).for_each(|second| drop(node.at(second, &[disk])));
    assert_eq!(node.at(60, &[disk]).held, Some(observed.clone()));
    let both = [memory, disk];
    assert_eq!(short(&node.at(61, &both)), Some(("a", Evict)), "for memory");
    (62..100).for_each(|second| assert!(node.at(second, &both).actions.is_empty()));
    // Memory is back: of the disk it is known what would have been done.
    (100..130).for_each(|second| assert!(node.at(second, &[disk]).actions.is_empty()));
    assert_eq!(node.at(130, &[disk]).held, Some(observed));
}
