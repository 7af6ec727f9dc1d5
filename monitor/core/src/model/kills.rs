//! The OOM kills of a tick, each with the name of its cgroup, which may be gone: as the kernel side saw
//! them, else as `memory.events` counts them.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath, Limit, MemoryFiles};
use crate::model::places::Places;
use crate::model::sample::Sample;
use crate::model::snapshot::Along;
use crate::model::stall::{OomKill, OomRecord};
use crate::model::units::Nanos;
use crate::model::workload::{Pods, by_cgroup_uid, name_at};

/// How long the kernel may print its report of a limit that is reached before it kills: to a serial line
/// it does so byte by byte.
const REPORT: Nanos = Nanos(10 * Nanos::SECOND.0);

/// The cgroups of a tick, and what their names follow from.
#[derive(Debug, Clone, Copy)]
pub struct Cgroups<'a> {
    pub(crate) cgroups: &'a BTreeMap<CgroupId, Arc<Cgroup>>,
    /// The sample, its cgroups and pods perhaps taken out.
    pub(crate) rest: &'a Sample,
    pub(crate) pods: Option<&'a Pods>,
}

impl<'a> From<&'a Sample> for Cgroups<'a> {
    fn from(sample: &'a Sample) -> Self {
        Self { cgroups: &sample.cgroups, rest: sample, pods: sample.pods.as_ref() }
    }
}

impl Cgroups<'_> {
    fn path(&self, id: CgroupId) -> Option<&CgroupPath> {
        self.cgroups.get(&id).map(|cgroup| &cgroup.path).filter(|path| !path.is_root())
    }
}

/// The kills that the tick `now` tells of. The counters tell at whose limit where the kernel side does not.
pub(crate) fn told(before: Option<Cgroups<'_>>, now: Cgroups<'_>) -> Vec<OomKill> {
    let counted = || before.map(|before| counted(before, now)).unwrap_or_default();
    let covers =
        |tick: Cgroups<'_>| tick.rest.kernel.as_ref().map(|kernel| kernel.covers.oom_kills);
    let kernel = now.rest.kernel.iter().flat_map(|kernel| &kernel.oom_kills);
    let mut kills: Vec<_> = kernel.cloned().collect();
    // What it saw while it could not be read, it tells later.
    let tells = covers(now).or_else(|| covers(before?)).unwrap_or_default();
    if kills.is_empty() && !tells {
        return counted();
    }
    if kills.iter().any(|kill| !kill.limit_known) {
        let counted = counted();
        for kill in kills.iter_mut().filter(|kill| !kill.limit_known) {
            let same = counted.iter().find(|one| one.victim == kill.victim);
            same.inspect(|one| (kill.limit, kill.limit_known) = (one.limit, one.limit_known));
        }
    }
    kills
}

/// Kills that `memory.events` counts: whose processes, and whose limit it was. Of a cgroup that is removed
/// before the next sample the one above it tells.
pub(crate) fn counted(before: Cgroups<'_>, now: Cgroups<'_>) -> Vec<OomKill> {
    let mut was = Along::of(before.cgroups);
    let more = |(id, is): (&CgroupId, &Arc<Cgroup>)| {
        let kills = |cgroup: &Cgroup| cgroup.memory.events.map(|events| events.oom_kill);
        let more = kills(is)?.saturating_sub(kills(was.get(id)?)?);
        (more > 0).then_some((*id, more))
    };
    let all: BTreeMap<CgroupId, u64> = now.cgroups.iter().filter_map(more).collect();
    let parent = |id: &CgroupId| now.cgroups.get(id)?.parent;
    // Each cgroup counts what happens below it, too.
    let mut own = all.clone();
    for (id, n) in &all {
        let above = iter::successors(parent(id), parent).find(|id| all.contains_key(id));
        if let Some(above) = above.and_then(|id| own.get_mut(&id)) {
            *above = above.saturating_sub(*n);
        }
    }
    let kill = |(victim, n): (&CgroupId, &u64)| {
        let limit = limit(*victim, before, now);
        OomKill {
            at: now.rest.at.boot,
            victim: *victim,
            victim_pid: None,
            victim_comm: None,
            more: n - 1,
            limit: limit.flatten(),
            limit_known: limit.is_some(),
            trigger: CgroupId::UNKNOWN,
        }
    };
    own.iter().filter(|(_, n)| **n > 0).map(kill).collect()
}

/// The lowest cgroup above a victim whose limit was reached, `Some(None)` if that was the node; `None` if not
/// known which it was.
fn limit(victim: CgroupId, before: Cgroups<'_>, now: Cgroups<'_>) -> Option<Option<CgroupId>> {
    let mut at = now.cgroups.get(&victim).map(|one| (victim, one));
    while let Some((id, one)) = at.filter(|(_, one)| !one.path.is_root()) {
        let MemoryFiles { events, max, oom_at, .. } = one.memory;
        let counted = before.cgroups.get(&id)?.memory.events?.oom < events?.oom;
        let is_recent = |at| now.rest.at.boot.since(at) <= REPORT;
        if counted || oom_at.is_some_and(is_recent) {
            // All above a limit count with it, and it may have gone with its cgroup: that of all pods has no
            // process of its own.
            let is_of_pods = id == victim && now.rest.kubepods.as_ref() == Some(&one.path);
            return (max != Some(Limit::Max) && !is_of_pods).then_some(Some(id));
        }
        let above = one.parent?;
        at = now.cgroups.get(&above).map(|one| (above, one));
    }
    Some(None)
}

/// The kills that the tick `now` tells of.
pub fn kills<'a>(before: Option<Cgroups<'a>>, now: Cgroups<'a>) -> Vec<OomRecord> {
    named(&told(before, now), before, now)
}

/// The same, where it is known which; the tick before may have cgroups that are gone.
pub fn named<'a>(
    kills: &[OomKill],
    before: Option<Cgroups<'a>>,
    now: Cgroups<'a>,
) -> Vec<OomRecord> {
    if kills.is_empty() {
        return Vec::new();
    }
    let ticks: Vec<_> = iter::once(now).chain(before).collect();
    let places: Vec<_> =
        ticks.iter().map(|tick| Places::of(tick.cgroups, tick.rest.kubepods.as_ref())).collect();
    let pods: Vec<_> = ticks.iter().filter_map(|tick| tick.pods.map(by_cgroup_uid)).collect();
    let path = |id| ticks.iter().find_map(|tick| tick.path(id).cloned());
    // A pod may be named in the tick in which its cgroup is gone.
    let victim = |id| {
        ticks.iter().zip(&places).find_map(|(tick, places)| {
            let place = places.place(tick.path(id)?);
            pods.iter().find_map(|pods| name_at(&place, pods))
        })
    };
    let record = |kill: &OomKill| OomRecord::of(kill, now.rest.at, victim(kill.victim), path);
    kills.iter().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::MemoryEvents;
    use crate::model::stall::{Coverage, KernelStalls};

    /// Cgroups by id, with the one above, and how often an OOM kill was for want of memory at their limit
    /// and of a process below them; `None` is not read. The cgroup 1 is the root.
    type Counts<'a> = &'a [(u64, u64, Option<(u64, u64)>)];

    /// Kills: victim, processes, limit, and whether that is known.
    type Told<'a> = &'a [(u64, u64, Option<u64>, bool)];

    fn sample(counts: Counts<'_>) -> Sample {
        let cgroup = |&(id, parent, counts): &(u64, u64, Option<(u64, u64)>)| {
            let path = if id == 1 { "/".to_owned() } else { format!("/{id}") };
            let events = counts.map(|(oom, oom_kill)| MemoryEvents {
                oom,
                oom_kill,
                ..MemoryEvents::default()
            });
            // As a slice of a QoS class.
            let max = Some(if id == 2 { Limit::Max } else { Limit::At(9) });
            let memory = MemoryFiles { events, max, ..MemoryFiles::default() };
            let parent = (id != 1).then_some(CgroupId(parent));
            let path = CgroupPath(path.into());
            let one = Cgroup { path, parent, memory, ..Cgroup::default() };
            (CgroupId(id), Arc::new(one))
        };
        Sample { cgroups: counts.iter().map(cgroup).collect(), ..Sample::default() }
    }

    #[test]
    fn counted_kills_have_a_victim_and_a_limit() {
        let none = Some((0, 0));
        let root = (1, 0, None);
        let before =
            sample(&[root, (2, 1, none), (3, 2, none), (4, 3, none), (5, 3, none), (6, 1, none)]);
        #[rustfmt::skip]
        let table: &[(&str, Counts<'_>, Told<'_>)] = &[
            // what happened, the counters, what is told
            ("nothing",
                &[root, (2, 1, none), (3, 2, none), (4, 3, none), (5, 3, none)], &[]),
            ("the limit of the victim's own",
                &[root, (2, 1, Some((1, 1))), (3, 2, Some((1, 1))), (4, 3, Some((1, 1))), (5, 3, none)],
                &[(4, 1, Some(4), true)]),
            ("the limit above it, two processes",
                &[root, (2, 1, Some((1, 2))), (3, 2, Some((1, 2))), (4, 3, Some((0, 2))), (5, 3, none)],
                &[(4, 2, Some(3), true)]),
            ("the node, in two cgroups",
                &[root, (2, 1, Some((0, 2))), (3, 2, Some((0, 2))), (4, 3, Some((0, 1))), (5, 3, Some((0, 1)))],
                &[(4, 1, None, true), (5, 1, None, true)]),
            ("the victim's cgroup is gone",
                &[root, (2, 1, Some((1, 1))), (3, 2, Some((1, 1))), (5, 3, none)],
                &[(3, 1, Some(3), true)]),
            ("the victim's cgroup is gone, and its pod's with the limit",
                &[root, (2, 1, Some((1, 1)))],
                &[(2, 1, None, false)]),
            ("the victim's pod is gone, at its own limit or at that of all pods",
                &[root, (2, 1, none), (6, 1, Some((1, 1)))],
                &[(6, 1, None, false)]),
            ("one of two victims' cgroups is gone",
                &[root, (2, 1, Some((2, 2))), (3, 2, Some((2, 2))), (4, 3, Some((0, 1)))],
                &[(3, 1, Some(3), true), (4, 1, Some(3), true)]),
            ("one above it is not read",
                &[root, (2, 1, Some((0, 1))), (3, 2, None), (4, 3, Some((0, 1))), (5, 3, none)],
                &[(4, 1, None, false)]),
            ("a counter begins anew",
                &[root, (2, 1, none), (3, 2, none), (4, 3, None), (5, 3, none)], &[]),
        ];
        for (what, counts, want) in table {
            let now = Sample { kubepods: Some(CgroupPath("/6".into())), ..sample(counts) };
            let kills = told(Some((&before).into()), (&now).into());
            let seen: Vec<_> = kills
                .iter()
                .map(|kill| (kill.victim.0, kill.processes(), kill.limit, kill.limit_known))
                .collect();
            let want: Vec<_> = want
                .iter()
                .map(|&(v, n, limit, known)| (v, n, limit.map(CgroupId), known))
                .collect();
            assert_eq!(seen, want, "{what}");
        }
    }

    #[test]
    fn what_the_kernel_side_tells_is_not_counted_again() {
        let before = sample(&[(1, 0, None), (3, 1, Some((0, 0)))]);
        let counted = sample(&[(1, 0, None), (3, 1, Some((1, 1)))]);
        let seen = OomKill { victim: CgroupId(3), victim_pid: Some(7), ..OomKill::default() };
        let elsewhere = OomKill { victim: CgroupId(9), ..seen.clone() };
        #[rustfmt::skip]
        let table = [
            // whether the kernel side runs, and tells of kills; what it saw; the pid and limit that are told
            (None,        &seen,      (None,    Some(3), true)),
            (Some(false), &seen,      (None,    Some(3), true)),
            (Some(true),  &seen,      (Some(7), Some(3), true)),
            (Some(true),  &elsewhere, (Some(7), None,    false)),
        ];
        for (tells, seen, (pid, limit, is_known)) in table {
            let kernel = tells.map(|oom_kills| KernelStalls {
                covers: Coverage { oom_kills, ..Coverage::default() },
                oom_kills: if oom_kills { vec![seen.clone()] } else { Vec::new() },
                ..KernelStalls::default()
            });
            let now = Sample { kernel, ..counted.clone() };
            let kills = kills(Some((&before).into()), (&now).into());
            let told = kills.iter().map(|one| {
                (one.kill.victim_pid, one.kill.limit.map(|id| id.0), one.kill.limit_known)
            });
            assert_eq!(told.collect::<Vec<_>>(), [(pid, limit, is_known)], "{tells:?}");
        }
        assert_eq!(told(None, (&counted).into()), [], "the first tick");
        let covers = Coverage { oom_kills: true, ..Coverage::default() };
        let before =
            Sample { kernel: Some(KernelStalls { covers, ..KernelStalls::default() }), ..before };
        let told = told(Some((&before).into()), (&counted).into());
        assert_eq!(told, [], "it could not be read in one tick, and tells in the next");
    }

    #[test]
    fn limit_may_be_reached_ticks_before_the_kill() {
        let before = sample(&[(1, 0, None), (2, 1, Some((1, 0))), (3, 2, Some((1, 0)))]);
        let now = sample(&[(1, 0, None), (2, 1, Some((1, 1))), (3, 2, Some((1, 1)))]);
        let second = Nanos::SECOND.0;
        #[rustfmt::skip]
        let table = [
            // seconds since the limit of 3 was reached without a kill, the limit that is told
            (Some(4),  Some(CgroupId(3))),
            (Some(11), None),
            (None,     None),
        ];
        for (ago, want) in table {
            let mut now = now.clone();
            now.at.boot = Nanos(60 * second);
            let one = Arc::make_mut(now.cgroups.get_mut(&CgroupId(3)).unwrap());
            one.memory.oom_at = ago.map(|ago| Nanos((60 - ago) * second));
            let [kill] = &told(Some((&before).into()), (&now).into())[..] else {
                panic!("{ago:?}")
            };
            assert_eq!((kill.victim, kill.limit, kill.limit_known), (CgroupId(3), want, true));
        }
    }
}
