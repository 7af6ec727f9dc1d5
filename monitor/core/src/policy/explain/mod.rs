//! A decision as sentences, from its own numbers alone: a recording explains itself, and the
//! explanation cannot differ from the decision.

mod beside;
mod conditions;
mod lately;
pub mod message;
mod nearest;
mod ranking;
pub mod relief;
#[cfg(test)]
mod tests;

pub use conditions::numbers as condition_numbers;
use nearest::unmet;
pub use ranking::{harm, lost};
use serde::{Deserialize, Serialize};

use crate::model::decision::{Decision, InForce, Met, Trigger};
use crate::model::duration::GoDuration;
use crate::model::settings::Settings;
use crate::model::snapshot::Snapshot;
use crate::model::threshold::{Amount, PressureSignal, Resource, Signal};
use crate::model::units::{Bytes, Nanos, Percent};

/// Sentences about candidates in one event: what was lost, the first, and some of the others.
const TOLD: usize = 4;

/// A decision in sentences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub tick: u64,
    /// What is short or contended, with numbers and since when.
    pub why: Vec<String>,
    /// What the agent does about it, or why it does nothing.
    pub verdict: Vec<String>,
    /// Whose work was ended within the eviction budget's window; empty of a decision alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lately: Vec<String>,
    /// The first candidate, and why the others come later.
    pub candidates: Vec<String>,
    /// What would change the verdict.
    pub otherwise: Vec<String>,
}

/// Also how an action stands to the kubelet's own eviction, which threshold is nearest where none is
/// met, by the settings that it was decided by, and whose work was `ended` before.
pub fn explain_by(
    settings: Option<&Settings>,
    ended: &[InForce],
    snapshot: &Snapshot,
    decision: &Decision,
) -> Explanation {
    let mut told = explain(decision);
    let beside = settings.iter().flat_map(|all| beside::sentences(all, snapshot, decision));
    told.verdict.extend(beside);
    let unmet = settings.iter().flat_map(|all| unmet(all, snapshot, &decision.assessment));
    told.verdict.extend(unmet);
    told.lately = lately::sentences(ended, decision.at.boot);
    told
}

pub fn explain(decision: &Decision) -> Explanation {
    let now = decision.at.boot;
    let mut why = conditions::sentences(decision);
    why.extend(decision.assessment.met.iter().map(|met| met_sentence(met, now)));
    if why.is_empty() {
        // The kubelet keeps them for minutes after their thresholds were last met.
        let kept = &decision.assessment.node_pressure;
        why.push(match kept.is_empty() {
            true => "no condition holds and no threshold is met".into(),
            false => "no threshold is met".into(),
        });
        why.extend(kept.iter().map(|one| format!("{} of the kubelet holds on", one.name())));
    }
    let (candidates, mut otherwise) = ranking::sentences(decision);
    otherwise.extend(decision.assessment.met.iter().filter_map(end_of));
    otherwise.extend(conditions::ends(decision));
    Explanation {
        tick: decision.tick,
        why,
        verdict: relief::sentences(decision),
        lately: Vec::new(),
        candidates,
        otherwise,
    }
}

/// Of the first threshold that is due: who would go first, and why, and who would follow.
pub fn candidates_for(first: &Met, decision: &Decision) -> String {
    let (mut told, _) = ranking::sentences(decision);
    told.truncate(TOLD);
    format!("{}; {}", met_sentence(first, decision.at.boot), told.join("; "))
}

/// A threshold that is met, with its numbers.
pub fn met_sentence(met: &Met, now: Nanos) -> String {
    let (grace, runs_out) = (met.threshold.grace(), met.threshold.is_forecast());
    let relation = match met.threshold {
        Trigger::Eviction(_) => "below",
        Trigger::Pressure(_) if runs_out => "at or below",
        Trigger::Pressure(_) => "at or above",
    };
    let is_late = now.since(met.since) >= grace;
    let grace = match (grace, met.is_due) {
        (Nanos(0), false) if runs_out => "hard, and more than a tenth is left".into(),
        (grace, false) if runs_out && is_late => {
            format!("its grace period of {} is over, and more than a tenth is left", time(grace))
        }
        (Nanos(0), _) => "hard".into(),
        (grace, true) => format!("its grace period of {} is over", time(grace)),
        (grace, false) => format!("its grace period is {}", time(grace)),
    };
    let (name, line) = (met.threshold.name(), line(&met.threshold));
    let since = time(now.since(met.since));
    let measured = match (&met.threshold, measured(&met.threshold, met.measured)) {
        // It differs by less than is said: to the byte.
        (Trigger::Eviction(threshold), measured) if measured == line => {
            threshold.signal.quantity(met.measured).to_string()
        }
        (_, measured) => measured,
    };
    let is = if runs_out { ":" } else { " is" };
    format!("{name}{is} {measured}, {relation} the threshold of {line}, for {since} ({grace})")
}

/// What would end it.
fn end_of(met: &Met) -> Option<String> {
    let (name, line) = (met.threshold.name(), line(&met.threshold));
    let end = match &met.threshold {
        Trigger::Eviction(threshold) => {
            format!("{} more is available", amount(threshold.signal, met.missing?))
        }
        Trigger::Pressure(threshold) => match threshold.on {
            PressureSignal::Exhaustion(_) => format!("memory lasts longer than {line}"),
            _ => format!("it is below {line}"),
        },
    };
    Some(format!("{name} stays met until {end}"))
}

/// The threshold, in its own unit.
fn line(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Eviction(threshold) => match threshold.value {
            Amount::Quantity(quantity) => quantity.to_string(),
            Amount::Percentage(share) => format!("{share} of the capacity"),
        },
        Trigger::Pressure(threshold) => match threshold.on {
            PressureSignal::Cpu(at) | PressureSignal::Memory(at) | PressureSignal::Disk(at) => {
                format!("{at} %")
            }
            PressureSignal::Exhaustion(at) => time(at),
            PressureSignal::Refaults(at) => format!("{at} pages a second"),
        },
    }
}

/// The measured value, in the threshold's unit.
pub fn measured(trigger: &Trigger, measured: u64) -> String {
    match trigger {
        Trigger::Eviction(threshold) => amount(threshold.signal, measured),
        Trigger::Pressure(threshold) => match threshold.on {
            PressureSignal::Cpu(_) | PressureSignal::Memory(_) | PressureSignal::Disk(_) => {
                let share = Percent(u16::try_from(measured).unwrap_or(u16::MAX));
                format!("{share} % (avg10)")
            }
            PressureSignal::Exhaustion(_) => {
                format!("memory lasts another {} at the present rate", time(Nanos(measured)))
            }
            PressureSignal::Refaults(_) => format!("{measured} pages a second"),
        },
    }
}

fn amount(signal: Signal, n: u64) -> String {
    match signal.resource() {
        Resource::Inodes | Resource::Pids => signal.quantity(n).to_string(),
        _ => Bytes(n).to_string(),
    }
}

/// Tenths of a second, as Go writes durations.
fn time(time: Nanos) -> String {
    let tenth = Nanos::SECOND.0 / 10;
    GoDuration::from(Nanos(time.0 / tenth * tenth)).to_string()
}
