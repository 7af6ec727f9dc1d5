//! How fast an agent that offers snapshots reacted: from the first stall for memory to the decision
//! to end a victim, from there to the step, from there until no process of it is left.

use serde::{Deserialize, Serialize};

use super::Played;
use crate::facts::{Facts, Group, Served, Tick};
use crate::figures::median_and_worst;
use crate::table::table;

/// Tasks that stalled for less than this between two ticks kept no work waiting.
const STALL_NS: u64 = 1_000_000;
/// A stall is over after so long without one.
const CALM_NS: u64 = 1_000_000_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Reaction {
    /// The agent measures stalls.
    pub(crate) knows_stalls: bool,
    /// From the tick before the first sign of the stall to the decision, so an upper bound; `None`
    /// if nothing had stalled within the second before the decision, or that is not known.
    pub(crate) stall_to_decision_ms: Option<f64>,
    /// From the start of the sample to the decision.
    pub(crate) sample_to_decision_ms: f64,
    /// From the decision to the beginning of the step.
    pub(crate) decision_to_step_ms: Option<f64>,
    /// From the decision until no process is left in the victim's container.
    pub(crate) decision_to_gone_ms: Option<f64>,
}

impl Reaction {
    /// To the first step that ends a victim; `None` if there was none since the onset.
    pub(crate) fn of(facts: &Facts, served: &Served) -> Option<Self> {
        let ticks = &served.trace;
        let ends = |tick: &Tick| tick.at_ns >= facts.onset_ns && tick.ends.is_some();
        let at = ticks.iter().position(ends)?;
        let tick = &ticks[at];
        let decided = tick.at_ns + tick.decision_ns;
        let handover = ticks[at..].iter().map(|tick| tick.handover_ns);
        // The tick that orders the step still shows the one before.
        let handover = handover.skip_while(|ns| *ns == tick.handover_ns).flatten().next();
        let gone = gone(facts, tick.ends.as_deref()?).filter(|gone| *gone >= decided);
        let ms = |ns: u64| ns as f64 / 1e6;
        Some(Self {
            knows_stalls: tick.stall_ns.is_some(),
            stall_to_decision_ms: onset(&ticks[..=at]).map(|from| ms(decided - from)),
            sample_to_decision_ms: ms(tick.decision_ns),
            decision_to_step_ms: handover.map(ms),
            decision_to_gone_ms: gone.map(|gone| ms(gone - decided)),
        })
    }
}

/// When the last process of `victim`, a pod or service alone, had ended.
fn gone(facts: &Facts, victim: &str) -> Option<u64> {
    let is_its = |name: &str| victim.rsplit('/').next() == Some(name);
    let is_gone = |group: &Group| is_its(&group.name) && group.empty_ns.is_some();
    let deaths = facts.deaths.iter().filter(|death| is_its(&death.name) && !death.sandbox);
    deaths.map(|death| death.at_ns).max().filter(|_| facts.groups.iter().any(is_gone))
}

/// The tick after which the stall began that the last of `ticks` may have been about.
fn onset(ticks: &[Tick]) -> Option<u64> {
    let stalled = |pair: &[Tick]| {
        let grown = pair[0].stall_ns.zip(pair[1].stall_ns).map(|(a, b)| b.saturating_sub(a));
        grown.is_some_and(|grown| grown >= STALL_NS)
    };
    let (mut began, mut calm_since) = (None, ticks.last()?.at_ns);
    for pair in ticks.windows(2).rev() {
        if stalled(pair) {
            began = Some(pair[0].at_ns);
            calm_since = pair[0].at_ns;
        } else if calm_since.saturating_sub(pair[0].at_ns) >= CALM_NS {
            break;
        }
    }
    began
}

/// All reactions of each agent, as distributions; empty if there were none.
pub(super) fn all(played: &[&Played]) -> String {
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

fn row(agent: &str, played: &[&Played]) -> Option<Vec<String>> {
    let figures = played.iter().filter(|one| one.play.agent == agent);
    let figures: Vec<_> = figures.filter_map(|one| one.figures.as_ref()).collect();
    let reactions: Vec<Reaction> = figures.iter().filter_map(|figures| figures.reaction).collect();
    if reactions.is_empty() {
        return None;
    }
    let over = |of: &dyn Fn(&Reaction) -> Option<f64>| {
        spread(&reactions.iter().filter_map(of).collect::<Vec<_>>())
    };
    let known: Vec<&Reaction> = reactions.iter().filter(|one| one.knows_stalls).collect();
    let early = known.iter().filter(|one| one.stall_to_decision_ms.is_none()).count();
    let idle: Vec<f64> = figures.iter().map(|figures| figures.idle.p99_ms).collect();
    Some(vec![
        agent.to_owned(),
        reactions.len().to_string(),
        if known.is_empty() { "not measured".into() } else { early.to_string() },
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
    use super::*;
    use crate::facts::Death;

    const MS: u64 = 1_000_000;

    fn tick(at_ms: u64, stall_ms: u64, ends: Option<&str>, handover_us: Option<u64>) -> Tick {
        Tick {
            at_ns: at_ms * MS,
            stall_ns: Some(stall_ms * MS),
            reading_ns: 3 * MS,
            decision_ns: 5 * MS,
            handover_ns: handover_us.map(|us| us * 1_000),
            ends: ends.map(str::to_owned),
        }
    }

    fn death(at_ms: u64, sandbox: bool) -> Death {
        let (pid, name, signal) = (1, "hog".into(), Some(9));
        Death { at_ns: at_ms * MS, pid, name, signal, code: None, sandbox }
    }

    #[test]
    fn a_reaction_counts_from_the_first_tick_of_the_stall_that_led_to_it() {
        let group = Group { name: "hog".into(), empty_ns: Some(3_500 * MS), ..Group::default() };
        let facts = Facts {
            onset_ns: 500 * MS,
            groups: vec![group],
            deaths: vec![death(2_705, false), death(2_805, false), death(3_000, true)],
            ..Facts::default()
        };
        let calm = [tick(100, 9, Some("earlier"), Some(70)), tick(450, 9, None, Some(70))];
        let then = |more: &[Tick]| {
            let trace = [&calm[..], more].concat();
            Reaction::of(&facts, &Served { trace, ..Served::default() })
        };
        assert_eq!(then(&[]), None, "what came before the onset is none of it");

        let told = then(&[
            tick(1_450, 9, None, Some(70)),
            tick(2_000, 9, None, Some(70)),
            tick(2_250, 30, None, Some(70)),
            tick(2_350, 30, None, Some(70)), // a moment's calm is no end
            tick(2_500, 60, Some("ns/hog"), Some(70)),
            tick(2_600, 60, None, Some(250)),
        ]);
        let want = Reaction {
            knows_stalls: true,
            stall_to_decision_ms: Some(505.0),
            sample_to_decision_ms: 5.0,
            decision_to_step_ms: Some(0.25),
            decision_to_gone_ms: Some(300.0),
        };
        assert_eq!(told, Some(want));

        let early = then(&[tick(2_000, 9, Some("ns/hog"), Some(70))]).expect("a step");
        assert_eq!((early.stall_to_decision_ms, early.decision_to_step_ms), (None, None));
        let at_once = then(&[tick(700, 40, Some("ns/hog"), None)]).expect("a step");
        assert_eq!(at_once.stall_to_decision_ms, Some(255.0), "the tick before the onset counts");
        let blind = Tick { stall_ns: None, ..tick(2_000, 0, Some("ns/hog"), None) };
        assert!(!then(&[blind]).expect("a step").knows_stalls);
    }
}
