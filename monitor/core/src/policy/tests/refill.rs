//! A container that is started again, or a pod that comes in place of another one, takes what was there
//! before, beside what makes memory short.

use super::MEMORY;
use super::family::{Dice, steady};
use super::node::{Growth, Kib, MIB, Node, Party, Policy};
use crate::model::decision::{Order, StepKind};
use crate::model::pod::QosClass;

/// A node on which a leak takes `leak` a second, and another pod grows as it is told here.
fn node(seed: u64, leak: Kib, growth: Growth) -> Node {
    let mut dice = Dice::new(seed);
    let party = |at: usize, held, growth, is_guilty| Party {
        path: format!("/kubepods/besteffort/pod{at}"),
        class: Some(QosClass::BestEffort),
        growth,
        is_guilty,
        ..steady(held)
    };
    let heap = dice.between(900, 3_000) * MIB;
    let leaker = party(0, dice.between(1_500, 2_500) * MIB, Growth::Leak(leak), true);
    let restarted = Party { owner: Some("rolled"), ..party(1, heap, growth, false) };
    let mut parties = vec![leaker, restarted];
    // Memory runs short after about a minute and a half.
    let held: Kib = parties.iter().map(|one| one.held).sum();
    let base = 1_000 * MIB;
    let large = MEMORY - base - held - 100 * MIB - leak * dice.between(80, 110);
    parties.push(party(2, large, Growth::Steady, false));
    Node { dice, ..Node::of(MEMORY, base, parties) }
}

#[test]
fn what_was_held_before_in_the_same_place_is_no_growth() {
    #[rustfmt::skip]
    let table: [(Kib, Kib, Kib); 5] = [
        // The leak, a second; what is left when the other is restarted or replaced; what it takes a second then.
        (     MIB, 130 * MIB, 100 * MIB),
        ( 2 * MIB, 120 * MIB, 400 * MIB),
        ( 5 * MIB, 150 * MIB,  60 * MIB),
        (20 * MIB, 300 * MIB, 200 * MIB),
        (60 * MIB, 900 * MIB, 100 * MIB),
    ];
    for ((leak, below, rate), seed) in
        table.into_iter().flat_map(|row| (0..6).map(move |seed| (row, seed)))
    {
        for growth in [Growth::Refill(below, rate), Growth::Replaced(below, rate)] {
            let toll = node(seed, leak, growth).run(Policy::Engine(Order::Cause), 300);
            let harm = (toll.wrong, toll.out_of_memory);
            assert_eq!(harm, (0, 0), "{leak} {growth:?}, node {seed}: {toll:?}");
        }
    }
}

/// systemd makes a service that is started again a new cgroup.
#[test]
fn what_a_service_held_before_at_its_path_is_no_growth() {
    for (leak, rate, seed) in [(2, 100, 0), (5, 400, 1), (20, 200, 2), (60, 100, 3)] {
        let mut node = node(seed, leak * MIB, Growth::Steady);
        let database = &mut node.parties[1];
        let growth = Growth::Replaced((100 + leak * 8) * MIB, rate * MIB);
        let path = "/system.slice/database.service".into();
        *database = Party { path, growth, ..steady(database.held) };
        let mut marked = Vec::new();
        let toll = node.run_and_tell(Policy::Engine(Order::Cause), 300, |action| {
            marked.extend(Some(action.target.uid.clone()).filter(|uid| uid.starts_with('/')));
        });
        assert_eq!((toll.wrong, toll.out_of_memory), (0, 0), "{leak} {rate}: {toll:?}");
        assert_eq!(marked, [""; 0], "{leak} {rate}: {toll:?}");
    }
}

/// containerd takes memory by 150 MiB a second, and no step may touch it: a kill of the largest pod
/// would leave its shared memory where it is.
#[test]
fn who_holds_shared_memory_pays_for_no_emergency() {
    let daemon = Party {
        path: "/system.slice/containerd.service".into(),
        growth: Growth::WarmUpLater(40_000, 150 * MIB, 1_900 * MIB),
        is_guilty: true,
        ..steady(50 * MIB)
    };
    let pod = |at, held, is_shared| Party {
        path: format!("/kubepods/besteffort/pod{at}"),
        class: Some(QosClass::BestEffort),
        is_shared,
        ..steady(held * MIB)
    };
    let parties = vec![daemon, pod(1, 2_400, true), pod(2, 2_200, false)];
    let held: Kib = parties.iter().map(|one| one.held).sum();
    let base = MEMORY - held - 1_700 * MIB;
    let node = Node { has_api: true, ..Node::of(MEMORY, base, parties) };
    let mut ends = Vec::new();
    let toll = node.run_and_tell(Policy::Engine(Order::Cause), 60, |action| {
        ends.extend(action.step.is_final().then(|| (action.step, action.target.uid.clone())));
    });
    assert_eq!(ends, [(StepKind::KillContainers, "2".to_owned())], "{toll:?}");
}

/// A service without which the node cannot do leaks, or a pod into a tmpfs: the kernel would not take it
/// first. So the largest pod pays, and starts again. A critical pod that leaks is squeezed where that is
/// foretold in time.
#[test]
fn payer_that_fills_again_is_no_taker() {
    let service =
        Party { path: "/system.slice/docker.service".into(), is_guilty: true, ..steady(50 * MIB) };
    let critical = Party {
        path: "/kubepods/burstable/pod0".into(),
        class: Some(QosClass::Burstable),
        is_critical: true,
        ..service.clone()
    };
    let pod = |at, held| Party {
        path: format!("/kubepods/besteffort/pod{at}"),
        class: Some(QosClass::BestEffort),
        ..steady(held)
    };
    // Where pods cannot be evicted, nothing gives its memory back.
    let shared = Party { is_guilty: true, is_shared: true, ..pod(0, 50 * MIB) };
    #[rustfmt::skip]
    let table = [
        // who leaks, MiB a second, a pod pays
        (&service,  15, true),
        (&service,  30, true),
        (&critical, 15, true), // the hard threshold comes before the forecast
        (&critical, 30, false),
        (&shared,   15, true),
    ];
    for (leak, rate, is_paid) in table {
        let rate = rate * MIB;
        let leak = Party { growth: Growth::Leak(rate), ..leak.clone() };
        let parties = vec![leak, pod(1, 3_500 * MIB), pod(2, 1_500 * MIB)];
        let held: Kib = parties.iter().map(|one| one.held).sum();
        let node = Node::of(MEMORY, MEMORY - held - rate * 80, parties);
        let mut ends = Vec::new();
        let toll = node.run_and_tell(Policy::Engine(Order::Cause), 300, |action| {
            let is_of_pod = !action.target.uid.starts_with('/') && action.step.is_final();
            let step = (action.step, action.target.is_payer);
            ends.extend(is_of_pod.then(|| (action.target.uid.clone(), step)));
        });
        let pay_alone = ends.iter().all(|(_, (_, pays))| *pays);
        let is_right = if is_paid { ends.len() > 1 } else { ends.is_empty() };
        assert!(pay_alone && is_right, "{rate}: {ends:?}, {toll:?}");
    }
}
