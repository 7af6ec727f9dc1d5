//! Who would go first, and why not the others.
//! In: one [`Contender`] per pod, what is short, and the settings. Out: a `Ranking`.
//! Rules: the kubelet's ranking functions (`pkg/kubelet/eviction/helpers.go`) as the order
//! `kubelet`; the orders `cause` and `qos` are isobar's. All are told in docs/policy.md, "Ranking".

pub mod contenders;
pub mod harm;

mod contender;
mod group;
mod merit;
mod most;
mod need;
mod protected;
mod purpose;
mod questions;
mod scale;
mod stalls;
mod vital;

pub(crate) use contender::TEMPLATE_LABELS;
pub use contender::{Contender, Harm};
pub use merit::why_before;
pub(crate) use need::REAL_PART;
pub use need::{Need, Shortfall};
pub use purpose::Purpose;
pub use stalls::Stalls;
pub(crate) use vital::VITAL;

use std::collections::{BTreeMap, BTreeSet};

use group::Group;
use scale::Scale;

use crate::model::cgroup::CgroupId;
use crate::model::condition::ScopeName;
use crate::model::decision::{
    Candidate, Loss, Order, Outsider, Ranking, Spared, SparedReason, Taker,
};
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::settings::{self, Settings};
use crate::model::snapshot::{Scope, Snapshot};
use crate::model::threshold::Resource;
use crate::model::units::Bytes;
use crate::policy::takers::{Counts, Lost, TakerStanding, taker_from};
use harm::{HarmByParty, HarmStanding};
use protected::Protected;

/// As many as are written down. A decision that none of them is good for looks further.
pub const HEAD: usize = 16;

/// Who would go first: the [`HEAD`] of the list, explained, and how many there are.
pub fn rank(
    contenders: &[Contender],
    purpose: Purpose,
    order: Order,
    rules: &settings::Ranking,
) -> Ranking {
    Field::new(contenders, purpose, order, rules).ranking(HEAD)
}

/// The same with everybody explained.
pub fn rank_all(
    contenders: &[Contender],
    purpose: Purpose,
    order: Order,
    rules: &settings::Ranking,
) -> Ranking {
    Field::new(contenders, purpose, order, rules).ranking(usize::MAX)
}

/// Those of these cgroups that the settings protect.
pub(crate) fn protected_among(
    settings: &Settings,
    sample: &Sample,
    snapshot: &Snapshot,
    ids: BTreeSet<CgroupId>,
) -> BTreeSet<CgroupId> {
    // Most ticks ask about none.
    match ids.is_empty() {
        true => ids,
        false => Protected::of(settings, sample, snapshot).among(ids),
    }
}

/// What is known of the node of which a ranking is made.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    pub sample: &'a Sample,
    pub snapshot: &'a Snapshot,
    pub harm: &'a HarmStanding,
    pub takers: &'a TakerStanding,
    pub settings: &'a Settings,
}

/// All pods and workloads of a node as the ranking sees them: gathered here alone, for the engine,
/// for `isobar rank` and for the preparation of likely victims.
#[derive(Debug)]
pub struct Pool<'a> {
    contenders: Vec<Contender>,
    purpose: Purpose,
    rules: &'a settings::Ranking,
    need: Need,
    known: Known,
}

/// What is known of the node beside its contenders.
#[derive(Debug, Default)]
struct Known {
    outsiders: Vec<Outsider>,
    loss: Option<Loss>,
    is_not_yet_known: bool,
    caches: BTreeMap<CgroupId, Bytes>,
    stalls: Option<Stalls>,
    took: BTreeSet<CgroupId>,
    /// What [`Field::outside_alike`] tells.
    outside_alike: Vec<Taker>,
    /// Pods that opted out, or that are never touched, whatever else spares them.
    untouchable: BTreeSet<String>,
}

impl<'a> Pool<'a> {
    pub fn of_node(node: Node<'a>, purpose: Purpose, shortfall: Shortfall) -> Self {
        let Node { sample, snapshot, harm, takers, settings } = node;
        let rules = &settings.ranking;
        let resource = purpose.resource;
        let counts = match resource {
            Resource::Pids => Counts::Threads,
            _ => shortfall.counts(),
        };
        let lost = match resource {
            Resource::Memory | Resource::Pids => {
                takers.loss(purpose.scope, counts, sample, snapshot)
            }
            Resource::Storage | Resource::Inodes => {
                purpose.signal.and_then(|signal| takers.filled(signal, snapshot))
            }
            Resource::Cpu | Resource::Io => None,
        };
        let is_memory = resource == Resource::Memory;
        let is_disk = matches!(resource, Resource::Storage | Resource::Inodes);
        let is_watched = is_disk || resource == Resource::Pids;
        let is_slow = |lost: &Lost| is_memory && !lost.is_established && takers.is_young();
        let is_not_yet_known =
            rules.order == Order::Cause && lost.as_ref().map_or(is_watched, is_slow);
        // Where no party took of the disk or the pids lately, how much each has is compared.
        let lost = lost.filter(|lost| is_memory || lost.is_established);
        let protected = Protected::of(settings, sample, snapshot);
        let contenders = contenders::of_node(node, purpose, (lost.as_ref(), counts), &protected);
        let outsiders = contenders::outsiders(harm, purpose, &contenders);
        let (contenders, need) = match &lost {
            Some(lost) => need::causes(contenders, (shortfall, resource), lost, snapshot),
            None if is_memory || is_disk && need::is_in_no_pod(&contenders, shortfall) => {
                (contenders, Need::of_none(shortfall))
            }
            None => (contenders, Need { shortfall, ..Need::default() }),
        };
        let outside_harm = outsiders.first().map(|outsider| outsider.harm);
        let disks = harm.measured(resource).filter(|_| resource == Resource::Io);
        let largest_part = disks.map(HarmByParty::largest_part).unwrap_or_default();
        let need = Need { outside_harm, largest_part, ..need };
        let scale = Scale::new(&contenders, rules.order, purpose, &need);
        let uids = |is: &dyn Fn(&Contender) -> bool| -> BTreeSet<&str> {
            contenders.iter().filter(|one| is(one)).map(|one| one.uid.as_str()).collect()
        };
        let promised = uids(&|one| scale.took_what_was_promised(one));
        let spared = uids(&|one| one.spared.is_some() || scale.promised(one).is_some());
        let is_promised = |scope: &Scope| promised.contains(scope.party());
        let is_spared = |scope: &Scope| is_promised(scope) || spared.contains(scope.party());
        let may_be_marked = |id, scope: &Scope| {
            let is_pod = matches!(scope.place, Place::Pod { .. });
            let is_promised = is_pod && (need.promised.is_some() || need.is_of_others);
            !is_promised && !is_spared(scope) && protected.may_be_marked(id, scope)
        };
        let all = uids(&|_| true);
        let outside_alike = lost.as_ref().filter(|lost| is_memory && lost.is_established);
        let outside_alike = outside_alike.map(|lost| {
            let is_outside =
                |scope: &Scope| scope.place == Place::Other && !all.contains(scope.party());
            lost.alike(snapshot, sample, |id, scope| is_outside(scope) && may_be_marked(id, scope))
        });
        let from = need.named_from.or(need.taker_from).unwrap_or_default();
        let took = lost.as_ref().map(|lost| lost.took(taker_from(0, resource))).unwrap_or_default();
        let loss = lost.map(|lost| lost.told(snapshot, sample, from, is_promised, may_be_marked));
        let mut caches = BTreeMap::new();
        if is_memory && rules.order == Order::Cause && purpose.scope == ScopeName::System {
            caches = protected.caches(takers.parties(), sample);
            caches.retain(|id, _| !is_spared(&snapshot.scopes[id]));
        }
        let stalls = is_memory.then(|| Stalls::of_node(node)).flatten();
        let outside_alike = outside_alike.unwrap_or_default();
        let untouchable = snapshot.scopes.iter().filter(|(id, scope)| {
            let is_opted_out =
                |uid: &str| sample.pod(uid).is_some_and(|pod| contender::is_opted_out(pod, rules));
            matches!(&scope.place, Place::Pod { uid, .. }
                if !protected.may_be_marked(**id, scope) || is_opted_out(uid))
        });
        let untouchable = untouchable.map(|(_, scope)| scope.party().to_owned()).collect();
        let known = Known {
            outsiders,
            loss,
            is_not_yet_known,
            caches,
            stalls,
            took,
            outside_alike,
            untouchable,
        };
        Self { contenders, purpose, rules, need, known }
    }

    pub fn field(&self) -> Field<'_> {
        let (purpose, rules) = (self.purpose, self.rules);
        let field = Field::for_need(&self.contenders, purpose, rules.order, rules, &self.need);
        Field { known: Some(&self.known), ..field }
    }
}

/// All contenders, candidates and spared ones; sorted only as far as is asked for.
#[derive(Debug)]
pub struct Field<'a> {
    purpose: Purpose,
    scale: Scale,
    /// `None` where contenders are compared by their own figures alone.
    known: Option<&'a Known>,
    lasting_outside: u64,
    /// On their own.
    open: Vec<&'a Contender>,
    groups: Vec<Group>,
    spared: Vec<(&'a Contender, SparedReason)>,
}

impl<'a> Field<'a> {
    /// Compared by their own figures alone: for memory, where no figure says who took it, `cause` is
    /// `qos`.
    pub fn new(
        contenders: &'a [Contender],
        purpose: Purpose,
        order: Order,
        rules: &settings::Ranking,
    ) -> Self {
        let is_told = purpose.resource != Resource::Memory
            || contenders.iter().any(|contender| contender.taken.is_some());
        let order = if order == Order::Cause && !is_told { Order::Qos } else { order };
        Self::for_need(contenders, purpose, order, rules, &Need::default())
    }

    fn for_need(
        contenders: &'a [Contender],
        purpose: Purpose,
        order: Order,
        rules: &settings::Ranking,
        need: &Need,
    ) -> Self {
        let scale = Scale::new(contenders, order, purpose, need);
        let (mut open, mut spared) = (Vec::with_capacity(contenders.len()), Vec::new());
        for contender in contenders {
            match contender.spared_for(purpose).or_else(|| scale.promised(contender)) {
                None => open.push(contender),
                Some(why) => spared.push((contender, why)),
            }
        }
        let groups = group::take_out(&mut open, scale, rules.group_below);
        let scale = scale.among(open.iter().copied().chain(groups.iter().map(|group| &group.sum)));
        let lasting_outside = need.lasting_outside;
        Self { purpose, scale, known: None, lasting_outside, open, groups, spared }
    }

    fn loss(&self) -> Option<&'a Loss> {
        self.known?.loss.as_ref()
    }

    fn outsiders(&self) -> &'a [Outsider] {
        self.known.map_or(&[], |known| &known.outsiders)
    }

    /// The first `head` of each list, and how many there are.
    pub fn ranking(&self, head: usize) -> Ranking {
        let candidates = self.first(head, |_| true);
        // In the order in which they would have gone, so that the first tell most.
        let spared: Vec<_> = self.spared.iter().map(|(contender, _)| *contender).collect();
        let named = self.scale.sorted(&spared, head).map(|at| {
            let (contender, why) = self.spared[at];
            let (name, namespace) = (contender.name.clone(), contender.namespace.clone());
            Spared { name, namespace, uid: contender.uid.clone(), why }
        });
        Ranking {
            signal: self.purpose.name.into(),
            order: self.scale.order(),
            candidates,
            n_candidates: self.open.len() + self.groups.len(),
            spared: named.collect(),
            n_spared: self.spared.len(),
            outsiders: self.outsiders().to_vec(),
            loss: self.loss().filter(|_| self.scale.resource == Resource::Memory).cloned(),
        }
    }

    /// The first of those that are a cause of the shortage.
    pub fn takers(&self, head: usize) -> Vec<Candidate> {
        self.first(head, |contender| self.scale.is_taker(contender))
    }

    /// The same of those alone that use more than they request, and took so much all along.
    pub fn takers_above_request(&self, head: usize, least: u64) -> Vec<Candidate> {
        let is_lasting = |contender: &Contender| contender.lasting.unwrap_or_default() >= least;
        let counts =
            |one: &Contender| self.scale.is_taker(one) && one.holds_more() && is_lasting(one);
        self.first(head, counts)
    }

    /// The first of those that `counts` picks. They alone are sorted.
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
pub(in crate::policy) mod tests;
