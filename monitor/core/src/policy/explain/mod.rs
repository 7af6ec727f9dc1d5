//! A decision in sentences, made of the numbers that it holds and of nothing else: so a recording
//! explains itself, and an explanation cannot differ from what was decided.

mod conditions;
pub mod message;
mod ranking;
pub mod relief;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::model::decision::{Decision, Met, Trigger};
use crate::model::duration::GoDuration;
use crate::model::threshold::{Amount, PressureSignal, Threshold};
use crate::model::units::{Nanos, Percent};

/// A decision in sentences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The decision's tick.
    pub tick: u64,
    /// What is short or contended, by which figures and since when.
    pub why: Vec<String>,
    /// What is done about it, or why nothing is.
    pub verdict: Vec<String>,
    /// Who would go first, and what spares each of the others.
    pub candidates: Vec<String>,
    /// What would have to be different for another verdict.
    pub otherwise: Vec<String>,
}

/// Explains one decision.
#[must_use]
pub fn explain(decision: &Decision) -> Explanation {
    let now = decision.at.boot;
    let mut why = conditions::sentences(decision);
    why.extend(decision.assessment.met.iter().map(|met| threshold_met(met, now)));
    if why.is_empty() {
        why.push("nothing is short: no condition holds and no threshold is met".into());
    }
    let (candidates, mut otherwise) = ranking::sentences(decision);
    otherwise.extend(decision.assessment.met.iter().filter_map(end_of));
    otherwise.extend(conditions::ends(decision));
    Explanation {
        tick: decision.tick,
        why,
        verdict: relief::sentences(decision),
        candidates,
        otherwise,
    }
}

/// A threshold that is met, with its figures.
fn threshold_met(met: &Met, now: Nanos) -> String {
    let (name, measured) = (met.threshold.name(), measured(&met.threshold, met.measured));
    let line = line(&met.threshold);
    let since = time(now.since(met.since));
    let (rest, grace) = match &met.threshold {
        Trigger::Eviction(Threshold { grace, .. }) => ("left, below", *grace),
        Trigger::Pressure(threshold) => match threshold.on {
            PressureSignal::Exhaustion(_) => ("left, not more than", threshold.grace),
            _ => (", at or above", threshold.grace),
        },
    };
    let patience = match (grace, met.is_due) {
        (Nanos(0), _) => "hard".into(),
        (grace, true) => format!("its grace of {} is over", time(grace)),
        (grace, false) => format!("its grace is {}", time(grace)),
    };
    format!("{name}: {measured} {rest} {line}, for {since} ({patience})").replace(" ,", ",")
}

/// What would end it.
fn end_of(met: &Met) -> Option<String> {
    let name = met.threshold.name();
    if let (Some(missing), Trigger::Eviction(threshold)) = (met.missing, &met.threshold) {
        let missing = threshold.signal.quantity(missing);
        return Some(format!("with {missing} more left, {name} is no longer met"));
    }
    let line = line(&met.threshold);
    match &met.threshold {
        Trigger::Eviction(_) => None,
        Trigger::Pressure(threshold) => Some(match threshold.on {
            PressureSignal::Exhaustion(_) => {
                format!("if memory lasts longer than {line}, {name} is no longer met")
            }
            _ => format!("below {line}, {name} is no longer met"),
        }),
    }
}

/// The line that a trigger draws, in its own unit.
fn line(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Eviction(threshold) => match threshold.value {
            Amount::Quantity(quantity) => quantity.to_string(),
            Amount::Percentage(_) => "its share of the capacity".into(),
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

/// A measured figure in the trigger's own unit.
fn measured(trigger: &Trigger, measured: u64) -> String {
    match trigger {
        Trigger::Eviction(threshold) => threshold.signal.quantity(measured).to_string(),
        Trigger::Pressure(threshold) => match threshold.on {
            PressureSignal::Cpu(_) | PressureSignal::Memory(_) | PressureSignal::Disk(_) => {
                let share = Percent(u16::try_from(measured).unwrap_or(u16::MAX));
                format!("{share} % (avg10)")
            }
            PressureSignal::Exhaustion(_) => format!("memory for {}", time(Nanos(measured))),
            PressureSignal::Refaults(_) => format!("{measured} pages a second"),
        },
    }
}

/// A length of time to the tenth of a second, as Go writes it.
fn time(time: Nanos) -> String {
    let tenth = Nanos::SECOND.0 / 10;
    GoDuration::from(Nanos(time.0 / tenth * tenth)).to_string()
}
