//! What a scope lost, and who took it: lately, and all along.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::cgroup::{CgroupId, Limit};
use crate::model::condition::ScopeName;
use crate::model::decision::{Loss, Taker};
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::snapshot::{Scope, Snapshot};
use crate::model::units::{Bytes, Nanos, scale};

/// Shares of what was lost that differ by less than this part are the same, and who takes less than
/// this part of what it took has stopped.
const NOISE: u64 = 8;
/// Of how fast memory was lost, the part from which on others go on taking it.
const PACE: u64 = 4;
/// As many takers are named.
const NAMED: usize = 5;

/// What was lost, by party: bytes of memory, or threads where pids are short.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) lost: u64,
    pub(super) over: Nanos,
    pub(super) taken: BTreeMap<CgroupId, u64>,
    /// What each party's share of what was lost all along would be of this.
    pub(super) lasting: BTreeMap<CgroupId, u64>,
    pub(super) unattributed: u64,
    /// It is so much that who took it is the cause.
    pub(crate) is_established: bool,
}

impl Lost {
    /// What each party's share of what was lost `all_along` would be of this: who warms up or fills its
    /// heap anew takes much for a while, a leak took its share before, too. It is at most what the party
    /// took, if it took less than half as fast lately. Where readings are of less than twice the time, that
    /// holds of all parties, and who has stopped while others go on counts by what it took in the most
    /// `recent` time. A party that isobar squeezes has not stopped by itself.
    pub(super) fn lasting(
        &self,
        all_along: &Self,
        recent: Option<&Self>,
        squeezed: &BTreeSet<CgroupId>,
    ) -> BTreeMap<CgroupId, u64> {
        let share = |of: &Self, id| scale(of.taken_by(id), self.lost, of.lost);
        let is_long = all_along.over.0 >= self.over.0.saturating_mul(2);
        let goes_on =
            |recent: &&Self| recent.lost >= scale(self.lost, recent.over.0, self.over.0) / PACE;
        let recent = recent.filter(|_| !is_long).filter(goes_on);
        let one = |(id, taken): (&CgroupId, &u64)| {
            let usual = scale(all_along.taken_by(*id), self.over.0, all_along.over.0);
            let most = if is_long && *taken >= usual / 2 { u64::MAX } else { *taken };
            let along = share(all_along, *id).min(most);
            let is_same = along.abs_diff(*taken) <= taken / NOISE;
            let along = if is_same { *taken } else { along };
            let stopped = recent.filter(|_| !squeezed.contains(id));
            let stopped = stopped.map(|recent| share(recent, *id));
            let stopped = stopped.filter(|late| *late < taken / NOISE);
            (*id, stopped.map_or(along, |late| late.min(along)))
        };
        self.taken.iter().map(one).collect()
    }

    pub(crate) fn taken_by(&self, id: CgroupId) -> u64 {
        self.taken.get(&id).copied().unwrap_or_default()
    }

    pub(crate) fn lasting_of(&self, id: CgroupId) -> u64 {
        self.lasting.get(&id).copied().unwrap_or_default()
    }

    /// The most that a party that is none of `but` took, and the most that one took all along. What
    /// belongs to no party counts in the first.
    pub(crate) fn largest_but(&self, but: impl Fn(CgroupId) -> bool) -> (u64, u64) {
        let largest = |of: &BTreeMap<CgroupId, u64>| {
            of.iter().filter(|(id, _)| !but(**id)).map(|(_, amount)| *amount).max()
        };
        let taken = largest(&self.taken).unwrap_or_default().max(self.unattributed);
        (taken, largest(&self.lasting).unwrap_or_default())
    }

    /// So much, which is enough to have a cause, and taken by no party that is known.
    #[cfg(test)]
    pub(crate) fn established(lost: u64) -> Self {
        Self { lost, is_established: true, ..Self::default() }
    }

    /// For decisions and people: by name, the largest of those that took `from` on, lately or all along.
    pub(crate) fn told(
        &self,
        snapshot: &Snapshot,
        sample: &Sample,
        from: u64,
        may_be_marked: impl Fn(CgroupId, &Scope) -> bool,
    ) -> Loss {
        let took = |id: CgroupId, taken: u64| taken.max(self.lasting_of(id));
        let mut takers: Vec<_> =
            self.taken.iter().filter(|(id, taken)| took(**id, **taken) >= from).collect();
        takers
            .sort_unstable_by_key(|(id, taken)| (Reverse((self.lasting_of(**id), **taken)), **id));
        let taker = |(id, taken): (&CgroupId, &u64)| {
            let scope = snapshot.scopes.get(id)?;
            let path = scope.path.clone();
            let pod = match &scope.place {
                Place::Pod { uid, .. } => Some(&**uid),
                _ => None,
            };
            let known = pod.and_then(|uid| sample.pod(uid));
            let last = || path.segments().next_back().unwrap_or_default().to_owned();
            Some(Taker {
                name: known
                    .map(|pod| pod.name.clone())
                    .or_else(|| pod.map(str::to_owned))
                    .unwrap_or_else(last),
                namespace: known.map(|pod| pod.namespace.clone()).unwrap_or_default(),
                uid: pod.unwrap_or(&path.0).to_owned(),
                path,
                taken: Bytes(*taken),
                may_be_marked: may_be_marked(*id, scope),
            })
        };
        let takers = takers.into_iter().take(NAMED).filter_map(taker).collect();
        let (lost, unattributed) = (Bytes(self.lost), Bytes(self.unattributed));
        Loss { lost, over: self.over, takers, unattributed }
    }
}

/// What the scope has of memory, in bytes; huge pages are set aside.
pub(crate) fn capacity(scope: ScopeName, sample: &Sample, pods: Option<&Scope>) -> Option<u64> {
    let total = sample.node.memory.map(|memory| memory.usual().0);
    let limit = || match pods?.files.as_ref()?.memory.max? {
        Limit::At(max) => Some(max),
        Limit::Max => None,
    };
    match scope {
        ScopeName::System => total,
        ScopeName::Kubepods => limit().or(total),
    }
}
