//! What relief asks of all contenders beside their order.

use super::group::Group;
use super::stalls::Stalls;
use super::{Contender, Field};
use crate::model::cgroup::CgroupId;
use crate::model::decision::{SparedReason, Taker};
use crate::model::threshold::Resource;
use crate::model::units::Bytes;

impl<'a> Field<'a> {
    /// Whether it is a pod or service that is spared for whatever is short.
    pub fn never_ends(&self, uid: &str) -> bool {
        self.spared.iter().any(|(contender, _)| contender.uid == uid && contender.spared.is_some())
    }

    /// Whether it is a pod that no source has named yet.
    pub fn is_not_yet_named(&self, uid: &str) -> bool {
        let mut its = self.spared.iter().filter(|(contender, _)| contender.uid == uid);
        its.any(|(contender, _)| contender.spared == Some(SparedReason::NotYetNamed))
    }

    /// Whether this party took of what was lost, be it too little to be named.
    pub fn took(&self, id: CgroupId) -> bool {
        self.known.is_some_and(|known| known.took.contains(&id))
    }

    /// Whether those alone may be chosen that are a cause, of a CPU, a disk or pids: it is known what
    /// each party took or has, or how long others wait because of it.
    pub fn is_of_causes(&self) -> bool {
        self.scale.resource != Resource::Memory && self.scale.cause.is_some()
    }

    /// In the order `cause`: parties have not been watched for long enough to tell who took it.
    pub fn is_not_yet_known(&self) -> bool {
        self.known.is_some_and(|known| known.is_not_yet_known)
    }

    /// In the order `cause`, of no candidate it is known how much it has of the disk or the pids.
    pub fn is_use_unknown(&self) -> bool {
        self.scale.is_use_unknown()
    }

    /// Whether this contender requests so much of what it took that the rest is no cause.
    pub fn took_what_was_promised(&self, uid: &str) -> bool {
        let spared = self.spared.iter().map(|(contender, _)| contender);
        let mut all = self.open.iter().chain(spared);
        let is_member = |group: &&Group| group.members.iter().any(|member| member == uid);
        let is_promised = |one: &Contender| self.scale.took_what_was_promised(one);
        all.any(|one| one.uid == uid && is_promised(one))
            || self.groups.iter().filter(is_member).any(|group| is_promised(&group.sum))
    }

    /// Page cache in use of this party outside pods that may be taken back.
    pub fn cache_outside(&self, id: CgroupId) -> Option<Bytes> {
        self.known?.caches.get(&id).copied()
    }

    /// Stalls for want of memory; `None` where they are not known.
    pub fn stalls(&self) -> Option<&'a Stalls> {
        self.known?.stalls.as_ref()
    }

    /// Whether candidates are compared by what they took of memory.
    pub fn is_by_cause(&self) -> bool {
        self.scale.is_by_cause()
    }

    /// Whether it is a pod that is never ended for what it is to the cluster, and holds more than it
    /// requests: it may be slowed down.
    pub fn may_be_slowed(&self, uid: &str) -> bool {
        use SparedReason::{Critical, Mirror, Static};
        let mut its = self.spared.iter().filter(|(contender, _)| contender.uid == uid);
        let is_open = self.known.is_none_or(|known| !known.untouchable.contains(uid));
        is_open
            && its.any(|(contender, why)| {
                matches!(why, Static | Mirror | Critical) && contender.holds_more()
            })
    }

    /// Parties that are no pods and no candidates, may be marked, and took of memory alike: half as much as
    /// the largest of them or more, which comes first.
    pub fn outside_alike(&self) -> &'a [Taker] {
        self.known.map_or(&[], |known| &known.outside_alike)
    }

    /// Whether no party took enough to be a cause, and of what was lost this one took most, `least` or
    /// more of that, and uses more than it requests.
    pub fn took_most(&self, contender: &Contender, least: u64) -> bool {
        let loss = self.loss().filter(|loss| loss.takers.is_empty());
        let most = loss.map_or(u64::MAX, |loss| loss.lost.0 / 2);
        contender.taken.is_some_and(|taken| taken >= least && taken > most)
            && contender.holds_more()
    }

    /// The most that a party took all along that is no candidate.
    pub fn lasting_outside(&self) -> u64 {
        self.lasting_outside
    }
}
