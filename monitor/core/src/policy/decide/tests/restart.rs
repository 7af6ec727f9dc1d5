//! A restart is a first sample with something in force.

use super::*;
use crate::model::decision::{Action, ReleaseReason, Target, made};

/// What the ledger says of an action of an agent that has ended.
pub(super) fn entry(id: u64, step: StepKind, deadline: u64, phase: Phase) -> InForce {
    let trigger = threshold(Signal::MemoryAvailable, Nanos(0));
    let target = Target {
        name: "a".into(),
        uid: "a".into(),
        cgroup: Some(CgroupId(10)),
        path: Some(CgroupPath("/kubepods/besteffort/poda".into())),
        ..Target::default()
    };
    let deadline = seconds(deadline);
    let action = Action { id, target, deadline, ..made::action(step, met(trigger)) };
    InForce { action, since: seconds(1), held: Some(Bytes(400 * MIB)), phase, largest: None }
}

#[test]
fn decide_after_a_restart_goes_on_from_what_is_in_force() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let ended = |at| Phase::Ended { at: seconds(at) };
    type Row<'a> = (&'a str, InForce, u64, Option<(&'a str, StepKind)>);
    #[rustfmt::skip]
    let table: [Row<'_>; 6] = [
        // what, entry, first second, first step
        ("a kill with time left is waited for",      entry(7, KillContainers, 30, Phase::Ending), 20, None),
        ("one whose time has just passed is repeated", entry(7, KillContainers, 18, Phase::Ending), 20, Some(("a", KillContainers))),
        ("one whose time is long over is not",       entry(7, KillContainers, 10, Phase::Ending), 20, Some(("a", Evict))),
        ("the rest after a victim's end is kept",    entry(7, KillContainers, 10, ended(19)),     20, None),
        ("and ends",                                 entry(7, KillContainers, 10, ended(17)),     20, Some(("a", Evict))),
        ("a squeeze with time left is waited for",   entry(7, Squeeze, 30, Phase::Squeezed),      20, None),
    ];
    for (what, entry, second, want) in table {
        let mut node = Node::new();
        node.sample.in_force = vec![entry];
        assert_eq!(short(&node.at(second, &hard)), want, "{what}");
    }
}

#[test]
fn decide_repeats_a_kill_that_may_never_have_been_done() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    for deadline in [2, 30] {
        let mut node = Node::new();
        node.relief.steps = [KillContainers].into();
        node.sample.in_force = vec![entry(7, KillContainers, deadline, Phase::Ending)];
        let is_repeated = |second| short(&node.at(second, &hard)) == Some(("a", KillContainers));
        assert!((20..=40).any(is_repeated), "due at {deadline} s");
    }
}

#[test]
fn decide_after_a_restart_counts_the_victims_of_the_agent_before() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.relief.budget = 1;
    // A stop and the kill that followed it are one eviction.
    let ended = Phase::Ended { at: seconds(5) };
    node.sample.in_force =
        vec![entry(3, StopContainers, 4, ended), entry(4, KillContainers, 9, ended)];
    node.end("a");
    let until = seconds(1).plus(node.relief.budget_window);
    assert_eq!(node.at(20, &hard).held, Some(Hold::BudgetSpent { until }));
    assert_eq!(node.standing.victims.len(), 1);
}

#[test]
fn decide_never_uses_the_id_of_another_action() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    for phase in [Phase::Ended { at: seconds(2) }, Phase::Ending] {
        let mut node = Node::new();
        node.sample.in_force = vec![entry(7, KillContainers, 4, phase)];
        let id = (20..=60).find_map(|second| Some(node.at(second, &hard).actions.pop()?.id));
        assert_eq!(id, Some(8), "{phase:?}");
    }
}

#[test]
fn decide_takes_back_a_squeeze_of_the_agent_before_once_it_has_served() {
    let mut node = Node::new();
    node.sample.in_force = vec![entry(7, Squeeze, 4, Phase::Squeezed)];
    let release = (20..=60).find_map(|second| {
        let release = node.at(second, &[]).releases.pop()?;
        Some((second, release.action, release.why))
    });
    let cool_down = node.relief.cool_down.0 / Nanos::SECOND.0;
    assert_eq!(release, Some((20 + cool_down, 7, ReleaseReason::Over)));
}

#[test]
fn decide_tries_a_squeeze_again_that_the_agent_before_took_back() {
    let memory = [met(pressure(PressureSignal::Memory(Percent(60_00))))];
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &memory)), Some(("a", Squeeze)));
    // Another agent, and nothing in force: the one before has left in good order.
    (node.standing, node.sample.in_force) = (ReliefStanding::default(), Vec::new());
    assert_eq!(short(&node.at(3, &memory)), Some(("a", Squeeze)));
}

#[test]
fn without_observed_keeps_what_was_enforced() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.relief.enforce = [KillContainers].into();
    node.relief.steps = [KillContainers].into();
    assert_eq!(short(&node.at(1, &hard)), Some(("a", KillContainers)));
    // Its entry in the ledger is not read yet: no second victim is chosen for the same memory.
    node.standing = std::mem::take(&mut node.standing).without_observed();
    assert_eq!(short(&node.at(2, &hard)), None);
    // The kill has failed, and was taken out of the ledger: its id is not used again.
    let id = node.standing.pending.as_ref().unwrap().action.id;
    node.standing = std::mem::take(&mut node.standing).without_observed();
    let next = (3..=60).find_map(|second| Some(node.at(second, &hard).actions.pop()?.id));
    assert_eq!(next, Some(id + 1));
}
