//! What weights entitle cgroups to, of the CPU time that was used.

use std::collections::BTreeMap;

use crate::model::cgroup::CgroupId;
use crate::model::snapshot::{Scope, Snapshot};
use crate::model::units::MilliCpu;
use crate::policy::workload::above;

/// Who used more of the CPUs than its weights entitle it to, in one interval.
pub(crate) struct Entitled<'a> {
    snapshot: &'a Snapshot,
    /// Weights of the children that ran or waited, by parent; `None` if one of them is not known.
    weights: BTreeMap<Option<CgroupId>, Option<u64>>,
    /// Of the cgroups that were asked about.
    is_above: BTreeMap<CgroupId, Option<bool>>,
}

impl<'a> Entitled<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut weights = BTreeMap::new();
        for scope in snapshot.scopes.values().filter(|scope| is_active(scope)) {
            let sum = weights.entry(scope.parent).or_insert(Some(0_u64));
            *sum = sum.zip(weight(scope)).map(|(sum, weight)| sum.saturating_add(weight));
        }
        Self { snapshot, weights, is_above: BTreeMap::new() }
    }

    /// Whether the victim waited by right while its [sibling](Self::siblings) ran: it used more than its
    /// part, and the aggressor did not. False where that is not known.
    pub(crate) fn is_by_right(&mut self, victim: CgroupId, aggressor: CgroupId) -> bool {
        self.is_above(victim) == Some(true) && self.is_above(aggressor) == Some(false)
    }

    /// The two that are or hold these and have the same parent: by their weights the kernel chooses
    /// between these. `None` where one holds the other.
    pub(crate) fn siblings(&self, one: CgroupId, other: CgroupId) -> Option<(CgroupId, CgroupId)> {
        let parent = |id: CgroupId| self.snapshot.scopes.get(&id)?.parent;
        if parent(one) == parent(other) {
            return Some((one, other));
        }
        let up = |id| {
            let mut all: Vec<_> = std::iter::once(id).chain(above(id, self.snapshot)).collect();
            all.reverse();
            all
        };
        let (one, other) = (up(one), up(other));
        one.into_iter().zip(other).find(|(one, other)| one != other)
    }

    fn is_above(&mut self, id: CgroupId) -> Option<bool> {
        let Self { snapshot, weights, is_above } = self;
        *is_above.entry(id).or_insert_with(|| uses_more(snapshot, weights, id))
    }
}

/// Whether a cgroup used more than its part of what its parent used; `None` where the kernel does not
/// divide by weights, or that is not known.
fn uses_more(
    snapshot: &Snapshot,
    weights: &BTreeMap<Option<CgroupId>, Option<u64>>,
    id: CgroupId,
) -> Option<bool> {
    let scope = snapshot.scopes.get(&id)?;
    let parent = scope.parent.and_then(|parent| snapshot.scopes.get(&parent));
    let MilliCpu(all) = parent.unwrap_or(&snapshot.whole).cpu_usage?;
    let among = u128::from((*weights.get(&scope.parent)?)?);
    let part = (u128::from(all) * u128::from(weight(scope)?)).checked_div(among)?;
    Some(u128::from(scope.cpu_usage?.0) > part)
}

fn is_active(scope: &Scope) -> bool {
    let has_waited = scope.cpu.as_ref().is_some_and(|cpu| cpu.wait.now.0 > 0);
    has_waited || scope.cpu_usage.is_some_and(|used| used > MilliCpu(0))
}

fn weight(scope: &Scope) -> Option<u64> {
    scope.files.as_ref()?.cpu.weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::{Cgroup, CgroupPath, CpuFiles};

    /// Two pods below one cgroup, with weights 79 and 1; each has two containers.
    #[test]
    fn is_by_right_where_the_kernel_chooses() {
        const PARENTS: [Option<u64>; 7] =
            [None, Some(1), Some(1), Some(2), Some(2), Some(3), Some(3)];
        const WEIGHTS: [u64; 7] = [100, 79, 1, 79, 1, 100, 100];
        #[rustfmt::skip]
        let table = [
            // CPU time of the four containers in thousandths; victim, aggressor; is it by right
            ([1_400, 100, 2_000, 500],   6, 4, true),
            ([1_400, 100, 2_000, 500],   4, 6, false),
            ([1_800, 2_150, 25, 25],     6, 4, false), // its pod used more than its part
            ([1_000, 5, 1_500, 1_495],   5, 6, false), // containers of the same pod
            ([900, 300, 1_500, 1_300],   5, 4, true),
            ([900, 300, 1_500, 1_300],   2, 4, false), // one holds the other
        ];
        for (used, victim, aggressor, want) in table {
            let [a, b, c, d] = used;
            let usage = [a + b + c + d, a + b, c + d, a, b, c, d];
            let scope = |at: usize| {
                let path = CgroupPath(format!("/{at}").into());
                let cpu = CpuFiles { weight: Some(WEIGHTS[at]), ..CpuFiles::default() };
                let files = Some(Cgroup { cpu, ..Cgroup::default() }.into());
                let cpu_usage = Some(MilliCpu(usage[at]));
                Scope {
                    path,
                    parent: PARENTS[at].map(CgroupId),
                    cpu_usage,
                    files,
                    ..Scope::default()
                }
            };
            let scopes = (0..7).map(|at| (CgroupId(at as u64 + 1), scope(at))).collect();
            let whole = Scope { cpu_usage: Some(MilliCpu(usage[0])), ..Scope::default() };
            let snapshot = Snapshot { scopes, whole, ..Snapshot::default() };
            let mut entitled = Entitled::new(&snapshot);
            let siblings = entitled.siblings(CgroupId(victim), CgroupId(aggressor));
            let got = siblings.is_some_and(|(one, other)| entitled.is_by_right(one, other));
            assert_eq!(got, want, "{used:?} {victim} {aggressor}");
        }
    }
}
