//! How long it takes to rank all pods of a node; `cargo xtask bench rank` judges the figures.
//! Prints JSON, one line for each number of pods and each order. It is CPU time that is measured:
//! who else uses the CPU is not in the figure.

use std::hint::black_box;

use isobar::clock;
use isobar_core::model::decision::{Order, SparedReason};
use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::settings;
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::Owner;
use isobar_core::policy::rank::{Contender, Harm, Purpose, rank};

const SIZES: [usize; 3] = [100, 1_000, 10_000];
/// Rankings that a figure is the median of.
const ROUNDS: usize = 201;

fn main() {
    let purpose = Purpose::named("memory.available").expect("one of the kubelet's signals");
    let rules = settings::Ranking::default();
    for n in SIZES {
        let pods = pods(n);
        for (name, order) in [("qos", Order::Qos), ("kubelet", Order::Kubelet)] {
            let mut took: Vec<u64> = (0..ROUNDS)
                .map(|_| {
                    let before = clock::used_by_this_process();
                    black_box(rank(black_box(&pods), purpose, order, &rules));
                    clock::used_by_this_process().since(before).0
                })
                .collect();
            took.sort_unstable();
            let (median, longest) = (took[ROUNDS / 2], took[ROUNDS - 1]);
            println!(
                r#"{{"pods":{n},"order":"{name}","medianNs":{median},"longestNs":{longest}}}"#
            );
        }
    }
}

/// Pods as a node has them, only more: three classes, a few priorities, small ones with owners,
/// some that may not be chosen. Numbers come from a fixed sequence, so every run ranks the same.
fn pods(n: usize) -> Vec<Contender> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: u64| {
        // xorshift64: good enough to keep the sort from guessing.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let classes = [QosClass::BestEffort, QosClass::Burstable, QosClass::Guaranteed];
    let mut pod = |i: usize| {
        let uid = format!("{:08x}-{:04x}-4c58-8a86-{i:012x}", next(1 << 32), next(1 << 16));
        let owner = next(n as u64 / 10 + 1);
        Contender {
            name: format!("web-{owner}-{i}"),
            namespace: format!("team-{}", owner % 20),
            priority: next(4) as i32 * 1_000,
            request: Some(Quantity::bytes(next(512) << 20)),
            usage: Some(Quantity::bytes(next(1 << 30))),
            harm: Some(Harm { others: Nanos(next(4) * 1_000_000), own: Nanos(0) }),
            started: Some(1_700_000_000 + next(1 << 20) as i64),
            owner: Some(Owner {
                kind: "ReplicaSet".into(),
                name: format!("web-{owner}"),
                uid: format!("{owner:08x}-9d3f-4c58-8a86-2f0d4b7c6e19"),
            }),
            preference: None,
            spared: (next(50) == 0).then_some(SparedReason::Critical),
            ..Contender::unknown(&uid, classes[next(3) as usize])
        }
    };
    (0..n).map(&mut pod).collect()
}
