//! What a reader asks first: who did it, who suffered, what isobar did, and what came of it.

use std::collections::BTreeSet;

use isobar::record::incident::words::{self, by_aggressor, ending, time, who_ran, who_waited};
use isobar::record::incident::{Incident, Kind, Score, Stall, Wait};
use isobar_core::model::condition::Resource;
use isobar_core::model::units::Nanos;
use isobar_core::policy::explain::relief;
use isobar_core::view::cpu_loss::is_mutual;

use super::chart::bytes;
use super::markup::Markup;
use super::sentence;
use super::series::Story;

/// Answers to one question.
const SHOWN: usize = 4;

/// What a reader asks first.
pub(super) fn answers(out: &mut Markup, incident: &Incident, story: &Story) {
    out.within("section", &[], |out| {
        out.within("dl", &[("class", "answers")], |out| {
            answer(out, "Who did it", culprits(incident, story));
            answer(out, "Who suffered", sufferers(incident, story));
            answer(out, "What isobar did", done(incident, story));
            answer(out, "What came of it", outcome(incident, story));
        });
    });
}

fn answer(out: &mut Markup, question: &str, told: Vec<String>) {
    out.leaf("dt", &[], question);
    out.within("dd", &[], |out| told.iter().for_each(|one| out.leaf("p", &[], one)));
}

fn culprits(incident: &Incident, story: &Story) -> Vec<String> {
    let loss = incident.taken.as_ref().map(|taken| format!("Memory: {taken}."));
    let grew = || {
        let (name, by) = story.grown.first().filter(|_| story.is_short(Resource::Memory))?;
        Some(format!("Memory: {name} grew most, by {}.", bytes(by.0)))
    };
    let own = incident.kills.iter().filter_map(|Score { victim, limit, asked, .. }| {
        let who = asked.as_ref().unwrap_or(victim);
        Some(format!("Memory: {who} came to the limit of {}.", limit.as_ref()?))
    });
    let own = own.take(SHOWN).collect::<BTreeSet<_>>();
    let mut all: Vec<_> = loss.or_else(grew).into_iter().chain(own).collect();
    let (mutual, others): (Vec<_>, Vec<_>) = telling_waits(incident, story)
        .filter(|wait| opposite(wait, incident).is_none_or(|other| is_less(other, wait)))
        .partition(|wait| has_mutual(wait, incident));
    all.extend(by_aggressor(others.into_iter()).into_iter().map(|(_, waits)| {
        format!("CPU: {}; while it ran, {}.", who_ran(&waits), who_waited(&waits))
    }));
    all.extend(mutual.iter().map(|Wait { sufferer, aggressor, .. }| {
        format!("CPU: {aggressor} and {sufferer}, which made each other wait.")
    }));
    if incident.kinds.contains(&Kind::Drift) {
        all.push("Limits: another process wrote it, and the kernel does not tell which.".into());
    }
    if all.is_empty() {
        all.push("Not measured in this record: the charts show who used most.".into());
    }
    all
}

/// Of a pair that lost alike, one is told of.
fn is_less(one: &Wait, other: &Wait) -> bool {
    (one.loss, &one.sufferer) < (other.loss, &other.sufferer)
}

/// What the aggressor lost because of the sufferer.
fn opposite<'a>(wait: &Wait, incident: &'a Incident) -> Option<&'a Wait> {
    let is_it = |one: &&Wait| one.sufferer == wait.aggressor && one.aggressor == wait.sufferer;
    incident.waits.iter().find(is_it)
}

fn has_mutual(wait: &Wait, incident: &Incident) -> bool {
    opposite(wait, incident).is_some_and(|other| is_mutual(wait.loss, other.loss))
}

fn sufferers(incident: &Incident, story: &Story) -> Vec<String> {
    let kills = words::gravest(&incident.kills, SHOWN).into_iter();
    let mut all: Vec<_> = kills
        .map(|kill| format!("{}: the kernel's OOM killer killed {}.", kill.victim, kill.process()))
        .collect();
    let waits = telling_waits(incident, story);
    all.extend(waits.map(|wait| {
        let Wait { sufferer, aggressor, time: waited, .. } = wait;
        format!("{sufferer}: waited {} for a CPU while {aggressor} ran.", time(*waited))
    }));
    let starved = incident.stalls.iter().filter(|_| story.is_short(Resource::Memory));
    let starved = starved.map(|Stall { sufferer, time: waited }| {
        format!("{sufferer}: waited {} for memory.", time(*waited))
    });
    all.splice(0..0, starved.take(SHOWN / 2));
    if all.is_empty() {
        all.push(match story.has_measured_waits() {
            true => "No pod or service waited long for what was short.".into(),
            false => "Not measured in this record: the charts show who used most.".into(),
        });
    }
    all
}

/// The waits that answer a question: those like the worst, and none where the CPUs were calm.
fn telling_waits<'a>(
    incident: &'a Incident,
    story: &Story,
) -> impl Iterator<Item = &'a Wait> + use<'a> {
    let most = incident.waits.first().map_or(Nanos(0), |wait| wait.loss);
    let is_short = story.is_short(Resource::Cpu);
    incident.waits.iter().filter(move |wait| is_short && wait.loss.0 >= most.0 / 2).take(SHOWN)
}

fn done(incident: &Incident, story: &Story) -> Vec<String> {
    let drifts = incident.triggers.iter().filter(|trigger| trigger.kind == Kind::Drift);
    let mut all: Vec<_> = drifts.map(|drift| format!("Limits: {}.", drift.text)).collect();
    for decision in &story.decisions {
        for action in &decision.relief.actions {
            all.push(sentence(&relief::action(action, decision.at.boot)));
        }
    }
    let hold = story.decisions.iter().find_map(|one| one.relief.held.as_ref().map(|h| (h, one.at)));
    match (all.len(), hold) {
        (0, Some((hold, at))) => all.push(sentence(&relief::no_action(hold, at.boot))),
        (0, None) => all.push("Nothing: no eviction threshold was due.".into()),
        (n, _) if n > SHOWN => {
            all.truncate(SHOWN);
            all.push(format!("{} more steps are below.", n - SHOWN));
        }
        _ => {}
    }
    let enforced = story.decisions.iter().flat_map(|one| &one.relief.actions);
    if enforced.clone().next().is_some() && enforced.clone().all(|action| !action.is_enforced) {
        all.push("isobar only observed: nothing was changed on the node.".into());
    }
    all
}

fn outcome(incident: &Incident, story: &Story) -> Vec<String> {
    let steps = incident.deeds.iter().filter(|deed| deed.is_step);
    let outcomes = steps.filter_map(|step| words::outcome(step, &incident.deeds));
    let mut all: Vec<_> = outcomes.map(|deed| sentence(&deed.text)).collect();
    all.dedup();
    let rest = all.len().saturating_sub(SHOWN);
    all.drain(..rest);
    let (own, others): (Vec<_>, Vec<_>) =
        incident.kills.iter().partition(|kill| kill.limit.is_some());
    let more = incident.more_kills.unwrap_or_default();
    let add = |n: u64, kill: &&Score| n.saturating_add(kill.processes());
    let n = others.iter().fold(more.others, add);
    if n > 0 {
        let foreseen = others.iter().filter(|kill| kill.foreseen.is_some());
        let foreseen = foreseen.fold(more.foreseen, add);
        all.push(format!("OOM kills by the kernel: {n}; isobar had foreseen {foreseen}."));
    }
    let n = own.iter().fold(more.own, add);
    if n > 0 {
        all.push(format!("OOM kills by the kernel at a pod's or service's own limit: {n}."));
    }
    if story.charts.iter().all(|chart| !chart.is_measured()) {
        all.push("Nothing was measured in this record.".into());
    }
    all.push(ending(incident));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::incidents::page::figure::Axis;
    use isobar_core::model::node::NodeFacts;
    use isobar_core::model::stall::Coverage;

    #[test]
    fn sufferers_are_those_who_stalled_for_what_was_short() {
        let incident = Incident {
            stalls: vec![Stall { sufferer: "shop/web".into(), time: Nanos(3 * Nanos::SECOND.0) }],
            ..Incident::default()
        };
        let nothing = "No pod or service waited long for what was short.";
        let unmeasured = "Not measured in this record: the charts show who used most.";
        #[rustfmt::skip]
        let table = [
            // what was short, whether waits for CPUs were measured, who suffered
            (Some(Resource::Memory), false, "shop/web: waited 3s for memory."),
            (Some(Resource::Cpu),    true,  nothing),
            (Some(Resource::Cpu),    false, unmeasured),
            (Some(Resource::Disk),   true,  unmeasured),
            (None,                   true,  nothing),
            (None,                   false, unmeasured), // no condition is known
        ];
        for (short, waits, want) in table {
            let story = Story {
                axis: Axis::of(&incident),
                facts: NodeFacts::default(),
                n_ticks: 0,
                charts: Vec::new(),
                short: short.into_iter().collect(),
                grown: Vec::new(),
                decisions: Vec::new(),
                covers: Coverage { waits, memory: true, ..Coverage::default() },
            };
            assert_eq!(sufferers(&incident, &story), [want]);
        }
    }

    #[test]
    fn waits_of_two_for_each_other_are_mutual() {
        let wait = |sufferer: &str, aggressor: &str, loss| Wait {
            sufferer: sufferer.into(),
            aggressor: aggressor.into(),
            process: Some(format!("{aggressor}, pid 7")),
            loss: Nanos(loss),
            ..Wait::default()
        };
        #[rustfmt::skip]
        let table = [
            // what `a` lost while `b` ran, what `b` lost while `a` ran, whether neither did it alone
            (100, 90, true),
            (100, 50, true),
            (100, 49, false),
            (100, 0,  false),
        ];
        for (a, b, want) in table {
            let waits = vec![wait("a", "b", a), wait("b", "a", b), wait("c", "b", 100)];
            let incident = Incident { waits, ..Incident::default() };
            assert_eq!(has_mutual(&incident.waits[0], &incident), want, "{a} {b}");
            assert!(!has_mutual(&incident.waits[2], &incident));
        }
    }
}
