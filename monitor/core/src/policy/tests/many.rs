//! Pods of as many owners, each of which takes a little: their ends spend the budget.

use super::family::steady;
use super::node::{Growth, Kib, MIB, Node, Party, Policy};
use crate::model::decision::Order;
use crate::model::pod::QosClass;

/// All are of a class that the kernel's OOM killer takes by size alone, marked or not.
#[test]
fn takers_pay_beyond_the_budget_before_the_kernel_takes_another() {
    #[rustfmt::skip]
    let table: [(u32, usize, Kib, Kib, Kib, u32); 6] = [
        // the budget, pods that take, MiB a second of each, until so many MiB, what another holds, ended wrongly
        (5, 14, 1, 100, 250,   0),
        (5, 40, 1, 60,  400,   0),
        (5, 40, 2, 60,  1_500, 0),
        (5, 5,  3, 300, 250,   0), // as many as the budget has
        (1, 14, 1, 100, 250,   0),
        (1, 40, 2, 60,  1_500, 0), // it is spent as the kubelet's threshold is met, before an emergency
    ];
    for (budget, n, rate, until, other, wrong) in table {
        let pod = |at: usize, party| Party {
            path: format!("/kubepods/besteffort/pod{at}"),
            class: Some(QosClass::BestEffort),
            ..party
        };
        let growth = Growth::WarmUp(rate * MIB, until * MIB);
        let taker = Party { growth, is_guilty: true, ..steady(8 * MIB) };
        let mut parties: Vec<_> = (0..n).map(|at| pod(at, taker.clone())).collect();
        parties.push(pod(n, steady(other * MIB)));
        // Half of what they would take is there.
        let memory = (other + 200 + n as Kib * until / 2) * MIB;
        let node = Node { budget, ..Node::of(memory, 100 * MIB, parties) };
        let toll = node.run(Policy::Engine(Order::Cause), 60);
        assert_eq!((toll.wrong, toll.out_of_memory), (wrong, 0), "{budget} {n} {other}: {toll:?}");
    }
}
