//! Takes one step. Of those that end work: opens the victim, enters it in the ledger, and asks the API
//! server, sends SIGTERM or kills.

use std::path::Path;

use rustix::process::Signal;

use super::ending::{Ending, HELD, but};
use super::steps::leftovers;
use super::{Actuator, node, outcome};
use crate::act::error::{ActError, Done};
use crate::act::process::{Held, Stat, processes};
use crate::act::target::{Node, OpenTarget};
use crate::clock;
use isobar_core::model::decision::{Action, Outcome, Phase, StepKind};
use isobar_core::model::settings::Deletion;
use isobar_core::model::units::Nanos;

/// A kill is waited for so long; processes that have not ended then are reported later.
const PATIENCE: Nanos = Nanos(200_000_000);

impl Actuator {
    /// Takes one step. One that is not enforced goes the same way up to the last write.
    pub fn take(&mut self, action: &Action) -> Outcome {
        let began = clock::now().boot;
        let done = match action.step {
            StepKind::Mark => self.mark(action, began).map(Done::from),
            StepKind::Reclaim => self.reclaim(action, began),
            StepKind::Squeeze => self.squeeze(action, began).map(Done::from),
            StepKind::Evict | StepKind::StopContainers | StepKind::KillContainers => {
                match self.end(action, began) {
                    Ok(outcome) => return outcome,
                    Err(error) => Err(error),
                }
            }
            StepKind::ReleaseMemory => self.release_memory(action),
        };
        outcome(action.id, began, done)
    }

    /// Evicts, stops or kills the victim.
    fn end(&mut self, action: &Action, began: Nanos) -> Result<Outcome, ActError> {
        let target = self.open_target(action)?;
        let node = node(&self.root, &self.options, &self.deny, &self.killer);
        if !action.is_enforced {
            let would = would_end(&target, action);
            if target.n_work() > 0 {
                self.prepared.push(target);
            }
            return Ok(outcome(action.id, began, Ok(Done::from(would))));
        }
        if let Err(why) = self.ledger.begin(action, began, target.before(), Phase::Ending) {
            tracing::warn!(
                action = action.id,
                "{why}; taking the action all the same, but after a crash the next agent will not know of it"
            );
        }
        let begun = match (action.step, &self.evictions) {
            (StepKind::KillContainers, _) => Ending::kill(node, target, action, began),
            (StepKind::Evict, Some(evictions)) => {
                evictions.ask(action).map(|()| Ending::evict(target, action, began))
            }
            (StepKind::Evict, None) => Err(ActError::Other(
                "not available: this agent does not talk to the API server".into(),
            )),
            _ => Ending::stop(node, target, action, began),
        };
        let mut ending = match begun {
            Ok(ending) => ending,
            Err(error) => {
                self.ledger.remove(action.id);
                return Err(error);
            }
        };
        let (first, is_over) = ending.first(&self.options.proc);
        // The same victim is followed once: by the later step.
        let is_same = |old: &mut Ending| old.target.is_within(ending.target.wanted());
        for old in self.endings.extract_if(.., is_same) {
            self.ledger.end(old.action, began);
        }
        if is_over {
            self.ledger.end(action.id, clock::now().boot);
            self.reclaims.extend(leftovers(&self.root, &ending.target, action.id));
        } else {
            self.endings.push(ending);
        }
        Ok(first)
    }

    /// The target as it is now. A kill takes one that was opened before; a stop has time for a new look.
    fn open_target(&mut self, action: &Action) -> Result<OpenTarget, ActError> {
        let known = self.prepared.iter().position(|one| one.is_of(&action.target));
        if let Some(known) = known.filter(|_| action.step == StepKind::KillContainers) {
            let mut opened = self.prepared.swap_remove(known);
            opened.refresh();
            return Ok(opened);
        }
        self.deny.find_own(&self.options.proc);
        let node = node(&self.root, &self.options, &self.deny, &self.killer);
        match action.step {
            StepKind::Evict => OpenTarget::open_idle(node, &action.target, HELD),
            _ => OpenTarget::open(node, &action.target, HELD),
        }
    }
}

impl Ending {
    /// Kills the victim, and waits a little for its end.
    fn kill(
        node: Node<'_>,
        mut target: OpenTarget,
        action: &Action,
        began: Nanos,
    ) -> Result<Self, ActError> {
        let (cgroups, processes) = (cgroups(target.n_work()), processes(target.n_before));
        let how = target.kill(node)?;
        let issued = clock::now().boot.since(began).0 / 1000;
        let left_out = but(target.kill_new(node));
        target.wait(node, PATIENCE);
        let who = action.target.full_name();
        let story = format!("{how} after {issued} µs: {processes} in {cgroups} of {who}{left_out}");
        Ok(Self::new(action, target, began, None, story))
    }

    /// The API server was asked to evict the victim: the kubelet ends it.
    fn evict(target: OpenTarget, action: &Action, began: Nanos) -> Self {
        let (who, grace) = (action.target.full_name(), action.grace.unwrap_or_default());
        let story = format!(
            "asked the API server to evict {who} with a grace period of {} s",
            grace.0 / Nanos::SECOND.0
        );
        Self::new(action, target, began, None, story)
    }

    /// Asks the victim to end. SIGKILL follows after the action's grace.
    fn stop(
        node: Node<'_>,
        target: OpenTarget,
        action: &Action,
        began: Nanos,
    ) -> Result<Self, ActError> {
        let (n_asked, failed) = terminate(node.proc, &target)?;
        let (asked, cgroups) = (processes(n_asked as u64), cgroups(target.n_work()));
        let who = action.target.full_name();
        let mut story = format!("SIGTERM to {asked} in {cgroups} of {who}{}", but(failed));
        if target.is_frozen() {
            story += ", which are frozen and do not see it";
        }
        Ok(Self::new(action, target, began, Some(action.grace.unwrap_or_default()), story))
    }
}

/// `1 cgroup`, `2 cgroups`.
fn cgroups(n: usize) -> String {
    if n == 1 { "1 cgroup".into() } else { format!("{n} cgroups") }
}

/// What a stop or a kill would do.
fn would_end(target: &OpenTarget, action: &Action) -> String {
    let (cgroups, who) = (cgroups(target.n_work()), action.target.full_name());
    let processes = processes(target.n_before);
    match action.step {
        StepKind::KillContainers => {
            format!("would end {processes} in {cgroups} of {who}")
        }
        StepKind::Evict => format!(
            "would ask the API server to evict {who} with a grace period of {} s{}",
            action.grace.unwrap_or_default().0 / Nanos::SECOND.0,
            match action.deletion {
                Deletion::Never => "",
                Deletion::NoEviction => ", and to delete it if it evicts none",
                Deletion::OverBudgets => ", and to delete it if it is not evicted",
            }
        ),
        _ => format!(
            "would send SIGTERM to {processes} in {cgroups} of {who}, and SIGKILL to what is left \
             after {} s",
            action.grace.unwrap_or_default().0 / Nanos::SECOND.0
        ),
    }
}

/// Sends SIGTERM to the first processes of a target, whose parents are outside of it, or to all
/// where none is first. How many were asked, and why one was not.
///
/// # Errors
/// If none was asked that should have been.
fn terminate(proc: &Path, target: &OpenTarget) -> Result<(usize, Option<ActError>), ActError> {
    if let Some(unseen) = &target.unseen {
        return Err(unseen.clone());
    }
    let known = target.held.iter().filter_map(|held| Some((held, Stat::of(proc, held.pid)?)));
    let known: Vec<_> = known.filter(|(_, stat)| !stat.is_kernel_thread).collect();
    let is_first = |stat: &Stat| !known.iter().any(|(held, _)| held.pid == stat.parent);
    let first: Vec<_> =
        known.iter().filter(|(_, stat)| is_first(stat)).map(|(held, _)| *held).collect();
    let asked = match first.is_empty() {
        true => known.iter().map(|(held, _)| *held).collect(),
        false => first,
    };
    let ask = |held: &&Held| match held.send(Signal::TERM) {
        Ok(()) => None,
        Err(why) => {
            let path = target.work().next().map(|group| group.path.clone()).unwrap_or_default();
            Some(ActError::Signal { path, pid: held.pid, why })
        }
    };
    let mut failed: Vec<_> = asked.iter().filter_map(ask).collect();
    let n_asked = asked.len() - failed.len();
    match failed.pop() {
        Some(why) if n_asked == 0 => Err(why),
        why => Ok((n_asked, why)),
    }
}
