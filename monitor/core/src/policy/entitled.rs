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

    /// Whether the victim waited by right while the aggressor ran: it used more than its part, and the
    /// aggressor did not. False where that is not known.
    pub(crate) fn is_by_right(&mut self, victim: CgroupId, aggressor: CgroupId) -> bool {
        self.is_above(victim) == Some(true) && self.is_above(aggressor) == Some(false)
    }

    fn is_above(&mut self, id: CgroupId) -> Option<bool> {
        let Self { snapshot, weights, is_above } = self;
        *is_above.entry(id).or_insert_with(|| uses_more(snapshot, weights, id))
    }
}

/// Whether a cgroup used more than its part; `None` where the kernel does not divide by weights, or that
/// is not known.
fn uses_more(
    snapshot: &Snapshot,
    weights: &BTreeMap<Option<CgroupId>, Option<u64>>,
    id: CgroupId,
) -> Option<bool> {
    let MilliCpu(all) = snapshot.whole.cpu_usage?;
    let (scope, mut share) = (snapshot.scopes.get(&id)?, u128::from(all));
    let above = above(id, snapshot).filter_map(|id| snapshot.scopes.get(&id));
    for scope in std::iter::once(scope).chain(above) {
        let among = u128::from((*weights.get(&scope.parent)?)?);
        share = (share * u128::from(weight(scope)?)).checked_div(among)?;
    }
    Some(u128::from(scope.cpu_usage?.0) > share)
}

fn is_active(scope: &Scope) -> bool {
    let has_waited = scope.cpu.as_ref().is_some_and(|cpu| cpu.wait.now.0 > 0);
    has_waited || scope.cpu_usage.is_some_and(|used| used > MilliCpu(0))
}

fn weight(scope: &Scope) -> Option<u64> {
    scope.files.as_ref()?.cpu.weight
}
