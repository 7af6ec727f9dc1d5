//! What was measured, for people: a line for each scenario and agent, median and worst over runs.

use super::Played;
use crate::figures::{Figures, median_and_worst};
use crate::table::table;

const HEAD: [&str; 15] = [
    "scenario / agent",
    "runs",
    "failed",
    "act s",
    "kill s",
    "recover s",
    "victims",
    "wrong",
    "OOM",
    "p99 ms",
    "gap ms",
    "x idle",
    "swapped MiB",
    "frozen s",
    "agent",
];

/// Rows of `played`, in the order in which scenarios and agents come first.
pub(super) fn all(played: &[&Played]) -> String {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for one in played {
        let key = (one.play.scenario.as_str(), one.play.agent.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let rows: Vec<Vec<String>> = keys
        .into_iter()
        .map(|(scenario, agent)| {
            let those: Vec<&Played> = played
                .iter()
                .copied()
                .filter(|one| one.play.scenario == scenario && one.play.agent == agent)
                .collect();
            row(scenario, agent, &those)
        })
        .collect();
    table(&HEAD, &rows)
}

fn row(scenario: &str, agent: &str, those: &[&Played]) -> Vec<String> {
    let figures: Vec<&Figures> = those.iter().filter_map(|one| one.figures.as_ref()).collect();
    let over = |of: &dyn Fn(&Figures) -> Option<f64>, digits| {
        let values: Vec<f64> = figures.iter().filter_map(|figures| of(figures)).collect();
        spread(&values, figures.len(), digits)
    };
    let wrong = those.iter().map(|one| one.wrong as f64).collect::<Vec<_>>();
    let agent_of = |figures: &Figures| {
        let (cpu, rss) = (figures.agent_cpu? * 100.0, figures.agent_rss_mib?);
        Some(format!("{cpu:.1} % {rss:.0} MiB {} maj", figures.agent_major_faults?))
    };
    let failed = those.iter().filter(|one| !one.passed()).count();
    vec![
        format!("{scenario} / {agent}"),
        those.len().to_string(),
        failed.to_string(),
        over(&|f| f.act_s, 1),
        over(&|f| f.kill_s, 1),
        over(&|f| f.recover_s, 1),
        over(&|f| Some(f.victims.len() as f64), 0),
        spread(&wrong, wrong.len(), 0),
        over(&|f| Some(f.kernel_oom_kills as f64), 0),
        over(&|f| Some(f.during.p99_ms), 0),
        over(&|f| Some(f.during.longest_gap_ms), 0),
        over(&|f| f.slower, 1),
        over(&|f| Some((f.swapped_in + f.swapped_out) as f64 / 256.0), 0),
        over(&|f| Some(f.frozen_s), 1),
        figures.iter().rev().find_map(|figures| agent_of(figures)).unwrap_or_else(|| "-".into()),
    ]
}

/// `median (worst)`, and how often it happened at all where it did not always.
fn spread(values: &[f64], n: usize, digits: usize) -> String {
    let Some((median, worst)) = median_and_worst(values) else { return "-".into() };
    let mut text = format!("{median:.digits$}");
    if worst > median {
        text += &format!(" ({worst:.digits$})");
    }
    if values.len() < n {
        text += &format!(" {}/{n}", values.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_median_worst_and_how_often() {
        #[rustfmt::skip]
        let table: [(&[f64], usize, &str); 4] = [
            // values,         runs, cell
            (&[],              3,    "-"),
            (&[2.0],           1,    "2.0"),
            (&[1.0, 2.0, 9.0], 3,    "2.0 (9.0)"),
            (&[1.0, 1.0],      3,    "1.0 2/3"),
        ];
        for (values, n, want) in table {
            assert_eq!(spread(values, n, 1), want, "{values:?}");
        }
    }
}
