//! How long tasks stall for want of memory, but for those that only their own limits hold up: refaults
//! belong to no cause, so the kernel's pressure files alone tell of them.

use std::collections::BTreeSet;

use super::Node;
use crate::model::cgroup::CgroupId;
use crate::model::pod::Place;
use crate::model::snapshot::Scope;
use crate::model::threshold::Resource;
use crate::model::units::Percent;
use crate::policy::assess::CALM;

/// Stalls for want of memory that no limit of a pod's or service's own explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalls {
    /// PSI `some` over ten seconds, of the party that stalls most.
    pub some: Percent,
    /// Pods and services at limits of their own: the cache that they have is in use.
    pub limited: BTreeSet<CgroupId>,
}

impl Node<'_> {
    /// For how long tasks stalled for want of memory, PSI `some` over ten seconds, but for those that only
    /// limits of their own held up.
    pub(crate) fn stalled(self) -> Option<Percent> {
        Stalls::of_node(self).map(|stalls| stalls.some)
    }
}

impl Stalls {
    /// `None` where the node tells nothing. Where no limit holds up any party, or the pressure file of
    /// another one cannot be read, the node's counts.
    pub(super) fn of_node(node: Node<'_>) -> Option<Self> {
        let Node { sample, snapshot, harm, takers, .. } = node;
        let some = sample.node.pressure.memory?.some?.avg10;
        if some < CALM {
            return Some(Self { some, limited: BTreeSet::new() });
        }
        let measured = harm.measured(Resource::Memory);
        let is_limited = |scope: &Scope| {
            let entry = measured.and_then(|harm| match &scope.place {
                Place::Pod { uid, .. } => harm.pods.get(&**uid),
                _ => harm.of_outside(&scope.path),
            });
            entry.is_some_and(|entry| entry.is_limited())
        };
        let parties = takers.parties().filter_map(|id| Some((id, snapshot.scopes.get(&id)?)));
        let (limited, others): (Vec<_>, Vec<_>) = parties.partition(|(_, scope)| is_limited(scope));
        let of = |(_, scope): &(_, &Scope)| Some(scope.pressure.memory?.some?.avg10);
        let most = || others.iter().map(of).try_fold(Percent(0), |most, one| Some(most.max(one?)));
        let most = if limited.is_empty() { None } else { most() };
        // What stalls and is in no party, as the kernel's own threads, and many that stall a little.
        let explained =
            limited.iter().filter_map(of).fold(0, |sum: u16, one| sum.saturating_add(one.0));
        let most = most.map(|most| most.max(Percent(some.0.saturating_sub(explained))));
        let limited = limited.into_iter().map(|(id, _)| id).collect();
        Some(Self { some: most.unwrap_or(some), limited })
    }
}
