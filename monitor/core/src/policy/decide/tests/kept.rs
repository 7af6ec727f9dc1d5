//! Pods that a disruption budget keeps.

use super::*;

#[test]
fn decide_respects_a_disruption_budget_while_there_is_time() {
    let soft = [met(threshold(Signal::PidAvailable, seconds(30)))];
    let mut node = Node::new();
    assert_eq!(short(&node.at(1, &soft)), Some(("a", Evict)));
    node.hear(1, OutcomeResult::Refused);
    assert_eq!(short(&node.at(2, &soft)), Some(("b", Evict)));
}

/// Its sandbox is all that runs of it, so that a stop would find nothing to end; an eviction is not over
/// for that.
#[test]
fn decide_hears_of_a_budget_that_keeps_a_pod_between_restarts() {
    let soft = [met(threshold(Signal::PidAvailable, seconds(30)))];
    for answer in [Some(OutcomeResult::Refused), None] {
        let mut node = Node::new();
        let pod = Arc::make_mut(node.sample.cgroups.get_mut(&CgroupId(10)).unwrap());
        pod.pids_current = Some(1);
        let sandbox = Cgroup {
            path: pod.path.child(&"5a".repeat(32)),
            pids_current: Some(1),
            memory: MemoryFiles { current: Some(Bytes(MIB)), ..MemoryFiles::default() },
            ..Cgroup::default()
        };
        node.sample.cgroups.insert(CgroupId(20), Arc::new(sandbox));
        let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
        let id = Some("c0".repeat(32));
        pods.get_mut("a").unwrap().containers = vec![Container { id, ..Container::default() }];
        let first = node.at(1, &soft);
        assert_eq!(short(&first), Some(("a", Evict)));
        assert_eq!(first.actions[0].escalates_to, None, "no process could be stopped");
        answer.into_iter().for_each(|answer| node.hear(1, answer));
        let next = node.at(2, &soft);
        let want = answer.map(|_| ("b", Evict));
        assert_eq!(short(&next), want, "{answer:?} {:?}", next.held);
        let is_settling = matches!(next.held, Some(Hold::Settling { .. }));
        assert_eq!(is_settling, answer.is_none(), "{:?}", next.held);
    }
}

/// Until it is ended no program can be started.
#[test]
fn decide_stops_a_fork_bomb_that_a_disruption_budget_keeps() {
    for (grace, want) in [(0, ("a", StopContainers)), (30, ("b", Evict))] {
        let pids = [met(threshold(Signal::PidAvailable, seconds(grace)))];
        let mut node = Node::new();
        assert_eq!(short(&node.at(1, &pids)), Some(("a", Evict)));
        node.hear(1, OutcomeResult::Refused);
        assert_eq!(short(&node.at(2, &pids)), Some(want), "{grace}");
    }
}

#[test]
fn decide_asks_again_for_a_pod_that_a_disruption_budget_kept() {
    let soft = [met(threshold(Signal::PidAvailable, seconds(30)))];
    let mut node = Node::new();
    node.relief.budget = 1;
    node.end("c");
    #[rustfmt::skip]
    let table = [
        // second, step, answer
        (1,  Some("a"), Some(OutcomeResult::Refused)),
        (2,  Some("b"), Some(OutcomeResult::Refused)),
        (3,  None,      None),
        (31, None,      None), // it was told at 2 s
        (32, Some("a"), Some(OutcomeResult::Refused)),
        (33, Some("b"), Some(OutcomeResult::Refused)),
        (34, None,      None),
        (63, None,      None), // the wait is doubled
        (92, None,      None),
        (93, Some("a"), Some(OutcomeResult::Failed)),
    ];
    for (second, who, result) in table {
        let verdict = node.at(second, &soft);
        assert_eq!(short(&verdict), who.map(|who| (who, Evict)), "{second}");
        if let (Some(action), Some(result)) = (verdict.actions.first(), result) {
            assert_eq!(action.escalates_to, Some(StopContainers), "{second}");
            node.hear(action.id, result);
        } else {
            assert_eq!(verdict.held, Some(Hold::NothingHelps), "{second}");
        }
        let memory = serde_json::to_string(&node.standing).unwrap();
        node.standing = serde_json::from_str(&memory).unwrap();
    }
    assert_eq!(short(&node.at(94, &soft)), Some(("a", StopContainers)), "the steps go on");
}

/// A budget holds as long as there is time: a hard threshold has the name of the soft one.
#[test]
fn decide_stops_a_pod_that_a_budget_kept_once_memory_presses() {
    let soft = met(threshold(Signal::MemoryAvailable, seconds(30)));
    let hard = met(threshold(Signal::MemoryAvailable, Nanos(0)));
    let mut node = Node::new();
    node.relief.steps.remove(&Squeeze);
    assert_eq!(short(&node.at(1, &[soft])), Some(("a", Evict)));
    node.hear(1, OutcomeResult::Refused);
    assert_eq!(short(&node.at(2, &[soft])), Some(("b", Evict)));
    node.end("b");
    node.at(3, &[soft]);
    #[rustfmt::skip]
    let table = [
        // what is met, who and how
        (vec![soft],       Some(("c", Evict))),
        (vec![soft, hard], Some(("a", StopContainers))),
    ];
    let before = node.standing;
    for (met, want) in table {
        node.standing = before.clone();
        let first = met.last().copied();
        let met: Vec<_> = first.into_iter().chain(met).collect();
        assert_eq!(short(&node.at(20, &met)), want, "{first:?}");
    }
}

/// Another shortage begins anew: what was refused against the last one is over with it.
#[test]
fn decide_forgets_a_refusal_with_its_shortage() {
    let soft = [met(threshold(Signal::PidAvailable, seconds(30)))];
    let mut node = Node::new();
    node.end("b");
    node.end("c");
    assert_eq!(short(&node.at(1, &soft)), Some(("a", Evict)));
    node.hear(1, OutcomeResult::Refused);
    node.at(2, &soft);
    node.at(3, &[]);
    node.at(14, &[]);
    assert_eq!(short(&node.at(20, &soft)), Some(("a", Evict)));
    node.hear(2, OutcomeResult::Failed);
    assert_eq!(short(&node.at(21, &soft)), Some(("a", StopContainers)));
    let memory = serde_json::to_value(&node.standing).unwrap();
    assert_eq!(memory["kept"], serde_json::Value::Null, "{memory}");
}
