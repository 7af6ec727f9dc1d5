//! Page cache that the kernel does not take back, because `memory.min` keeps it: it is no room.
//! In: the sample, and the cgroup in which memory is short. Out: bytes.
//!
//! Source: `effective_protection`, mm/page_counter.c. Of those directly below the cgroup in which memory is
//! short their own `memory.min` alone counts. `memory.low` keeps nothing once nothing else is left.

use std::collections::BTreeMap;

use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::sample::Sample;
use crate::model::units::{Bytes, scale};
use crate::policy::takers::cache;

/// Kept below this cgroup; `None` is the whole node.
pub(super) fn kept_cache(sample: &Sample, short: Option<CgroupId>) -> Bytes {
    let cgroups = &sample.cgroups;
    if cgroups.values().all(|group| min(group) == 0) {
        return Bytes(0);
    }
    let root = || cgroups.iter().find(|(_, group)| group.parent.is_none()).map(|(id, _)| *id);
    let Some(top) = short.or_else(root) else { return Bytes(0) };
    let mut below = BTreeMap::<CgroupId, Vec<(CgroupId, &Cgroup)>>::new();
    for (id, group) in cgroups {
        below.entry(group.parent.unwrap_or_default()).or_default().push((*id, group));
    }
    let (mut kept, mut to_visit) = (0_u64, vec![(top, u64::MAX)]);
    while let Some((id, given)) = to_visit.pop() {
        // Taken out: those of a recording may lie below themselves.
        let children = below.remove(&id).unwrap_or_default();
        let sum = |of: fn(&Cgroup) -> u64| {
            children.iter().map(|(_, child)| of(child)).fold(0, u64::saturating_add)
        };
        let all = sum(claim);
        // What none of them claims is of each by what it has beside its claim.
        let above = cgroups.get(&id).filter(|_| sample.keeps_recursively && id != top);
        let unclaimed = above.map_or(0, |_| given.saturating_sub(all));
        let beside = above.map_or(0, |above| used(above).saturating_sub(all));
        let of_unclaimed = |used: u64| scale(unclaimed, used, beside);
        for (id, child) in &children {
            let own = claim(child);
            let own = match all > given {
                true => scale(own, given, all),
                false => own.saturating_add(of_unclaimed(used(child) - own)),
            };
            match below.contains_key(id) {
                true => to_visit.push((*id, own)),
                false => {
                    kept = kept.saturating_add(cache_within(used(child), cache_of(child), own));
                }
            }
        }
        // Cgroups that were removed are there no more, and their cache is.
        if let Some(above) = above {
            let used = used(above).saturating_sub(sum(used));
            let cache = cache_of(above).saturating_sub(sum(cache_of));
            kept = kept.saturating_add(cache_within(used, cache, of_unclaimed(used)));
        }
    }
    Bytes(kept)
}

fn min(group: &Cgroup) -> u64 {
    group.memory.min.map_or(0, |min| min.at().unwrap_or(u64::MAX))
}

fn used(group: &Cgroup) -> u64 {
    group.memory.current.unwrap_or_default().0
}

/// What it has of what it may keep.
fn claim(group: &Cgroup) -> u64 {
    min(group).min(used(group))
}

fn cache_of(group: &Cgroup) -> u64 {
    cache(group).unwrap_or_default().0
}

/// All else that it holds is kept first: it cannot be dropped.
fn cache_within(used: u64, cache: u64, kept: u64) -> u64 {
    kept.saturating_sub(used.saturating_sub(cache)).min(cache)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::cgroup::{CgroupPath, Limit, MemoryFiles, MemoryStat};

    /// A path, `memory.min`, what is used, and of that cache.
    type Row = (&'static str, u64, u64, u64);

    /// Of the node, and in /pods.
    fn kept(groups: &[Row], keeps_recursively: bool) -> [u64; 2] {
        let id = |path: &str| match path {
            "" => CgroupId(1),
            "/pods" => CgroupId(2),
            other => CgroupId(2 + u64::from(other.as_bytes()[other.len() - 1])),
        };
        let group = |(path, min, used, cache): &Row| {
            let stat = MemoryStat { inactive_file: Bytes(*cache), ..MemoryStat::default() };
            let min = if *min == u64::MAX { Limit::Max } else { Limit::At(*min) };
            let memory = MemoryFiles {
                current: Some(Bytes(*used)),
                min: Some(min),
                stat: Some(stat),
                ..MemoryFiles::default()
            };
            let above = path.rsplit_once('/').map(|(above, _)| id(above));
            let path = CgroupPath((*path).into());
            let parent = above.filter(|_| !path.0.is_empty());
            Arc::new(Cgroup { path, parent, memory, ..Cgroup::default() })
        };
        let mut sample = Sample { keeps_recursively, ..Sample::default() };
        sample.cgroups.insert(id(""), Arc::new(Cgroup::default()));
        sample.cgroups.extend(groups.iter().map(|one| (id(one.0), group(one))));
        [None, Some(id("/pods"))].map(|short| kept_cache(&sample, short).0)
    }

    #[test]
    fn kept_cache_is_what_min_protects_all_the_way_down() {
        let table: [(&[Row], u64, u64); 8] = [
            // cgroups; kept of the node, and in /pods
            (&[("/pods", 0, 100, 80), ("/pods/a", 0, 100, 80)], 0, 0),
            (&[("/a.service", 60, 100, 80)], 40, 0),
            (&[("/a.service", u64::MAX, 100, 80)], 80, 0),
            (&[("/pods", 90, 100, 80), ("/pods/a", 60, 100, 80)], 40, 40),
            // Not what no cgroup above keeps, but where the limit of that one is short.
            (&[("/pods", 0, 100, 80), ("/pods/a", 60, 100, 80)], 0, 40),
            // Two that claim more than the one above has to give get their share of it.
            (
                &[("/pods", 80, 200, 160), ("/pods/a", 80, 100, 80), ("/pods/b", 80, 100, 80)],
                40,
                120,
            ),
            // Who claims more than it has keeps no other's.
            (&[("/pods", 90, 60, 20), ("/pods/a", 90, 50, 20), ("/pods/b", 0, 10, 0)], 20, 20),
            (&[("/pods", 90, 100, 80)], 70, 0),
        ];
        for (groups, of_node, of_pods) in table {
            assert_eq!(kept(groups, false), [of_node, of_pods], "{groups:?}");
        }
    }

    /// Where the tree is mounted with `memory_recursiveprot`.
    #[test]
    fn kept_cache_is_also_what_is_left_of_min_above() {
        let table: [(&[Row], u64, u64); 7] = [
            // cgroups; kept of the node, and in /pods
            (&[("/pods", 90, 100, 80), ("/pods/a", 0, 100, 80)], 70, 0),
            // By what each has beside its own claim.
            (
                &[("/pods", 100, 200, 160), ("/pods/a", 50, 100, 80), ("/pods/b", 0, 100, 80)],
                46 + 13,
                30,
            ),
            // Two that claim more than there is get their share of it, as ever.
            (
                &[("/pods", 80, 200, 160), ("/pods/a", 80, 100, 80), ("/pods/b", 80, 100, 80)],
                40,
                120,
            ),
            // Two levels below; the node itself has nothing to give.
            (&[("/pods", 90, 100, 80), ("/pods/a", 0, 100, 0), ("/pods/a/x", 0, 100, 80)], 70, 0),
            (&[("/pods", 0, 100, 80), ("/pods/a", 0, 100, 0), ("/pods/a/x", 0, 100, 80)], 0, 0),
            // The cache of a service that was started again is that of no cgroup that is there.
            (&[("/pods", 90, 100, 80), ("/pods/a", 0, 20, 10)], 62 + 8, 0),
            // What is promised and not used is no other's.
            (&[("/pods", 900, 100, 80), ("/pods/a", 0, 100, 80), ("/c", 0, 500, 400)], 80, 0),
        ];
        for (groups, of_node, of_pods) in table {
            assert_eq!(kept(groups, true), [of_node, of_pods], "{groups:?}");
        }
    }

    #[test]
    fn kept_cache_ends_where_cgroups_lie_below_themselves() {
        let group = |parent| {
            let (current, min) = (Some(Bytes(100)), Some(Limit::Max));
            let stat = Some(MemoryStat { inactive_file: Bytes(80), ..MemoryStat::default() });
            let memory = MemoryFiles { current, min, stat, ..MemoryFiles::default() };
            Arc::new(Cgroup { parent: Some(CgroupId(parent)), memory, ..Cgroup::default() })
        };
        for keeps_recursively in [false, true] {
            let cgroups = [(1, 2), (2, 1)].map(|(id, parent)| (CgroupId(id), group(parent)));
            let sample = Sample { keeps_recursively, cgroups: cgroups.into(), ..Sample::default() };
            assert!(kept_cache(&sample, Some(CgroupId(1))) <= Bytes(200));
        }
    }
}
