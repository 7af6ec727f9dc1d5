//! One sentence for an operator who was woken by an alert: who waits, why, and because of whom.
//! Computed at every tick, so its cost is linear in cgroups plus aggressions.

use super::OomRecord;
use super::aggressor::{Aggressor, aggressor};
use super::cpu_loss::{is_mutual, losses};
use super::figure::{Figure, Told};
use super::foresight::OomLimit;
use super::lead::{Sufferer, about, per_second, sufferers};
use super::verdict::{Mood, Resource, Verdict, cause_words};
use super::waiting::{
    busiest_of_machine, growing, largest, name, root_name, short_name, with_busiest,
};
use super::{holders, movers};
use crate::model::cgroup::Limit;
use crate::model::decision::{Decision, Taker};
use crate::model::pod::Place;
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
) -> Told {
    let state = state(snapshot, verdicts, decision);
    let is_recent = |kill: &&OomRecord| snapshot.at.wall.since(kill.wall) <= RECENT;
    let mut recent = kills.iter().take_while(is_recent);
    match recent.next() {
        Some(last) => {
            let n_before = recent.map(|one| one.kill.processes()).sum();
            Told::plain(killed(last, n_before, snapshot)).and(Some(state))
        }
        None => state,
    }
}

fn killed(last: &OomRecord, n_before: u64, snapshot: &Snapshot) -> String {
    let path = || Some(last.victim_path.as_ref()?.segments().next_back()?.to_owned());
    let known = snapshot.scopes.get(&last.kill.victim).map(short_name);
    let victim = last.victim.clone().or(known).or_else(path);
    let reached = last.kill.limit.and_then(|id| snapshot.scopes.get(&id));
    let limit = reached.and_then(|scope| scope.files.as_ref()?.memory.max);
    let class = reached.and_then(|scope| match scope.place {
        Place::Qos { class } => Some(format!("{class:?} ")),
        _ => None,
    });
    let why = match (OomLimit::of(&last.kill, snapshot), limit) {
        (OomLimit::Node, _) => "the node was out of memory".into(),
        (OomLimit::Kubepods, _) => {
            format!("the limit of all {}pods was reached", class.unwrap_or_default())
        }
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
        "OOM kill {ago}s ago{more}: {} of {}; {why}.",
        last.kill.process(),
        victim.as_deref().unwrap_or("a cgroup that is gone"),
    )
}

fn state(snapshot: &Snapshot, verdicts: &[Verdict], decision: &Decision) -> Told {
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
            let text = format!("Short of memory ({}): {told}.{process}{others}", ranking.signal);
            let takers = decision.loss().into_iter().flat_map(|loss| &loss.takers);
            let took =
                |taker: &Taker| Figure::Took { aggressor: taker.full_name(), bytes: taker.taken };
            return Told { text, figures: takers.map(took).collect() };
        }
    }
    let met = decision.assessment.met.first();
    let is_short = met.is_some_and(|met| met.threshold.resource() == threshold::Resource::Memory);
    match (resources.first().copied(), met) {
        // In its grace period, when nothing is ranked yet.
        (None | Some(Resource::Cpu | Resource::Io), Some(met)) if is_short => {
            let met = explain::met_sentence(met, decision.at.boot);
            let others = others(&resources, is_high);
            let held = holders::told(snapshot);
            let told = Told::plain(format!("Memory runs short: {met}.")).and(held);
            Told { text: told.text + &others, ..told }
        }
        (Some(resource), _) => {
            let what = joined(&resources);
            let strength = if is_high { "High" } else { "Some" };
            let who_uses = match resource {
                Resource::Cpu => None,
                Resource::Memory => holders::told(snapshot),
                Resource::Io => movers::told(snapshot),
            };
            let pressure = Told::plain(format!("{strength} {what} pressure."));
            pressure.and(Some(sufferer(snapshot, resource))).and(who_uses)
        }
        (None, Some(met)) => Told::plain(format!(
            "No significant pressure, but {}.",
            explain::met_sentence(met, decision.at.boot)
        )),
        (None, None) if verdicts.iter().all(|verdict| verdict.mood == Mood::Unknown) => {
            Told::plain("Pressure is unknown: no pressure file could be read.")
        }
        (None, None) => Told::plain("No significant pressure."),
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
fn sufferer(snapshot: &Snapshot, resource: Resource) -> Told {
    let losses = match resource {
        Resource::Cpu => losses(snapshot),
        Resource::Memory | Resource::Io => Vec::new(),
    };
    let all = sufferers(snapshot, resource);
    // Who waits longer does so at a limit of its own.
    let is_longest =
        resource != Resource::Memory || all.iter().skip(1).all(|one| one.time <= all[0].time);
    let Some(Sufferer { id, scope, lost, time, .. }) = all.first().copied() else {
        let unknown = match is_measured(snapshot, resource) {
            // A wait is counted once it ends.
            true => "No wait of a pod or service was seen in the last tick",
            false => "Which pod or service waits was not measured",
        };
        let busiest = match resource {
            Resource::Cpu => busiest_of_machine(snapshot, resource),
            Resource::Memory | Resource::Io => None,
        };
        return Told::plain(busiest.map_or_else(
            || format!("{unknown}."),
            |process| format!("{unknown}; busiest: {process} (by usage, not by harm)."),
        ));
    };
    if time < Nanos(snapshot.interval.0 / FEW) {
        let now = millis(time, snapshot).max(1);
        return Told::plain(format!(
            "It is easing: of late no pod or service waits for more than {now} ms per second."
        ));
    }
    let aggressor = aggressor(snapshot, &losses, id, scope);
    let aggressor = aggressor.and_then(|one| Some((called(one.most, snapshot)?, one)));
    let victim = name(scope);
    let by = aggressor.as_ref().and_then(|(_, one)| full_name(one.most, snapshot));
    if let Some((name, Aggressor { harm, back, .. })) = &aggressor
        && is_mutual(harm.loss, *back)
    {
        let (own, other) = (millis(harm.loss, snapshot), millis(*back, snapshot));
        let who = short_name(scope);
        let text = format!(
            "{who} and {name} make each other wait: per second, {who} loses {own} ms and the other \
             {other} ms."
        );
        let lost = |victim: &String, aggressor: &String, millis_per_second| Figure::Lost {
            victim: victim.clone(),
            aggressor: Some(aggressor.clone()),
            millis_per_second,
        };
        let both = |by| vec![lost(&victim, by, own), lost(by, &victim, other)];
        return Told { text, figures: by.as_ref().map_or_else(Vec::new, both) };
    }
    // As the lists of who lost to whom have it: waits are summed over tasks.
    let (what, figure) = match (millis(lost, snapshot), millis(time, snapshot)) {
        (0, millis_per_second) => (
            match is_longest {
                true => format!("waits most: {millis_per_second} ms"),
                false => format!("waits most at no limit of its own: {millis_per_second} ms"),
            },
            Figure::Waited { resource, victim, aggressor: by, millis_per_second },
        ),
        (millis_per_second, _) => (
            format!("loses most by waiting: {millis_per_second} ms"),
            Figure::Lost { victim, aggressor: by, millis_per_second },
        ),
    };
    let who = format!("{} {what} per second", short_name(scope));
    let why = match resource {
        Resource::Cpu => aggressor.map(|(name, _)| format!("mostly while {name} ran")),
        Resource::Memory => cause(scope).map(|cause| format!("mostly because of {cause}")),
        Resource::Io => None,
    };
    let text = why.map_or_else(|| format!("{who}."), |why| format!("{who}, {why}."));
    Told { text, figures: vec![figure] }
}

/// Whether waits for a resource are measured by cgroup.
fn is_measured(snapshot: &Snapshot, resource: Resource) -> bool {
    match resource {
        Resource::Cpu | Resource::Io => snapshot.covers.waits,
        Resource::Memory => snapshot.covers.memory,
    }
}

/// The name of an aggressor in a [`Figure`].
fn full_name(most: &Blame, snapshot: &Snapshot) -> Option<String> {
    let known = snapshot.scopes.get(&most.aggressor).map(name);
    known.or_else(|| most.aggressor_path.as_ref().map(ToString::to_string))
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
