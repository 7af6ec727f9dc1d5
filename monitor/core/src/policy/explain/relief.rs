//! What is done, why that and no other step, and what follows if it does not help.

use super::{met_sentence, time};
use crate::model::decision::{
    Action, Decision, Effect, Hold, Release, ReleaseReason, StepKind, StepReason,
};
use crate::model::quantity::Quantity;
use crate::model::units::Bytes;

/// The verdict.
pub(super) fn sentences(decision: &Decision) -> Vec<String> {
    let mut told: Vec<_> =
        decision.actions.iter().flat_map(|action| taken(action, decision)).collect();
    told.extend(decision.held.as_ref().map(|hold| held(hold, decision)));
    if told.is_empty() {
        told.push("nothing is to be done".into());
    }
    told.extend(decision.releases.iter().map(released));
    told.extend(decision.effects.iter().map(seen));
    told
}

fn released(release: &Release) -> String {
    let verb = if release.is_enforced { "hold" } else { "would hold" };
    let why = match release.why {
        ReleaseReason::Over => "what it was for is over",
        ReleaseReason::NoEffect => "that did not help",
        ReleaseReason::Expired => "that has lasted as long as it may",
    };
    let (name, action) = (release.target.full_name(), release.action);
    format!("{verb} {name} back no longer: {why} (step {action})")
}

/// What a step has come to by now.
fn seen(effect: &Effect) -> String {
    let freed = effect.freed.map(|Bytes(n)| format!("{} less in use", Quantity::bytes(n)));
    let left = effect.left.map(|n| format!("{n} tasks left"));
    let over = match effect.measured {
        Some(_) => "still short",
        None => "no longer short",
    };
    let all = freed.into_iter().chain(left).chain([over.into()]);
    let all: Vec<String> = all.collect();
    format!("step {}, {} later: {}", effect.action, time(effect.after), all.join(", "))
}

fn taken(action: &Action, decision: &Decision) -> Vec<String> {
    let now = decision.at.boot;
    let verb = if action.is_enforced { "" } else { "would " };
    let mut told = vec![format!(
        "{verb}{} {} because {}",
        step(action.step),
        action.target.full_name(),
        met_sentence(&action.reason, now)
    )];
    told.push(format!("this step because {}", reason(action.why)));
    let left = time(action.deadline.since(now));
    told.push(match action.escalates_to {
        Some(next) => format!("if it has not helped within {left}: {} it", step(next)),
        None => format!("if it has not helped within {left}, no step is left for it"),
    });
    if !action.is_enforced {
        told.push("nothing is done: this step is only observed".into());
    }
    told
}

fn step(step: StepKind) -> &'static str {
    match step {
        StepKind::Reclaim => "reclaim memory of",
        StepKind::Squeeze => "hold back",
        StepKind::Evict => "evict",
        StepKind::StopContainers => "stop the containers of",
        StepKind::KillContainers => "kill the containers of",
        StepKind::ReleaseMemory => "take back the memory of",
    }
}

fn reason(why: StepReason) -> &'static str {
    match why {
        StepReason::Gentlest => "it is the gentlest that can suffice",
        StepReason::NoEffect => "the step before it did not help in time",
        StepReason::Failed => "the step before it could not be taken",
        StepReason::OnlyOne => "nothing else relieves this",
        StepReason::Emergency => "there is no time for anything gentler",
    }
}

fn held(hold: &Hold, decision: &Decision) -> String {
    let left = |until: crate::model::units::Nanos| time(until.since(decision.at.boot));
    match hold {
        Hold::Settling { action, until } => {
            format!("nothing new: step {action} has {} to show an effect", left(*until))
        }
        Hold::CoolingDown { until } => {
            format!("nothing new for {}: the last victim's memory has just come back", left(*until))
        }
        Hold::KernelKilled { until } => format!(
            "nothing new for {}: the kernel has just killed, and that memory is on its way back",
            left(*until)
        ),
        Hold::BudgetSpent { until } => {
            format!("nothing more for {}: the budget of evictions is spent", left(*until))
        }
        Hold::Observed { action } => format!(
            "nothing more: step {action} was only observed, so what would have followed is not known"
        ),
        Hold::NobodyLeft => "nothing can be done: nobody may be chosen".into(),
        Hold::BelowHarmBudget => {
            "nothing is done: no candidate makes others wait for long enough".into()
        }
        Hold::HarmUnknown => {
            "nothing is done: who makes others wait is not measured for the moment".into()
        }
        Hold::NothingHelps => "nothing helps: every step was tried".into(),
        Hold::InGrace => "nothing yet: the grace period is not over".into(),
        Hold::StaleReadings => {
            "nothing yet: the readings have not changed since the last action".into()
        }
    }
}
