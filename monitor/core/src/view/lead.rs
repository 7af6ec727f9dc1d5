//! By what the headline ranks, and in which order: lists beside it begin with whom it names.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::View;
use super::cpu_loss::{CpuLoss, losses};
use super::verdict::{Mood, Resource, Verdict};
use super::waiting::{Level, waiting_most, weight};
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::condition::{self, Status};
use crate::model::decision::Decision;
use crate::model::snapshot::{Blame, Scope, Snapshot};
use crate::model::units::{Bytes, Nanos, Percent};

/// What the headline ranks pods and services by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// Memory that they took of what was lost, in bytes.
    Took,
    /// What they lost by waiting for a CPU while others ran, in nanoseconds per second.
    Lost,
    /// How long they waited for memory, in nanoseconds per second.
    MemoryWait,
    /// How long they waited for IO, in nanoseconds per second.
    IoWait,
}

/// What the headline ranks by, and the figures of pods and services, those first that it names
/// first. While nothing is short it ranks by nothing: then the figures are what was lost by waiting
/// for CPUs, and those come first that wait most.
pub fn lead(view: &View) -> (Lead, Vec<(CgroupId, u64)>) {
    let View { snapshot, verdict, decision, .. } = view;
    if let Some(loss) = decision.loss().filter(|loss| loss.lost > Bytes(0)) {
        let id = |path: &CgroupPath| {
            snapshot.scopes.iter().find(|(_, scope)| scope.path == *path).map(|(id, _)| *id)
        };
        let takers = loss.takers.iter();
        return (
            Lead::Took,
            takers.filter_map(|one| Some((id(&one.path)?, one.taken.0))).collect(),
        );
    }
    let Some(resource) = about(verdict, decision).0.first().copied() else {
        let lost = lost(snapshot, &units(snapshot), &losses(snapshot));
        let figure = |id| per_second(lost.get(&id).copied().unwrap_or_default(), snapshot).0;
        let waiting = waiting_most(snapshot, Level::Units, usize::MAX).into_iter();
        return (Lead::Lost, waiting.map(|(id, _)| (id, figure(id))).collect());
    };
    let (lead, time): (_, fn(&Sufferer<'_>) -> Nanos) = match resource {
        Resource::Cpu => (Lead::Lost, |one| one.lost),
        Resource::Memory => (Lead::MemoryWait, |one| one.time),
        Resource::Io => (Lead::IoWait, |one| one.time),
    };
    let sufferers = sufferers(snapshot, resource).into_iter();
    (lead, sufferers.map(|one| (one.id, per_second(time(&one), snapshot).0)).collect())
}

/// What comes to a time in an interval, of a second.
pub(super) fn per_second(time: Nanos, snapshot: &Snapshot) -> Nanos {
    let interval = u128::from(snapshot.interval.0.max(1));
    let nanos = u128::from(time.0) * u128::from(Nanos::SECOND.0) / interval;
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The resources of which the headline tells, the worst first, and whether they are high: all that
/// are, or the first in which work waits. Memory is before CPU before IO.
pub(super) fn about(verdicts: &[Verdict], decision: &Decision) -> (Vec<Resource>, bool) {
    let resources = [Resource::Memory, Resource::Cpu, Resource::Io];
    let verdict_on = |of: Resource| verdicts.iter().find(|verdict| verdict.resource == of);
    let waits = resources
        .into_iter()
        .filter_map(verdict_on)
        .filter(|verdict| matches!(verdict.mood, Mood::Pressed | Mood::Waits));
    let is_high = |verdict: &&Verdict| {
        let of = match verdict.resource {
            Resource::Cpu => condition::Resource::Cpu,
            Resource::Memory => condition::Resource::Memory,
            Resource::Io => condition::Resource::Disk,
        };
        let mut conditions = decision.assessment.conditions.iter();
        verdict.mood == Mood::Pressed
            || conditions.any(|one| one.status == Status::True && one.name.resource == of)
    };
    let high: Vec<_> = waits.clone().filter(is_high).map(|verdict| verdict.resource).collect();
    if high.is_empty() {
        return (waits.map(|verdict| verdict.resource).take(1).collect(), false);
    }
    (high, true)
}

/// A pod or service that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sufferer<'a> {
    pub(super) id: CgroupId,
    pub(super) scope: &'a Scope,
    /// What it lost because others ran; 0 but for CPU.
    pub(super) lost: Nanos,
    /// How long it waited in the interval, but for its own tasks.
    pub(super) time: Nanos,
    /// The part of it that is not known to be for a limit of its own.
    pub(super) beyond_limits: Nanos,
}

/// Who waits for a resource, those first that lost most, and of equals those that waited longest for what is
/// no limit of their own.
pub(super) fn sufferers(snapshot: &Snapshot, resource: Resource) -> Vec<Sufferer<'_>> {
    let (own, lost) = match resource {
        Resource::Cpu => {
            let units = units(snapshot);
            (own_waits(snapshot, &units), lost(snapshot, &units, &losses(snapshot)))
        }
        Resource::Memory | Resource::Io => Default::default(),
    };
    let time = |id: &CgroupId, scope: &Scope| match resource {
        // Ten threads that wait for each other are not held up by another unit.
        Resource::Cpu => {
            let contention = scope.cpu.as_ref()?.contention?.now;
            Some(contention.since(own.get(id).copied().unwrap_or_default()))
        }
        Resource::Memory => scope.memory.as_ref().map(|memory| memory.any.now),
        Resource::Io => scope.io_wait.map(|io| io.now),
    };
    let units = snapshot.scopes.iter().filter(|(_, scope)| Level::Units.shows(scope));
    let waiting = units.filter_map(|(id, scope)| {
        let lost = lost.get(id).copied().unwrap_or_default();
        let time = time(id, scope)?;
        let at_limits = match resource {
            Resource::Memory => scope.stalled_at_limits(),
            Resource::Cpu | Resource::Io => Nanos(0),
        };
        Some(Sufferer { id: *id, scope, lost, time, beyond_limits: time.since(at_limits) })
    });
    let mut waiting: Vec<_> = waiting.filter(|one| one.time > Nanos(0)).collect();
    let key = |one: &Sufferer<'_>| -> (Nanos, Nanos, Nanos, (Percent, Nanos)) {
        (one.lost, one.beyond_limits, one.time, weight(one.scope))
    };
    waiting.sort_unstable_by_key(|one| (Reverse(key(one)), one.id));
    waiting
}

/// Pods and services by path.
type Units<'a> = BTreeMap<&'a str, CgroupId>;

fn units(snapshot: &Snapshot) -> Units<'_> {
    let units = snapshot.scopes.iter().filter(|(_, scope)| Level::Units.shows(scope));
    units.map(|(id, scope)| (&*scope.path.0, *id)).collect()
}

/// For each unit, how long its tasks waited for other tasks of the same unit.
fn own_waits(snapshot: &Snapshot, units: &Units<'_>) -> BTreeMap<CgroupId, Nanos> {
    let pairs = snapshot.aggressions.iter().map(|pair| (pair, pair.time));
    by_unit(snapshot, units, pairs, |unit, aggressor| is_below(aggressor, unit))
}

/// For each unit, what it lost because others ran.
fn lost(
    snapshot: &Snapshot,
    units: &Units<'_>,
    losses: &[CpuLoss<'_>],
) -> BTreeMap<CgroupId, Nanos> {
    let pairs = losses.iter().map(|CpuLoss { blame, loss }| (*blame, *loss));
    by_unit(snapshot, units, pairs, |unit, aggressor| !is_below(aggressor, unit))
}

/// Sums over the pairs whose sufferer is in a unit, and whose aggressor `counts` for it.
fn by_unit<'a>(
    snapshot: &Snapshot,
    units: &Units<'_>,
    pairs: impl Iterator<Item = (&'a Blame, Nanos)>,
    counts: impl Fn(&str, &CgroupPath) -> bool,
) -> BTreeMap<CgroupId, Nanos> {
    let mut sums = BTreeMap::<CgroupId, Nanos>::new();
    for (pair, time) in pairs {
        let (Some(victim), Some(aggressor)) =
            (victim(snapshot, pair), aggressor_path(snapshot, pair))
        else {
            continue;
        };
        let ends = victim.0.match_indices('/').map(|(end, _)| end).chain([victim.0.len()]);
        let above = ends.filter_map(|end| units.get_key_value(&victim.0[..end]));
        for (_, id) in above.filter(|(unit, _)| counts(unit, aggressor)) {
            let sum = sums.entry(*id).or_default();
            *sum = sum.plus(time);
        }
    }
    sums
}

pub(super) fn victim<'a>(snapshot: &'a Snapshot, blame: &'a Blame) -> Option<&'a CgroupPath> {
    let scope = snapshot.scopes.get(&blame.victim);
    scope.map(|scope| &scope.path).or(blame.victim_path.as_ref())
}

pub(super) fn aggressor_path<'a>(
    snapshot: &'a Snapshot,
    blame: &'a Blame,
) -> Option<&'a CgroupPath> {
    let scope = snapshot.scopes.get(&blame.aggressor);
    scope.map(|scope| &scope.path).or(blame.aggressor_path.as_ref())
}

/// True for the cgroup `unit` and every cgroup below it.
fn is_below(path: &CgroupPath, unit: &str) -> bool {
    path.0.strip_prefix(unit).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decision::{Loss, Taker};
    use crate::model::snapshot::{CpuWait, MemoryWait, Union, Waited};
    use crate::model::units::MilliCpu;
    use crate::view::headline::headline;
    use crate::view::headline::tests::ranking;

    /// Four services: `a` waits most often, `b` loses most CPU, `c` waits longest for memory, `d`
    /// takes it.
    fn node() -> View {
        let waited = |ms: u64| Waited { now: Nanos(ms * 1_000_000), ..Waited::default() };
        let scope = |name: &str, share: u16, cpu: u64, memory: u64| Scope {
            path: CgroupPath(format!("/{name}.service").into()),
            cpu_usage: Some(MilliCpu(500)),
            cpu: Some(CpuWait {
                wait: waited(cpu),
                contention: Some(waited(cpu)),
                ..CpuWait::default()
            }),
            contention: Some(Union { avg10: Percent(share), ..Union::default() }),
            memory: Some(MemoryWait { any: waited(memory), ..MemoryWait::default() }),
            ..Scope::default()
        };
        let scopes = [
            (CgroupId(1), scope("a", 90_00, 100, 10)),
            (CgroupId(2), scope("b", 50_00, 400, 20)),
            (CgroupId(3), scope("c", 10_00, 0, 300)),
            (CgroupId(4), scope("d", 0, 0, 0)),
        ];
        let blame = |victim, ms: u64| Blame {
            victim: CgroupId(victim),
            aggressor: CgroupId(4),
            time: Nanos(ms * 1_000_000),
            ..Blame::default()
        };
        let aggressions = vec![blame(2, 400), blame(1, 100)];
        let interval = Nanos(Nanos::SECOND.0 / 2);
        let scopes = scopes.into();
        let snapshot = Snapshot { interval, scopes, aggressions, ..Snapshot::default() };
        View { snapshot, ..View::default() }
    }

    /// What is lost, and that `d` took all of it.
    fn short() -> Decision {
        let path = CgroupPath("/d.service".into());
        let taker = Taker { uid: path.0.to_string(), path, taken: Bytes(700), ..Taker::default() };
        let (lost, over) = (Bytes(700), Nanos::SECOND);
        let loss = Loss { lost, over, takers: vec![taker], unattributed: Bytes(0) };
        Decision { ranking: Some(ranking(loss)), ..Decision::default() }
    }

    #[test]
    fn lead_begins_with_whom_the_headline_names() {
        use {Mood::*, Resource::*};
        #[rustfmt::skip]
        let table = [
            // CPU, memory, decision, by what, the first and its figure, the headline
            (Pressed, Calm,    Decision::default(), Lead::Lost,       2, 192_307_692, "b.service loses most"),
            (Pressed, Pressed, Decision::default(), Lead::MemoryWait, 3, 600_000_000, "c.service waits most: 600 ms"),
            (Pressed, Pressed, short(),             Lead::Took,       4, 700,         "/d.service took 700"),
            (Calm,    Calm,    Decision::default(), Lead::Lost,       1, 57_142_856,  "No significant"),
        ];
        for (cpu, memory, decision, by, first, figure, says) in table {
            let of =
                |resource, mood| Verdict { resource, mood, is_short: false, text: String::new() };
            let verdict = vec![of(Cpu, cpu), of(Memory, memory)];
            let view = View { verdict, decision, ..node() };
            let (what, figures) = lead(&view);
            assert_eq!((what, figures[0]), (by, (CgroupId(first), figure)), "{cpu:?} {memory:?}");
            let told = headline(&view.snapshot, &view.verdict, &view.decision, &[]).text;
            assert!(told.contains(says), "{told}");
        }
    }
}
