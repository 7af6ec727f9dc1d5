//! Because of whom CPU time is lost, and so whose processes are looked for: the process that is
//! named belongs to the cgroup that the headline names.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::cpu_loss::{CpuLoss, Harm, losses};
use super::lead::{aggressor_path, sufferers, victim};
use super::suspects::{SUSPECTED, Suspect};
use super::verdict::Resource;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::snapshot::{Blame, Scope, Snapshot};
use crate::model::units::{Nanos, Percent};

/// The cgroup to which a unit, with all cgroups in it, lost most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aggressor<'a> {
    /// Of the pairs with it, the one that cost most.
    pub(super) most: &'a Blame,
    /// What it did to the sufferer.
    pub(super) harm: Harm,
    /// What it lost because of the sufferer.
    pub(super) back: Nanos,
}

/// The aggressor that the headline names while CPUs are short or, where it can name none, that of the
/// pair which cost most; `None` if others hardly waited for it. Where waits are not measured, or all
/// tasks are in the root cgroup, the machine while tasks wait for CPUs by raw PSI.
pub(super) fn suspect(snapshot: &Snapshot) -> Option<Suspect> {
    if !snapshot.covers.waits || snapshot.scopes.is_empty() {
        let raw = snapshot.whole.pressure.cpu.and_then(|pressure| pressure.some);
        let is_short = raw.is_some_and(|line| line.avg10 >= SUSPECTED);
        return is_short.then_some(Suspect::Machine);
    }
    let mut waited = BTreeMap::<CgroupId, Nanos>::new();
    for pair in snapshot.aggressions.iter().filter(|pair| pair.victim != pair.aggressor) {
        // No wait counts for more than the interval, or a sufferer of many threads would decide.
        let sum = waited.entry(pair.aggressor).or_default();
        *sum = sum.plus(pair.time.min(snapshot.interval));
    }
    waited.retain(|_, time| Percent::share(time.0, snapshot.interval.0.max(1)) >= SUSPECTED);
    if waited.is_empty() {
        return None;
    }
    let losses = losses(snapshot);
    let sufferer = sufferers(snapshot, Resource::Cpu).into_iter().next();
    let named = sufferer.and_then(|one| aggressor(snapshot, &losses, one.id, one.scope));
    let first = || losses.iter().max_by_key(|pair| pair.harm()).map(|pair| pair.blame);
    let pair = named.map(|one| one.most).or_else(first)?;
    let paths = vec![aggressor_path(snapshot, pair)?.clone()];
    let id = pair.aggressor;
    waited.contains_key(&id).then_some(Suspect::Cgroup { id, paths })
}

/// The cgroup to which a unit, with all cgroups in it, lost most.
pub(super) fn aggressor<'a>(
    snapshot: &Snapshot,
    losses: &[CpuLoss<'a>],
    unit: CgroupId,
    scope: &Scope,
) -> Option<Aggressor<'a>> {
    let holds = |id: CgroupId, path: Option<&CgroupPath>| {
        id == unit || path.is_some_and(|path| path.is_within(&scope.path))
    };
    let suffers = |blame: &Blame| holds(blame.victim, victim(snapshot, blame));
    let causes = |blame: &Blame| holds(blame.aggressor, aggressor_path(snapshot, blame));
    let mut sums = BTreeMap::new();
    let mut back = BTreeMap::<CgroupId, Nanos>::new();
    for pair @ CpuLoss { blame, loss } in losses {
        match (suffers(blame), causes(blame)) {
            (true, false) => {
                let (harm, _) = sums.entry(blame.aggressor).or_insert((Harm::default(), *blame));
                *harm = harm.plus(pair.harm());
            }
            (false, true) => {
                let sum = back.entry(blame.victim).or_default();
                *sum = sum.plus(*loss);
            }
            (true, true) | (false, false) => {}
        }
    }
    let most = sums.into_iter().max_by_key(|(id, (harm, _))| (*harm, Reverse(*id)));
    let (id, (harm, most)) = most?;
    Some(Aggressor { most, harm, back: back.get(&id).copied().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decision::Decision;
    use crate::model::psi::{Line, Pressure, Pressures};
    use crate::model::snapshot::{CpuWait, Waited};
    use crate::model::stall::Coverage;
    use crate::model::units::MilliCpu;
    use crate::view::headline::headline;
    use crate::view::verdict::{Mood, Verdict};

    #[test]
    fn suspect_is_whom_the_headline_names() {
        const ROOT: u64 = 9;
        let scope = |(id, path, used, ms): &(u64, &str, u64, u64)| {
            let waited = Waited { now: Nanos(ms * 1_000_000), ..Waited::default() };
            let cpu = CpuWait { wait: waited, contention: Some(waited), ..CpuWait::default() };
            let (path, cpu_usage) = (CgroupPath((*path).into()), Some(MilliCpu(*used)));
            (CgroupId(*id), Scope { path, cpu_usage, cpu: Some(cpu), ..Scope::default() })
        };
        // CPUs used in thousandths, ms waited. `b` hardly ran while eight threads of `a` waited.
        let all = [
            (2, "/a.service", 200, 900),
            (3, "/b.service", 60, 0),
            (4, "/c.slice/c.service", 300, 0),
            (5, "/d.slice", 400, 300),
        ];
        let blame = |(victim, aggressor, ms): &(u64, u64, u64)| Blame {
            victim: CgroupId(*victim),
            aggressor: CgroupId(*aggressor),
            aggressor_path: (*aggressor == ROOT).then(CgroupPath::root),
            time: Nanos(ms * 1_000_000),
            ..Blame::default()
        };
        type Row = (&'static [(u64, u64, u64)], Option<u64>, &'static str);
        #[rustfmt::skip]
        let table: [Row; 6] = [
            // sufferer, aggressor and ms, longest first; the suspect; the headline says
            (&[(2, 3, 480), (2, 4, 420)],                 Some(4), "while c.service ran"),
            (&[(2, ROOT, 700), (2, 4, 200)],              Some(ROOT), "while the root cgroup ran"),
            (&[(2, 2, 800), (2, 3, 480), (2, 4, 420)],    Some(4), "while c.service ran"), // not its own tasks
            (&[(5, 3, 300)],                              Some(3), "a.service waits most"), // a slice is no unit
            (&[(2, 4, 49)],                               None,    "while c.service ran"), // not for long
            (&[],                                         None,    "a.service waits most"),
        ];
        for (pairs, want, says) in table {
            let snapshot = Snapshot {
                interval: Nanos::SECOND,
                whole: Scope { cpu_usage: Some(MilliCpu(1_900)), ..Scope::default() },
                scopes: all.iter().map(scope).collect(),
                aggressions: pairs.iter().map(blame).collect(),
                covers: Coverage { waits: true, ..Coverage::default() },
                ..Snapshot::default()
            };
            let got = match suspect(&snapshot) {
                Some(Suspect::Cgroup { id, .. }) => Some(id.0),
                Some(Suspect::Machine) => panic!("{pairs:?}: waits are measured"),
                None => None,
            };
            assert_eq!(got, want, "{pairs:?}");
            let cpu = Verdict {
                resource: Resource::Cpu,
                mood: Mood::Pressed,
                is_short: false,
                text: String::new(),
            };
            let told = headline(&snapshot, &[cpu], &Decision::default(), &[]).text;
            assert!(told.contains(says), "{pairs:?}: {told}");
        }
    }

    #[test]
    fn suspect_without_waits_is_the_machine() {
        #[rustfmt::skip]
        let table = [
            // raw PSI CPU some avg10, waits are measured, cgroups, the machine is suspected
            (Some(4_99),  false, 1, false),
            (Some(5_00),  false, 1, true),
            (Some(86_00), true,  1, false),
            (Some(86_00), true,  0, true), // all tasks are in the root
            (Some(4_99),  true,  0, false),
            (None,        false, 1, false),
        ];
        for (raw, waits, n_cgroups, want) in table {
            let line = |avg10| Line { avg10: Percent(avg10), ..Line::default() };
            let cpu = raw.map(|raw| Pressure { some: Some(line(raw)), full: None });
            let pressure = Pressures { cpu, ..Pressures::default() };
            let whole = Scope { pressure, ..Scope::default() };
            let covers = Coverage { waits, ..Coverage::default() };
            let scopes = (0..n_cgroups).map(|id| (CgroupId(id), Scope::default())).collect();
            let snapshot = Snapshot { whole, covers, scopes, ..Snapshot::default() };
            let want = want.then_some(Suspect::Machine);
            assert_eq!(suspect(&snapshot), want, "{raw:?} {waits} {n_cgroups}");
        }
    }
}
