//! One sentence for an operator who was woken by an alert: who waits, why, and because of whom.
//! Computed at every tick, so its cost is linear in cgroups plus aggressions.

use super::OomRecord;
use super::aggressor::{Aggressor, aggressor};
use super::cpu_loss::{is_mutual, losses};
use super::foresight::OomLimit;
use super::lead::{Sufferer, about, per_second, sufferers};
use super::verdict::{Mood, Resource, Verdict, cause_words};
use super::waiting::{busiest_of_machine, growing, largest, root_name, short_name, with_busiest};
use super::{holders, movers};
use crate::model::cgroup::Limit;
use crate::model::decision::Decision;
use crate::model::snapshot::{Blame, Scope, Snapshot};
use crate::model::threshold;
use crate::model::units::{Bytes, Nanos};
use crate::policy::explain::{self, relief};

/// Who waits for less than such a part of the time is not worth a name: the average is of the past.
const FEW: u64 = 100;
/// For so long an OOM kill is told.
const RECENT: Nanos = Nanos(60 * Nanos::SECOND.0);

/// An OOM kill of the last minute, and then the resources that are pressed, or of which a condition is
/// True, else the first that waits; memory before CPU before IO, because who reclaims memory takes CPUs
/// and disks for it. Who waits is told of the first. Memory that is running out is told before any
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
    let (resources, is_high) = about(verdicts, decision);
    if let Some(ranking) = decision.ranking.as_ref().filter(|ranking| ranking.loss.is_some()) {
        let told = match decision.loss() {
            Some(loss) => (loss.lost > Bytes(0)).then(|| explain::lost(loss)),
            None => decision.relief.held.as_ref().map(|hold| relief::held(hold, decision.at.boot)),
        };
        if let Some(told) = told {
            let process = taking_process(snapshot, decision);
            let process = process.map_or_else(String::new, |one| format!(" Most of all {one}."));
            let others = others(&resources, is_high);
            return format!("Short of memory ({}): {told}.{process}{others}", ranking.signal);
        }
    }
    let met = decision.assessment.met.first();
    let is_short = met.is_some_and(|met| met.threshold.resource() == threshold::Resource::Memory);
    let who_holds = || holders::told(snapshot).map_or_else(String::new, |told| format!(" {told}"));
    match (resources.first().copied(), met) {
        // In its grace period, when nothing is ranked yet.
        (None | Some(Resource::Cpu | Resource::Io), Some(met)) if is_short => {
            let met = explain::met_sentence(met, decision.at.boot);
            let others = others(&resources, is_high);
            format!("Memory runs short: {met}.{}{others}", who_holds())
        }
        (Some(resource), _) => {
            let what = joined(&resources);
            let strength = if is_high { "High" } else { "Some" };
            let who_uses = match resource {
                Resource::Cpu => String::new(),
                Resource::Memory => who_holds(),
                Resource::Io => {
                    movers::told(snapshot).map_or_else(String::new, |told| format!(" {told}"))
                }
            };
            format!("{strength} {what} pressure. {}{who_uses}", sufferer(snapshot, resource))
        }
        (None, Some(met)) => {
            format!(
                "No significant pressure, but {}.",
                explain::met_sentence(met, decision.at.boot)
            )
        }
        (None, None) if verdicts.iter().all(|verdict| verdict.mood == Mood::Unknown) => {
            "Pressure is unknown: no pressure file could be read.".into()
        }
        (None, None) => "No significant pressure.".into(),
    }
}

/// What is high beside memory, where a shortage of it is told.
fn others(resources: &[Resource], is_high: bool) -> String {
    let others: Vec<_> =
        resources.iter().filter(|one| **one != Resource::Memory).copied().collect();
    match others.len() {
        0 => String::new(),
        _ if !is_high => String::new(),
        1 => format!(" {} pressure is high, too.", joined(&others)),
        _ => format!(" {} pressure are high, too.", joined(&others)),
    }
}

/// `memory, CPU and IO`.
fn joined(resources: &[Resource]) -> String {
    let word = |resource: &Resource| match resource {
        Resource::Cpu => "CPU",
        Resource::Memory => "memory",
        Resource::Io => "IO",
    };
    let words: Vec<_> = resources.iter().map(word).collect();
    match &*words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => words.concat(),
    }
}

/// The process that took most memory: of the first taker or, where most belongs to no cgroup, of the
/// root cgroup or the machine.
#[must_use]
pub fn taking_process(snapshot: &Snapshot, decision: &Decision) -> Option<String> {
    let loss = decision.loss();
    if let Some(loss) = loss.filter(|loss| loss.is_of_no_cgroup()) {
        // Once it has stopped to grow it may have taken that, if it has so much.
        return growing(None, snapshot).or_else(|| largest(None, loss.unattributed, snapshot));
    }
    let Some(taker) = loss.and_then(|loss| loss.takers.first()) else {
        return growing(None, snapshot);
    };
    let mut scopes = snapshot.scopes.iter();
    let (id, _) = scopes.find(|(_, scope)| scope.path == taker.path)?;
    growing(Some(*id), snapshot)
}

/// Who waits most, and because of whom.
fn sufferer(snapshot: &Snapshot, resource: Resource) -> String {
    let losses = match resource {
        Resource::Cpu => losses(snapshot),
        Resource::Memory | Resource::Io => Vec::new(),
    };
    let Some(Sufferer { id, scope, lost, time }) = sufferers(snapshot, resource).into_iter().next()
    else {
        let unknown = "Which pod or service waits was not measured";
        let busiest = match resource {
            Resource::Cpu => busiest_of_machine(snapshot, resource),
            Resource::Memory | Resource::Io => None,
        };
        return busiest.map_or_else(
            || format!("{unknown}."),
            |process| format!("{unknown}; busiest: {process} (by usage, not by harm)."),
        );
    };
    if time < Nanos(snapshot.interval.0 / FEW) {
        let now = millis(time, snapshot).max(1);
        return format!(
            "It is easing: of late no pod or service waits for more than {now} ms per second."
        );
    }
    let aggressor = aggressor(snapshot, &losses, id, scope);
    let aggressor = aggressor.and_then(|one| Some((called(one.most, snapshot)?, one)));
    if let Some((name, Aggressor { harm, back, .. })) = &aggressor
        && is_mutual(harm.loss, *back)
    {
        let (own, other) = (millis(harm.loss, snapshot), millis(*back, snapshot));
        let who = short_name(scope);
        return format!(
            "{who} and {name} make each other wait: per second, {who} loses {own} ms and the other \
             {other} ms."
        );
    }
    // As the lists of who lost to whom have it: waits are summed over tasks.
    let what = match millis(lost, snapshot) {
        0 => format!("waits most: {} ms", millis(time, snapshot)),
        lost => format!("loses most by waiting: {lost} ms"),
    };
    let who = format!("{} {what} per second", short_name(scope));
    let why = match resource {
        Resource::Cpu => aggressor.map(|(name, _)| format!("mostly while {name} ran")),
        Resource::Memory => cause(scope).map(|cause| format!("mostly because of {cause}")),
        Resource::Io => None,
    };
    why.map_or_else(|| format!("{who}."), |why| format!("{who}, {why}."))
}

/// The name of an aggressor, with its busiest process.
fn called(most: &Blame, snapshot: &Snapshot) -> Option<String> {
    let id = most.aggressor;
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
    per_second(time, snapshot).0 / 1_000_000
}

#[cfg(test)]
pub(super) mod tests;
