//! What pods and services held that ended lately. What comes in place of one takes that again, as a
//! container does that is started again: it is no growth.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figures::Holding;
use super::{ALONG, LONGEST};
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::units::Nanos;
use crate::model::workload::Pod;

/// The kind of owner that is another one for each version of a workload.
const REPLICA_SET: &str = "ReplicaSet";
/// The kind of owner that a CronJob makes anew for each run, named after its time.
const JOB: &str = "Job";
/// The kind of owner that all static pods of a node have.
const NODE: &str = "Node";
/// The label that tells these versions, which is the end of the owner's name, too.
const VERSION: &str = "pod-template-hash";

/// As many pods that ended are remembered at most: a recording may be made for harm.
const MOST: usize = 1_024;
/// A pod that came in place of another may take so long until it holds what that held.
const WARM: Nanos = Nanos(900 * Nanos::SECOND.0);
/// No name in the API is longer.
const LONGEST_NAME: usize = 253;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Heirs {
    /// When pods came, of the last five minutes.
    came: BTreeMap<CgroupId, Nanos>,
    /// Pods in whose place no other has come, in the order in which they ended.
    ended: Vec<(Named, Left)>,
    /// By the cgroup of the pod that came in place of one.
    heirs: BTreeMap<CgroupId, Left>,
}

/// What a pod or service left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) at: Nanos,
    pub(super) held: Holding,
}

/// What a pod is one of, whatever its version is, and its own name; of a service its path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Named {
    namespace: String,
    kind: String,
    owner: String,
    name: String,
}

impl Named {
    /// `None` if no controller owns the pod: nothing comes in its place by itself.
    fn of(pod: &Pod) -> Option<Self> {
        let owner = pod.owner.as_ref()?;
        let of_all = match &*owner.kind {
            REPLICA_SET => {
                pod.labels.get(VERSION).and_then(|version| owner.name.strip_suffix(&**version))
            }
            JOB => {
                owner.name.rsplit_once('-').filter(|(_, run)| is_minute(run)).map(|(all, _)| all)
            }
            _ => None,
        };
        let parts = [&*pod.namespace, &owner.kind, of_all.unwrap_or(&owner.name), &pod.name];
        let is_short = parts.iter().all(|part| part.len() <= LONGEST_NAME);
        let [namespace, kind, owner, name] = is_short.then_some(parts)?.map(ToOwned::to_owned);
        Some(Self { namespace, kind, owner, name })
    }

    /// What is at a place: a pod, as far as the sample names it, or a service, whose path stays when it is
    /// started again. Other users choose the names of their cgroups.
    pub(super) fn at(place: &Place, cgroup: &Cgroup, sample: &Sample) -> Option<Self> {
        let path = &cgroup.path.0;
        match place {
            Place::Other if path.len() <= LONGEST_NAME && !cgroup.is_delegated => {
                Some(Self { name: (**path).to_owned(), ..Self::default() })
            }
            Place::Other => None,
            _ => Self::of(pod_at(place, sample)?),
        }
    }

    fn is_of_the_same(&self, other: &Self) -> bool {
        let Self { namespace, kind, owner, name } = self;
        (namespace, kind, owner) == (&other.namespace, &other.kind, &other.owner)
            && (*name == other.name || !owner.is_empty() && kind != NODE)
    }
}

/// A CronJob's controller names a run by minutes since 1970, an older one by seconds. Jobs that others
/// number are not runs of one.
fn is_minute(text: &str) -> bool {
    (8..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The pod at a place, as far as the sample names it.
pub(super) fn pod_at<'a>(place: &Place, sample: &'a Sample) -> Option<&'a Pod> {
    let Place::Pod { uid, .. } = place else { return None };
    sample.pod(uid)
}

impl Heirs {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes note of a pod that ended, which held so much, and of what it had come in place of. What a
    /// victim held was too much: the pod that comes in its place finds nothing.
    pub(super) fn leave(&mut self, id: CgroupId, named: Named, own: Left, is_victim: bool) {
        let inherited = self.heirs.remove(&id).filter(|before| before.held.0 > own.held.0);
        let left = match inherited {
            _ if is_victim => Left { held: Holding::default(), ..own },
            // It keeps its time, so that it does not last by pods that end again and again.
            Some(before) => before,
            None => own,
        };
        if left.held != Holding::default() || is_victim {
            self.ended.push((named, left));
        }
        if self.ended.len() > MOST {
            self.ended.remove(0);
        }
    }

    /// Takes in which pods there are, and which are new: each that came in the last five minutes may be
    /// the one that comes in place of a pod that ended, also if it came before that.
    pub(super) fn update(
        &mut self,
        now: Nanos,
        is_there: impl Fn(CgroupId) -> bool,
        new: impl Iterator<Item = CgroupId>,
        named: impl Fn(CgroupId) -> Option<Named>,
    ) {
        let Self { came, ended, heirs } = self;
        came.retain(|id, at| is_there(*id) && now.since(*at) <= ALONG);
        came.extend(new.map(|id| (id, now)));
        ended.retain(|(_, left)| now.since(left.at) <= ALONG);
        // Then no reading is from a time at which it counts.
        heirs.retain(|id, left| is_there(*id) && now.since(left.at) <= LONGEST.plus(WARM));
        if ended.is_empty() {
            return;
        }
        for id in came.keys().filter(|id| !heirs.contains_key(id)).copied().collect::<Vec<_>>() {
            let Some(own) = named(id) else { continue };
            let same = || (0..ended.len()).filter(|at| ended[*at].0.is_of_the_same(&own));
            let by_name = same().find(|at| ended[*at].0.name == own.name);
            if let Some(at) = by_name.or_else(|| same().next()) {
                heirs.insert(id, ended.remove(at).1);
            }
        }
    }

    /// What the pod had held in whose place this one came; `None` if that had ended more than fifteen
    /// minutes before the time `at`.
    pub(super) fn of(&self, id: CgroupId, at: Nanos) -> Option<Holding> {
        let left = self.heirs.get(&id).filter(|left| at.since(left.at) <= WARM)?;
        Some(left.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::workload::Owner;

    const MINUTE: u64 = 60 * Nanos::SECOND.0;

    fn named(name: &str) -> Named {
        Named { owner: "db".into(), name: name.into(), ..Named::default() }
    }

    fn left(minute: u64, held: u64) -> Left {
        Left { at: Nanos(minute * MINUTE), held: Holding(held, 0, 0, 0) }
    }

    /// These pods come at a minute; all that were there are.
    fn come(heirs: &mut Heirs, minute: u64, pods: &[(u64, &str)]) {
        let names: BTreeMap<_, _> = pods.iter().map(|(id, name)| (CgroupId(*id), *name)).collect();
        let named = |id| names.get(&id).map(|name| named(name));
        heirs.update(Nanos(minute * MINUTE), |_| true, names.keys().copied(), named);
    }

    fn held(heirs: &Heirs, minute: u64, id: u64) -> Option<u64> {
        heirs.of(CgroupId(id), Nanos(minute * MINUTE)).map(|held| held.0)
    }

    #[test]
    fn a_pod_finds_what_the_one_of_its_name_held() {
        let mut heirs = Heirs::default();
        heirs.leave(CgroupId(1), named("db-0"), left(10, 8_000), false);
        heirs.leave(CgroupId(2), named("db-1"), left(10, 100), false);
        come(&mut heirs, 11, &[(3, "db-1"), (4, "db-0"), (5, "db-2")]);
        assert_eq!([3, 4, 5].map(|id| held(&heirs, 11, id)), [Some(100), Some(8_000), None]);
        assert_eq!([25, 26].map(|minute| held(&heirs, minute, 4)), [Some(8_000), None]);
    }

    #[test]
    fn a_static_pod_is_in_place_of_none_but_its_own() {
        let named = |name: &str| Named { kind: NODE.into(), owner: "n".into(), ..named(name) };
        let mut heirs = Heirs::default();
        heirs.leave(CgroupId(1), named("etcd-n"), left(10, 8_000), false);
        let names = BTreeMap::from([(CgroupId(3), "proxy-n"), (CgroupId(4), "etcd-n")]);
        let of = |id| names.get(&id).map(|name| named(name));
        heirs.update(Nanos(11 * MINUTE), |_| true, names.keys().copied(), of);
        assert_eq!([3, 4].map(|id| held(&heirs, 11, id)), [None, Some(8_000)]);
    }

    #[test]
    fn a_pod_in_place_of_a_victim_finds_nothing() {
        let mut heirs = Heirs::default();
        heirs.leave(CgroupId(1), named("a"), left(10, 8_000), true);
        heirs.leave(CgroupId(2), named("b"), left(10, 100), false);
        come(&mut heirs, 11, &[(3, "c"), (4, "d")]);
        assert_eq!([3, 4].map(|id| held(&heirs, 11, id)), [Some(0), Some(100)]);
    }

    #[test]
    fn what_a_pod_found_outlives_it_for_no_longer() {
        let mut heirs = Heirs::default();
        heirs.leave(CgroupId(1), named("a"), left(10, 300), false);
        for minute in 11..=15 {
            come(&mut heirs, minute, &[(minute, "a")]);
            assert_eq!(held(&heirs, minute, minute), Some(300), "{minute}");
            heirs.leave(CgroupId(minute), named("a"), left(minute, 0), false);
        }
        come(&mut heirs, 16, &[(16, "a")]);
        assert_eq!(held(&heirs, 16, 16), None);
    }

    #[test]
    fn runs_of_a_cron_job_come_in_place_of_each_other() {
        #[rustfmt::skip]
        let table = [
            // kind and name of the owner before and after, whether it is one of the same
            (("Job", "backup-29012345"),   ("Job", "backup-29012346"),       true),
            (("Job", "backup-29012345"),   ("Job", "restore-29012346"),      false),
            (("Job", "backup"),            ("Job", "restore"),               false),
            (("Job", "back-up"),           ("Job", "back-down"),             false),
            (("Job", "a-"),                ("Job", "a"),                     false),
            (("Job", "sweep-6"),           ("Job", "sweep-7"),               false),
            (("StatefulSet", "shard-1"),   ("StatefulSet", "shard-2"),       false),
        ];
        for ((kind, name), (other_kind, other), want) in table {
            let of = |kind: &str, name: &str| {
                let owner = Owner { kind: kind.into(), name: name.into(), ..Owner::default() };
                Named::of(&Pod { owner: Some(owner), name: "p".into(), ..Pod::default() }).unwrap()
            };
            assert_eq!(
                of(kind, name).is_of_the_same(&of(other_kind, other)),
                want,
                "{name} {other}"
            );
        }
    }

    #[test]
    fn what_a_pod_found_is_known_for_as_long_as_it_counts() {
        let mut heirs = Heirs::default();
        heirs.leave(CgroupId(1), named("a"), left(10, 300), false);
        come(&mut heirs, 11, &[(2, "a")]);
        for (minute, want) in [(76, Some(300)), (85, Some(300)), (86, None)] {
            come(&mut heirs, minute, &[(2, "a")]);
            assert_eq!(held(&heirs, 18, 2), want, "{minute}");
        }
    }

    #[test]
    fn a_pod_that_came_long_before_is_in_place_of_none() {
        for (ends, want) in [(15, Some(300)), (16, None)] {
            let mut heirs = Heirs::default();
            come(&mut heirs, 10, &[(2, "b")]);
            heirs.leave(CgroupId(1), named("a"), left(ends, 300), false);
            heirs.update(Nanos(ends * MINUTE), |_| true, [].into_iter(), |_| Some(named("b")));
            assert_eq!(held(&heirs, ends, 2), want, "{ends}");
        }
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut heirs = Heirs::default();
        for id in 0..2 * MOST as u64 {
            heirs.leave(CgroupId(id), named("a"), left(1, 1), false);
        }
        assert_eq!(heirs.ended.len(), MOST);
        let owner = Some(Owner { name: "x".repeat(LONGEST_NAME + 1), ..Owner::default() });
        assert_eq!(Named::of(&Pod { owner, ..Pod::default() }), None);
    }
}
