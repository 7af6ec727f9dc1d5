//! How well isobar foresees that memory runs out: which OOM kills it saw coming, and what became of
//! its forecasts.
//! In: each tick. Out: a [`Tally`], and for how long a kill was foreseen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::condition::{self, ScopeName, Status};
use crate::model::decision::{Assessment, StepKind, Trigger};
use crate::model::pod::Place;
use crate::model::snapshot::Snapshot;
use crate::model::stall::OomKill;
use crate::model::threshold::{PressureSignal, Resource, Signal};
use crate::model::units::Nanos;
use crate::policy::engine::Step;

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

impl OomLimit {
    pub const ALL: [Self; 4] = [Self::Node, Self::Kubepods, Self::Own, Self::Unknown];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Kubepods => "kubepods",
            Self::Own => "own",
            Self::Unknown => "unknown",
        }
    }

    #[must_use]
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
    #[must_use]
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
    /// Memory did not run out, after isobar took a step.
    pub averted: u64,
    /// Memory did not run out, and isobar took no step.
    pub unfounded: u64,
}

impl Tally {
    /// In a sentence; `None` as long as there is nothing to tell.
    #[must_use]
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
    has_acted: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Foresight {
    /// Since when memory is short or foretold to be, without a break.
    alarmed: Option<Nanos>,
    forecasts: BTreeMap<ScopeName, Forecast>,
    tally: Tally,
}

impl Foresight {
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// For how long a kill was seen coming by the ticks before; `None` if it was not.
    #[must_use]
    pub fn of(&self, kill: &OomKill) -> Option<Nanos> {
        self.alarmed.filter(|since| *since <= kill.at).map(|since| kill.at.since(since))
    }

    /// Kills are judged on the ticks before: what this one decides came after them.
    pub fn tick(&mut self, step: &Step) {
        let Step { snapshot, decision, .. } = step;
        for kill in &snapshot.oom_kills {
            let Some(scope) = OomLimit::of(kill, snapshot).scope() else { continue };
            self.tally.oom_kills += 1;
            self.tally.oom_kills_foreseen += u64::from(self.of(kill).is_some());
            self.came_true(scope);
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
                forecast.has_acted = true;
            }
        }
        self.settle(now);
        let since = short_since(assessment);
        self.alarmed = since.map(|since| self.alarmed.unwrap_or(since));
    }

    fn came_true(&mut self, scope: ScopeName) {
        if let Some(forecast) = self.forecasts.get_mut(&scope) {
            forecast.came_true = true;
        }
    }

    fn settle(&mut self, now: Nanos) {
        let Self { forecasts, tally, .. } = self;
        forecasts.retain(|_, forecast| {
            if now.since(forecast.last) < SETTLED {
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

/// Since when memory is short, or foretold to be, as of this tick.
fn short_since(assessment: &Assessment) -> Option<Nanos> {
    let met = assessment.met.iter().filter(|met| met.threshold.resource() == Resource::Memory);
    let held = assessment.conditions.iter();
    let held = held.filter(|one| {
        one.status == Status::True && one.name.resource == condition::Resource::Memory
    });
    met.map(|met| met.since).chain(held.map(|one| one.since.boot)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::CgroupId;
    use crate::model::decision::{Action, Decision, Met, made};
    use crate::model::snapshot::Scope;
    use crate::model::threshold::{Amount, PressureThreshold, Threshold};

    #[test]
    fn oom_limit_of_a_kill() {
        let place = |place| Scope { place, ..Scope::default() };
        let scopes = [(2, place(Place::Kubepods)), (3, place(Place::Other))];
        let scopes = scopes.map(|(id, scope)| (CgroupId(id), scope)).into();
        let snapshot = Snapshot { scopes, ..Snapshot::default() };
        #[rustfmt::skip]
        let table = [
            // limit, known, whose
            (None,    true,  OomLimit::Node),
            (None,    false, OomLimit::Unknown),
            (Some(2), true,  OomLimit::Kubepods),
            (Some(3), true,  OomLimit::Own),
            (Some(4), true,  OomLimit::Own), // gone with its processes
        ];
        for (limit, limit_known, want) in table {
            let (victim, trigger) = (CgroupId(1), CgroupId(1));
            let limit = limit.map(CgroupId);
            let kill = OomKill {
                at: Nanos(0),
                victim,
                victim_pid: 7,
                victim_comm: None,
                limit,
                limit_known,
                trigger,
            };
            assert_eq!(OomLimit::of(&kill, &snapshot), want, "{limit:?}");
        }
    }

    const SECOND: u64 = Nanos::SECOND.0;

    fn trigger(name: &str) -> Trigger {
        let scope = ScopeName::System;
        let hard = Amount::Quantity("100Mi".parse().unwrap());
        let memory = |signal, grace| Threshold { signal, value: hard, grace, min_reclaim: None };
        let pressure = |on| Trigger::Pressure(PressureThreshold { scope, on, grace: Nanos(0) });
        match name {
            "forecast" => pressure(PressureSignal::Exhaustion(Nanos(10 * SECOND))),
            "stalls" => pressure(PressureSignal::Memory(Default::default())),
            "hard" => Trigger::Eviction(memory(Signal::MemoryAvailable, Nanos(0))),
            "soft" => Trigger::Eviction(memory(Signal::MemoryAvailable, Nanos(SECOND))),
            "pods" => Trigger::Eviction(memory(Signal::AllocatableMemoryAvailable, Nanos(0))),
            _ => unreachable!("{name}"),
        }
    }

    /// A tick in each second. In one of `ticks`: thresholds that are met, `kill`, `own` (a kill at
    /// the limit of a pod), `act`, `observe` and `mark`.
    fn play(ticks: &[&str]) -> Tally {
        let mut foresight = Foresight::default();
        let mut since = BTreeMap::new();
        let calm = [""; 11];
        for (second, words) in ticks.iter().chain(&calm).enumerate() {
            let at = Nanos((second as u64 + 1) * SECOND);
            let mut step = Step::default();
            step.decision.at.boot = at;
            since.retain(|name, _| words.split(' ').any(|word| word == *name));
            for word in words.split_whitespace() {
                let met = |name, since| {
                    let threshold = trigger(name);
                    Met { threshold, since, is_due: true, measured: 0, missing: None }
                };
                let action = |step, is_enforced| Action {
                    deadline: at,
                    is_enforced,
                    ..made::action(step, met("forecast", at))
                };
                let kill = |limit| {
                    let (victim, trigger) = (CgroupId(1), CgroupId(1));
                    let limit_known = true;
                    OomKill {
                        at,
                        victim,
                        victim_pid: 7,
                        victim_comm: None,
                        limit,
                        limit_known,
                        trigger,
                    }
                };
                let Decision { assessment, relief, .. } = &mut step.decision;
                match word {
                    "kill" => step.snapshot.oom_kills.push(kill(None)),
                    "own" => step.snapshot.oom_kills.push(kill(Some(CgroupId(9)))),
                    "act" => relief.actions.push(action(StepKind::KillContainers, true)),
                    "observe" => relief.actions.push(action(StepKind::KillContainers, false)),
                    "mark" => relief.actions.push(action(StepKind::Mark, true)),
                    name => assessment.met.push(met(name, *since.entry(name).or_insert(at))),
                }
            }
            foresight.tick(&step);
        }
        foresight.tally()
    }

    #[test]
    fn foresight_of_kills_and_forecasts() {
        #[rustfmt::skip]
        let table: [(&[&str], [u64; 5]); 16] = [
            // ticks, kills, foreseen, came true, averted, unfounded
            (&[],                                   [0, 0, 0, 0, 0]),
            (&["kill"],                             [1, 0, 0, 0, 0]),
            (&["forecast", "forecast kill"],        [1, 1, 1, 0, 0]),
            (&["forecast kill"],                    [1, 0, 0, 0, 1]), // decided after the kill
            (&["soft", "soft kill"],                [1, 1, 0, 0, 0]),
            (&["soft", "", "kill"],                 [1, 0, 0, 0, 0]), // the alarm was over
            (&["forecast", "forecast own"],         [0, 0, 0, 0, 1]), // no shortage of the node
            (&["forecast", "hard"],                 [0, 0, 1, 0, 0]),
            (&["forecast", "", "", "hard"],         [0, 0, 1, 0, 0]), // growth in bursts
            (&["forecast", "stalls"],               [0, 0, 1, 0, 0]),
            (&["forecast", "soft"],                 [0, 0, 0, 0, 1]),
            (&["forecast", "pods"],                 [0, 0, 0, 0, 1]), // another scope
            (&["forecast", "forecast act"],         [0, 0, 0, 1, 0]),
            (&["forecast", "forecast act", "hard"], [0, 0, 1, 0, 0]),
            (&["forecast", "forecast observe"],     [0, 0, 0, 0, 1]),
            (&["forecast", "forecast mark"],        [0, 0, 0, 0, 1]), // holds nothing up
        ];
        for (ticks, [oom_kills, oom_kills_foreseen, came_true, averted, unfounded]) in table {
            let want = Tally { oom_kills, oom_kills_foreseen, came_true, averted, unfounded };
            assert_eq!(play(ticks), want, "{ticks:?}");
        }
    }

    #[test]
    fn tally_in_words() {
        let kills = Tally { oom_kills: 3, oom_kills_foreseen: 2, ..Tally::default() };
        let both = Tally { came_true: 3, averted: 1, ..kills };
        let told = [Tally::default(), kills, both].map(|tally| tally.in_words());
        insta::assert_debug_snapshot!(told);
    }
}
