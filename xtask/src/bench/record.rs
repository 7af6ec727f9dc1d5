//! What a recording of a node of 500 cgroups takes: bytes, time to write, to show a moment of a full
//! segment, and to replay.

use std::fmt;
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use isobar_lab::table::{against, table};

/// 512 MiB a day.
const BYTES_A_TICK: f64 = (512 << 20) as f64 / 86_400.0;
const MOMENT_MS: f64 = 50.0;
const TICKS_A_SECOND: f64 = 1_000.0;
const PEAK_MIB: f64 = 64.0;

const MIB: f64 = 1024.0 * 1024.0;

/// What the benchmark reported.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    nodes: Vec<Node>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    node: String,
    ticks: u64,
    /// With a header and the marks of a chapter.
    bytes_a_tick: u64,
    write_ns: u64,
    moment_ns: u64,
    /// Of one tick.
    replay_ns: u64,
    peak_bytes: u64,
}

/// Has `cargo` build and run `monitor/benches/record.rs`. It needs no root and attaches nothing.
pub(super) fn measure(mut cargo: Command) -> Result<Figures> {
    Ok(Figures { nodes: super::printed("record: 500 cgroups", &mut cargo)? })
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Recording 500 cgroups; times of CPU, the moment is the middle of eleven of a full segment.\n"
        )?;
        let head = ["node", "figure", "", "limit", ""];
        let rows: Vec<Vec<String>> = self.nodes.iter().flat_map(Node::rows).collect();
        write!(f, "{}", table(&head, &rows))
    }
}

impl Node {
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |what: &str, figure: f64, limit: f64, verdict: &str| {
            vec![
                self.node.clone(),
                what.to_owned(),
                format!("{figure:.1}"),
                format!("{limit:.0}"),
                verdict.to_owned(),
            ]
        };
        let most = |what, figure, limit| row(what, figure, limit, against(figure, limit));
        let (moment, rate) = (self.moment_ns as f64 / 1e6, 1e9 / self.replay_ns.max(1) as f64);
        let written = format!("{:.2}", self.write_ns as f64 / 1e6);
        vec![
            most("bytes a tick", self.bytes_a_tick as f64, BYTES_A_TICK),
            most("moment, ms", moment, MOMENT_MS),
            row("replay, ticks/s", rate, TICKS_A_SECOND, against(TICKS_A_SECOND, rate)),
            most("peak, MiB", self.peak_bytes as f64 / MIB, PEAK_MIB),
            vec![
                self.node.clone(),
                "to write a tick, ms".into(),
                written,
                String::new(),
                String::new(),
            ],
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_judge_rates_from_below_and_all_else_from_above() {
        let node = Node {
            node: "pressed".into(),
            ticks: 300,
            bytes_a_tick: 7_000,
            write_ns: 1_500_000,
            moment_ns: 40_000_000,
            replay_ns: 2_000_000,
            peak_bytes: 32 << 20,
        };
        let verdicts: Vec<String> = node.rows().into_iter().map(|row| row[4].clone()).collect();
        assert_eq!(verdicts, ["ABOVE", "within", "ABOVE", "within", ""]);
    }
}
