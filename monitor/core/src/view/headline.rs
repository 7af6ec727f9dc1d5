//! One sentence for an operator who was woken by an alert: who waits, why, and because of whom.
//! Computed at every tick, so its cost is linear in cgroups plus aggressions.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::OomRecord;
use super::cpu_loss::{CpuLoss, Harm, losses};
use super::foresight::OomLimit;
use super::verdict::{Mood, Resource, Verdict, cause_words};
use super::waiting::{Level, root_name, short_name, weight, with_busiest};
use crate::model::cgroup::{CgroupId, CgroupPath, Limit};
use crate::model::condition::{self, Status};
use crate::model::decision::Decision;
use crate::model::snapshot::{Blame, Scope, Snapshot};
use crate::model::units::{Bytes, Nanos};
use crate::policy::explain::{self, relief};

/// Who waits for less than such a part of the time is not worth a name: the average is of the past.
const FEW: u64 = 100;
/// For so long an OOM kill is told.
const RECENT: Nanos = Nanos(60 * Nanos::SECOND.0);

/// An OOM kill of the last minute, and then the resource with the worst verdict: one that is pressed,
/// or of which a condition is True, before one that waits; memory before CPU before IO, because who
/// reclaims memory takes CPUs and disks for it. Memory that is running out is told before any
/// pressure: it is short before any work waits for it. `kills` are newest first.
pub fn headline(
    snapshot: &Snapshot,
    verdicts: &[Verdict],
    decision: &Decision,
    kills: &[OomRecord],
) -> String {
    let state = state(snapshot, verdicts, decision);
    let is_recent = |kill: &&OomRecord| snapshot.at.wall.since(kill.wall) <= RECENT;
    let n_recent = kills.iter().take_while(is_recent).count();
    match kills.first().filter(|_| n_recent > 0) {
        Some(last) => format!("{} {state}", killed(last, n_recent - 1, snapshot)),
        None => state,
    }
}

fn killed(last: &OomRecord, n_before: usize, snapshot: &Snapshot) -> String {
    let path = || Some(last.victim_path.as_ref()?.segments().next_back()?.to_owned());
    let known = snapshot.scopes.get(&last.kill.victim).map(short_name);
    let victim = last.victim.clone().or(known).or_else(path);
    let limit = last.kill.limit.and_then(|id| snapshot.scopes.get(&id)?.files.as_ref()?.memory.max);
    let why = match (OomLimit::of(&last.kill, snapshot), limit) {
        (OomLimit::Node, _) => "the node was out of memory".into(),
        (OomLimit::Kubepods, _) => "the limit of all pods was reached".into(),
        (OomLimit::Own, Some(Limit::At(limit))) => {
            format!("its own limit of {} was reached, not the node's", Bytes(limit))
        }
        (OomLimit::Own, _) => "a limit of its own was reached, not the node's".to_owned(),
        (OomLimit::Unknown, _) => "at which limit is not known".into(),
    };
    let ago = snapshot.at.wall.since(last.wall).0 / Nanos::SECOND.0;
    let more = match n_before {
        0 => String::new(),
        n => format!(", after {n} more within a minute"),
    };
    format!(
        "OOM kill {ago}s ago{more}: process {} of {}; {why}.",
        last.kill.victim_pid,
        victim.as_deref().unwrap_or("a cgroup that is gone"),
    )
}

fn state(snapshot: &Snapshot, verdicts: &[Verdict], decision: &Decision) -> String {
    if let Some(ranking) = decision.ranking.as_ref().filter(|ranking| ranking.loss.is_some()) {
        let told = match decision.loss() {
            Some(loss) => (loss.lost > Bytes(0)).then(|| explain::lost(loss)),
            None => decision.relief.held.as_ref().map(|hold| relief::held(hold, decision.at.boot)),
        };
        if let Some(told) = told {
            return format!("Short of memory ({}): {told}.", ranking.signal);
        }
    }
    let resources = [Resource::Memory, Resource::Cpu, Resource::Io];
    let verdict_on = |of: Resource| verdicts.iter().find(|verdict| verdict.resource == of);
    let waits: Vec<_> = resources
        .into_iter()
        .filter_map(verdict_on)
        .filter(|verdict| matches!(verdict.mood, Mood::Pressed | Mood::Waits))
        .collect();
    let is_high = |verdict: &Verdict| {
        let of = match verdict.resource {
            Resource::Cpu => condition::Resource::Cpu,
            Resource::Memory => condition::Resource::Memory,
            Resource::Io => condition::Resource::Disk,
        };
        let mut conditions = decision.assessment.conditions.iter();
        verdict.mood == Mood::Pressed
            || conditions.any(|one| one.status == Status::True && one.name.resource == of)
    };
    let high = waits.iter().find(|verdict| is_high(verdict));
    match high.or(waits.first()) {
        Some(Verdict { resource, .. }) => {
            let what = match resource {
                Resource::Cpu => "CPU",
                Resource::Memory => "memory",
                Resource::Io => "IO",
            };
            let strength = if high.is_some() { "High" } else { "Some" };
            format!("{strength} {what} pressure. {}", sufferer(snapshot, *resource))
        }
        None if verdicts.iter().all(|verdict| verdict.mood == Mood::Unknown) => {
            "Pressure is unknown: no pressure file could be read.".into()
        }
        None => "No significant pressure.".into(),
    }
}

/// Who waits most, and because of whom.
fn sufferer(snapshot: &Snapshot, resource: Resource) -> String {
    let losses = match resource {
        Resource::Cpu => losses(snapshot),
        Resource::Memory | Resource::Io => Vec::new(),
    };
    let (own, lost) = match resource {
        Resource::Cpu => (own_waits(snapshot), lost(snapshot, &losses)),
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
    let waiting = units.filter_map(|(id, scope)| Some((*id, scope, time(id, scope)?)));
    let most = waiting.filter(|(_, _, time)| *time > Nanos(0)).max_by_key(|(id, scope, time)| {
        (lost.get(id).copied().unwrap_or_default(), *time, weight(scope), Reverse(*id))
    });
    let Some((id, scope, time)) = most else {
        return "Which pod or service waits was not measured.".into();
    };
    if time < Nanos(snapshot.interval.0 / FEW) {
        let now = millis(time, snapshot).max(1);
        return format!(
            "It is easing: of late no pod or service waits for more than {now} ms per second."
        );
    }
    // As the lists of who lost to whom have it: waits are summed over tasks.
    let what = match millis(lost.get(&id).copied().unwrap_or_default(), snapshot) {
        0 => format!("waits most: {} ms", millis(time, snapshot)),
        lost => format!("loses most by waiting: {lost} ms"),
    };
    let who = format!("{} {what} per second", short_name(scope));
    let why = match resource {
        Resource::Cpu => {
            aggressor(snapshot, &losses, id, scope).map(|name| format!("mostly while {name} ran"))
        }
        Resource::Memory => cause(scope).map(|cause| format!("mostly because of {cause}")),
        Resource::Io => None,
    };
    why.map_or_else(|| format!("{who}."), |why| format!("{who}, {why}."))
}

/// For each unit, how long its tasks waited for other tasks of the same unit.
fn own_waits(snapshot: &Snapshot) -> BTreeMap<CgroupId, Nanos> {
    let pairs = snapshot.aggressions.iter().map(|pair| (pair, pair.time));
    by_unit(snapshot, pairs, |unit, aggressor| is_below(aggressor, unit))
}

/// For each unit, what it lost because others ran.
fn lost(snapshot: &Snapshot, losses: &[CpuLoss<'_>]) -> BTreeMap<CgroupId, Nanos> {
    let pairs = losses.iter().map(|CpuLoss { blame, loss }| (*blame, *loss));
    by_unit(snapshot, pairs, |unit, aggressor| !is_below(aggressor, unit))
}

/// Sums over the pairs whose sufferer is in a unit, and whose aggressor `counts` for it.
fn by_unit<'a>(
    snapshot: &Snapshot,
    pairs: impl Iterator<Item = (&'a Blame, Nanos)>,
    counts: impl Fn(&str, &CgroupPath) -> bool,
) -> BTreeMap<CgroupId, Nanos> {
    let units = snapshot.scopes.iter().filter(|(_, scope)| Level::Units.shows(scope));
    let by_path: BTreeMap<&str, CgroupId> =
        units.map(|(id, scope)| (&*scope.path.0, *id)).collect();
    let mut sums = BTreeMap::<CgroupId, Nanos>::new();
    for (pair, time) in pairs {
        let (Some(victim), Some(aggressor)) =
            (victim(snapshot, pair), aggressor_path(snapshot, pair))
        else {
            continue;
        };
        let ends = victim.0.match_indices('/').map(|(end, _)| end).chain([victim.0.len()]);
        let above = ends.filter_map(|end| by_path.get_key_value(&victim.0[..end]));
        for (_, id) in above.filter(|(unit, _)| counts(unit, aggressor)) {
            let sum = sums.entry(*id).or_default();
            *sum = sum.plus(time);
        }
    }
    sums
}

fn victim<'a>(snapshot: &'a Snapshot, blame: &'a Blame) -> Option<&'a CgroupPath> {
    let scope = snapshot.scopes.get(&blame.victim);
    scope.map(|scope| &scope.path).or(blame.victim_path.as_ref())
}

fn aggressor_path<'a>(snapshot: &'a Snapshot, blame: &'a Blame) -> Option<&'a CgroupPath> {
    let scope = snapshot.scopes.get(&blame.aggressor);
    scope.map(|scope| &scope.path).or(blame.aggressor_path.as_ref())
}

/// True for the cgroup `unit` and every cgroup below it.
fn is_below(path: &CgroupPath, unit: &str) -> bool {
    path.0.strip_prefix(unit).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The cgroup to which a unit, with all cgroups in it, lost most.
fn aggressor(
    snapshot: &Snapshot,
    losses: &[CpuLoss<'_>],
    unit: CgroupId,
    scope: &Scope,
) -> Option<String> {
    let holds = |id: CgroupId, path: Option<&CgroupPath>| {
        id == unit || path.is_some_and(|path| is_below(path, &scope.path.0))
    };
    let mut sums = BTreeMap::new();
    for pair @ CpuLoss { blame, .. } in losses {
        if holds(blame.victim, victim(snapshot, blame))
            && !holds(blame.aggressor, aggressor_path(snapshot, blame))
        {
            let (harm, _) = sums.entry(blame.aggressor).or_insert((Harm::default(), *blame));
            *harm = harm.plus(pair.harm());
        }
    }
    let most = sums.into_iter().max_by_key(|(id, (harm, _))| (*harm, Reverse(*id)));
    let (id, (_, most)) = most?;
    let known = snapshot.scopes.get(&id);
    let known = known.map(|scope| with_busiest(short_name(scope), Some(id), snapshot));
    // Without a scope: a cgroup that is gone, or the root, where kernel threads run.
    known.or_else(|| match most.aggressor_path.as_ref()? {
        path if path.is_root() => Some(root_name(snapshot)),
        path => Some(path.to_string()),
    })
}

fn cause(scope: &Scope) -> Option<&'static str> {
    let causes = &scope.memory.as_ref()?.causes;
    let (cause, _) = causes.iter().max_by_key(|(_, wait)| wait.time.now)?;
    Some(cause_words(*cause))
}

fn millis(time: Nanos, snapshot: &Snapshot) -> u64 {
    let interval = snapshot.interval.0.max(1);
    let nanos = u128::from(time.0) * u128::from(Nanos::SECOND.0) / u128::from(interval);
    u64::try_from(nanos / 1_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
