//! Who takes memory is marked as soon as that memory is foretold to run out, and not only once the
//! forecast has lasted.

use std::sync::Arc;

use super::MEMORY;
use super::family::steady;
use super::node::{Growth, Kib, MIB, Node, Party, Policy, settings};
use crate::model::decision::{Order, StepKind};
use crate::model::pod::QosClass;
use crate::policy::engine::{Engine, Standing};

/// A node where one party takes 100 MiB a second.
fn node(class: Option<QosClass>, request: Kib, is_shared: bool) -> Node {
    let path = match class {
        Some(_) => "/kubepods/burstable/pod0",
        None => "/system.slice/batch.service",
    };
    let party =
        |path: &str, class, request, party| Party { path: path.into(), class, request, ..party };
    let growth = Growth::Leak(100 * MIB);
    let burstable = Some(QosClass::Burstable);
    let parties = vec![
        party(path, class, request, Party { growth, is_shared, ..steady(500 * MIB) }),
        party("/kubepods/burstable/pod1", burstable, 3_000 * MIB, steady(2_000 * MIB)),
    ];
    Node { has_api: true, ..Node::of(MEMORY, 1_000 * MIB, parties) }
}

/// The first step on such a node, and whether it came before anything was due.
fn first_action(order: Order, class: Option<QosClass>, request: Kib) -> Option<(StepKind, bool)> {
    let mut node = node(class, request, false);
    let mut engine = Engine::new(settings(order), Standing::new(4));
    (1..800).find_map(|tick| {
        let now = tick * 250;
        node.live(now, 250);
        let decision = engine.step(node.sample(tick, now)).decision;
        let action = decision.relief.actions.first()?;
        // What was done is explained by the ranking that it comes from.
        let loss = decision.ranking.as_ref().and_then(|ranking| ranking.loss.as_ref());
        assert!(order != Order::Cause || loss.is_some(), "{decision:?}");
        Some((action.step, decision.assessment.first.is_none()))
    })
}

#[test]
fn mark_early_who_takes_memory() {
    use QosClass::{BestEffort, Burstable, Guaranteed};
    use StepKind::{Evict, Mark};
    let large = 14_000 * MIB;
    #[rustfmt::skip]
    let table = [
        // order, class, request, first step, before anything was due
        (Order::Cause, Some(BestEffort), 0,          Some((Mark, true))),
        (Order::Cause, Some(Burstable),  1_000 * MIB, Some((Mark, true))),
        (Order::Cause, Some(Burstable),  large,      Some((Mark, true))),
        (Order::Cause, None,             0,          Some((Mark, true))),
        (Order::Qos,   Some(Burstable),  0,          Some((Evict, false))),
    ];
    for (order, class, request, want) in table {
        let got = first_action(order, class, request);
        assert_eq!(got, want, "{order:?} {class:?} {request}");
    }
    // Its memory was promised, and nothing else is to be had.
    let got = first_action(Order::Cause, Some(Guaranteed), large);
    assert_ne!(got.map(|(step, _)| step), Some(Mark), "{got:?}");
}

/// A Guaranteed pod takes what it was promised, so fast that exhaustion is an emergency before the
/// kubelet's threshold is met.
#[test]
fn payer_is_chosen_in_an_emergency() {
    let party = |path: &str, class, held: Kib, request: Kib, growth| Party {
        path: path.into(),
        class: Some(class),
        request,
        growth,
        ..steady(held)
    };
    let rate = 200 * MIB;
    let growth = Growth::Leak(rate);
    let parties = vec![
        party("/kubepods/pod0", QosClass::Guaranteed, 8_000 * MIB, MEMORY, growth),
        party("/kubepods/besteffort/pod1", QosClass::BestEffort, 4_000 * MIB, 0, Growth::Steady),
    ];
    let node = Node::of(MEMORY, 1_000 * MIB, parties);
    // Memory lasts for 17 s and, without the other one, for 20 more.
    let toll = node.run(Policy::Engine(Order::Cause), 30);
    assert_eq!((toll.wrong, toll.out_of_memory), (1, 0), "{toll:?}");
}

#[test]
fn forecast_ends_nothing() {
    // The kernel would not take it, and no squeeze holds it back.
    let mut node = node(Some(QosClass::BestEffort), 0, true);
    let mut engine = Engine::new(settings(Order::Cause), Standing::new(4));
    let first_end = (1..800).find_map(|tick| {
        node.live(tick * 250, 250);
        let sample = node.sample(tick, tick * 250);
        let left = sample.node.memory.unwrap().available;
        let actions = engine.step(sample).decision.relief.actions;
        actions.iter().any(|action| action.step.is_final()).then_some(left)
    });
    let left = first_end.expect("once memory is short, it is ended").0 >> 20;
    assert!(left <= 100, "ended with {left} MiB left");
}

/// It may not be ended, and has no mark, but it may be slowed down.
#[test]
fn no_pod_pays_for_a_critical_one_that_is_squeezed() {
    let pod = |at: usize, party| Party {
        path: format!("/kubepods/besteffort/pod{at}"),
        class: Some(QosClass::BestEffort),
        ..party
    };
    let growth = Growth::Leak(40 * MIB);
    let leak = Party { growth, is_critical: true, is_guilty: true, ..steady(1_200 * MIB) };
    let others = (1..5).map(|at| pod(at, steady(700 * MIB)));
    let parties = [pod(0, leak)].into_iter().chain(others).collect();
    let toll = Node::of(8_000 * MIB, 1_000 * MIB, parties).run(Policy::Engine(Order::Cause), 100);
    assert_eq!((toll.wrong, toll.out_of_memory), (0, 0), "{toll:?}");
}

/// Also if it is critical.
#[test]
fn who_opted_out_is_not_squeezed() {
    let is_squeezed = |is_opted_out: bool| {
        let pod = |at: usize, party| Party {
            path: format!("/kubepods/besteffort/pod{at}"),
            class: Some(QosClass::BestEffort),
            ..party
        };
        let growth = Growth::Leak(40 * MIB);
        let leak = Party { growth, is_critical: true, ..steady(1_200 * MIB) };
        let others = (1..5).map(|at| pod(at, steady(700 * MIB)));
        let parties = [pod(0, leak)].into_iter().chain(others).collect();
        let mut node = Node::of(8_000 * MIB, 1_000 * MIB, parties);
        let mut engine = Engine::new(settings(Order::Cause), Standing::new(4));
        (1..400).any(|tick| {
            node.live(tick * 250, 250);
            let mut sample = node.sample(tick, tick * 250);
            let pods = Arc::make_mut(sample.pods.as_mut().expect("the API server tells of them"));
            for pod in pods.values_mut().filter(|_| is_opted_out) {
                pod.labels.insert("isobar/never-evict".into(), "true".into());
            }
            let actions = engine.step(sample).decision.relief.actions;
            actions.iter().any(|one| one.step == StepKind::Squeeze && one.target.uid == "0")
        })
    };
    assert_eq!([false, true].map(is_squeezed), [true, false]);
}

/// A pod that has warmed up was marked, because memory would not have lasted. Six minutes later a service
/// takes what is left.
#[test]
fn a_mark_of_another_shortage_ends() {
    let pod = Party {
        path: "/kubepods/burstable/pod0".into(),
        class: Some(QosClass::Burstable),
        request: 8_192 * MIB,
        growth: Growth::WarmUp(60 * MIB, 8_600 * MIB),
        ..steady(7_500 * MIB)
    };
    let service = Party {
        path: "/system.slice/backup.service".into(),
        growth: Growth::WarmUpLater(400_000, 8 * MIB, 8_000 * MIB),
        is_guilty: true,
        ..steady(150 * MIB)
    };
    let node = Node::of(16_384 * MIB, 7_184 * MIB, vec![pod, service]);
    let mut marked = Vec::new();
    let toll = node.run_and_tell(Policy::Engine(Order::Cause), 480, |action| {
        marked.push((action.step, action.target.uid.clone()));
    });
    let want =
        [(StepKind::Mark, "0".into()), (StepKind::Mark, "/system.slice/backup.service".into())];
    assert_eq!(marked[..2], want, "{marked:?}");
    assert_eq!((toll.wrong, toll.out_of_memory), (0, 1), "{toll:?}");
}

/// By what the node has, a leak would be the first that the kernel takes; by what all pods may hold,
/// which counts where that is reached, a larger pod is.
#[test]
fn scores_are_parts_of_what_the_scope_has() {
    let party = |path: &str, class, request: Kib, party| Party {
        path: path.into(),
        class: Some(class),
        request,
        ..party
    };
    let leak = Party { growth: Growth::Leak(40 * MIB), ..steady(500 * MIB) };
    let parties = vec![
        party("/kubepods/besteffort/pod0", QosClass::BestEffort, 0, leak),
        party("/kubepods/burstable/pod1", QosClass::Burstable, 2_000 * MIB, steady(4_500 * MIB)),
    ];
    let node = Node::of(4 * MEMORY, 1_000 * MIB, parties);
    let node = Node { pods_limit: 8_192 * MIB, ..node };
    let mut steps = Vec::new();
    node.run_and_tell(Policy::Engine(Order::Cause), 120, |action| {
        steps.push((action.step, action.target.uid.clone()));
    });
    let first = steps.iter().find(|(step, _)| *step != StepKind::Mark);
    assert_eq!(first, Some(&(StepKind::Squeeze, "0".into())), "{steps:?}");
}
