//! Who would go first, and why not the others.
//! In: one [`Contender`] per pod, what is short, and the settings. Out: a `Ranking`.
//! Rules: the kubelet's ranking functions (`pkg/kubelet/eviction/helpers.go`) as the order
//! `kubelet`; the order `qos` is ours. Both are told in docs/policy.md, "Ranking".

pub mod contenders;
pub mod harm;
pub mod workload;

mod contender;
mod group;
mod merit;
mod need;
mod spare;
mod untouchable;

pub use contender::{Contender, Harm};
pub use merit::first_difference;
pub use need::{Need, Purpose};

use merit::Scale;

use crate::model::decision::{Candidate, Order, Ranking, Spared};
use crate::model::settings;

/// As many as a decision needs: after the first few have been tried there are new readings.
pub const HEAD: usize = 16;

/// Who would go first: the [`HEAD`] of the list, explained, and how many there are.
#[must_use]
pub fn rank(
    contenders: &[Contender],
    purpose: Purpose,
    order: Order,
    rules: &settings::Ranking,
) -> Ranking {
    ranked(contenders, purpose, order, rules, HEAD)
}

/// The same with everybody explained.
#[must_use]
pub fn rank_all(
    contenders: &[Contender],
    purpose: Purpose,
    order: Order,
    rules: &settings::Ranking,
) -> Ranking {
    ranked(contenders, purpose, order, rules, usize::MAX)
}

fn ranked(
    contenders: &[Contender],
    purpose: Purpose,
    order: Order,
    rules: &settings::Ranking,
    head: usize,
) -> Ranking {
    let scale = Scale::new(contenders, order, purpose.need());
    let (mut open, mut spared) = (Vec::with_capacity(contenders.len()), Vec::new());
    for contender in contenders {
        match spare::why(contender, purpose) {
            None => open.push(contender),
            Some(why) => spared.push((contender, why)),
        }
    }
    let groups = group::take_out(&mut open, scale, rules.group_below);
    let (n_single, n_candidates) = (open.len(), open.len() + groups.len());
    open.extend(groups.iter().map(|group| &group.sum));
    let candidates = scale.sorted(&open, head).map(|at| Candidate {
        members: at.checked_sub(n_single).map_or_else(Vec::new, |at| groups[at].members.clone()),
        name: open[at].name.clone(),
        namespace: open[at].namespace.clone(),
        uid: open[at].uid.clone(),
        keys: scale.keys(open[at]),
    });
    let candidates = candidates.collect();
    // In the order in which they would have gone, so that the first tell most.
    let order_of_spared: Vec<_> = spared.iter().map(|(contender, _)| *contender).collect();
    let named = scale.sorted(&order_of_spared, head).map(|at| {
        let (contender, why) = spared[at];
        Spared { name: contender.name.clone(), uid: contender.uid.clone(), why }
    });
    Ranking {
        signal: purpose.name().into(),
        order,
        candidates,
        n_candidates,
        spared: named.collect(),
        n_spared: spared.len(),
        outsiders: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
