//! The log: one structured line for each thing that happened, and none for a tick in which nothing
//! did. What an operator reads here tells what isobar did to the node and why.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};

use crate::serve::address::Address;
use isobar_core::model::capability::{Capability, missing};
use isobar_core::model::decision::{
    Action, Decision, Effect, Event, Hold, InForce, Outcome, OutcomeResult, Phase, Release,
};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Gap, Sample};
use isobar_core::model::units::{Bytes, Nanos};
use isobar_core::policy::explain::{self, relief as words};
use isobar_core::view::OomRecord;

/// Of so many actions the targets are remembered: outcomes come seconds later.
const REMEMBERED: usize = 64;

/// Remembers what the last line said, so that nothing is said twice.
#[derive(Debug, Default)]
pub(super) struct Log {
    held: Option<Discriminant<Hold>>,
    /// Squeezes whose release was logged: it is ordered in each tick until it is done.
    released: BTreeSet<u64>,
    /// Targets of the last actions and releases, by the action's id.
    targets: BTreeMap<u64, String>,
    /// Names of the capabilities that are missing.
    missing: Option<Vec<String>>,
}

/// The first line.
pub(super) fn started(facts: &NodeFacts, mode: &str, listen: &Address) {
    let place = match listen {
        Address::Tcp(address) => format!("the page is at http://{address}/"),
        Address::Unix(_) => format!("the API is at {listen}"),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node = %facts.name,
        kernel = %facts.kernel,
        cpus = facts.n_cpus,
        mode,
        "started; {place}"
    );
}

impl Log {
    /// What has happened since the last tick, and what was decided in this one.
    pub(super) fn tick(&mut self, sample: &Sample, decision: &Decision, kills: &[OomRecord]) {
        let now = decision.at.boot;
        kills.iter().for_each(oom_kill);
        self.outcomes(&sample.outcomes);
        decision.events().for_each(event);
        decision.relief.effects.iter().for_each(effect);
        let lost = decision.loss().map(explain::lost);
        decision.relief.actions.iter().for_each(|one| action(one, now, lost.as_deref()));
        let releases = &decision.relief.releases;
        let of_actions = decision.relief.actions.iter().map(|one| (one.id, &one.target));
        let of_releases = releases.iter().map(|one| (one.action, &one.target));
        let targets = of_actions.chain(of_releases);
        self.targets.extend(targets.map(|(id, target)| (id, target.full_name())));
        while self.targets.len() > REMEMBERED {
            self.targets.pop_first();
        }
        let is_new = |release: &&Release| !self.released.contains(&release.action);
        releases.iter().filter(is_new).for_each(release);
        self.released = releases.iter().map(|release| release.action).collect();
        self.held(decision.relief.held.as_ref(), now, lost.as_deref());
    }

    /// What came of actions and releases.
    pub(super) fn outcomes(&self, outcomes: &[Outcome]) {
        let target = |outcome: &Outcome| self.targets.get(&outcome.action).map(String::as_str);
        outcomes.iter().for_each(|outcome| outcome_of(outcome, target(outcome)));
    }

    /// One line when relief holds back, and one when the reason becomes another one.
    fn held(&mut self, hold: Option<&Hold>, now: Nanos, lost: Option<&str>) {
        if let Some(hold) = hold.filter(|hold| self.is_new(hold)) {
            tracing::info!(lost, "{}", words::no_action(hold, now));
        }
        if hold.is_none() {
            self.held = None;
        }
    }

    /// Disks are read every ten seconds: between readings the reason is the one before, as it is
    /// while pressure comes and goes.
    fn is_new(&mut self, hold: &Hold) -> bool {
        let is_between = matches!(hold, Hold::StaleReadings | Hold::Easing) && self.held.is_some();
        !is_between && self.held.replace(discriminant(hold)) != Some(discriminant(hold))
    }

    /// One line that names everything that is missing, when other capabilities are. Gaps are named in
    /// it, but come and go with cgroups, so that they alone make no line.
    pub(super) fn missing(&mut self, capabilities: &[Capability], gaps: &[Gap]) {
        let lacking = missing(capabilities, &[]);
        if self.missing.as_ref().is_some_and(|before| *before == lacking) {
            return;
        }
        match (&missing(capabilities, gaps)[..], &self.missing) {
            ([], None) => {}
            ([], Some(_)) => tracing::info!("nothing is missing any more"),
            (names, _) => tracing::warn!(
                missing = names.join(", "),
                "cannot measure or do everything on this node; `isobar doctor` says why"
            ),
        }
        self.missing = Some(lacking.into_iter().map(str::to_owned).collect());
    }
}

/// What an agent before this one has left in force or under way.
pub(super) fn adopted(InForce { action, phase, .. }: &InForce) {
    let (id, step, target) = (action.id, action.step.name(), action.target.full_name());
    let state = match phase {
        Phase::Squeezed | Phase::Marked => "in force",
        Phase::Ending => "under way",
        Phase::Ended { .. } => return,
    };
    tracing::info!(action = id, step, target, "action {id} of an earlier agent is {state}");
}

fn action(action: &Action, now: Nanos, lost: Option<&str>) {
    let Action { id, step, target, is_enforced, reason, .. } = action;
    tracing::warn!(
        action = id,
        step = step.name(),
        target = target.full_name(),
        path = target.path.as_ref().map(|path| &*path.0),
        threshold = reason.threshold.name(),
        measured = explain::measured(&reason.threshold, reason.measured),
        enforced = is_enforced,
        lost,
        "{}; {}",
        words::action(action, now),
        words::choice(action)
    );
}

fn outcome_of(outcome: &Outcome, target: Option<&str>) {
    let Outcome { action, result, detail, took, freed, ended, .. } = outcome;
    let freed = freed.map(|Bytes(n)| n);
    let took_ms = took.0 / 1_000_000;
    let result_name = result.name();
    match result {
        OutcomeResult::Done => tracing::info!(
            action,
            result = result_name,
            target,
            freed,
            ended,
            took_ms,
            "action {action}: {detail}"
        ),
        OutcomeResult::Refused | OutcomeResult::Failed => tracing::warn!(
            action,
            result = result_name,
            target,
            took_ms,
            "action {action} {result_name}: {detail}"
        ),
    }
}

fn release(release: &Release) {
    let Release { action, target, is_enforced, .. } = release;
    let target = target.full_name();
    tracing::info!(action, target, enforced = is_enforced, "{}", words::release(release));
}

fn effect(effect: &Effect) {
    let Effect { action, after: Nanos(after), freed, left, harm, measured } = effect;
    let (after_s, freed) = (after / Nanos::SECOND.0, freed.map(|Bytes(n)| n));
    let harm_ms = harm.map(|harm| harm.now.0 / 1_000_000);
    let short = measured.is_some();
    tracing::info!(
        action,
        after_s,
        freed,
        processes_left = left,
        harm_ms,
        short,
        "{}",
        words::effect(effect)
    );
}

fn event(Event { reason, message, is_warning }: &Event) {
    match is_warning {
        true => tracing::warn!(%reason, "{message}"),
        false => tracing::info!(%reason, "{message}"),
    }
}

fn oom_kill(record: &OomRecord) {
    let path = |path: &Option<isobar_core::model::cgroup::CgroupPath>| {
        path.as_ref().map_or_else(|| "unknown".to_owned(), |path| path.0.to_string())
    };
    let (victim, cgroup) = (record.who(), path(&record.victim_path));
    let trigger = path(&record.trigger_path);
    let limit = match (&record.limit_path, record.kill.limit_known) {
        (Some(limit), _) => limit.0.to_string(),
        (None, true) if record.kill.limit.is_none() => "none: the node was out of memory".into(),
        _ => "unknown".into(),
    };
    let (pid, comm) = (record.kill.victim_pid, record.kill.victim_comm.as_deref());
    tracing::warn!(victim, cgroup, pid, comm, limit, trigger, "{}", record.sentence());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_new_once_for_each_reason() {
        let mut log = Log::default();
        #[rustfmt::skip]
        let table = [
            // hold, is told
            (Hold::NobodyLeft,                    true),
            (Hold::StaleReadings,                 false), // until the disk is read again
            (Hold::NobodyLeft,                    false),
            (Hold::CleaningUp { until: Nanos(1) }, true),
            (Hold::CleaningUp { until: Nanos(2) }, false),
            (Hold::NobodyLeft,                    true),
        ];
        for (hold, want) in table {
            assert_eq!(log.is_new(&hold), want, "{hold:?}");
        }
        assert!(Log::default().is_new(&Hold::StaleReadings), "after a step");
    }
}
