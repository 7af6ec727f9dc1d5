//! What weights entitle cgroups to, of the CPU time that was used.

use std::collections::BTreeMap;

use crate::model::cgroup::CgroupId;
use crate::model::snapshot::{Scope, Snapshot};
use crate::model::units::{MilliCpu, Nanos, scale};
use crate::policy::workload::above;

/// The `cpu.weight` that the kernel tells of a cgroup whose `cpu.idle` is 1.
const IDLE: u64 = 0;

/// Who used more of the CPUs than its weights entitle it to, in one interval.
pub(crate) struct Entitled<'a> {
    snapshot: &'a Snapshot,
    /// The children that ran or waited, by parent.
    active: BTreeMap<Option<CgroupId>, Vec<(CgroupId, &'a Scope)>>,
    /// Of the children that were asked about, by parent; `None` where it is not known.
    used: BTreeMap<Option<CgroupId>, Option<BTreeMap<CgroupId, Used>>>,
}

/// How a cgroup's use compares with its part of what all children of its parent used.
#[derive(Debug, Clone, Copy)]
struct Used {
    /// It used more than its weight is of all weights.
    is_above: bool,
    /// It used more than that, and its part of what others left of theirs.
    is_above_left: bool,
}

impl<'a> Entitled<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut active = BTreeMap::<_, Vec<_>>::new();
        for (id, scope) in snapshot.scopes.iter().filter(|(_, scope)| is_active(scope)) {
            active.entry(scope.parent).or_default().push((*id, scope));
        }
        Self { snapshot, active, used: BTreeMap::new() }
    }

    /// Whether the victim waited by right while its [sibling](Self::siblings) ran: it used more than its
    /// part, and the aggressor no more than its own and what others left of theirs; or the victim is to run
    /// only where no other one does. False where that is not known.
    pub(crate) fn is_by_right(&mut self, victim: CgroupId, aggressor: CgroupId) -> bool {
        let weight = |id| self.snapshot.scopes.get(&id).and_then(weight);
        if weight(victim) == Some(IDLE) && weight(aggressor).is_some_and(|weight| weight > IDLE) {
            return true;
        }
        let victim = self.used(victim).is_some_and(|used| used.is_above);
        victim && self.used(aggressor).is_some_and(|used| !used.is_above_left)
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

    fn used(&mut self, id: CgroupId) -> Option<Used> {
        let Self { snapshot, active, used } = self;
        let parent = snapshot.scopes.get(&id)?.parent;
        let of_parent = used.entry(parent).or_insert_with(|| {
            let whole = parent.and_then(|parent| snapshot.scopes.get(&parent));
            let MilliCpu(all) = whole.unwrap_or(&snapshot.whole).cpu_usage?;
            compared(active.get(&parent)?, all, snapshot.interval)
        });
        of_parent.as_ref()?.get(&id).copied()
    }
}

/// How each child of a cgroup that used `all` used its part of that; `None` where the kernel does not divide
/// by weights, or that is not known. What a child leaves of its part, because it did not wait for it, is
/// divided among the others.
fn compared(
    children: &[(CgroupId, &Scope)],
    all: u64,
    interval: Nanos,
) -> Option<BTreeMap<CgroupId, Used>> {
    let child = |(id, scope): &(CgroupId, &Scope)| {
        let MilliCpu(used) = scope.cpu_usage?;
        Some((*id, used, used.saturating_add(waited(scope, interval)), weight(scope)?))
    };
    let mut open: Vec<_> = children.iter().map(child).collect::<Option<_>>()?;
    let (mut left, mut compared) = (u128::from(all), BTreeMap::<_, Used>::new());
    loop {
        let among: u128 = open.iter().map(|(.., weight)| u128::from(*weight)).sum();
        if among == 0 && !compared.is_empty() {
            // Those alone are left that are to run where no other one does, and nothing is theirs.
            return Some(compared);
        }
        let part = |weight: u64| (left * u128::from(weight)).checked_div(among);
        for (id, used, _, weight) in &open {
            let is_above_left = u128::from(*used) > part(*weight)?;
            let first = Used { is_above: is_above_left, is_above_left };
            compared.entry(*id).or_insert(first).is_above_left = is_above_left;
        }
        let wants_less = |(_, _, wanted, weight): &(_, _, u64, u64)| {
            part(*weight).is_some_and(|part| u128::from(*wanted) < part)
        };
        let (content, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(wants_less);
        if content.is_empty() {
            return Some(compared);
        }
        let used: u128 = content.iter().map(|(_, used, ..)| u128::from(*used)).sum();
        (left, open) = (left.saturating_sub(used), rest);
    }
}

/// How much more it would have used at most if it had not waited for other cgroups, in thousandths of a CPU.
fn waited(scope: &Scope, interval: Nanos) -> u64 {
    let wait = scope.cpu.as_ref().map(|cpu| cpu.contention.unwrap_or(cpu.wait).now);
    scale(wait.unwrap_or_default().0, 1_000, interval.0)
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
    use crate::model::snapshot::{CpuWait, Waited};

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

    /// What a sibling leaves because it does not want it is divided by weights, too.
    #[test]
    fn is_by_right_with_what_others_leave() {
        #[rustfmt::skip]
        let table = [
            // weight, use and wait of three pods in thousandths of a CPU; does the third wait by right for the second
            ([(39, 50, 10),    (39, 2_600, 400), (10, 850, 7_000)],   true),
            ([(39, 50, 10),    (39, 2_900, 400), (10, 550, 7_000)],   false),
            ([(39, 50, 3_000), (39, 2_600, 400), (10, 850, 7_000)],   false), // the first one waits, too
            ([(157, 4_000, 0), (10, 1_900, 900), (10, 2_100, 900)],   true), // it has CPUs of its own
            ([(157, 4_000, 0), (10, 2_100, 900), (10, 1_900, 900)],   false),
            ([(100, 600, 0),   (100, 3_300, 100), (0, 100, 4_000)],   true), // cpu.idle
            ([(100, 600, 0),   (100, 3_300, 100), (0, 0, 4_000)],     true),
            ([(0, 600, 0),     (0, 3_300, 100),   (0, 100, 4_000)],   false),
            ([(0, 2_400, 0),   (100, 1_000, 0),   (10, 600, 100)],    true),
        ];
        for (pods, want) in table {
            let scope = |(weight, used, waited): (u64, u64, u64)| {
                let cpu = CpuFiles { weight: Some(weight), ..CpuFiles::default() };
                let files = Some(Cgroup { cpu, ..Cgroup::default() }.into());
                let now = Nanos(waited * 1_000_000);
                let contention = Some(Waited { now, ..Waited::default() });
                let cpu = Some(CpuWait { contention, ..CpuWait::default() });
                Scope { cpu_usage: Some(MilliCpu(used)), files, cpu, ..Scope::default() }
            };
            let scopes = (1..).map(CgroupId).zip(pods.map(scope)).collect();
            let all = pods.iter().map(|(_, used, _)| used).sum();
            let whole = Scope { cpu_usage: Some(MilliCpu(all)), ..Scope::default() };
            let interval = Nanos::SECOND;
            let snapshot = Snapshot { scopes, whole, interval, ..Snapshot::default() };
            let got = Entitled::new(&snapshot).is_by_right(CgroupId(3), CgroupId(2));
            assert_eq!(got, want, "{pods:?}");
        }
    }
}
