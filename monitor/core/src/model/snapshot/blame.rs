//! Waits for a CPU by sufferer and aggressor, in one interval.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Blame;
use super::delta::Deltas;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::sample::Sample;
use crate::model::stall::KernelStalls;
use crate::model::units::Nanos;

type Pair = (CgroupId, CgroupId);

/// Pairs whose time grew, longest first; a cgroup may wait for itself. A new pair's time is all
/// from this interval, because the matrix counts from when the programs were attached.
pub(super) fn aggressions(
    prev: (&Sample, &KernelStalls),
    next: (&Sample, &KernelStalls),
    deltas: &mut Deltas<'_>,
) -> Vec<Blame> {
    let before = times(prev.1);
    let paths = [paths(next), paths(prev)];
    let path = |id| paths.iter().find_map(|known| known.get(&id)).map(|&path| path.clone());
    let mut blames = Vec::new();
    for (pair, total) in times(next.1) {
        let time = deltas.waited(before.get(&pair).copied().unwrap_or_default(), total);
        if time.now == Nanos(0) {
            continue;
        }
        let (victim, aggressor) = pair;
        blames.push(Blame {
            victim,
            victim_path: path(victim),
            aggressor,
            aggressor_path: path(aggressor),
            time,
        });
    }
    // A stable sort of a sorted map: pairs of equal time stay in order.
    blames.sort_by_key(|blame| Reverse(blame.time.now));
    blames
}

fn times(kernel: &KernelStalls) -> BTreeMap<Pair, Nanos> {
    let mut times = BTreeMap::<Pair, Nanos>::new();
    for seen in &kernel.matrix {
        let time = times.entry((seen.victim, seen.aggressor)).or_default();
        *time = time.plus(seen.time);
    }
    times
}

fn paths<'a>(
    (sample, kernel): (&'a Sample, &'a KernelStalls),
) -> BTreeMap<CgroupId, &'a CgroupPath> {
    let brief = kernel.short_lived.iter().map(|gone| (gone.id, &gone.path));
    brief.chain(sample.cgroups.iter().map(|(id, cgroup)| (*id, &cgroup.path))).collect()
}
