//! Parties whose processes began anew: what was there before did not give its memory back by itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figures::held;
use super::{ALONG, LONGEST};
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::sample::Sample;
use crate::model::snapshot::Along;
use crate::model::units::Nanos;
use crate::policy::workload::Parties;

/// A container that held less is no real part of its pod: so much, and so large a part.
const LEAST: u64 = 16 << 20;
const REAL_PART: u64 = 32;
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

    /// Takes note of whose processes the kernel killed, and whose containers are gone that held a real part.
    /// Where that is not known, as of one that had no task left, and of what happened before this agent
    /// began, it counts who `has_given_back` memory.
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
                None => was.parent.filter(|id| {
                    let of_all = before.cgroups.get(id).and_then(|all| held(all));
                    match held(was).filter(|_| was.pids_current != Some(0)) {
                        Some(its) => its.0 >= LEAST.max(of_all.unwrap_or_default().0 / REAL_PART),
                        None => has_given_back(*id),
                    }
                }),
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
    use crate::model::cgroup::{CgroupPath, MemoryEvents, MemoryStat};
    use crate::model::sample::Moment;
    use crate::model::snapshot::{Averages, Snapshot};
    use crate::model::units::Bytes;
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

    #[test]
    fn a_container_that_ends_counts_by_what_it_held_of_its_pod() {
        #[rustfmt::skip]
        let table = [
            // MiB that the pod held and the container that ended, its tasks, whether the pod holds less since;
            // whether it began anew
            (400,   Some(16),  Some(1), false, true),
            (400,   Some(15),  Some(1), true,  false), // the pod itself goes up and down
            (3_200, Some(99),  Some(1), false, false),
            (3_200, Some(100), Some(1), false, true),
            (3_200, Some(100), None,    false, true),
            (800,   Some(0),   Some(0), true,  true),  // it gave that back before it was gone
            (800,   Some(0),   Some(0), false, false),
            (800,   None,      Some(1), true,  true),
        ];
        for (pod, container, tasks, came_back, want) in table {
            let [mut first, second] =
                [(7, Some(8)), (8, None)].map(|(at, id)| sample(at, id, None));
            for (id, mib) in [(3, Some(pod)), (8, container)] {
                let group = first.cgroups.get_mut(&CgroupId(id)).unwrap();
                let group = Arc::make_mut(group);
                group.pids_current = tasks;
                group.memory.stat = mib
                    .map(|mib: u64| MemoryStat { anon: Bytes(mib << 20), ..MemoryStat::default() });
            }
            let snapshot = Snapshot::between(None, &second, &mut Averages::new(1));
            let parties = Workloads::default();
            let parties = parties.parties(&snapshot);
            let mut anew = Anew::default();
            anew.update(Some(&first), &second, &parties, |_| came_back);
            assert_eq!(!anew.is_empty(), want, "{pod} {container:?} {tasks:?} {came_back}");
        }
    }
}
