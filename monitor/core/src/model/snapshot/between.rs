//! Makes a `Snapshot` from two samples. Cannot fail: what cannot be compared is `None`, and
//! impossible values are clamped and counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::averages::Averages;
use super::counters::Tables;
use super::delta::Deltas;
use super::{Along, Blame, Doubts, IoRate, Scope, Snapshot, blame, stalls};
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use crate::model::kills::{self, Cgroups};
use crate::model::places::Places;
use crate::model::pod::Place;
use crate::model::request;
use crate::model::sample::Sample;
use crate::model::stall::{Coverage, GroupStall, KernelStalls};
use crate::model::units::{Nanos, Percent};
use crate::model::workload::{Pod, by_cgroup_uid};

impl Snapshot {
    /// The difference from `prev` to `next`. Without `prev`, or if the boot clock did not advance,
    /// it has the readings of `next` but no rates.
    pub fn between(prev: Option<&Sample>, next: &Sample, averages: &mut Averages) -> Self {
        let interval = elapsed(prev, next, averages);
        averages.keep_only(&next.cgroups);
        let n_cpus = most_cpus(next, averages);
        let pair = prev.filter(|_| interval > Nanos(0));
        let pair = pair.map(|prev| Pair::new(prev, next, interval, n_cpus));
        let pair = pair.as_ref();

        let whole = whole(next, pair, averages);
        let places = next.places();
        let pods = next.pods.as_ref().map(by_cgroup_uid).unwrap_or_default();
        let below_root = next.cgroups.iter().filter(|(_, cgroup)| !cgroup.path.is_root());
        // In one piece: a scope is large, and a map is made of a list of them anyway.
        let mut scopes = Vec::with_capacity(next.cgroups.len());
        let mut beside = pair.map(Beside::of);
        scopes.extend(below_root.map(|(&id, cgroup)| {
            let pair = pair.zip(beside.as_mut());
            (id, scope(id, cgroup, (&places, &pods), pair, averages))
        }));
        let scopes = scopes.into_iter().collect();
        let aggressions = pair.map(aggressions);
        let kernel = next.kernel.as_ref();
        let before = prev.map(Cgroups::from);
        Self {
            tick: next.tick,
            at: next.at,
            interval,
            node: next.node.clone(),
            whole,
            scopes,
            aggressions: aggressions.unwrap_or_default(),
            runners: next.runners.clone(),
            oom_kills: kills::told(before, next.into()),
            covers: kernel.map(|kernel| covers(pair, kernel)).unwrap_or_default(),
            lost: kernel.map(|kernel| kernel.lost).unwrap_or_default(),
            gaps: next.gaps.clone(),
            pods: next.pods.clone(),
            doubts: averages.doubts,
        }
    }
}

/// What was measured in the interval. A stall that found no room in its table is in no shortage: then that
/// is a lower bound, as it is without causes.
fn covers(pair: Option<&Pair<'_>>, kernel: &KernelStalls) -> Coverage {
    let before = pair.and_then(|pair| pair.kernel).map(|(before, _)| before.lost.stalls);
    let has_all = before.is_none_or(|before| before == kernel.lost.stalls);
    Coverage { memory_causes: kernel.covers.memory_causes && has_all, ..kernel.covers }
}

/// Time between the samples by the boot clock; 0 if there is none.
fn elapsed(prev: Option<&Sample>, next: &Sample, averages: &mut Averages) -> Nanos {
    let Some(prev) = prev else { return Nanos(0) };
    let interval = next.at.boot.since(prev.at.boot);
    let wall = i128::from(next.at.wall.0) - i128::from(prev.at.wall.0);
    let apart = wall.abs_diff(i128::from(interval.0));
    if interval == Nanos(0) || apart > u128::from(Nanos::SECOND.0) {
        averages.doubts.clock_jumps += 1;
    }
    if next.at.boot < prev.at.boot {
        averages.forget_scopes();
    }
    interval
}

/// The most CPUs that were ever online: at the start, or since; 0 if unknown.
fn most_cpus(next: &Sample, averages: &mut Averages) -> u32 {
    averages.n_cpus = averages.n_cpus.max(next.node.n_cpus.unwrap_or_default());
    averages.n_cpus
}

/// Two samples that can be compared.
struct Pair<'a> {
    prev: &'a Sample,
    next: &'a Sample,
    interval: Nanos,
    /// CPUs that may have run: those online at the start, and those plugged in since.
    n_cpus: u64,
    kernel: Option<(&'a KernelStalls, &'a KernelStalls)>,
    tables: Option<(Tables<'a>, Tables<'a>)>,
}

impl<'a> Pair<'a> {
    fn new(prev: &'a Sample, next: &'a Sample, interval: Nanos, most_cpus: u32) -> Self {
        let kernel = prev.kernel.as_ref().zip(next.kernel.as_ref());
        let tables = kernel.map(|(prev, next)| {
            let before = prev.lost;
            (Tables::new(prev, before), Tables::new(next, before))
        });
        let cpus = kernel.map_or(&[][..], |(_, after)| &after.cpus);
        let seen = cpus.iter().filter(|cpu| cpu.switches > 0).count();
        let n_cpus = u64::from(most_cpus).max(seen as u64);
        Self { prev, next, interval, n_cpus, kernel, tables }
    }

    fn deltas<'d>(&self, doubts: &'d mut Doubts) -> Deltas<'d> {
        let (until, interval) = (self.next.at.boot, self.interval);
        let (window, reread) = (self.window(), self.reread());
        Deltas { until, interval, window, reread, doubts }
    }

    /// Time between the two readings of the pressure files, if there are two.
    fn reread(&self) -> Option<Nanos> {
        let before = self.prev.node.pressure_read.unwrap_or(self.prev.at.boot);
        let is_again = self.next.node.pressure_read.is_none();
        is_again.then(|| self.next.at.boot.since(before))
    }

    fn io(&self, before: &Cgroup, after: &Cgroup) -> Option<IoRate> {
        IoRate::between(before.io?, after.io?, self.interval)
    }

    /// Time between the two readings of the eBPF maps, by the clock of their unions. An agent that
    /// lost the CPU between the start of a sample and that reading would otherwise get two shares
    /// wrong.
    fn window(&self) -> Nanos {
        let Some((before, after)) = self.kernel else { return self.interval };
        let window = after.clock.since(before.clock);
        // A clock that stops or jumps measures nothing.
        let sound = window > Nanos(0) && window <= self.interval.plus(Nanos::SECOND);
        if sound { window } else { self.interval }
    }
}

/// What is known of each cgroup beside the sample itself, in the same order.
struct Beside<'a> {
    cgroups: Along<'a, CgroupId, Arc<Cgroup>>,
    /// Waits that the eBPF programs had counted before, and have counted now.
    waits: Option<(Waits<'a>, Waits<'a>)>,
}

type Waits<'a> = Along<'a, CgroupId, Arc<GroupStall>>;

impl<'a> Beside<'a> {
    fn of(pair: &Pair<'a>) -> Self {
        let waits =
            pair.kernel.map(|(prev, next)| (Along::of(&prev.groups), Along::of(&next.groups)));
        Self { cgroups: Along::of(&pair.prev.cgroups), waits }
    }
}

/// The node: its own files, the unions of its CPUs, the task time of the root cgroup.
fn whole(next: &Sample, pair: Option<&Pair<'_>>, averages: &mut Averages) -> Scope {
    let mut scope = Scope {
        path: CgroupPath::root(),
        place: Place::Node,
        pressure: next.node.pressure,
        ..Scope::default()
    };
    let Some(pair) = pair else { return scope };
    let before = &pair.prev.node;
    let (doubts, meters) = averages.node();
    let deltas = &mut pair.deltas(doubts);
    scope.disk_stalled = deltas.pressures(&before.pressure, &next.node.pressure);
    if let Some((before, after)) = before.cpu.zip(next.node.cpu) {
        scope.cpu_usage = Some(deltas.cpu_usage(before.busy, after.busy, pair.n_cpus));
        // Both count from the machine's start; one that moves to another host may count anew.
        let [stolen, busy] = [(before.steal, after.steal), (before.busy, after.busy)]
            .map(|(before, after)| after.since(before).0);
        let share = Percent::share(stolen, stolen.saturating_add(busy).max(1));
        scope.stolen = Some(share).filter(|share| *share > Percent(0));
    }
    let root = next.cgroups.iter().find(|(_, cgroup)| cgroup.path.is_root());
    let files = root.and_then(|(id, after)| Some((pair.prev.cgroups.get(id)?, after)));
    scope.io = files.and_then(|(before, after)| pair.io(before, after));
    if let Some((before, after)) = &pair.tables {
        let root = root.map(|(&id, _)| id);
        stalls::fill(&mut scope, before.node(root), after.node(root), None, deltas, meters);
    }
    scope
}

/// One cgroup. A path that was removed and created again has a new id, so it has no `before`.
fn scope(
    id: CgroupId,
    cgroup: &Arc<Cgroup>,
    (places, pods): (&Places<'_>, &BTreeMap<&str, &Pod>),
    pair: Option<(&Pair<'_>, &mut Beside<'_>)>,
    averages: &mut Averages,
) -> Scope {
    let place = match places.is_trusted(&cgroup.path) {
        true => averages.place_of(id, &cgroup.path),
        false => Place::Other,
    };
    let mut scope = Scope {
        path: cgroup.path.clone(),
        cpu_request: request::cpu_at(&place, pods),
        place,
        parent: cgroup.parent,
        pressure: cgroup.pressure,
        files: Some(Arc::clone(cgroup)),
        ..Scope::default()
    };
    let Some((pair, beside)) = pair else { return scope };
    let Some(before) = beside.cgroups.get(&id) else { return scope };
    let (doubts, meters) = averages.group(id);
    let deltas = &mut pair.deltas(doubts);
    scope.disk_stalled = deltas.pressures(&before.pressure, &cgroup.pressure);
    if let Some((before, after)) = before.cpu.usage.zip(cgroup.cpu.usage) {
        scope.cpu_usage = Some(deltas.cpu_usage(before.into(), after.into(), pair.n_cpus));
    }
    scope.io = pair.io(before, cgroup);
    scope.is_at_io_limit = IoRate::is_at_limit(before, cgroup, pair.interval);
    if let Some(((earlier, later), (waited, waits))) =
        pair.tables.as_ref().zip(beside.waits.as_mut())
    {
        let before = earlier.group(waited.get(&id), before);
        let after = later.group(waits.get(&id), cgroup);
        let request = scope.cpu_request;
        stalls::fill(&mut scope, before, after, request, deltas, meters);
    }
    scope
}

fn aggressions(pair: &Pair<'_>) -> Vec<Blame> {
    let Some((before, after)) = pair.kernel else { return Vec::new() };
    if !(before.covers.waits && after.covers.waits) {
        return Vec::new();
    }
    blame::aggressions((pair.prev, before), (pair.next, after))
}
