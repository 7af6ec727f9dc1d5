//! How well isobar foresees that memory runs out: which OOM kills it saw coming, and what became of
//! its forecasts.
//! In: each tick. Out: a [`Tally`], and for how long a kill was foreseen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::condition::{self, ScopeName, Status};
use crate::model::decision::{Assessment, Outcome, OutcomeResult, StepKind, Trigger};
use crate::model::named;
use crate::model::pod::Place;
use crate::model::sample::PAUSE;
use crate::model::snapshot::Snapshot;
use crate::model::stall::OomKill;
use crate::model::threshold::{PressureSignal, Resource, Signal};
use crate::model::units::Nanos;
use crate::policy::engine::Step;
use crate::policy::rank::Purpose;

/// A forecast is settled once it has not been repeated for so long: growth comes in bursts.
const SETTLED: Nanos = Nanos(10 * Nanos::SECOND.0);

/// Whose limit was reached when the kernel killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OomLimit {
    /// None: the node was out of memory.
    Node,
    /// That of all pods, or of all pods of a class.
    Kubepods,
    /// That of a pod, container or service.
    Own,
    Unknown,
}

named!(OomLimit {
    Node => "node",
    Kubepods => "kubepods",
    Own => "own",
    Unknown => "unknown",
});

impl OomLimit {
    pub fn of(kill: &OomKill, snapshot: &Snapshot) -> Self {
        let Some(limit) = kill.limit else {
            return if kill.limit_known { Self::Node } else { Self::Unknown };
        };
        match snapshot.scopes.get(&limit).map(|scope| &scope.place) {
            Some(Place::Kubepods | Place::Qos { .. }) => Self::Kubepods,
            // Only the cgroups of all pods are known to outlive their processes.
            _ => Self::Own,
        }
    }

    /// The scope that was short; `None` if to relieve the node could not have prevented the kill.
    pub fn scope(self) -> Option<ScopeName> {
        match self {
            Self::Node => Some(ScopeName::System),
            Self::Kubepods => Some(ScopeName::Kubepods),
            Self::Own | Self::Unknown => None,
        }
    }
}

/// Counts since the agent started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Foresight"))]
#[serde(default, rename_all = "camelCase")]
pub struct Tally {
    /// By the kernel, because the node or all pods were short of memory.
    pub oom_kills: u64,
    /// Of these, after memory was seen to be short, or foretold to be.
    pub oom_kills_foreseen: u64,
    /// Forecasts that memory runs out, and then it did.
    pub came_true: u64,
    /// Memory did not run out, after isobar had done a step.
    pub averted: u64,
    /// Memory did not run out, and isobar had done no step.
    pub unfounded: u64,
}

impl Tally {
    /// In a sentence; `None` as long as there is nothing to tell.
    pub fn in_words(&self) -> Option<String> {
        let Self { oom_kills, oom_kills_foreseen, came_true, averted, unfounded } = self;
        let percent = |part: u64, whole: u64| 100 * part / whole;
        let kills = (*oom_kills > 0).then(|| {
            let recall = percent(*oom_kills_foreseen, *oom_kills);
            format!(
                "{oom_kills_foreseen} of {oom_kills} OOM kills of the node foreseen (recall \
                 {recall} %)"
            )
        });
        let n_forecasts = came_true + averted + unfounded;
        let forecasts = (n_forecasts > 0).then(|| {
            format!(
                "of {n_forecasts} forecasts that memory runs out {came_true} came true, \
                 {averted} averted, {unfounded} unfounded (precision {} %)",
                percent(came_true + averted, n_forecasts)
            )
        });
        let both: Vec<_> = kills.into_iter().chain(forecasts).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }
}

#[derive(Debug, Clone, Default)]
struct Forecast {
    /// The last tick that made it.
    last: Nanos,
    came_true: bool,
    /// Steps that were ordered because of it, each with its deadline, of which no outcome is known.
    ordered: BTreeMap<u64, Nanos>,
    has_acted: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Foresight {
    /// Since when memory of a scope is short or foretold to be, without a break.
    alarmed: BTreeMap<ScopeName, Nanos>,
    forecasts: BTreeMap<ScopeName, Forecast>,
    tally: Tally,
    /// The last tick: no alarm outlives a pause after it.
    last: Nanos,
}

impl Foresight {
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// For how long a kill was seen coming by the ticks before, at the limit that was reached; for a kill
    /// that is none of a scope, any shortage. `None` if it was not.
    pub fn of(&self, kill: &OomKill, limit: OomLimit) -> Option<Nanos> {
        let since = match limit.scope() {
            Some(scope) => self.alarmed.get(&scope),
            None => self.alarmed.values().min(),
        };
        let since = since.filter(|since| **since <= kill.at && !self.is_paused(kill.at));
        since.map(|since| kill.at.since(*since))
    }

    /// Kills are judged on the ticks before: what this one decides came after them. `outcomes` are of
    /// steps that were decided before.
    pub fn tick(&mut self, outcomes: &[Outcome], step: &Step) {
        let Step { snapshot, decision, .. } = step;
        for kill in &snapshot.oom_kills {
            let limit = OomLimit::of(kill, snapshot);
            let Some(scope) = limit.scope() else { continue };
            self.tally.oom_kills += kill.processes();
            if self.of(kill, limit).is_some() {
                self.tally.oom_kills_foreseen += kill.processes();
            }
            self.came_true(scope);
        }
        for outcome in outcomes {
            for forecast in self.forecasts.values_mut() {
                let is_known = forecast.ordered.remove(&outcome.action).is_some();
                forecast.has_acted |= is_known && outcome.result == OutcomeResult::Done;
            }
        }
        let (assessment, now) = (&decision.assessment, decision.at.boot);
        for met in &assessment.met {
            match scope_of(&met.threshold) {
                Some((scope, true)) => self.forecasts.entry(scope).or_default().last = now,
                Some((scope, false)) => self.came_true(scope),
                None => {}
            }
        }
        let enforced = decision.relief.actions.iter().filter(|action| action.is_enforced);
        for action in enforced.filter(|action| action.step != StepKind::Mark) {
            let scope = scope_of(&action.reason.threshold).map(|(scope, _)| scope);
            if let Some(forecast) = scope.and_then(|scope| self.forecasts.get_mut(&scope)) {
                forecast.ordered.insert(action.id, action.deadline);
            }
        }
        self.settle(now);
        if self.is_paused(now) {
            self.alarmed.clear();
        }
        self.last = now;
        let mut alarmed: BTreeMap<ScopeName, Nanos> = BTreeMap::new();
        for (scope, since) in short_since(assessment, now) {
            let earliest = alarmed.entry(scope).or_insert(since);
            *earliest = since.min(*earliest);
        }
        let since = |(scope, since)| (scope, self.alarmed.get(&scope).copied().unwrap_or(since));
        self.alarmed = alarmed.into_iter().map(since).collect();
    }

    fn is_paused(&self, now: Nanos) -> bool {
        now.since(self.last) > PAUSE
    }

    fn came_true(&mut self, scope: ScopeName) {
        if let Some(forecast) = self.forecasts.get_mut(&scope) {
            forecast.came_true = true;
        }
    }

    fn settle(&mut self, now: Nanos) {
        let Self { forecasts, tally, .. } = self;
        forecasts.retain(|_, forecast| {
            let is_open = forecast.ordered.values().any(|deadline| now < deadline.plus(SETTLED));
            if is_open || now.since(forecast.last) < SETTLED {
                return true;
            }
            match forecast {
                Forecast { came_true: true, .. } => tally.came_true += 1,
                Forecast { has_acted: true, .. } => tally.averted += 1,
                Forecast { .. } => tally.unfounded += 1,
            }
            false
        });
    }
}

/// What a met threshold tells of memory: the scope, and whether it only foretells a shortage.
/// `None` if it tells nothing: soft thresholds are met long before memory runs out.
fn scope_of(trigger: &Trigger) -> Option<(ScopeName, bool)> {
    match trigger {
        Trigger::Pressure(one) => match one.on {
            PressureSignal::Exhaustion(_) => Some((one.scope, true)),
            PressureSignal::Memory(_) => Some((one.scope, false)),
            PressureSignal::Cpu(_) | PressureSignal::Disk(_) | PressureSignal::Refaults(_) => None,
        },
        Trigger::Eviction(one) if one.is_hard() => match one.signal {
            Signal::MemoryAvailable => Some((ScopeName::System, false)),
            Signal::AllocatableMemoryAvailable => Some((ScopeName::Kubepods, false)),
            _ => None,
        },
        Trigger::Eviction(_) => None,
    }
}

/// Each scope whose memory is short, or foretold to be, as of this tick, and since when. A threshold
/// that tells nothing of that, such as a soft one, counts once it is due.
fn short_since(
    assessment: &Assessment,
    now: Nanos,
) -> impl Iterator<Item = (ScopeName, Nanos)> + '_ {
    let met = assessment.met.iter().filter(|met| met.threshold.resource() == Resource::Memory);
    let met = met.filter_map(move |met| match scope_of(&met.threshold) {
        Some((scope, _)) => Some((scope, met.since)),
        None => Some((Purpose::of(&met.threshold).scope, now)).filter(|_| met.is_due),
    });
    let held = assessment.conditions.iter();
    let held = held.filter(|one| {
        one.status == Status::True && one.name.resource == condition::Resource::Memory
    });
    met.chain(held.map(|one| (one.name.scope, one.since.boot)))
}

#[cfg(test)]
mod tests;
