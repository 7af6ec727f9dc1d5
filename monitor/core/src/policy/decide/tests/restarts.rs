//! Containers that isobar ended and the kubelet started again.

use std::sync::Arc;

use super::*;
use crate::model::decision::Restart;
use crate::model::workload::{Container, ContainerKind, RestartPolicy};

/// The container of pod `a` as the API has it.
fn runs(node: &mut Node, id: &str, n_restarts: Option<u32>) {
    let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
    let container =
        Container { name: "app".into(), id: Some(id.into()), n_restarts, ..Container::default() };
    let pod = pods.get_mut("a").unwrap();
    (pod.containers, pod.restart_policy) = (vec![container], Some(RestartPolicy::Always));
}

fn killing() -> Node {
    let mut node = Node::new();
    node.relief.steps = [KillContainers].into();
    node
}

/// What the kubelet would do with pod `a` now.
fn expected(node: &Node) -> (u32, u64) {
    let target = Target { uid: "a".into(), ..Target::default() };
    let restart = node.standing.restarts.expected(&target, &node.sample).unwrap();
    (restart.n_since, restart.wait.0 / Nanos::SECOND.0)
}

#[test]
fn decide_says_what_the_kubelet_does_after_a_kill() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    for policy in [RestartPolicy::Always, RestartPolicy::OnFailure, RestartPolicy::Never] {
        let mut node = killing();
        let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
        pods.get_mut("a").unwrap().restart_policy = Some(policy);
        let action = node.at(1, &hard).actions.remove(0);
        let mut want = Restart { policy, n_since: 0, wait: Nanos(0), has_sidecars: false };
        assert_eq!(action.restart, Some(want));

        let mut node = killing();
        let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
        let pod = pods.get_mut("a").unwrap();
        pod.restart_policy = Some(policy);
        pod.containers.push(Container { kind: ContainerKind::Sidecar, ..Container::default() });
        want.has_sidecars = true;
        assert_eq!(node.at(1, &hard).actions[0].restart, Some(want));
    }
    let mut node = Node::new();
    assert_eq!(node.at(1, &hard).actions[0].step, Evict);
    assert_eq!(node.at(1, &hard).actions.first().and_then(|one| one.restart), None);
}

#[test]
fn restarts_counts_what_the_kubelet_starts_again() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = killing();
    // Two restarts before isobar did anything are none of its doing.
    runs(&mut node, "c0", Some(2));
    node.at(1, &hard);
    #[rustfmt::skip]
    let table = [
        // second, id, restartCount, restarts since, back-off in seconds
        (2,     "c0", Some(2), 0, 0),
        (3,     "c1", Some(3), 1, 10),
        (30,    "c2", Some(4), 2, 20),
        (31,    "c2", Some(4), 2, 20),
        (200,   "c5", Some(7), 5, 160),  // three at once: ticks may miss some
        (300,   "c6", Some(8), 6, 300),
        (400,   "c7", Some(9), 7, 300),  // five minutes at most
        (1_001, "c7", Some(9), 7, 0),    // ran for ten minutes: forgotten
        (1_010, "c8", Some(10), 8, 10),
        (1_011, "c9", None,    9, 20),   // a source without counts
    ];
    for (second, id, n_restarts, n_since, wait) in table {
        runs(&mut node, id, n_restarts);
        node.at(second, &[]);
        assert_eq!(expected(&node), (n_since, wait), "second {second}");
    }
}

#[test]
fn restarts_is_in_the_next_decision_and_ends_with_the_pod() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = killing();
    runs(&mut node, "c0", Some(0));
    node.at(1, &hard);
    runs(&mut node, "c1", Some(1));
    node.at(40, &[]);
    node.at(60, &[]);
    let action = node.at(61, &hard).actions.remove(0);
    let restart = action.restart.unwrap();
    assert_eq!((restart.n_since, restart.wait), (1, seconds(10)));
    // While no pods are known none is gone.
    let pods = node.sample.pods.take();
    node.at(62, &[]);
    node.sample.pods = pods;
    assert_eq!(expected(&node), (1, 10));
    Arc::make_mut(node.sample.pods.as_mut().unwrap()).remove("a");
    node.at(63, &[]);
    assert!(node.standing.restarts.is_empty());
}

#[test]
fn restarts_are_not_counted_of_what_was_only_observed() {
    let hard = [met(threshold(Signal::MemoryAvailable, Nanos(0)))];
    let mut node = killing();
    node.relief.enforce.clear();
    runs(&mut node, "c0", Some(0));
    node.at(1, &hard);
    runs(&mut node, "c1", Some(1));
    node.at(2, &[]);
    assert_eq!(expected(&node), (0, 0));
}
