//! What a scope lost, and who took it: lately, and all along.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::cgroup::{CgroupId, Limit};
use crate::model::condition::ScopeName;
use crate::model::decision::{Loss, Taker};
use crate::model::sample::Sample;
use crate::model::snapshot::{Scope, Snapshot};
use crate::model::units::{Bytes, Nanos, scale};
use crate::policy::takers::OF_LARGEST;

/// Shares of what was lost that differ by less than this part are the same, and who takes less than
/// this part of what it took has stopped.
pub(crate) const NOISE: u64 = 8;
/// Of how fast memory was lost, the part from which on others go on taking it.
const PACE: u64 = 4;
/// As many takers are named.
const NAMED: usize = 5;
/// Of what was lost, the part from which on a party is worth a squeeze beside others alike.
const OF_LOST: u64 = 32;

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
    /// It is so much that others lack it.
    pub(crate) is_large: bool,
}

/// What was taken by parties that are no candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outside {
    /// The most that one took.
    pub(crate) largest: u64,
    /// What those took together that took a quarter of that.
    pub(crate) alike: u64,
    /// What belongs to no party.
    pub(crate) unattributed: u64,
    /// The most that one took all along.
    pub(crate) lasting: u64,
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
            let is_as_usual = is_long && *taken >= usual / 2;
            let most = if is_as_usual || squeezed.contains(id) { u64::MAX } else { *taken };
            let along = share(all_along, *id).min(most);
            let is_same = along.abs_diff(*taken) <= taken / NOISE;
            let along = if is_same { *taken } else { along };
            let stopped = recent.filter(|_| !squeezed.contains(id));
            let stopped = stopped.map(|recent| share(recent, *id));
            let stopped = stopped.filter(|late| *late < taken / NOISE);
            (*id, stopped.map_or(along, |late| late.min(along)))
        };
        let still = squeezed.iter().filter(|id| !self.taken.contains_key(id));
        self.taken.iter().chain(still.map(|id| (id, &0))).map(one).collect()
    }

    pub(crate) fn taken_by(&self, id: CgroupId) -> u64 {
        self.taken.get(&id).copied().unwrap_or_default()
    }

    pub(crate) fn lasting_of(&self, id: CgroupId) -> u64 {
        self.lasting.get(&id).copied().unwrap_or_default()
    }

    /// Those that took `least` or more, lately or all along.
    pub(crate) fn took(&self, least: u64) -> BTreeSet<CgroupId> {
        let all = self.taken.iter().chain(&self.lasting);
        all.filter(|(_, amount)| **amount >= least).map(|(id, _)| *id).collect()
    }

    /// What parties took that are none of `but`.
    pub(crate) fn outside(&self, but: impl Fn(CgroupId) -> bool) -> Outside {
        let its = |of: &BTreeMap<CgroupId, u64>| -> Vec<u64> {
            of.iter().filter(|(id, _)| !but(**id)).map(|(_, amount)| *amount).collect()
        };
        let (taken, lasting) = (its(&self.taken), its(&self.lasting));
        let largest = taken.iter().copied().max().unwrap_or_default();
        // Who is squeezed takes nothing lately, and is no less a cause.
        let ids: BTreeSet<CgroupId> =
            self.taken.keys().chain(self.lasting.keys()).copied().collect();
        let ids = ids.into_iter().filter(|id| !but(*id));
        let alike = ids.map(|id| self.taken_by(id).max(self.lasting_of(id)));
        let alike = alike.filter(|one| *one >= largest / OF_LARGEST);
        Outside {
            largest,
            alike: alike.fold(0, u64::saturating_add),
            unattributed: self.unattributed,
            lasting: lasting.into_iter().max().unwrap_or_default(),
        }
    }

    /// The same, of which so much belongs to no party.
    #[cfg(test)]
    pub(crate) fn of_no_party(self, unattributed: u64) -> Self {
        Self { unattributed, ..self }
    }

    /// So much, which is enough to have a cause, and taken by no party that is known.
    #[cfg(test)]
    pub(crate) fn established(lost: u64) -> Self {
        Self { lost, is_established: true, ..Self::default() }
    }

    /// For decisions and people: by name, the largest of those that took `from` on, lately or all along;
    /// of more than are named those first that took what was not `promised`.
    pub(crate) fn told(
        &self,
        snapshot: &Snapshot,
        sample: &Sample,
        from: u64,
        promised: impl Fn(&Scope) -> bool,
        may_be_marked: impl Fn(CgroupId, &Scope) -> bool,
    ) -> Loss {
        let ids: BTreeSet<CgroupId> =
            self.taken.keys().chain(self.lasting.keys()).copied().collect();
        let took = |id: &CgroupId| self.taken_by(*id).max(self.lasting_of(*id)) >= from;
        let mut takers: Vec<(CgroupId, &Scope)> = ids
            .into_iter()
            .filter(took)
            .filter_map(|id| Some((id, snapshot.scopes.get(&id)?)))
            .collect();
        let size = |id: CgroupId| (Reverse((self.lasting_of(id), self.taken_by(id))), id);
        takers.sort_by_cached_key(|(id, scope)| (promised(scope), size(*id)));
        takers.truncate(NAMED);
        takers.sort_by_key(|(id, _)| size(*id));
        let taker = |(id, scope)| self.taker(id, scope, sample, may_be_marked(id, scope));
        let takers = takers.into_iter().map(taker).collect();
        let (lost, unattributed) = (Bytes(self.lost), Bytes(self.unattributed));
        Loss { lost, over: self.over, takers, unattributed }
    }

    /// Those among the parties that `may_be_marked` picks that took half as much as the largest of them or
    /// more, and not next to nothing: the largest first.
    pub(crate) fn alike(
        &self,
        snapshot: &Snapshot,
        sample: &Sample,
        may_be_marked: impl Fn(CgroupId, &Scope) -> bool,
    ) -> Vec<Taker> {
        let all = self.taken.keys().filter_map(|id| Some((*id, snapshot.scopes.get(id)?)));
        let all = all.filter(|(id, scope)| may_be_marked(*id, scope));
        let mut all: Vec<_> = all.map(|(id, scope)| self.taker(id, scope, sample, true)).collect();
        all.sort_by_key(|taker| Reverse(taker.taken));
        let least = all.first().map_or(0, |largest| largest.taken.0 / 2).max(self.lost / OF_LOST);
        all.retain(|taker| taker.taken.0 >= least.max(1));
        all
    }

    fn taker(&self, id: CgroupId, scope: &Scope, sample: &Sample, may_be_marked: bool) -> Taker {
        let path = scope.path.clone();
        let pod = scope.pod_uid();
        let known = pod.and_then(|uid| sample.pod(uid));
        let last = || path.segments().next_back().unwrap_or_default().to_owned();
        Taker {
            name: known
                .map(|pod| pod.name.clone())
                .or_else(|| pod.map(str::to_owned))
                .unwrap_or_else(last),
            namespace: known.map(|pod| pod.namespace.clone()).unwrap_or_default(),
            uid: scope.party().to_owned(),
            path,
            taken: Bytes(self.taken_by(id)),
            may_be_marked,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_counts_who_stands_still_because_isobar_squeezes_it() {
        let (leak, warm_up) = (CgroupId(1), CgroupId(2));
        let lost = |lost, seconds: u64, taken: &[(CgroupId, u64)]| Lost {
            over: Nanos(seconds * Nanos::SECOND.0),
            taken: taken.iter().copied().collect(),
            ..Lost::established(lost)
        };
        let all_along = lost(2_320, 100, &[(leak, 2_100), (warm_up, 220)]);
        #[rustfmt::skip]
        let table = [
            // what the leak took lately, whether it is squeezed; its share
            (0,  true,  Some(217)),
            (0,  false, None),
            (10, true,  Some(217)),
            (10, false, Some(10)),
        ];
        for (taken, is_squeezed, want) in table {
            let mut lately = lost(240, 10, &[(warm_up, 220)]);
            lately.taken.extend((taken > 0).then_some((leak, taken)));
            let squeezed = is_squeezed.then_some(leak).into_iter().collect();
            let got = lately.lasting(&all_along, None, &squeezed).get(&leak).copied();
            assert_eq!(got, want, "{taken} {is_squeezed}");
        }
    }
}
