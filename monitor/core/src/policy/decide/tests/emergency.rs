//! What is done while no time is left, or a victim comes back at once.

use super::*;

#[test]
fn decide_emergency_hurries_the_chosen_victim() {
    let trigger = pressure(PressureSignal::Exhaustion(seconds(10)));
    let left = |n| [Met { measured: seconds(n).0, ..met(trigger) }];
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &left(8))), Some(("a", Evict)));
    assert!(matches!(node.at(2, &left(5)).held, Some(Hold::Settling { .. })));
    let verdict = node.at(5, &left(2));
    assert_eq!(short(&verdict), Some(("a", KillContainers)));
    assert_eq!(verdict.actions[0].why, StepReason::Emergency);
    assert_eq!(node.standing.victims.len(), 1, "one eviction");
    assert!(matches!(node.at(6, &left(1)).held, Some(Hold::Settling { .. })));
}

/// A small victim is ending when another one takes the node.
#[test]
fn decide_emergency_asks_whether_the_chosen_victim_suffices() {
    let trigger = pressure(PressureSignal::Exhaustion(seconds(10)));
    let left = |n| [Met { measured: seconds(n).0, ..met(trigger) }];
    #[rustfmt::skip]
    let table = [
        // MiB that are lost in a second, who is first in the end; who is killed
        (1,   "b", "a"), // what it holds is ten seconds of that
        (100, "b", "b"),
        (100, "a", "a"),
    ];
    for (growth, first, want) in table {
        let mut node = Node::new();
        assert_eq!(short(&node.at(1, &left(8))), Some(("a", Evict)));
        let at = node.ranking.candidates.iter().position(|one| one.uid == first).unwrap();
        node.ranking.candidates.swap(0, at);
        node.loses(growth);
        let verdict = node.at(5, &left(2));
        assert_eq!(short(&verdict), Some((want, KillContainers)), "{growth} {first}");
        let n = if want == "a" { 1 } else { 2 };
        assert_eq!(node.standing.victims.len(), n, "{growth} {first}");
        node.end("b");
        let is_followed = node.standing.aside.is_some();
        assert_eq!(is_followed, want == "b", "the eviction before is still looked at");
    }
}

#[test]
fn decide_emergency_overtakes_a_gentler_step() {
    let mut node = Node::new();
    let cpu = [met(pressure(PressureSignal::Cpu(Percent(60_00))))];
    assert_eq!(short(&node.at(1, &cpu)), Some(("a", Squeeze)));
    let gone =
        [Met { measured: seconds(1).0, ..met(pressure(PressureSignal::Exhaustion(seconds(10)))) }];
    assert_eq!(short(&node.at(2, &gone)), Some(("a", KillContainers)));
}

/// A container is started again at once, and forks as before.
#[test]
fn decide_ends_a_fork_bomb_that_is_started_again() {
    let pids = [met(threshold(Signal::PidAvailable, Nanos(0)))];
    let mut node = Node::new();
    node.relief.enforce = [KillContainers].into();
    let threads = |node: &mut Node, n| {
        let group = Arc::make_mut(node.sample.cgroups.get_mut(&CgroupId(10)).unwrap());
        group.pids_current = Some(n);
        group.memory.current = Some(Bytes((n * 10) << 10));
    };
    threads(&mut node, 4_000);
    assert_eq!(short(&node.at(1, &pids)), Some(("a", KillContainers)));
    threads(&mut node, 0);
    node.at(2, &pids);
    threads(&mut node, 4_000);
    let again = (3..10).find_map(|second| short(&node.at(second, &pids)).map(|_| second));
    assert!(again.is_some(), "{:?}", node.at(10, &pids).held);
}

/// Of the 800 threads that a threshold asks for.
#[test]
fn decide_kills_at_once_where_pids_are_all_but_gone() {
    let of = |grace, left| Met {
        measured: left,
        missing: Some(800 - left),
        ..met(threshold(Signal::PidAvailable, grace))
    };
    #[rustfmt::skip]
    let table = [
        // seconds of grace, threads left, is a kill possible, first step
        (0,  100, true,  Evict),
        (0,  99,  true,  KillContainers),
        (0,  0,   true,  KillContainers),
        (0,  0,   false, Evict), // better than nothing
        (30, 0,   true,  Evict), // a hard threshold is not met
    ];
    for (grace, left, can_kill, want) in table {
        let mut node = Node::new();
        if !can_kill {
            node.relief.steps.remove(&KillContainers);
        }
        let verdict = node.at(1, &[of(seconds(grace), left)]);
        assert_eq!(short(&verdict), Some(("a", want)), "{grace} {left} {can_kill}");
    }
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &[of(Nanos(0), 400)])), Some(("a", Evict)));
    assert!(matches!(node.at(2, &[of(Nanos(0), 300)]).held, Some(Hold::Settling { .. })));
    assert_eq!(short(&node.at(3, &[of(Nanos(0), 60)])), Some(("a", KillContainers)));
    assert_eq!(node.standing.victims.len(), 1, "it is the same victim");
    assert!(matches!(node.at(4, &[of(Nanos(0), 10)]).held, Some(Hold::Settling { .. })));
}

#[test]
fn pids_wait_for_no_step_against_soft_memory() {
    let pids = met(threshold(Signal::PidAvailable, Nanos(0)));
    for (grace, want) in [(30, Some(("b", Evict))), (0, None)] {
        let memory = met(threshold(Signal::MemoryAvailable, seconds(grace)));
        let mut node = Node::new();
        node.relief.steps = [Evict, KillContainers].into();
        assert_eq!(short(&node.at(1, &[memory])), Some(("a", Evict)));
        node.ranking.candidates.remove(0);
        let verdict = node.at(3, &[pids, memory]);
        assert_eq!(short(&verdict), want, "{grace}: {:?}", verdict.held);
    }
}
