//! Relief in sentences: what is done, why this step, what follows if it does not help, and why
//! nothing is done. The explanation and the agent's log use the same sentences.

use std::collections::{BTreeMap, BTreeSet};

use super::{met_sentence, time};
use crate::model::condition::Status;
use crate::model::decision::{
    Action, Decision, Eased, Effect, Hold, Outcome, Release, ReleaseReason, Restart, RestartFate,
    StepKind, StepReason, Trigger,
};
use crate::model::settings::Deletion;
use crate::model::units::{Bytes, Nanos};
use crate::model::workload::RestartPolicy;

/// What is done in this tick, or why nothing is.
pub(super) fn sentences(decision: &Decision) -> Vec<String> {
    let (relief, now) = (&decision.relief, decision.at.boot);
    let mut all: Vec<_> = relief.actions.iter().flat_map(|action| whole(action, now)).collect();
    all.extend(relief.held.as_ref().map(|hold| no_action(hold, now)));
    if all.is_empty() {
        let conditions = &decision.assessment.conditions;
        let is_any = conditions.iter().any(|one| one.status == Status::True);
        let more = if is_any { "; a condition alone starts no step" } else { "" };
        let unmeasured: BTreeSet<_> =
            decision.assessment.unmeasured.iter().map(Trigger::name).collect();
        let unmeasured = unmeasured.into_iter().collect::<Vec<_>>().join(", ");
        all.push(match unmeasured.is_empty() {
            true => format!("no action: no eviction threshold is met{more}"),
            false => format!(
                "no action: no eviction threshold that is measured is met; not measured: \
                 {unmeasured}{more}"
            ),
        });
    }
    all.extend(relief.releases.iter().map(release));
    all.extend(relief.effects.iter().map(effect));
    all
}

fn whole(action: &Action, now: Nanos) -> Vec<String> {
    let mut all = vec![self::action(action, now), choice(action)];
    let left = time(action.deadline.since(now));
    all.push(match action.escalates_to {
        // It waits for the kernel, which may never take it.
        _ if action.step == StepKind::Mark => "each step after it is chosen anew".into(),
        Some(next) => format!("if it has not helped within {left}: {} it", verbs(next).0),
        None => format!("if it has not helped within {left}: no further step for this candidate"),
    });
    all.extend(deletion(action));
    // A pod that is stopped or killed on the node stays bound to it.
    match &action.restart {
        Some(restart) => all.extend(restarts(action.step, restart)),
        None if action.step.is_local_end() && !action.target.containers.is_empty() => {
            all.push(
                "the kubelet starts its containers again, unless restartPolicy is Never".into(),
            );
        }
        None => {}
    }
    if !action.is_enforced {
        all.push("nothing is changed on the node: this step is only observed".into());
    }
    all
}

/// What becomes of an eviction that the API server refuses.
fn deletion(action: &Action) -> Option<String> {
    let why = match action.deletion {
        Deletion::Never => return None,
        Deletion::NoEviction => "if the API server has no eviction for isobar",
        Deletion::OverBudgets => {
            "if the API server has no eviction for isobar, or a disruption budget forbids it"
        }
    };
    Some(format!("the pod is deleted instead {why} (relief.deletePods)"))
}

/// What the kubelet does next with what this step ends, and has done before.
///
/// Of a pod whose regular containers are over it starts no sidecar either, once it has seen that.
/// Source: `computePodActions`, pkg/kubelet/kuberuntime/kuberuntime_manager.go.
pub(super) fn restarts(step: StepKind, restart: &Restart) -> Vec<String> {
    let Restart { policy, n_since, wait, has_sidecars, is_ending, containers } = restart;
    if *is_ending {
        let none = "the kubelet does not start its containers again: the pod was told to end";
        return vec![none.into()];
    }
    let when = match *wait {
        Nanos(0) => "at once, or after a back-off if they have failed lately".to_owned(),
        wait => format!("after a back-off of about {}", time(wait)),
    };
    if !containers.is_empty() {
        return with_times(of_each(containers, &when), *n_since);
    }
    // Who is killed has ended with an error.
    let is_error = step == StepKind::KillContainers;
    let which = match (policy, has_sidecars) {
        (RestartPolicy::Never, _) => {
            let none = "the kubelet does not start its containers again (restartPolicy Never)";
            let sidecars = has_sidecars
                .then_some("; a sidecar only until it has seen that the others have ended");
            return vec![format!("{none}{}", sidecars.unwrap_or_default())];
        }
        (RestartPolicy::OnFailure, false) if !is_error => {
            "those of its containers that end with an error"
        }
        (RestartPolicy::OnFailure, true) if !is_error => {
            "its sidecars and those of its containers that end with an error"
        }
        (RestartPolicy::Always | RestartPolicy::OnFailure, _) => "its containers",
    };
    let policy = policy.name();
    let next = format!("the kubelet starts {which} again (restartPolicy {policy}), {when}");
    with_times(next, *n_since)
}

/// The same where containers differ.
fn of_each(containers: &BTreeMap<String, RestartFate>, when: &str) -> String {
    let names = |fate| {
        let these = containers.iter().filter(|(_, one)| **one == fate);
        let these: Vec<_> = these.map(|(name, _)| name.as_str()).collect();
        (!these.is_empty()).then(|| these.join(", "))
    };
    let again = names(RestartFate::Again).map(|names| format!("starts {names} again, {when}"));
    let by_code = names(RestartFate::ByExitCode)
        .map(|names| format!("starts {names} again if the exit code asks for that"));
    let stays = names(RestartFate::Stays).map(|names| format!("does not start {names} again"));
    let all: Vec<_> = [again, by_code, stays].into_iter().flatten().collect();
    format!("by their own restartPolicy and rules, the kubelet {}", all.join("; it "))
}

fn with_times(next: String, n_since: u32) -> Vec<String> {
    let times = match n_since {
        0 => return vec![next],
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let before = format!(
        "restarted {times} since isobar ended it; eviction would be needed to keep it from coming back"
    );
    vec![next, before]
}

/// A step, its target and its reason.
pub fn action(action: &Action, now: Nanos) -> String {
    let step = match (action.is_enforced, verbs(action.step)) {
        (true, (_, doing)) => doing.to_owned(),
        (false, (done, _)) => format!("would {done}"),
    };
    format!("{step} {} because {}", action.target.full_name(), met_sentence(&action.reason, now))
}

/// Why it is this step.
pub fn choice(action: &Action) -> String {
    let why = match (action.step, action.why) {
        (StepKind::Mark, StepReason::Gentlest) => {
            "it is the gentlest step: it ends nobody, so it waits for no grace period"
        }
        (_, why) => reason(why),
    };
    let payer = match action.target.is_payer {
        true => "; no candidate took most of what is short, and a hard threshold demanded a victim",
        false => "",
    };
    format!("chosen because {why}{payer}")
}

/// A squeeze that is taken back, and why.
pub fn release(release: &Release) -> String {
    let verb = if release.is_enforced { "releasing" } else { "would release" };
    let why = match release.why {
        ReleaseReason::Over => "the shortage is over",
        ReleaseReason::NoEffect => "it has not helped",
        ReleaseReason::Expired => "it has lasted as long as a squeeze may",
        ReleaseReason::Leaving => "the agent ends",
        ReleaseReason::Protected => "its target is protected now",
    };
    let what = match release.step {
        StepKind::Mark => "OOM score",
        _ => "squeeze",
    };
    format!(
        "{verb} the {what} of {}: {why} (action {})",
        release.target.full_name(),
        release.action
    )
}

/// How an action went.
pub fn outcome(outcome: &Outcome) -> String {
    let Outcome { action, result, detail, .. } = outcome;
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    format!("action {action} {}{detail}", result.name())
}

/// What an action has come to by now.
pub fn effect(effect: &Effect) -> String {
    let freed = effect.freed.map(|freed| match freed {
        Bytes(0) => "nothing came back".into(),
        freed => format!("{freed} came back"),
    });
    let left = effect.left.map(|n| match n {
        0 => "no task of its target is left".into(),
        1 => "1 task of its target is left".into(),
        n => format!("{n} tasks of its target are left"),
    });
    let harm = effect.harm.map(|Eased { before, now }| {
        let ms = |time: Nanos| format!("{} ms", time.0 / 1_000_000);
        format!(
            "others wait {} of each second because of its target, before {}",
            ms(now),
            ms(before)
        )
    });
    let over = match effect.measured {
        Some(_) => "still short",
        None => "no longer short",
    };
    let all: Vec<String> = freed.into_iter().chain(left).chain(harm).chain([over.into()]).collect();
    format!("{} after action {}: {}", time(effect.after), effect.action, all.join(", "))
}

/// Why there is no action although a threshold is met.
pub fn no_action(hold: &Hold, now: Nanos) -> String {
    format!("no action: {}", held(hold, now))
}

/// What relief waits for, or lacks.
pub fn held(hold: &Hold, now: Nanos) -> String {
    let left = |until: &Nanos| time(until.since(now));
    match hold {
        Hold::Settling { action, until } => {
            format!("action {action} has {} left to show an effect", left(until))
        }
        Hold::CoolingDown { until } => {
            format!("waiting {}: the step before has only just had its effect", left(until))
        }
        Hold::KernelKilled { until } => format!(
            "waiting {}: the kernel's OOM killer has just killed for the same memory",
            left(until)
        ),
        Hold::Ending { pod, until } => {
            format!("waiting up to {}: {pod} ends already, and its memory suffices", left(until))
        }
        Hold::CleaningUp { until } => format!(
            "waiting up to {}: the kubelet deletes dead containers and unused images first",
            left(until)
        ),
        Hold::BudgetSpent { until } => {
            format!("the eviction budget is spent for another {}", left(until))
        }
        Hold::Observed { action } => {
            format!("action {action} was only observed, so what would have followed is not known")
        }
        Hold::Marked => {
            "memory is only foretold to run out, for which nothing is ended: the pod or service \
             that took most of it is marked or squeezed, where it can be"
                .into()
        }
        Hold::NotYetKnown => {
            "who took what is short is not known yet: isobar watches memory and threads for ten \
             seconds, a disk for a minute, and waits up to 30 s for a pod's name"
                .into()
        }
        Hold::TakenByOther { taker } if taker.is_empty() => {
            "no candidate took what is short: the kernel or a program outside pods did, or it is not \
             known"
                .into()
        }
        Hold::TakenByOther { taker } => {
            format!("no candidate took what is short: {taker} did")
        }
        Hold::UseUnknown => {
            "how much each candidate has of what is short is not known, or not anew".into()
        }
        Hold::NobodyLeft => "there is no candidate".into(),
        Hold::BelowHarmBudget => "no candidate makes others wait for long enough".into(),
        Hold::HarmedByOther { by } => {
            format!(
                "others wait most for {by}, which may not be chosen: it is no candidate (as the root cgroup \
                 is, which stands for kernel threads and pods that have ended), uses no more than it requests, \
                 or little of a disk"
            )
        }
        Hold::HarmUnknown => {
            "which candidate makes others wait is not measured, for the moment or, of a disk, because no \
             cgroup has an io controller"
                .into()
        }
        Hold::NothingHelps => {
            "no step is left for any candidate: each was tried, or is not possible".into()
        }
        Hold::InGrace => "isobar waits until a threshold that is met is due".into(),
        Hold::StaleReadings => "the readings have not changed since the last action".into(),
        Hold::Easing => {
            "pressure is easing: only the average is still at or above the threshold".into()
        }
    }
}

/// What is done to a target, and the doing of it: `evict`, `evicting`.
fn verbs(step: StepKind) -> (&'static str, &'static str) {
    match step {
        StepKind::Mark => ("raise the OOM score of", "raising the OOM score of"),
        StepKind::Reclaim => ("reclaim memory of", "reclaiming memory of"),
        StepKind::Squeeze => ("squeeze", "squeezing"),
        StepKind::Evict => ("evict", "evicting"),
        StepKind::StopContainers => ("stop the containers of", "stopping the containers of"),
        StepKind::KillContainers => ("kill the containers of", "killing the containers of"),
        StepKind::ReleaseMemory => (
            "release the memory of killed processes of",
            "releasing the memory of killed processes of",
        ),
    }
}

fn reason(why: StepReason) -> &'static str {
    match why {
        StepReason::Gentlest => "it is the gentlest step that can suffice",
        StepReason::NoEffect => "the step before it did not help in time",
        StepReason::Failed => "the step before it failed",
        StepReason::OnlyOne => "no other step relieves this shortage",
        StepReason::Emergency => "there is no time for a gentler step",
    }
}
