//! Which alert rules fire over what an agent serves at `/metrics`. In: each scrape of a play. Out: what
//! promtool says of the repository's rules over them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::shell::{quietly, root};

/// The rules, as a Prometheus has them.
const RULES: &str = include_str!("../../../dashboards/alerts/isobar.rules.yaml");
/// From one scrape to the next.
pub(crate) const INTERVAL: Duration = Duration::from_secs(15);

/// What was scraped: of each series that the rules ask for its values, as promtool writes them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scrapes {
    n: usize,
    series: BTreeMap<String, String>,
}

impl Scrapes {
    /// Adds the text of a scrape; `None` if there was no answer in time.
    pub(crate) fn add(&mut self, text: Option<&str>) {
        let names = names();
        let up = ("up".to_owned(), f64::from(u8::from(text.is_some())));
        let read = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let is_asked_for = names.contains(series.split('{').next()?);
            is_asked_for.then_some((series.to_owned(), value.parse::<f64>().ok()?))
        };
        let lines = text.unwrap_or_default().lines().filter(|line| !line.starts_with('#'));
        let mut now: BTreeMap<String, f64> = lines.filter_map(read).chain([up]).collect();
        for (series, values) in &mut self.series {
            *values += &match now.remove(series) {
                Some(value) => format!(" {value}"),
                // As Prometheus marks a series that a scrape no longer has.
                None if values.ends_with(|last: char| last.is_ascii_digit()) => " stale".into(),
                None => " _".into(),
            };
        }
        let before = "_ ".repeat(self.n);
        let first = |(series, value)| (series, format!("{before}{value}"));
        self.series.extend(now.into_iter().map(first));
        self.n += 1;
    }

    /// Holds that the alerts `wanted` fire over it, and no other. The test is kept as `file`.
    pub(crate) fn check(&self, wanted: &[String], promtool: &Path, file: &Path) -> Result<()> {
        let series = self.series.iter().map(|(series, values)| {
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = format!(r#"{name}{{job="isobar",instance="node",{labels}"#);
            json!({"series": labels, "values": values})
        });
        let end = format!("{}s", INTERVAL.as_secs() * self.n as u64);
        let fired = format!(
            r#"group by (alertname) (count_over_time(ALERTS{{alertstate="firing"}}[{end}]))"#
        );
        let wanted = wanted
            .iter()
            .map(|name| json!({"labels": format!("{{alertname={name:?}}}"), "value": 1}));
        let interval = format!("{}s", INTERVAL.as_secs());
        let test = json!({
            "rule_files": [root().join("dashboards/alerts/isobar.rules.yaml")],
            "evaluation_interval": interval,
            "tests": [{
                "interval": interval,
                "input_series": series.collect::<Vec<_>>(),
                "promql_expr_test": [
                    {"expr": fired, "eval_time": end, "exp_samples": wanted.collect::<Vec<_>>()},
                ],
            }],
        });
        // JSON is YAML.
        fs::write(file, serde_json::to_string_pretty(&test)?)?;
        quietly(Command::new(promtool).args(["test", "rules"]).arg(file)).map(drop)
    }
}

/// True if there is a rule of that name.
pub(crate) fn is_known(alert: &str) -> bool {
    RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).any(|name| name == alert)
}

/// The metrics that the rules ask for.
fn names() -> BTreeSet<&'static str> {
    let words = RULES.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("isobar_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrapes_become_series() {
        let mut scrapes = Scrapes::default();
        let kill = |n: u64| {
            format!(
                "# HELP isobar_oom_kills_total OOM kills\n\
                 isobar_oom_kills_total{{limit=\"node\"}} {n}\n\
                 isobar_waiting_total{{scope=\"a\"}} 5\nisobar_pods 1e+01\n"
            )
        };
        let ticks = "isobar_ticks_total 0.25\nisobar_ticks_total torn\n";
        for text in [Some(ticks), Some(&kill(0)), None, None, Some(&kill(3))] {
            scrapes.add(text);
        }
        #[rustfmt::skip]
        let table = [
            ("isobar_oom_kills_total{limit=\"node\"}", "_ 0 stale _ 3"),
            ("isobar_pods",                            "_ 10 stale _ 10"),
            ("isobar_ticks_total",                     "0.25 stale _ _ _"),
            ("up",                                     "1 1 0 0 1"),
        ];
        let series =
            scrapes.series.iter().map(|(series, values)| (series.as_str(), values.as_str()));
        assert_eq!(series.collect::<Vec<_>>(), table);
        assert!(is_known("IsobarOomKill") && !is_known("IsobarOom"));
    }
}
