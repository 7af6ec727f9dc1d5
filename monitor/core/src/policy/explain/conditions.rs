//! Sentences about conditions that hold, and about what ends them.

use std::collections::BTreeMap;

use super::time;
use crate::model::condition::{Condition, Phase, Status};
use crate::model::decision::Decision;
use crate::model::units::Percent;

/// One sentence for each condition that is not calm, and one for all that are unmeasured for the
/// same reason.
pub(super) fn sentences(decision: &Decision) -> Vec<String> {
    let mut unmeasured = BTreeMap::<&str, Vec<&str>>::new();
    let mut all = Vec::new();
    for condition in &decision.assessment.conditions {
        match (condition.phase, &condition.why) {
            (Phase::Calm, _) => {}
            (Phase::Unknown, Some(why)) if condition.status == Status::Unknown => {
                unmeasured.entry(why).or_default().push(&condition.kind);
            }
            _ => all.push(sentence(condition, decision)),
        }
    }
    all.extend(unmeasured.into_iter().map(|(why, kinds)| {
        let is = if kinds.len() == 1 { "is" } else { "are" };
        format!("{} {is} Unknown: {why}", kinds.join(", "))
    }));
    all
}

/// The numbers of this tick, or why there are none.
pub fn numbers(now: &Condition) -> String {
    if let Some(why) = &now.why {
        return why.clone();
    }
    let (Some(avg10), Some(avg60)) = (now.avg10, now.avg60) else { return "not measured".into() };
    let figure = now.measure.figure(now.name.resource);
    let threshold = now.threshold;
    format!(
        "{figure} was {avg60} % over a minute and {avg10} % over ten seconds, the threshold is \
         {threshold} %"
    )
}

fn sentence(condition: &Condition, decision: &Decision) -> String {
    let Condition { kind, name, status, threshold, measure, .. } = condition;
    let measure = measure.figure(name.resource);
    let avg = |avg: Option<Percent>| avg.map_or_else(|| "unknown".into(), |avg| format!("{avg} %"));
    let (ten, minute) = (avg(condition.avg10), avg(condition.avg60));
    let since = time(decision.at.boot.since(condition.since.boot));
    if let (Phase::Unknown, Some(why)) = (condition.phase, &condition.why) {
        return format!(
            "{kind} is still {status:?}, as it has been for {since}; at present it cannot be judged: \
             {why}"
        );
    }
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
        Phase::Unknown => format!("{measure} is not measured"),
    };
    format!("{kind} is {status:?} for {since}: {what}")
}

/// What ends each condition that holds.
pub(super) fn ends(decision: &Decision) -> Vec<String> {
    let held =
        decision.assessment.conditions.iter().filter(|condition| condition.status == Status::True);
    held.map(|condition| {
        let Condition { kind, name, threshold, measure, .. } = condition;
        let measure = measure.figure(name.resource);
        format!("{kind} ends when {measure} over a minute is below {threshold} %")
    })
    .collect()
}
