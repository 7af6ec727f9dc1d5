//! Waits for a CPU by sufferer and aggressor, in one interval.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Blame;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::sample::Sample;
use crate::model::stall::KernelStalls;
use crate::model::units::Nanos;

/// Pairs that waited, longest first; a cgroup may wait for itself.
pub(super) fn aggressions(
    prev: (&Sample, &KernelStalls),
    next: (&Sample, &KernelStalls),
) -> Vec<Blame> {
    let mut times = BTreeMap::<(CgroupId, CgroupId), Nanos>::new();
    for seen in &next.1.matrix {
        let time = times.entry((seen.victim, seen.aggressor)).or_default();
        *time = time.plus(seen.time);
    }
    let paths = [paths(next), paths(prev)];
    let path = |id| paths.iter().find_map(|known| known.get(&id)).map(|&path| path.clone());
    let waited = times.into_iter().filter(|(_, time)| *time > Nanos(0));
    let mut blames: Vec<_> = waited
        .map(|((victim, aggressor), time)| Blame {
            victim,
            victim_path: path(victim),
            aggressor,
            aggressor_path: path(aggressor),
            time,
            loss: None,
        })
        .collect();
    // A stable sort of a sorted map: pairs of equal time stay in order.
    blames.sort_by_key(|blame| Reverse(blame.time));
    blames
}

fn paths<'a>(
    (sample, kernel): (&'a Sample, &'a KernelStalls),
) -> BTreeMap<CgroupId, &'a CgroupPath> {
    let brief = kernel.short_lived.iter().map(|gone| (gone.id, &gone.path));
    brief.chain(sample.cgroups.iter().map(|(id, cgroup)| (*id, &cgroup.path))).collect()
}
