//! Small pods of one owner as one candidate: each alone is too little to relieve anything, and a
//! ranking that looks at them one by one evicts something larger that did no harm.

use std::cmp::Ordering;

use super::contender::{Contender, Harm};
use super::merit::{Answer, Scale};
use crate::model::cgroup::Preference;
use crate::model::decision::Order;
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::threshold::Resource;
use crate::model::units::Bytes;

/// Pods that would go together.
#[derive(Debug)]
pub(super) struct Group {
    /// What they come to: the sum of what they use, asked for and do to others.
    pub(super) sum: Contender,
    /// Their uids, in order.
    pub(super) members: Vec<String>,
}

/// Takes the pods that form groups out of `open`, and returns the groups.
///
/// Only by class of service, and only for memory: the kubelet has no groups, and the floor is in
/// bytes of memory. A group is of one owner, and never parts from the order of its members: all
/// are of one class, of one priority, of one preference, and above their requests or not. So whoever is spared by one
/// of these keys as a single pod is not evicted for the company that it keeps.
pub(super) fn take_out(open: &mut Vec<&Contender>, scale: Scale, below: Bytes) -> Vec<Group> {
    if scale.order() == Order::Kubelet || scale.resource() != Resource::Memory {
        return Vec::new();
    }
    let below = Quantity::bytes(below.0);
    let is_small = |contender: &Contender| contender.usage.is_some_and(|usage| usage < below);
    let mut small: Vec<Kin<'_>> = open
        .iter()
        .filter(|contender| contender.owner.is_some() && is_small(contender))
        .map(|contender| Kin::of(contender, scale))
        .collect();
    // By what makes them kin, and then by uid: groups do not depend on the order of the list.
    small.sort_unstable_by(|a, b| a.cmp(b).then_with(|| a.pod.uid.cmp(&b.pod.uid)));
    let families = small.chunk_by(|a, b| a.cmp(b) == Ordering::Equal);
    let groups: Vec<Group> = families.filter(|kin| kin.len() > 1).map(group).collect();
    if !groups.is_empty() {
        let mut gone: Vec<&str> =
            groups.iter().flat_map(|group| &group.members).map(String::as_str).collect();
        gone.sort_unstable();
        open.retain(|pod| !is_small(pod) || gone.binary_search(&pod.uid.as_str()).is_err());
    }
    groups
}

/// What pods of one group have in common.
#[derive(Debug)]
struct Kin<'a> {
    pod: &'a Contender,
    class: QosClass,
    priority: i32,
    preference: Option<Preference>,
    exceeds: Option<Answer>,
    /// The beginning of the owner's uid: most comparisons end here, without a look at the text.
    prefix: u128,
}

impl<'a> Kin<'a> {
    fn of(pod: &'a Contender, scale: Scale) -> Self {
        let uid = pod.owner.as_ref().map_or(&[][..], |owner| owner.uid.as_bytes());
        let mut prefix = [0; 16];
        prefix.iter_mut().zip(uid).for_each(|(to, from)| *to = *from);
        let prefix = u128::from_be_bytes(prefix);
        let exceeds = scale.exceeds(pod);
        let Contender { class, priority, preference, .. } = *pod;
        Self { pod, class, priority, preference, exceeds, prefix }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let numbers =
            |kin: &Self| (kin.prefix, kin.class, kin.priority, kin.preference, kin.exceeds);
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| self.pod.owner.cmp(&other.pod.owner))
            .then_with(|| self.pod.namespace.cmp(&other.pod.namespace))
    }
}

fn group(kin: &[Kin<'_>]) -> Group {
    let pods = || kin.iter().map(|kin| kin.pod);
    let first = kin[0].pod;
    let owner = first.owner.clone().unwrap_or_default();
    let total = |of: fn(&Contender) -> Option<Quantity>| {
        pods().map(of).try_fold(Quantity::ZERO, |sum, one| Some(sum.plus(one?)))
    };
    let harm = pods().map(|pod| pod.harm).try_fold(Harm::default(), |sum, one| {
        let one = one?;
        Some(Harm { others: sum.others.plus(one.others), own: sum.own.plus(one.own) })
    });
    let sum = Contender {
        name: format!("{}/{}", owner.kind, owner.name),
        request: total(|pod| pod.request),
        usage: total(|pod| pod.usage),
        harm,
        // The oldest: a group is no younger than the one that is the least so.
        started: pods().map(|pod| pod.started).min().flatten(),
        ..first.clone()
    };
    Group { sum, members: pods().map(|pod| pod.uid.clone()).collect() }
}
