//! Small pods of one owner as one candidate. A single small pod frees too little, so a ranking of
//! single pods would evict a larger pod that caused nothing.

use std::cmp::Ordering;

use super::contender::{Contender, Harm};
use super::scale::{Answer, Scale};
use crate::model::cgroup::Preference;
use crate::model::decision::Order;
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::threshold::Resource;
use crate::model::units::Bytes;
use crate::policy::takers::taker_from;

/// Pods that are evicted together.
#[derive(Debug)]
pub(super) struct Group {
    /// The sums of usage, request and harm.
    pub(super) sum: Contender,
    /// Uids, sorted.
    pub(super) members: Vec<String>,
}

/// Takes the pods that form groups out of `open`, and returns the groups.
///
/// Only in the orders `cause` and `qos` and for memory: the kubelet has no groups, and the floor is in
/// bytes of memory. The members have the same owner, QoS class, priority and preference, and all or
/// none exceed their requests: so no pod is evicted earlier than these keys alone would have it. In the
/// order `cause` they took it together. Of those that pay for others one may suffice, so each is alone.
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
    // Sorted by uid too, so that groups do not depend on the order of the list.
    small.sort_unstable_by(|a, b| a.cmp(b).then_with(|| a.pod.uid.cmp(&b.pod.uid)));
    let families = small.chunk_by(|a, b| a.cmp(b) == Ordering::Equal);
    let parts = families.flat_map(|kin| by_taken(kin, scale));
    let groups = parts.filter(|kin| kin.len() > 1).map(|kin| group(&kin));
    let groups: Vec<Group> = groups.filter(|group| scale.may_be_one(&group.sum)).collect();
    if !groups.is_empty() {
        let mut gone: Vec<&str> =
            groups.iter().flat_map(|group| &group.members).map(String::as_str).collect();
        gone.sort_unstable();
        open.retain(|pod| !is_small(pod) || gone.binary_search(&pod.uid.as_str()).is_err());
    }
    groups
}

/// Those of one owner that took what is short, and those that did not: who leaks is not ended with
/// all that are its like.
fn by_taken<'a>(kin: &[Kin<'a>], scale: Scale) -> [Vec<&'a Contender>; 2] {
    let pods = kin.iter().map(|kin| kin.pod);
    let took = |pod: &&Contender| pod.taken.unwrap_or_default();
    let largest = pods.clone().map(|pod| took(&pod)).max().unwrap_or_default();
    let (takers, others) = pods
        .partition(|pod| scale.is_by_cause() && took(pod) >= taker_from(largest, Resource::Memory));
    [takers, others]
}

/// What the pods of one group share.
#[derive(Debug)]
struct Kin<'a> {
    pod: &'a Contender,
    class: QosClass,
    priority: i32,
    preference: Option<Preference>,
    exceeds: Option<Answer>,
    /// First bytes of the owner's uid: most comparisons end here, without comparing texts.
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

fn group(kin: &[&Contender]) -> Group {
    let pods = || kin.iter().copied();
    let first = kin[0];
    let owner = first.owner.clone().unwrap_or_default();
    let total = |of: fn(&Contender) -> Option<Quantity>| {
        pods().map(of).try_fold(Quantity::ZERO, |sum, one| Some(sum.plus(one?)))
    };
    let harm = pods().map(|pod| pod.harm).try_fold(Harm::default(), |sum, one| {
        let one = one?;
        Some(Harm { others: sum.others.plus(one.others), own: sum.own.plus(one.own) })
    });
    let bytes = |of: fn(&Contender) -> Option<u64>| {
        let sum = |sum: u64, one: Option<u64>| Some(sum.saturating_add(one?));
        pods().map(of).try_fold(0, sum)
    };
    let sum = Contender {
        name: format!("{}/{}", owner.kind, owner.name),
        request: total(|pod| pod.request),
        usage: total(|pod| pod.usage),
        holds: bytes(|pod| pod.holds),
        harm,
        taken: bytes(|pod| pod.taken),
        lasting: bytes(|pod| pod.lasting),
        frees: bytes(|pod| pod.frees),
        // The oldest member's start: a group is as old as its oldest pod.
        started: pods().map(|pod| pod.started).min().flatten(),
        ..first.clone()
    };
    Group { sum, members: pods().map(|pod| pod.uid.clone()).collect() }
}
