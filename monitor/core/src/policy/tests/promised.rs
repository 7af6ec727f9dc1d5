//! Growth that was promised beside growth that was not.

use super::family::{Dice, steady};
use super::node::{Growth, Kib, MIB, Node, Party, Policy, settings};
use super::{MEMORY, Toll};
use crate::model::decision::{Action, Order, StepKind};
use crate::model::pod::QosClass;
use crate::model::units::Bytes;
use crate::policy::engine::{Engine, Standing};

const PROMISED: &str = "/kubepods/burstable/pod0";

/// A node on which a pod grows within its request, beside others.
fn node(request: Kib, growth: Growth, others: impl IntoIterator<Item = Party>) -> Node {
    let promised = Party {
        path: PROMISED.into(),
        class: Some(QosClass::Burstable),
        request,
        growth,
        ..steady(1_000 * MIB)
    };
    Node::of(MEMORY, 1_000 * MIB, [promised].into_iter().chain(others).collect())
}

fn best_effort(at: usize, held: Kib, growth: Growth) -> Party {
    let path = format!("/kubepods/besteffort/pod{at}");
    Party { path, class: Some(QosClass::BestEffort), growth, ..steady(held) }
}

/// What is decided on such a node, until it has no memory left; the kernel takes `rate` a second.
fn actions(mut node: Node, rate: Kib) -> Vec<Action> {
    let mut engine = Engine::new(settings(Order::Cause), Standing::new(4));
    let step = |tick: u64| {
        node.live(tick * 250, 250);
        let mut sample = node.sample(tick, tick * 250);
        let taken = u64::try_from(rate).unwrap() * 1024 / 4 * tick;
        let memory = sample.node.memory.as_mut().unwrap();
        memory.available = Bytes(memory.available.0.checked_sub(taken)?);
        memory.free = memory.available;
        Some(engine.step(sample).decision.relief.actions)
    };
    (1..600).map_while(step).flatten().collect()
}

/// The first that is marked, and the first that is ended.
fn first(actions: &[Action]) -> (Option<&str>, Option<&str>) {
    let of = |is: fn(StepKind) -> bool| {
        let its = actions.iter().find(|action| is(action.step));
        its.map(|action| action.target.uid.as_str())
    };
    (of(|step| step == StepKind::Mark), of(StepKind::is_final))
}

#[test]
fn mark_is_not_for_what_was_promised() {
    let leak = best_effort(1, 200 * MIB, Growth::Leak(40 * MIB));
    let steady = best_effort(2, 3_000 * MIB, Growth::Steady);
    let done = actions(node(12_000 * MIB, Growth::Leak(100 * MIB), [leak, steady]), 0);
    assert_eq!(first(&done).0, Some("1"), "{done:?}");
}

/// Five takers are named, and one that was promised nothing is among them.
#[test]
fn mark_is_for_who_was_promised_nothing_however_many_took_more() {
    let pod = |at: usize| Party {
        path: format!("/kubepods/burstable/pod{at}"),
        class: Some(QosClass::Burstable),
        request: 8_000 * MIB,
        growth: Growth::Leak(60 * MIB),
        ..steady(300 * MIB)
    };
    let leak = best_effort(9, 200 * MIB, Growth::Leak(25 * MIB));
    let others = (1..7).map(pod).chain([leak]);
    let done = actions(node(12_000 * MIB, Growth::Leak(60 * MIB), others), 0);
    assert_eq!(first(&done).0, Some("9"), "{done:?}");
}

#[test]
fn growth_that_was_promised_is_no_cause_beside_what_the_kernel_takes() {
    let steady = best_effort(1, 8_000 * MIB, Growth::Steady);
    let done = actions(node(12_000 * MIB, Growth::Leak(30 * MIB), [steady]), 90 * MIB);
    // What the kernel takes the kubelet's threshold does not see.
    assert_eq!(first(&done), (None, None), "{done:?}");
}

#[test]
fn holders_of_what_was_promised_pay_one_by_one() {
    let holder = |at| Party { is_guilty: true, ..best_effort(at, 1_500 * MIB, Growth::Steady) };
    let growth = Growth::WarmUp(100 * MIB, 5_000 * MIB);
    let node = node(5_500 * MIB, growth, (1..=8).map(holder));
    let toll = node.run(Policy::Engine(Order::Cause), 120);
    let Toll { wrong, right, out_of_memory, .. } = toll;
    assert_eq!((wrong, out_of_memory), (0, 0), "{toll:?}");
    assert!((1..=2).contains(&right), "{toll:?}");
}

/// What one requests itself it takes again, and nothing is won.
#[test]
fn holder_of_a_little_more_than_it_requests_is_spared() {
    for (request, held) in [(1_150, 1_200), (1_190, 1_200), (900, 930)] {
        let path = "/kubepods/burstable/pod1".into();
        let class = Some(QosClass::Burstable);
        let a_little = Party { path, class, request: request * MIB, ..steady(held * MIB) };
        let others = [2, 3].map(|at| best_effort(at, 450 * MIB, Growth::Steady));
        let growth = Growth::WarmUp(40 * MIB, 2_000 * MIB);
        let parties = [a_little].into_iter().chain(others);
        let node =
            Node { memory: 4_096 * MIB, base: 700 * MIB, ..node(2_048 * MIB, growth, parties) };
        let mut ended = Vec::new();
        node.run_and_tell(Policy::Engine(Order::Cause), 60, |action| {
            ended.extend(action.step.is_final().then(|| action.target.uid.clone()));
        });
        ended.sort();
        ended.dedup();
        assert!(!ended.is_empty() && ended.iter().all(|uid| *uid != "1"), "{request}: {ended:?}");
    }
}

/// They start as memory becomes short, and each of them grows a little.
#[test]
fn holders_of_what_was_promised_pay_and_not_many_that_warmed_up() {
    let hog = Party { is_guilty: true, ..best_effort(1, 8_000 * MIB, Growth::Steady) };
    let warm_up = Growth::WarmUpLater(50_000, 2 * MIB, 60 * MIB);
    let small = (2..22).map(|at| best_effort(at, 4 * MIB, warm_up));
    let growth = Growth::WarmUp(100 * MIB, 7_500 * MIB);
    let node = node(8_000 * MIB, growth, [hog].into_iter().chain(small));
    let toll = node.run(Policy::Engine(Order::Cause), 120);
    assert!(toll.wrong == 0 && toll.right > 0, "{toll:?}");
}

/// Each of them grows by less than a part of the loss that is worth a name.
#[test]
fn many_that_grow_alike_pay_and_not_who_holds_more() {
    for (n, rate) in [(40, MIB), (40, 3 * MIB), (60, MIB / 2)] {
        let leaks = (1..=n).map(|at| Party {
            is_guilty: true,
            ..best_effort(at, 10_000 / n as Kib * MIB, Growth::Leak(rate))
        });
        let path = PROMISED.into();
        let class = Some(QosClass::Burstable);
        let db = Party { path, class, request: 256 * MIB, ..steady(900 * MIB) };
        let node = Node::of(MEMORY, 2_000 * MIB, leaks.chain([db]).collect());
        let toll = node.run(Policy::Engine(Order::Cause), 240);
        assert_eq!(toll.wrong, 0, "{n} {rate}: {toll:?}");
        assert!(toll.right > 0, "{n} {rate}: {toll:?}");
    }
}

/// Pods that start and take up to a fifth more than they request, beside one that has held many times its
/// request all along; a leak, where there is one, is guilty too.
#[test]
fn holder_pays_and_not_who_takes_a_little_more_than_it_requests() {
    for (seed, has_leak) in (0..120).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut dice = Dice::new(seed * 13 + 5);
        let memory = [4, 8, 16, 32][dice.between(0, 3) as usize] * 1024 * MIB;
        let unit = memory / 100;
        let mut all: Vec<Party> = Vec::new();
        let mut add = |request: Kib, held, growth, is_guilty| {
            let (class, slice) = match request {
                0 => (QosClass::BestEffort, "besteffort"),
                _ => (QosClass::Burstable, "burstable"),
            };
            let path = format!("/kubepods/{slice}/pod{}", all.len());
            let class = Some(class);
            all.push(Party { path, class, request, growth, is_guilty, ..steady(held) });
        };
        for _ in 0..dice.between(2, 6) {
            let held = unit * dice.between(1, 5);
            add(held * 12 / 10, held, Growth::Steady, false);
        }
        let mut coming = 0;
        for _ in 0..dice.between(1, 3) {
            let request = unit * dice.between(3, 9);
            let takes = request * dice.between(102, 120) / 100;
            let from = u64::try_from(dice.between(10, 60)).unwrap() * 1_000;
            let growth = Growth::WarmUpLater(from, takes / dice.between(4, 40), takes);
            (coming, _) = (coming + takes, add(request, 10 * MIB, growth, false));
        }
        let hog = unit * dice.between(20, 30);
        add(hog / dice.between(8, 30), hog, Growth::Steady, true);
        // What is left is a little less than those that start take.
        let left = coming - unit * dice.between(0, 2);
        if has_leak {
            let held = unit * dice.between(1, 4);
            add(0, held, Growth::Leak(left / dice.between(60, 200)), true);
        }
        let (held, requests) = (sum(&all, |one| one.held), sum(&all, |one| one.request));
        let base = memory - held - left - 100 * MIB;
        if base < 300 * MIB || base + requests > memory - 100 * MIB {
            continue;
        }
        let node = Node { has_api: dice.between(0, 1) == 1, ..Node::of(memory, base, all) };
        let toll = node.run(Policy::Engine(Order::Cause), 150);
        assert_eq!(toll.wrong, 0, "seed {seed}, leak {has_leak}: {toll:?}");
    }
}

fn sum(all: &[Party], of: impl Fn(&Party) -> Kib) -> Kib {
    all.iter().map(of).sum()
}
