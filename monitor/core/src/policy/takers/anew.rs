//! Parties whose processes began anew: what was there before did not give its memory back by itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ALONG, LONGEST};
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::sample::Sample;
use crate::model::snapshot::Along;
use crate::model::units::Nanos;
use crate::policy::workload::Parties;

/// What is killed gives its memory back in so much time.
const SETTLE: Nanos = Nanos(3 * Nanos::SECOND.0);

/// When that was, for as long as it matters for a reading.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Anew(BTreeMap<CgroupId, Nanos>);

impl Anew {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes note of whose processes the kernel killed, and whose containers are gone; of these, and of what
    /// happened before this agent began, only who `has_given_back` memory.
    pub(super) fn update(
        &mut self,
        before: Option<&Sample>,
        sample: &Sample,
        parties: &Parties<'_>,
        has_given_back: impl Fn(CgroupId) -> bool,
    ) {
        let now = sample.at.boot;
        let Some(before) = before else {
            let anew = parties.keys().filter(|id| has_given_back(**id));
            self.0.extend(anew.map(|id| (*id, now)));
            return;
        };
        let mut there = Along::of(&sample.cgroups);
        for (id, was) in &before.cgroups {
            let of = match there.get(id) {
                Some(is) => {
                    let kills = n_oom_kills(was).zip(n_oom_kills(is));
                    kills.is_some_and(|(was, is)| was < is).then_some(*id)
                }
                None => was.parent.filter(|id| has_given_back(*id)),
            };
            self.0.extend(of.filter(|id| parties.contains_key(id)).map(|id| (id, now)));
        }
        self.0.retain(|_, at| now.since(*at) <= LONGEST.plus(ALONG));
    }

    /// From when on a party's readings are of the same processes; 0 if all are.
    pub(super) fn since(&self, id: CgroupId) -> Nanos {
        self.0.get(&id).map_or(Nanos(0), |at| at.plus(SETTLE))
    }
}

/// Processes of the cgroup and those below it that the kernel killed for want of memory.
pub(super) fn n_oom_kills(cgroup: &Cgroup) -> Option<u64> {
    cgroup.memory.events.map(|events| events.oom_kill)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::cgroup::{CgroupPath, MemoryEvents};
    use crate::model::sample::Moment;
    use crate::model::snapshot::{Averages, Snapshot};
    use crate::policy::workload::Workloads;

    /// A pod with a container of this id, if any, and so many OOM kills, at a second.
    fn sample(second: u64, container: Option<u64>, kills: Option<u64>) -> Sample {
        let at = Nanos(second * Nanos::SECOND.0);
        let mut sample = Sample { at: Moment { boot: at, wall: at }, ..Sample::default() };
        let pod = "/kubepods/podu1";
        let group = |path: &str, parent| Cgroup {
            path: CgroupPath(path.into()),
            parent: Some(CgroupId(parent)),
            ..Cgroup::default()
        };
        let mut own = group(pod, 2);
        own.memory.events =
            kills.map(|oom_kill| MemoryEvents { oom_kill, ..MemoryEvents::default() });
        sample.cgroups = [(2, group("/kubepods", 1)), (3, own)]
            .into_iter()
            .chain(container.map(|id| (id, group(&format!("{pod}/{id}"), 3))))
            .map(|(id, group)| (CgroupId(id), Arc::new(group)))
            .collect();
        sample
    }

    #[test]
    fn who_began_anew() {
        #[rustfmt::skip]
        let table = [
            // container and OOM kills at one second and the next, whether memory came back; whether the pod began anew
            ([Some(8), Some(8)], [Some(0), Some(0)], true,  false),
            ([Some(8), Some(8)], [Some(0), Some(1)], false, true),
            ([Some(8), Some(8)], [Some(1), Some(0)], true,  false),
            ([Some(8), Some(8)], [Some(1), None],    true,  false), // not read just now
            ([Some(8), Some(8)], [None, Some(1)],    true,  false),
            ([Some(8), Some(9)], [Some(0), Some(0)], true,  true),
            ([Some(8), None],    [Some(0), Some(0)], true,  true),
            ([Some(8), None],    [Some(0), Some(0)], false, false), // a sidecar
            ([None, Some(8)],    [Some(0), Some(0)], true,  false),
        ];
        for (containers, kills, came_back, want) in table {
            let mut anew = Anew::default();
            let [first, second] =
                [0, 1].map(|at| sample(at + 7, containers[at as usize], kills[at as usize]));
            let snapshot = Snapshot::between(None, &second, &mut Averages::new(1));
            let workloads = Workloads::default();
            let parties = workloads.parties(&snapshot);
            anew.update(Some(&first), &second, &parties, |_| came_back);
            let at = if want { second.at.boot.plus(SETTLE) } else { Nanos(0) };
            assert_eq!(anew.since(CgroupId(3)), at, "{containers:?} {kills:?}");
            let later = sample(8 + 3_901, containers[1], kills[1]);
            anew.update(Some(&second), &later, &parties, |_| came_back);
            assert!(anew.is_empty(), "{containers:?} {kills:?}");
        }
    }
}
