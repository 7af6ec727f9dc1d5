//! How fast an agent that offers snapshots reacted: from the first stall for memory to the decision
//! to end somebody, from there to the step, from there until nobody is left.

use serde::{Deserialize, Serialize};

use super::facts::{Facts, Offered, Tick};
use super::figures::median_and_worst;
use super::host::Played;
use crate::bench::table::table;

/// Tasks that stalled for less than this between two ticks did not keep anybody waiting.
const STALL_NS: u64 = 1_000_000;

/// One play's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Reaction {
    /// From the end of the last tick without a stall to the decision, so an upper bound; `None` if
    /// nobody had stalled before the decision.
    pub(crate) stall_to_decision_ms: Option<f64>,
    /// From the start of the sample to the decision.
    pub(crate) sample_to_decision_ms: f64,
    /// From the decision to the beginning of the step.
    pub(crate) decision_to_step_ms: Option<f64>,
    /// From the decision until nobody is left in the victim's container.
    pub(crate) decision_to_gone_ms: Option<f64>,
}

impl Reaction {
    /// To the first step that ends somebody; `None` if there was none since the onset.
    pub(super) fn of(facts: &Facts, offered: &Offered) -> Option<Self> {
        let since = |tick: &&Tick| tick.at_ns >= facts.onset_ns;
        let ticks: Vec<&Tick> = offered.trace.iter().filter(since).collect();
        let at = ticks.iter().position(|tick| tick.ends.is_some())?;
        let (tick, decided) = (ticks[at], ticks[at].at_ns + ticks[at].decision_ns);
        let victim = tick.ends.as_deref()?;
        let gone = facts.groups.iter().find(|group| victim.ends_with(&group.name));
        let gone = gone.and_then(|group| group.empty_ns).filter(|gone| *gone >= decided);
        let handover = ticks[at..].iter().map(|tick| tick.handover_ns);
        // The tick that orders the step still shows the one before.
        let handover = handover.skip_while(|ns| *ns == tick.handover_ns).flatten().next();
        let ms = |ns: u64| ns as f64 / 1e6;
        Some(Self {
            stall_to_decision_ms: onset(&ticks[..=at]).map(|from| ms(decided - from)),
            sample_to_decision_ms: ms(tick.decision_ns),
            decision_to_step_ms: handover.map(ms),
            decision_to_gone_ms: gone.map(|gone| ms(gone - decided)),
        })
    }
}

/// The tick after which somebody stalled between any two, to the last of `ticks`.
fn onset(ticks: &[&Tick]) -> Option<u64> {
    let stalled = |pair: &&[&Tick]| matches!((pair[0].stall_ns, pair[1].stall_ns), (Some(a), Some(b)) if b - a.min(b) >= STALL_NS);
    ticks.windows(2).rev().take_while(stalled).last().map(|pair| pair[0].at_ns)
}

/// All reactions of each agent, as distributions; empty if there were none.
pub(super) fn all(played: &[Played]) -> String {
    let mut agents: Vec<&str> = played.iter().map(|one| one.play.agent.as_str()).collect();
    agents.sort_unstable();
    agents.dedup();
    let rows: Vec<Vec<String>> =
        agents.into_iter().filter_map(|agent| row(agent, played)).collect();
    if rows.is_empty() {
        return String::new();
    }
    #[rustfmt::skip]
    let head = [
        "ms: median, 99th percentile, worst", "first steps", "before any stall", "stall to decision",
        "sample to decision", "decision to step", "decision to gone", "bystander, idle p99",
    ];
    table(&head, &rows)
}

fn row(agent: &str, played: &[Played]) -> Option<Vec<String>> {
    let figures = played.iter().filter(|one| one.play.agent == agent);
    let figures: Vec<_> = figures.filter_map(|one| one.figures.as_ref()).collect();
    let reactions: Vec<Reaction> = figures.iter().filter_map(|figures| figures.reaction).collect();
    if reactions.is_empty() {
        return None;
    }
    let over = |of: &dyn Fn(&Reaction) -> Option<f64>| {
        spread(&reactions.iter().filter_map(of).collect::<Vec<_>>())
    };
    let early = reactions.iter().filter(|one| one.stall_to_decision_ms.is_none()).count();
    let idle: Vec<f64> = figures.iter().map(|figures| figures.idle.p99_ms).collect();
    Some(vec![
        agent.to_owned(),
        reactions.len().to_string(),
        early.to_string(),
        over(&|one| one.stall_to_decision_ms),
        over(&|one| Some(one.sample_to_decision_ms)),
        over(&|one| one.decision_to_step_ms),
        over(&|one| one.decision_to_gone_ms),
        spread(&idle),
    ])
}

/// The median, the 99th percentile by nearest rank, and the worst.
fn spread(values: &[f64]) -> String {
    let Some((median, worst)) = median_and_worst(values) else { return "-".into() };
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let p99 = sorted[(sorted.len() * 99).div_ceil(100) - 1];
    format!("{median:.1}, {p99:.1}, {worst:.1}")
}

#[cfg(test)]
mod tests {
    use super::super::facts::Group;
    use super::*;

    const MS: u64 = 1_000_000;

    fn tick(at_ms: u64, stall_ms: u64, ends: Option<&str>, handover_us: Option<u64>) -> Tick {
        Tick {
            at_ns: at_ms * MS,
            stall_ns: Some(stall_ms * MS),
            decision_ns: 5 * MS,
            handover_ns: handover_us.map(|us| us * 1_000),
            ends: ends.map(str::to_owned),
        }
    }

    #[test]
    fn a_reaction_counts_from_the_first_tick_of_the_stall_that_led_to_it() {
        let group = Group { name: "hog".into(), empty_ns: Some(2_805 * MS), ..Group::default() };
        let facts = Facts { onset_ns: 500 * MS, groups: vec![group], ..Facts::default() };
        let reaction =
            |trace: Vec<Tick>| Reaction::of(&facts, &Offered { trace, ..Offered::default() });
        let calm = [tick(100, 0, Some("earlier"), Some(70)), tick(1_000, 9, None, Some(70))];
        let then = |more: &[Tick]| reaction([&calm[..], more].concat());
        assert_eq!(then(&[]), None, "what came before the onset is none of it");

        let told = then(&[
            tick(2_000, 9, None, Some(70)),
            tick(2_250, 30, None, Some(70)),
            tick(2_500, 60, Some("ns/hog"), Some(70)),
            tick(2_600, 60, None, Some(250)),
        ]);
        let want = Reaction {
            stall_to_decision_ms: Some(505.0),
            sample_to_decision_ms: 5.0,
            decision_to_step_ms: Some(0.25),
            decision_to_gone_ms: Some(300.0),
        };
        assert_eq!(told, Some(want));

        let early = then(&[tick(2_000, 9, Some("ns/hog"), Some(70))]).expect("a step");
        assert_eq!((early.stall_to_decision_ms, early.decision_to_step_ms), (None, None));
    }
}
