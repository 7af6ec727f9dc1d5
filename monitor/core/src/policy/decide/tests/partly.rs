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
