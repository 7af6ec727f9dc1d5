//! How long it takes to rank all pods of a node, and whether that grows as sorting does.

use std::fmt;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::build;
use isobar_lab::table::{against, table};

/// So many pods must be ranked within [`LIMIT_US`].
const JUDGED: u64 = 10_000;
/// A millisecond, of a decision that has ten.
const LIMIT_US: f64 = 1_000.0;

/// What the benchmark reported.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    rankings: Vec<Ranked>,
}

/// One number of pods, ranked by one order.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ranked {
    pods: u64,
    order: String,
    median_ns: u64,
    longest_ns: u64,
}

/// Builds and runs `monitor/benches/rank.rs`. It needs no root and attaches nothing.
pub(super) fn measure() -> Result<Figures> {
    let mut cargo = build::cargo();
    cargo.args(["bench", "--package", "isobar", "--bench", "rank"]);
    Ok(Figures { rankings: super::printed("rank: up to 10,000 pods", &mut cargo)? })
}

impl Figures {
    /// The same order with the next smaller number of pods.
    fn smaller(&self, ranked: &Ranked) -> Option<&Ranked> {
        let same = self.rankings.iter().filter(|other| other.order == ranked.order);
        same.filter(|other| other.pods < ranked.pods).max_by_key(|other| other.pods)
    }

    /// By how much it took longer than the next smaller number lets expect, if ranking were
    /// nothing but sorting: 1 is n log n.
    fn growth(&self, ranked: &Ranked) -> Option<f64> {
        let smaller = self.smaller(ranked)?;
        let sorting = |n: u64| n as f64 * (n as f64).ln();
        let expected = sorting(ranked.pods) / sorting(smaller.pods);
        Some(ranked.median_ns as f64 / smaller.median_ns as f64 / expected)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<String>> = self.rankings.iter().map(|one| self.row(one)).collect();
        writeln!(f, "Ranking all pods of a node; median of 201, limit for {JUDGED} pods 1 ms.\n")?;
        let head = ["order", "pods", "µs", "longest", "of n log n", "limit"];
        write!(f, "{}", table(&head, &rows))
    }
}

impl Figures {
    fn row(&self, ranked: &Ranked) -> Vec<String> {
        let us = |ns: u64| ns as f64 / 1e3;
        let growth = self.growth(ranked).map_or_else(String::new, |growth| format!("{growth:.2}"));
        let judged = ranked.pods == JUDGED;
        let verdict = if judged { against(us(ranked.median_ns), LIMIT_US) } else { "" };
        vec![
            ranked.order.clone(),
            ranked.pods.to_string(),
            format!("{:.1}", us(ranked.median_ns)),
            format!("{:.1}", us(ranked.longest_ns)),
            growth,
            verdict.into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(pods: u64, order: &str, median_ns: u64) -> Ranked {
        Ranked { pods, order: order.into(), median_ns, longest_ns: median_ns }
    }

    #[test]
    fn growth_is_held_against_sorting_in_the_same_order() {
        let rankings = vec![
            ranked(100, "qos", 1_000),
            ranked(100, "kubelet", 9_000),
            ranked(1_000, "qos", 15_000),   // n log n
            ranked(10_000, "qos", 400_000), // twice that
        ];
        let figures = Figures { rankings };
        #[rustfmt::skip]
        let table = [
            // row, growth in hundredths
            (0, None),
            (1, None),
            (2, Some(100)),
            (3, Some(200)),
        ];
        for (at, want) in table {
            let got = figures.growth(&figures.rankings[at]);
            assert_eq!(got.map(|growth| (growth * 100.0).round() as u64), want, "row {at}");
        }
        let text = figures.to_string();
        assert!(text.contains("400.0") && text.contains("within"), "{text}");
    }
}
