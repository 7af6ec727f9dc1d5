//! Containers that isobar ended and the kubelet started again.

use std::sync::Arc;

use super::*;
use crate::model::decision::{Restart, RestartFate};
use crate::model::workload::{Container, ContainerKind, RestartPolicy, RestartRule};
use crate::policy::decide::restarts::Restarts;

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

/// What the kubelet would do now if pod `a` were ended by this step.
fn of_pod(node: &Node, step: StepKind) -> Restart {
    let target = Target { uid: "a".into(), ..Target::default() };
    node.standing.restarts.expected(step, &target, &node.sample).unwrap()
}

fn expected(node: &Node) -> (u32, u64) {
    let restart = of_pod(node, KillContainers);
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
        let (has_sidecars, is_ending, containers) = Default::default();
        let wait = Nanos(0);
        let want = Restart { policy, n_since: 0, wait, has_sidecars, is_ending, containers };
        assert_eq!(action.restart.as_ref(), Some(&want));

        let mut node = killing();
        let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
        let pod = pods.get_mut("a").unwrap();
        pod.restart_policy = Some(policy);
        pod.containers.push(Container { kind: ContainerKind::Sidecar, ..Container::default() });
        let want = Restart { has_sidecars: true, ..want };
        assert_eq!(node.at(1, &hard).actions[0].restart, Some(want));
    }
    let mut node = Node::new();
    let action = node.at(1, &hard).actions.remove(0);
    assert_eq!((action.step, action.restart), (Evict, None));
}

#[test]
fn restarts_are_none_of_a_pod_that_ends() {
    let mut node = killing();
    runs(&mut node, "c0", Some(0));
    for (ends_within, want) in [(None, false), (Some(30), true)] {
        let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
        pods.get_mut("a").unwrap().ends_within = ends_within;
        assert_eq!(of_pod(&node, KillContainers).is_ending, want, "{ends_within:?}");
    }
}

#[test]
fn restarts_follow_each_containers_own_policy_and_rules() {
    use ContainerKind::{Ephemeral, Init, Regular, Sidecar};
    use RestartFate::{Again, ByExitCode, Stays};
    use RestartPolicy::{Always, Never, OnFailure};
    const KILLED: i32 = 137;
    let on = |exit_codes: &[i32]| {
        let exit_codes = exit_codes.to_vec();
        vec![RestartRule { exit_codes, ..RestartRule::default() }]
    };
    let but = |codes: &[i32]| vec![RestartRule { is_for_others: true, ..on(codes).remove(0) }];
    let all = |codes: &[i32]| vec![RestartRule { is_for_all: true, ..on(codes).remove(0) }];
    let none = Vec::new;
    let first = |one: Vec<RestartRule>, other: Vec<RestartRule>| [one, other].concat();
    type Row = (ContainerKind, Option<RestartPolicy>, Vec<RestartRule>, RestartFate, RestartFate);
    #[rustfmt::skip]
    let table: [(&str, RestartPolicy, Vec<Row>); 12] = [
        // the pod's policy; of each container its kind, policy, rules, and what becomes of it when it is stopped and killed
        ("own policy first",        Never,     vec![(Regular, Some(Always), none(), Again, Again), (Regular, None, none(), Stays, Stays)]),
        ("the pod's for the rest",  Always,    vec![(Regular, Some(Never), none(), Stays, Stays), (Regular, None, none(), Again, Again)]),
        ("an error if killed",      OnFailure, vec![(Regular, Some(Never), none(), Stays, Stays), (Regular, None, none(), ByExitCode, Again)]),
        ("own OnFailure",           Never,     vec![(Regular, Some(OnFailure), none(), ByExitCode, Again)]),
        ("a rule holds",            Never,     vec![(Regular, Some(Never), on(&[42, KILLED]), ByExitCode, Again)]),
        ("no rule holds",           Always,    vec![(Regular, Some(Never), on(&[42]), ByExitCode, Stays)]),
        ("all codes but",           Never,     vec![(Regular, Some(Never), but(&[KILLED]), ByExitCode, Stays), (Regular, Some(Never), but(&[0]), ByExitCode, Again)]),
        ("a rule for all",          Never,     vec![(Regular, Some(Never), all(&[KILLED]), ByExitCode, Again), (Regular, None, none(), ByExitCode, Again)]),
        ("the first rule counts",   Never,     vec![(Regular, Some(Never), first(on(&[KILLED]), all(&[KILLED])), ByExitCode, Again), (Regular, None, none(), ByExitCode, Stays)]),
        ("sidecars with the rest",  Never,     vec![(Sidecar, None, none(), Again, Again), (Regular, Some(Always), none(), Again, Again)]),
        ("sidecars alone",          Always,    vec![(Sidecar, None, none(), Stays, Stays), (Regular, Some(Never), none(), Stays, Stays)]),
        ("debugging ends for good", Never,     vec![(Ephemeral, None, none(), Stays, Stays), (Regular, Some(Never), all(&[KILLED]), ByExitCode, Again)]),
    ];
    for (row, of_pod_policy, containers) in table {
        let mut node = killing();
        runs(&mut node, "c0", Some(0));
        let pods = Arc::make_mut(node.sample.pods.as_mut().unwrap());
        let pod = pods.get_mut("a").unwrap();
        pod.restart_policy = Some(of_pod_policy);
        let named = |(n, (kind, restart_policy, restart_rules, ..)): (usize, &Row)| Container {
            name: n.to_string(),
            kind: *kind,
            id: Some(n.to_string()),
            restart_policy: *restart_policy,
            restart_rules: restart_rules.clone(),
            ..Container::default()
        };
        pod.containers = containers.iter().enumerate().map(named).collect();
        // It has ended long ago.
        let name = "migrate".into();
        pod.containers.push(Container { name, kind: Init, ..Container::default() });
        for (step, at) in [(StopContainers, 0), (KillContainers, 1)] {
            let want = |(n, (.., stopped, killed)): (usize, &Row)| {
                (n.to_string(), [*stopped, *killed][at])
            };
            let want = containers.iter().enumerate().map(want).collect();
            assert_eq!(of_pod(&node, step).containers, want, "{row}: {step:?}");
        }
    }
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
    assert_eq!(node.standing.restarts, Restarts::default());
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
