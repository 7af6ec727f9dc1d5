//! The policy in a closed loop: generated nodes whose pods react to what is done to them, judged by
//! who died and whether he had caused it. The rules are in docs/policy.md, "Who pays for memory".

mod beside;
mod cache;
mod cpu;
mod disks;
mod family;
mod large;
mod many;
mod marks;
mod node;
mod outside;
mod own_limits;
mod promised;
mod refill;
mod scope;
mod threads;

use std::collections::BTreeMap;
use std::thread;

use self::family::Family;
use self::node::{Kib, MIB, Node, Policy};
use crate::model::decision::Order;

/// Nodes of 16 GiB of each family: 210 in all.
const NODES: u64 = 10;
const MEMORY: Kib = 16 * 1024 * MIB;
/// A node is looked at for so long.
const SECONDS: u64 = 150;
/// Other sizes, and nodes of each family. On a small node the same leak leaves seconds.
const OTHERS: [(Kib, u64); 2] = [(5 * 1024 * MIB, 3), (64 * 1024 * MIB, 1)];

const POLICIES: [(&str, Policy); 4] = [
    ("kernel", Policy::Kernel),
    ("kubelet", Policy::Engine(Order::Kubelet)),
    ("qos", Policy::Engine(Order::Qos)),
    ("cause", Policy::Engine(Order::Cause)),
];

/// What a policy did to some nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Toll {
    /// Pods that died and had not caused the shortage.
    wrong: u32,
    /// Parties that died and had.
    right: u32,
    /// Times that memory ran out, so that the kernel killed.
    out_of_memory: u32,
    /// Ticks in which nothing was done because the budget was spent.
    budget_spent: u32,
}

impl Toll {
    fn plus(self, other: Self) -> Self {
        Self {
            wrong: self.wrong + other.wrong,
            right: self.right + other.right,
            out_of_memory: self.out_of_memory + other.out_of_memory,
            budget_spent: self.budget_spent + other.budget_spent,
        }
    }
}

fn toll(family: Family, policy: Policy, (memory, n): (Kib, u64)) -> Toll {
    let nodes = (0..n).map(|seed| Node::new(family, seed, memory).run(policy, SECONDS));
    nodes.fold(Toll::default(), Toll::plus)
}

#[test]
fn closed_loop_ends_takers_as_often_as_they_come_back() {
    for seed in [0, 4, 6, 8] {
        let node = Node::new(Family::TwoLeaks, seed, 5 * 1024 * MIB);
        let toll = node.run(Policy::Engine(Order::Cause), 600);
        let Toll { wrong, right, budget_spent, .. } = toll;
        assert!(right > 5 && (wrong, budget_spent) == (0, 0), "node {seed}: {toll:?}");
    }
}

/// On each of these nodes a rule of its own kept the innocent alive.
#[test]
fn closed_loop_spares_the_innocent() {
    #[rustfmt::skip]
    let table: [(Family, &[u64]); 5] = [
        // The kernel takes the daemon, and a pod that warms up took a quarter of what it did in ten seconds.
        (Family::WarmUpsBesideDaemon,  &[1, 2, 3, 4, 8, 10, 13, 15]),
        // It took more than the leak, and has stopped.
        (Family::BurstThenLeak,        &[6, 10, 16, 17, 32, 45, 47, 55]),
        // It took more than the leak lately, and less all along.
        (Family::HeapBesideLeak,       &[7, 17, 27, 28, 34]),
        // It gives back by itself what it takes, again and again.
        (Family::SwingBesideLeak,      &[0, 1, 2, 3, 4, 5, 6, 7]),
        // The leak took a hundredth of the memory.
        (Family::SlowLeak,             &[0, 1, 2, 3, 4, 5, 6, 7]),
    ];
    for (family, seeds) in table {
        let run = |seed: &u64| {
            let toll = Node::new(family, *seed, MEMORY).run(Policy::Engine(Order::Cause), SECONDS);
            assert_eq!(toll.wrong, 0, "{family:?}, node {seed}: {toll:?}");
            toll
        };
        let sum = seeds.iter().map(run).fold(Toll::default(), Toll::plus);
        assert!(sum.right > 0, "{family:?}: {sum:?}");
    }
}

#[test]
fn closed_loop_on_small_and_large_nodes() {
    for size in OTHERS {
        let sums = thread::scope(|scope| {
            let of = |policy| {
                let all = Family::ALL.into_iter().map(move |family| toll(family, policy, size));
                scope.spawn(move || all.fold(Toll::default(), Toll::plus))
            };
            POLICIES.map(|(name, policy)| (name, of(policy))).map(|(n, t)| (n, t.join().unwrap()))
        });
        let [others @ .., (_, cause)] = sums;
        println!("{} GiB: {sums:?}", size.0 / MIB / 1024);
        for (name, toll) in others {
            assert!(cause.wrong * 10 <= toll.wrong, "cause {cause:?}, {name} {toll:?}");
            assert!(cause.out_of_memory <= toll.out_of_memory, "cause {cause:?}, {name} {toll:?}");
        }
    }
}

#[test]
fn closed_loop_takes_who_took_it() {
    // Numbers as wrong victims / right ones / times out of memory.
    let mut sums: BTreeMap<&str, Toll> = BTreeMap::new();
    let tolls: Vec<_> = thread::scope(|scope| {
        let of = |family| {
            scope.spawn(move || POLICIES.map(|(name, p)| (name, toll(family, p, (MEMORY, NODES)))))
        };
        let families = Family::ALL.map(|family| (family, of(family)));
        families.map(|(family, thread)| (family, thread.join().unwrap())).into()
    });
    for (family, tolls) in tolls {
        let told =
            tolls.map(|(name, t)| format!("{name} {}/{}/{}", t.wrong, t.right, t.out_of_memory));
        println!("{family:?}: {}", told.join(", "));
        let (_, cause) = tolls[3];
        for (name, toll) in tolls {
            let sum = sums.entry(name).or_default();
            *sum = sum.plus(toll);
            assert!(cause.wrong <= toll.wrong, "{family:?}: cause {cause:?}, {name} {toll:?}");
        }
    }
    println!("{sums:#?}");
    let cause = sums["cause"];
    for (name, sum) in sums.iter().filter(|(name, _)| **name != "cause") {
        assert!(cause.wrong * 10 <= sum.wrong, "cause {cause:?}, {name} {sum:?}");
        assert!(cause.out_of_memory <= sum.out_of_memory, "cause {cause:?}, {name} {sum:?}");
        let victims = |toll: Toll| toll.wrong + toll.right;
        assert!(victims(cause) <= victims(*sum), "cause {cause:?}, {name} {sum:?}");
    }
}
