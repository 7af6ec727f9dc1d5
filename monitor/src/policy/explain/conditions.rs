//! Which conditions hold, and what would end them.

use super::time;
use crate::model::condition::{Condition, Measure, Phase, Status};
use crate::model::decision::Decision;
use crate::model::units::Percent;

/// One sentence for each condition that is not calm.
pub(super) fn sentences(decision: &Decision) -> Vec<String> {
    let told = decision.conditions.iter().filter(|condition| condition.phase != Phase::Calm);
    told.map(|condition| sentence(condition, decision)).collect()
}

fn sentence(condition: &Condition, decision: &Decision) -> String {
    let Condition { kind, threshold, measure, .. } = condition;
    let measure = words(*measure);
    let avg = |avg: Option<Percent>| avg.map_or_else(|| "unknown".into(), |avg| format!("{avg} %"));
    let (ten, minute) = (avg(condition.avg10), avg(condition.avg60));
    let status = match condition.status {
        Status::True => "True",
        Status::False => "False",
        Status::Unknown => "Unknown",
    };
    let since = time(decision.at.boot.since(condition.since.boot));
    let what = match condition.phase {
        Phase::Contended => format!(
            "{measure} is at or above {threshold} % over a minute ({minute}) and over ten seconds ({ten})"
        ),
        Phase::High => format!(
            "{measure} is at or above {threshold} % over a minute ({minute}), not over ten seconds ({ten})"
        ),
        Phase::Easing => format!(
            "{measure} has fallen below {threshold} % over ten seconds ({ten}), not yet over a minute ({minute})"
        ),
        Phase::Cleared => {
            format!("{measure} has fallen below {threshold} % over a minute ({minute})")
        }
        Phase::Calm => format!("{measure} is below {threshold} % over a minute ({minute})"),
        Phase::Unknown => match &condition.why {
            Some(why) => format!("{measure} is not measured: {why}"),
            None => format!("{measure} is not measured"),
        },
    };
    format!("{kind} is {status} for {since}: {what}")
}

/// What would end the conditions that hold.
pub(super) fn ends(decision: &Decision) -> Vec<String> {
    let held = decision.conditions.iter().filter(|condition| condition.status == Status::True);
    held.map(|condition| {
        let Condition { kind, threshold, measure, .. } = condition;
        format!("{kind} ends when {} over a minute is below {threshold} %", words(*measure))
    })
    .collect()
}

fn words(measure: Measure) -> &'static str {
    match measure {
        Measure::Contention => "contention",
        Measure::Shortage => "shortage",
        Measure::RawSome => "raw PSI some",
        Measure::RawFull => "raw PSI full",
    }
}
