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
mod protected;
mod purpose;

pub use contender::{Contender, Harm};
pub use merit::why_before;
pub use purpose::Purpose;

use group::Group;
use merit::Scale;

use crate::model::decision::{Candidate, Order, Outsider, Ranking, Spared, SparedReason};
use crate::model::sample::Sample;
use crate::model::settings::{self, Settings};
use crate::model::snapshot::Snapshot;
use harm::HarmStanding;

/// As many as are written down. A decision that none of them is good for looks further.
pub const HEAD: usize = 16;

/// Who would go first: the [`HEAD`] of the list, explained, and how many there are.
#[must_use]
pub fn rank(
    contenders: &[Contender],
    purpose: Purpose,
    order: Order,
    rules: &settings::Ranking,
) -> Ranking {
    Field::new(contenders, purpose, order, rules).ranking(HEAD)
}

/// The same with everybody explained.
#[must_use]
pub fn rank_all(
    contenders: &[Contender],
    purpose: Purpose,
    order: Order,
    rules: &settings::Ranking,
) -> Ranking {
    Field::new(contenders, purpose, order, rules).ranking(usize::MAX)
}

/// All pods and workloads of a node as the ranking sees them: gathered here alone, for the engine,
/// for `isobar rank` and for the preparation of likely victims.
#[derive(Debug)]
pub struct Pool<'a> {
    contenders: Vec<Contender>,
    outsiders: Vec<Outsider>,
    purpose: Purpose,
    rules: &'a settings::Ranking,
}

impl<'a> Pool<'a> {
    #[must_use]
    pub fn of_node(
        sample: &Sample,
        snapshot: &Snapshot,
        harm: &HarmStanding,
        settings: &'a Settings,
        purpose: Purpose,
    ) -> Self {
        let rules = &settings.ranking;
        let contenders = contenders::of_node(sample, snapshot, harm, purpose, settings);
        let outsiders = contenders::outsiders(harm, purpose, &contenders);
        Self { contenders, outsiders, purpose, rules }
    }

    #[must_use]
    pub fn field(&self) -> Field<'_> {
        let field = Field::new(&self.contenders, self.purpose, self.rules.order, self.rules);
        Field { outsiders: &self.outsiders, ..field }
    }
}

/// All contenders, candidates and spared ones; sorted only as far as is asked for.
#[derive(Debug)]
pub struct Field<'a> {
    purpose: Purpose,
    scale: Scale,
    outsiders: &'a [Outsider],
    /// On their own.
    open: Vec<&'a Contender>,
    groups: Vec<Group>,
    spared: Vec<(&'a Contender, SparedReason)>,
}

impl<'a> Field<'a> {
    /// Nobody is compared yet.
    #[must_use]
    pub fn new(
        contenders: &'a [Contender],
        purpose: Purpose,
        order: Order,
        rules: &settings::Ranking,
    ) -> Self {
        let scale = Scale::new(contenders, order, purpose.resource());
        let (mut open, mut spared) = (Vec::with_capacity(contenders.len()), Vec::new());
        for contender in contenders {
            match contender.spared_for(purpose) {
                None => open.push(contender),
                Some(why) => spared.push((contender, why)),
            }
        }
        let groups = group::take_out(&mut open, scale, rules.group_below);
        Self { purpose, scale, outsiders: &[], open, groups, spared }
    }

    /// The first `head` of each list, and how many there are.
    #[must_use]
    pub fn ranking(&self, head: usize) -> Ranking {
        let candidates = self.first(head, |_| true);
        // In the order in which they would have gone, so that the first tell most.
        let spared: Vec<_> = self.spared.iter().map(|(contender, _)| *contender).collect();
        let named = self.scale.sorted(&spared, head).map(|at| {
            let (contender, why) = self.spared[at];
            Spared { name: contender.name.clone(), uid: contender.uid.clone(), why }
        });
        Ranking {
            signal: self.purpose.name().into(),
            order: self.scale.order(),
            candidates,
            n_candidates: self.open.len() + self.groups.len(),
            spared: named.collect(),
            n_spared: self.spared.len(),
            outsiders: self.outsiders.to_vec(),
        }
    }

    /// The first of those that `counts` picks. They alone are sorted.
    #[must_use]
    pub fn first(&self, head: usize, counts: impl Fn(&Contender) -> bool) -> Vec<Candidate> {
        let single = self.open.iter().map(|contender| (*contender, &[][..]));
        let groups = self.groups.iter().map(|group| (&group.sum, &group.members[..]));
        let (all, members): (Vec<_>, Vec<_>) =
            single.chain(groups).filter(|(contender, _)| counts(contender)).unzip();
        let sorted = self.scale.sorted(&all, head).map(|at| Candidate {
            members: members[at].to_vec(),
            name: all[at].name.clone(),
            namespace: all[at].namespace.clone(),
            uid: all[at].uid.clone(),
            keys: self.scale.keys(all[at]),
        });
        sorted.collect()
    }
}

#[cfg(test)]
mod tests;
