//! Nodes with much memory, of which what makes it short is a small part.

use super::family::{Dice, steady};
use super::node::{Growth, Kib, MIB, Node, Party, Policy};
use crate::model::decision::Order;
use crate::model::pod::QosClass;

/// The agent starts when so much is left; a leak takes so much a second.
#[test]
fn leak_pays_that_an_agent_finds_as_it_starts() {
    #[rustfmt::skip]
    let table: [(Kib, Kib, Kib); 5] = [
        // GiB of the node, MiB that are left, MiB a second
        ( 64, 180, 3),
        ( 64, 200, 5),
        (128, 300, 8),
        (256, 250, 6),
        (256, 600, 15),
    ];
    for ((memory, left, rate), seed) in
        table.into_iter().flat_map(|row| (0..4).map(move |seed| (row, seed)))
    {
        let memory = memory * 1_024 * MIB;
        let mut dice = Dice::new(seed);
        let pod = |at: usize, held, growth, is_guilty| Party {
            path: format!("/kubepods/besteffort/pod{at}"),
            class: Some(QosClass::BestEffort),
            growth,
            is_guilty,
            ..steady(held)
        };
        let leak = pod(0, dice.between(2_000, 4_000) * MIB, Growth::Leak(rate * MIB), true);
        let others =
            (1..9).map(|at| pod(at, dice.between(2_000, 5_000) * MIB, Growth::Steady, false));
        let parties: Vec<Party> = std::iter::once(leak).chain(others).collect();
        let held: Kib = parties.iter().map(|party| party.held).sum();
        // The kernel's OOM killer takes one of them if nothing is done in time.
        let base = memory - held - (left + 5 * rate) * MIB;
        let node = Node { dice, ..Node::of(memory, base, parties) };
        let toll = node.run(Policy::Engine(Order::Cause), 120);
        let got = (toll.wrong, toll.out_of_memory, toll.right > 0);
        assert_eq!(got, (0, 0, true), "{memory} {left} {rate}, node {seed}: {toll:?}");
    }
}
