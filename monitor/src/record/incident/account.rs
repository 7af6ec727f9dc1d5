//! Adds up what the ticks of a span say: what held, who waited because of whom, what isobar did and
//! what came of it, and whether it saw an OOM kill coming.
//! In: ticks as a replay gives them. Out: the fields of an [`Incident`].

mod deeds;
mod kills;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use self::deeds::Stance;
use super::limits::Tightest;
use super::taken::Taken;
use super::{
    Deed, Held, Incident, LeftOut, MoreKills, Score, Stall, State, Wait, is_within, words,
};
use crate::record::known::Cgroups;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::condition::{self, Condition, Status};
use isobar_core::model::decision::{Assessment, Decision, NodePressure};
use isobar_core::model::sample::{Moment, PAUSE, Sample};
use isobar_core::model::snapshot::{Blame, IoRate, Scope, Snapshot};
use isobar_core::model::stall::MemoryCause;
use isobar_core::model::threshold::Resource;
use isobar_core::model::units::{Bytes, Nanos};
use isobar_core::policy::engine::Step;
use isobar_core::view::cpu_loss::{Harm, losses};
use isobar_core::view::foresight::Foresight;
use isobar_core::view::movers;
use isobar_core::view::pods::name_scopes;
use isobar_core::view::verdict;
use isobar_core::view::waiting::{Level, busiest};

/// Pairs that are counted, and that are told.
const PAIRS: usize = 256;
const TOLD: usize = 5;
/// Deeds, kills, conditions and gaps that are kept. More of them are no longer a story.
const KEPT: usize = 48;

#[derive(Debug, Default)]
pub struct Account {
    /// When the incident begins; ticks before that lead to it.
    pub(super) begin: Moment,
    first: Option<Moment>,
    last: Moment,
    /// The last tick is one of the incident itself.
    has_begun: bool,
    n_ticks: u64,
    /// Ticks that the file of the incident does not have.
    n_left: u64,
    left_out: Vec<LeftOut>,
    reloads: Vec<Moment>,
    conditions: Vec<Held>,
    /// By the names of sufferer and aggressor.
    waits: BTreeMap<(String, String), Harm>,
    /// Since when waits are counted, if not since the first tick.
    waits_from: Option<Moment>,
    /// Time since then of which no tick tells.
    paused: Nanos,
    is_about_cpu: bool,
    /// Stalls for memory by the name of the pod or service, but for those at its own limits.
    stalls: BTreeMap<String, Nanos>,
    is_about_memory: bool,
    taken: Taken,
    /// The most IO of a second since disks were short, and who did it, in words.
    io: Option<(Bytes, String)>,
    is_about_io: bool,
    deeds: Vec<Deed>,
    kills: Vec<Score>,
    more_kills: Option<MoreKills>,
    foresight: Foresight,
    /// While memory is short.
    stance: Option<Stance>,
    /// That isobar held back was told.
    has_told_hold: bool,
    /// Releases that were told: each is ordered until it is done.
    released: Vec<u64>,
    /// The busiest processes of aggressors, by their names, as of the last wait for them.
    busiest: BTreeMap<String, String>,
    limits: Tightest,
    known: Cgroups,
    /// Of the last sample what was in force, for a mark ends with its cgroup, and cgroups and pods.
    before: Sample,
}

impl Account {
    /// Adds a tick, with the sample that it was made of.
    pub fn tick(&mut self, sample: &Sample, step: &Step) {
        let decision = &step.decision;
        self.first.get_or_insert(decision.at);
        let before = std::mem::replace(&mut self.last, decision.at);
        let passed = decision.at.boot.since(before.boot);
        let is_pause = self.n_ticks > 0 && passed > PAUSE;
        if is_pause {
            self.paused = self.paused.plus(passed.since(step.snapshot.interval));
        }
        self.n_ticks += 1;
        if !self.has_begun && is_within(self.begin, decision.at) {
            self.has_begun = true;
            self.conditions.retain(|held| held.to.is_none());
        }
        self.cause(decision);
        self.taken.see(decision, !self.has_begun);
        if self.is_about_memory {
            self.taken.see_process(decision, &step.snapshot);
        }
        self.look_at(&step.snapshot);
        for kill in &step.snapshot.oom_kills {
            self.killed(kill, decision.at, sample, &step.snapshot);
        }
        self.conditions(&decision.assessment, decision.at, is_pause.then_some(before));
        // Another agent counts from one again.
        let is_reloaded = self.n_ticks > 1 && sample.generation > self.before.generation;
        if is_reloaded && self.reloads.len() < KEPT {
            self.reloads.push(decision.at);
        }
        self.before = Sample {
            at: sample.at,
            generation: sample.generation,
            in_force: sample.in_force.clone(),
            cgroups: sample.cgroups.clone(),
            pods: sample.pods.clone(),
            kubepods: sample.kubepods.clone(),
            ..Sample::default()
        };
        self.deeds(sample, decision);
        self.foresight.tick(&sample.outcomes, step);
        if !self.has_begun && (is_eventful(decision) || !step.snapshot.oom_kills.is_empty()) {
            self.forget_waits(decision.at);
        }
    }

    /// What was waited for so far belongs to an earlier incident.
    fn forget_waits(&mut self, at: Moment) {
        self.waits_from = Some(at);
        (self.waits, self.stalls, self.io, self.paused) = Default::default();
        (self.is_about_cpu, self.is_about_memory, self.is_about_io) = (false, false, false);
    }

    /// Which resource is short.
    fn cause(&mut self, decision: &Decision) {
        let is_short = |held: condition::Resource, met: Resource| {
            let mut conditions = decision.assessment.conditions.iter();
            let holds = |one: &Condition| one.status == Status::True && one.name.resource == held;
            conditions.any(holds) || is_met(decision, met)
        };
        self.is_about_cpu |= is_short(condition::Resource::Cpu, Resource::Cpu);
        self.is_about_memory |= is_short(condition::Resource::Memory, Resource::Memory);
        self.is_about_io |= is_short(condition::Resource::Disk, Resource::Io);
    }

    /// The ticks after `from`, `to` included, have no place in the file.
    fn leave_out(&mut self, from: Moment, to: Moment) {
        let n = self.left_out.len();
        match self.left_out.last_mut() {
            Some(last) if last.to.boot >= from.boot => last.to = to,
            _ if n < KEPT => self.left_out.push(LeftOut { from, to }),
            _ => {}
        }
    }

    /// The last tick was added, and has no place in the file.
    pub fn leave_last_out(&mut self, before: Moment) {
        self.n_left += 1;
        self.leave_out(before, self.last);
    }

    /// What comes next follows the moment `to`, of which the recording has no tick if none was added.
    pub fn goes_on_after(&mut self, to: Moment) {
        if !self.is_empty() && to.boot > self.last.boot {
            self.leave_out(self.last, to);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.n_ticks == 0
    }

    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// What is known now, in the fields of `incident`.
    pub fn close(mut self, incident: Incident) -> Incident {
        let first = self.first.unwrap_or(incident.begin);
        if first.boot > incident.begin.boot.plus(Nanos::SECOND) {
            self.left_out.insert(0, LeftOut { from: incident.begin, to: first });
        }
        let mut waits: Vec<_> = self
            .waits
            .into_iter()
            .map(|((sufferer, aggressor), Harm { time, loss })| {
                let process = self.busiest.get(&aggressor).cloned();
                Wait { sufferer, aggressor, process, time, loss }
            })
            .collect();
        waits.sort_by_key(|wait| Reverse(Harm { loss: wait.loss, time: wait.time }));
        waits.truncate(TOLD);
        let stalls = self.stalls.into_iter().map(|(sufferer, time)| Stall { sufferer, time });
        let mut stalls: Vec<_> = stalls.collect();
        stalls.sort_by_key(|stall| Reverse(stall.time));
        stalls.truncate(TOLD);
        let waited = waits.iter().flat_map(|wait| [&wait.aggressor, &wait.sufferer]);
        let named = waited.chain(stalls.iter().map(|stall| &stall.sufferer));
        let limits = self.limits.of(named);
        let mut told = Incident {
            from: first,
            to: self.last,
            ticks: self.n_ticks - self.n_left,
            left_out: self.left_out,
            reloads: self.reloads,
            conditions: self.conditions,
            waits,
            waits_from: self.waits_from,
            paused: self.paused,
            is_about_cpu: self.is_about_cpu,
            stalls,
            is_about_memory: self.is_about_memory,
            taken: self.taken.told(),
            moved: self.io.map(|(_, told)| told),
            deeds: self.deeds,
            kills: self.kills,
            more_kills: self.more_kills,
            limits,
            state: State::Frozen,
            ..incident
        };
        told.summary = words::paragraph(&told);
        told
    }

    fn look_at(&mut self, snapshot: &Snapshot) {
        let units = snapshot.scopes.iter().filter(|(_, scope)| Level::Units.shows(scope));
        let stalls: Vec<_> = units.map(|(id, scope)| (*id, stalled(scope))).collect();
        let has_stalled = stalls.iter().any(|(_, time)| *time > Nanos(0));
        let io = self.is_about_io.then(|| movers::node(snapshot)).flatten().map(IoRate::bytes);
        let most_io = io.filter(|now| self.io.as_ref().is_none_or(|(most, _)| now > most));
        let is_calm = snapshot.aggressions.is_empty() && snapshot.oom_kills.is_empty();
        if is_calm && !has_stalled && most_io.is_none() && !self.known.lacks(snapshot) {
            return;
        }
        let mut named = Snapshot {
            scopes: snapshot.scopes.clone(),
            pods: snapshot.pods.clone(),
            whole: snapshot.whole.clone(),
            runners: snapshot.runners.clone(),
            ..Snapshot::default()
        };
        name_scopes(&mut named);
        if let Some((most, told)) = most_io.zip(movers::told(&named)) {
            self.io = Some((most, told.text));
        }
        self.known.see(&named);
        let scopes = &named.scopes;
        for (id, time) in stalls.into_iter().filter(|(_, time)| *time > Nanos(0)) {
            let known = self.known.name(id).unwrap_or_default().to_owned();
            self.limits.see(&known, scopes.get(&id), &named);
            if self.stalls.len() < PAIRS || self.stalls.contains_key(&known) {
                let sum = self.stalls.entry(known).or_default();
                *sum = sum.plus(time);
            }
        }
        for pair in losses(snapshot) {
            let (blame, harm) = (pair.blame, pair.harm());
            if blame.aggressor == CgroupId::UNKNOWN {
                continue;
            }
            let pair = (self.name(blame.victim, blame), self.name(blame.aggressor, blame));
            let is_root = blame.aggressor_path.as_ref().is_some_and(CgroupPath::is_root);
            let process =
                busiest((!is_root).then_some(blame.aggressor), snapshot, verdict::Resource::Cpu);
            if let Some(process) = process.filter(|_| self.busiest.len() < PAIRS) {
                self.busiest.insert(pair.1.clone(), process);
            }
            if pair.0 == pair.1 {
                continue;
            }
            let is_known = self.waits.contains_key(&pair);
            if self.waits.len() >= PAIRS && !is_known {
                let least = self.waits.iter().min_by_key(|(_, harm)| **harm);
                least.map(|(pair, _)| pair.clone()).and_then(|pair| self.waits.remove(&pair));
            }
            for (id, name) in [(blame.victim, &pair.0), (blame.aggressor, &pair.1)] {
                self.limits.see(name, scopes.get(&id), &named);
            }
            let sum = self.waits.entry(pair).or_default();
            *sum = sum.plus(harm);
        }
    }

    fn name(&self, id: CgroupId, blame: &Blame) -> String {
        let path = if id == blame.victim { &blame.victim_path } else { &blame.aggressor_path };
        let known = self.named(id, path.as_ref());
        known.unwrap_or_else(|| format!("removed cgroup {}", id.0))
    }

    /// The name, where it is known; else the path.
    fn named(&self, id: CgroupId, path: Option<&CgroupPath>) -> Option<String> {
        self.known.name(id).or_else(|| path.map(CgroupPath::told)).map(str::to_owned)
    }

    /// KEP-4205's, and the kubelet's own. A pause since `paused` ends those of which nothing tells that
    /// they held through it.
    fn conditions(&mut self, assessment: &Assessment, at: Moment, paused: Option<Moment>) {
        if let Some(paused) = paused {
            let holds = |held: &Held| {
                assessment.conditions.iter().any(|one| {
                    one.status == Status::True && *one.kind == *held.name && one.since == held.from
                })
            };
            let open = self.conditions.iter_mut().filter(|held| held.to.is_none());
            open.filter(|held| !holds(held)).for_each(|held| held.to = Some(paused));
        }
        for condition in &assessment.conditions {
            let held = Held {
                name: condition.kind.clone(),
                figure: condition.measure.figure(condition.name.resource).to_owned(),
                from: condition.since,
                to: None,
                peak: condition.avg60,
            };
            self.condition(condition.status == Status::True, held, at);
        }
        // A rule that a reload removed judges no more.
        let is_judged = |name: &str| {
            assessment.conditions.iter().any(|one| *one.kind == *name)
                || NodePressure::ALL.iter().any(|one| one.name() == name)
        };
        let open = self.conditions.iter_mut().filter(|held| held.to.is_none());
        open.filter(|held| !is_judged(&held.name)).for_each(|held| held.to = Some(at));
        for pressure in NodePressure::ALL {
            let name = pressure.name().to_owned();
            let held = Held { name, from: at, ..Held::default() };
            self.condition(assessment.node_pressure.contains(&pressure), held, at);
        }
    }

    fn condition(&mut self, is_true: bool, new: Held, at: Moment) {
        let has_room = self.conditions.len() < KEPT;
        let mut all = self.conditions.iter_mut();
        let open = all.find(|held| held.name == new.name && held.to.is_none());
        match (open, is_true) {
            (Some(held), true) => held.peak = held.peak.max(new.peak),
            (Some(held), false) => held.to = Some(at),
            (None, true) if has_room => self.conditions.push(new),
            (None, _) => {}
        }
    }
}

/// Whether a threshold on this resource is met, due or not.
fn is_met(decision: &Decision, resource: Resource) -> bool {
    decision.assessment.met.iter().any(|one| one.threshold.resource() == resource)
}

/// Whether a condition is True, or a step was decided on.
fn is_eventful(decision: &Decision) -> bool {
    decision.assessment.holding().next().is_some() || !decision.relief.actions.is_empty()
}

/// How long tasks of a cgroup stalled for memory in a tick, but at limits of its own: the node, or the
/// limit of all pods, made them wait.
fn stalled(scope: &Scope) -> Nanos {
    let causes = scope.memory.iter().flat_map(|memory| &memory.causes);
    let others =
        causes.filter(|(cause, _)| !cause.is_own_limit() && **cause != MemoryCause::KernelThread);
    others.fold(Nanos(0), |sum, (_, wait)| sum.plus(wait.time.now))
}

#[cfg(test)]
mod tests;
