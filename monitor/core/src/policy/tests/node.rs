//! A node with 5 to 110 pods, one of which misbehaves as its family does.

mod sample;

use std::cell::OnceCell;

use super::Toll;
use super::family::Dice;
use crate::model::decision::{Action, Hold, InForce, Order, Phase, StepKind, made};
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::settings::Settings;
use crate::model::threshold::{Amount, Signal, Threshold};
use crate::model::units::{Nanos, Percent};
use crate::model::workload::Pods;
use crate::policy::engine::{Engine, Standing};

/// Amounts are in KiB.
pub(super) type Kib = i64;
pub(super) const MIB: Kib = 1024;
/// The kubelet starts a container again after so long.
const RESTART: u64 = 12_000;

#[derive(Debug, Clone, Copy)]
pub(super) enum Policy {
    /// The kernel's OOM killer alone.
    Kernel,
    Engine(Order),
}

/// How a party's memory changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Growth {
    Steady,
    /// Without end, by so much a second.
    Leak(Kib),
    /// Until so much is held.
    WarmUp(Kib, Kib),
    /// From so many milliseconds on, until so much is held.
    WarmUpLater(u64, Kib, Kib),
    /// Until so much is held, then from the beginning.
    Sawtooth(Kib, Kib),
    /// By so much at once, each so many milliseconds.
    Steps(u64, Kib),
    /// For a second in each four.
    Bursts(Kib),
    /// Once less than so much is left, by so much a second, until so much is held.
    WhenLow(Kib, Kib, Kib),
    /// For ten seconds in each fifteen, then from the beginning.
    Heap(Kib),
    /// Once less than so much is left, its container is started again, and takes what it had, by so
    /// much a second.
    Refill(Kib, Kib),
    /// The same, but its pod ends and another one of its owner comes in its place.
    Replaced(Kib, Kib),
    /// By so much more and back, in so many milliseconds.
    Swing(Kib, u64),
}

#[derive(Debug, Clone)]
pub(super) struct Party {
    pub(super) path: String,
    pub(super) class: Option<QosClass>,
    pub(super) owner: Option<&'static str>,
    pub(super) request: Kib,
    pub(super) limit: Option<Kib>,
    pub(super) held: Kib,
    pub(super) at_start: Kib,
    pub(super) growth: Growth,
    pub(super) is_shared: bool,
    /// Small processes beside the one that holds the memory.
    pub(super) n_helpers: u64,
    /// Processes that hold the memory, alike.
    pub(super) n_alike: i64,
    pub(super) is_guilty: bool,
    /// By its priority.
    pub(super) is_critical: bool,
    pub(super) is_marked: bool,
    pub(super) is_squeezed: bool,
    pub(super) n_restarts: u32,
    pub(super) n_oom_kills: u64,
    /// When it is started again, in milliseconds; `None` for one that runs.
    pub(super) back: Option<u64>,
    /// Its cgroup was removed.
    pub(super) is_gone: bool,
}

pub(super) struct Node {
    pub(super) memory: Kib,
    /// What all pods together may hold.
    pub(super) pods_limit: Kib,
    pub(super) dice: Dice,
    pub(super) base: Kib,
    pub(super) parties: Vec<Party>,
    pub(super) toll: Toll,
    pub(super) in_force: Vec<InForce>,
    /// Pods can be evicted.
    pub(super) has_api: bool,
    /// So many victims at most that did not end the shortage.
    pub(super) budget: u32,
    /// Pods that were asked to end, and when they do.
    pub(super) ending: Vec<(u64, usize)>,
    /// What the API tells of the pods, until one is replaced.
    pub(super) told: OnceCell<Pods>,
}

impl Node {
    /// Without an API to evict pods by.
    pub(super) fn of(memory: Kib, base: Kib, parties: Vec<Party>) -> Self {
        let (dice, has_api, pods_limit) = (Dice::new(1), false, memory - 100 * MIB);
        let (toll, in_force, ending, told) = Default::default();
        let budget = Settings::default().relief.budget;
        #[rustfmt::skip]
        let node = Self {
            memory, pods_limit, dice, base, parties, toll, in_force, has_api, budget, ending, told,
        };
        node
    }

    pub(super) fn run(self, policy: Policy, seconds: u64) -> Toll {
        self.run_and_tell(policy, seconds, |_| ())
    }

    /// The same; each action is told.
    pub(super) fn run_and_tell(
        mut self,
        policy: Policy,
        seconds: u64,
        mut tell: impl FnMut(&Action),
    ) -> Toll {
        let mut engine = match policy {
            Policy::Kernel => None,
            Policy::Engine(order) => {
                let mut settings = settings(order);
                settings.relief.budget = self.budget;
                Some(Engine::new(settings, Standing::new(4)))
            }
        };
        let (mut now, mut step, mut tick) = (0, 1_000, 0);
        while now < seconds * 1_000 {
            now += step;
            self.live(now, step);
            self.run_out(now);
            let Some(engine) = &mut engine else { continue };
            tick += 1;
            let decision = engine.step(self.sample(tick, now)).decision;
            // As the agent does: sooner while something is met.
            step = if decision.assessment.met.is_empty() { 1_000 } else { 250 };
            let is_spent = matches!(decision.relief.held, Some(Hold::BudgetSpent { .. }));
            self.toll.budget_spent += u32::from(is_spent);
            let is_released = |entry: &InForce| {
                decision.relief.releases.iter().any(|release| release.action == entry.action.id)
            };
            let (over, kept) = self.in_force.drain(..).partition(is_released);
            self.in_force = kept;
            over.iter().for_each(|entry: &InForce| self.set(&entry.action, false));
            for action in &decision.relief.actions {
                tell(action);
                self.act(action, now);
            }
        }
        self.toll
    }

    /// Lets `step` milliseconds pass.
    pub(super) fn live(&mut self, now: u64, step: u64) {
        for (due, at) in std::mem::take(&mut self.ending) {
            match due <= now {
                true => self.end(at, now),
                false => self.ending.push((due, at)),
            }
        }
        let (memory, left, mut replacing) = (self.memory, self.available(), Vec::new());
        for party in &mut self.parties {
            if party.back.is_some_and(|back| back <= now) {
                // The new container has the score of its pod again.
                let path = &party.path;
                self.in_force.retain(|entry| {
                    let mut paths = entry.action.target.cgroups().map(|(_, path)| path);
                    entry.phase != Phase::Marked || !paths.any(|own| *own.0 == **path)
                });
                (party.back, party.is_marked) = (None, false);
                party.held += party.at_start.min(30 * MIB);
            }
            if party.back.is_some() || now < 5_000 || party.is_squeezed {
                continue;
            }
            let part = |rate: Kib| rate * step as Kib / 1_000;
            match party.growth {
                Growth::Steady => {
                    let noise = party.at_start / 500;
                    let noise = self.dice.between(-noise, noise);
                    let most = party.held + (party.at_start / 30).max(MIB) * step as Kib / 1_000;
                    party.held = (party.at_start + noise).min(most);
                }
                Growth::Leak(rate) => party.held += part(rate),
                Growth::WarmUpLater(from, ..) if now < from => {}
                Growth::WarmUp(rate, until) | Growth::WarmUpLater(_, rate, until) => {
                    party.held = (party.held + part(rate)).min(until.max(party.held));
                }
                Growth::Sawtooth(rate, until) => {
                    party.held += part(rate);
                    if party.held >= until {
                        party.held = party.at_start;
                    }
                }
                Growth::Bursts(rate) if (now / 1_000).is_multiple_of(4) => party.held += part(rate),
                Growth::Bursts(_) => {}
                Growth::Steps(each, by) if now / each != (now - step) / each => party.held += by,
                Growth::Steps(..) => {}
                Growth::Swing(most, period) => {
                    let half = period as Kib / 2;
                    let up = half - (half - (now % period) as Kib).abs();
                    party.held = party.at_start + most * (2 * up).min(half) / half;
                }
                Growth::WhenLow(below, rate, until) => {
                    if left < below || party.held > party.at_start {
                        party.held = (party.held + part(rate)).min(until.max(party.held));
                    }
                }
                Growth::Refill(below, _) if party.n_restarts == 0 => {
                    if left < below {
                        (party.held, party.n_restarts) = (0, 1);
                    }
                }
                Growth::Replaced(below, rate) => {
                    if left < below {
                        let growth = Growth::WarmUp(rate, party.held);
                        replacing.push(Party { growth, held: 0, at_start: 0, ..party.clone() });
                        (party.held, party.back, party.is_gone) = (0, Some(u64::MAX), true);
                    }
                }
                Growth::Refill(_, rate) => {
                    party.held = (party.held + part(rate)).min(party.at_start);
                }
                Growth::Heap(rate) => match now / 1_000 % 15 {
                    0..10 => party.held += part(rate),
                    _ => party.held = party.at_start,
                },
            }
            // What nobody may end is started again by its service manager.
            if party.path.contains("containerd") && party.held > memory / 4 {
                party.held = party.at_start;
            }
            // At its own limit the kernel ends it, and nobody else pays.
            if party.limit.is_some_and(|limit| party.held > limit) {
                party.held = party.at_start.min(30 * MIB);
                party.growth = Growth::Steady;
                party.at_start = party.held;
            }
        }
        for party in replacing {
            // A service that is started again keeps its path.
            let path = match party.path.rsplit_once("/pod") {
                Some((slice, _)) => format!("{slice}/pod{}", self.parties.len()),
                None => party.path.clone(),
            };
            self.parties.push(Party { path, ..party });
            self.told.take();
        }
    }

    fn available(&self) -> Kib {
        self.memory - self.base - self.parties.iter().map(|party| party.held).sum::<Kib>()
    }

    /// The kernel's OOM killer, while memory has run out.
    fn run_out(&mut self, now: u64) {
        while self.available() < 0 {
            let badness = |party: &Party| {
                let score = match party.class {
                    _ if party.is_marked => 1_000,
                    None => 0,
                    Some(QosClass::BestEffort) => 1_000,
                    Some(QosClass::Guaranteed) => -997,
                    Some(QosClass::Burstable) => {
                        (1_000 - 1_000 * party.request / self.memory).clamp(3, 999)
                    }
                };
                let held = if party.is_shared { 0 } else { party.held / party.n_alike };
                held * 1_000 / self.memory + score
            };
            let running = self.parties.iter().enumerate();
            let running = running.filter(|(_, party)| party.back.is_none() && party.held > MIB);
            let is_vital = |party: &Party| party.path.contains("containerd");
            let running = running.filter(|(_, party)| !is_vital(party));
            let worst = running.max_by_key(|(at, party)| (badness(party), *at));
            let Some(at) = worst.map(|(at, _)| at) else {
                // Only what nobody can end is left: the node restarts it.
                for one in self.parties.iter_mut().filter(|one| is_vital(one)) {
                    (one.held, one.n_oom_kills) = (0, one.n_oom_kills + 1);
                }
                break;
            };
            self.toll.out_of_memory += 1;
            self.parties[at].n_oom_kills += 1;
            self.end(at, now);
        }
    }

    /// Its processes end; its container starts again.
    fn end(&mut self, at: usize, now: u64) {
        let party = &mut self.parties[at];
        if party.back.is_some() {
            return;
        }
        match party.is_guilty {
            true => self.toll.right += 1,
            false => self.toll.wrong += 1,
        }
        if !party.is_shared {
            party.held = 0;
        }
        // With the kubelet's back-off.
        let wait = (RESTART << party.n_restarts.min(8)).min(300_000);
        party.n_restarts += 1;
        (party.back, party.is_marked) = (Some(now + wait), false);
    }

    fn act(&mut self, action: &Action, now: u64) {
        let uids: Vec<&String> = action.target.uids().collect();
        let is_its = |party: &Party| {
            let uid = party.path.rsplit_once("/pod").map_or(party.path.as_str(), |(_, uid)| uid);
            uids.iter().any(|one| *one == uid)
        };
        let targets: Vec<usize> =
            (0..self.parties.len()).filter(|at| is_its(&self.parties[*at])).collect();
        let phase = match action.step {
            StepKind::Mark => Some(Phase::Marked),
            StepKind::Squeeze => Some(Phase::Squeezed),
            _ => None,
        };
        if let Some(phase) = phase {
            let (action, since) = (action.clone(), nanos(now));
            self.set(&action, true);
            let has_helpers = targets.iter().any(|at| self.parties[*at].n_helpers > 0);
            let largest = has_helpers.then_some(Percent(98_00));
            self.in_force.push(InForce { action, since, held: None, phase, largest });
            return;
        }
        if matches!(action.step, StepKind::KillContainers | StepKind::StopContainers) {
            let (action, since) = (action.clone(), nanos(now));
            let phase = Phase::Ended { at: since };
            self.in_force.push(InForce { action, since, held: None, phase, largest: None });
        }
        for at in targets {
            match action.step {
                StepKind::KillContainers => self.end(at, now),
                StepKind::StopContainers => self.ending.push((now + 250, at)),
                StepKind::Evict => {
                    self.end(at, now);
                    let party = &mut self.parties[at];
                    (party.held, party.back) = (0, Some(u64::MAX));
                }
                StepKind::ReleaseMemory => self.parties[at].held = 0,
                _ => {}
            }
        }
    }

    /// A mark or a squeeze begins, or ends.
    fn set(&mut self, action: &Action, is_on: bool) {
        for party in &mut self.parties {
            let uid = party.path.rsplit_once("/pod").map_or(party.path.as_str(), |(_, uid)| uid);
            if action.target.uids().any(|one| one == uid) {
                match action.step {
                    StepKind::Mark => party.is_marked = is_on,
                    _ => party.is_squeezed = is_on,
                }
            }
        }
    }
}

fn nanos(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

pub(super) fn settings(order: Order) -> Settings {
    let mut settings = Settings::default();
    settings.ranking.order = order;
    settings.relief.enforce = StepKind::ALL.into();
    settings.eviction.pressure = made::usual_pressure_thresholds();
    let value = Amount::Quantity(Quantity::bytes(100 << 20));
    let hard = |signal| Threshold { signal, value, grace: Nanos(0), min_reclaim: None };
    settings.eviction.thresholds =
        vec![hard(Signal::MemoryAvailable), hard(Signal::AllocatableMemoryAvailable)];
    settings
}
