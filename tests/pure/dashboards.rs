//! Alert rules and dashboards ask for metrics that exist, with labels that these have.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use isobar::serve::metrics::catalogue::{ALL, Kind};
use serde_json::Value;

use crate::promtool::promtool;

/// Labels that Prometheus adds.
const ADDED: [&str; 3] = ["instance", "job", "le"];

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards")
}

/// Files of a folder of dashboards/ that end so, with their text.
fn files(folder: &str, end: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(dashboards().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.to_str().unwrap().ends_with(end)).map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    });
    texts.collect()
}

/// Labels of every name that a series may have.
fn known() -> BTreeMap<String, Vec<&'static str>> {
    let mut known = BTreeMap::new();
    for metric in ALL {
        let ends: &[&str] = match metric.kind {
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            Kind::Counter | Kind::Gauge => &[""],
        };
        let labels = || metric.labels.iter().copied().chain(ADDED).collect();
        known.extend(ends.iter().map(|end| (format!("{}{end}", metric.name), labels())));
    }
    known
}

/// What is wrong with the metrics that `text` names.
fn wrong(text: &str) -> Vec<String> {
    let known = known();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut wrong = Vec::new();
    for (at, _) in text.match_indices("isobar_") {
        let end = text[at..].find(|c| !is_name(c)).map_or(text.len(), |n| at + n);
        let name = &text[at..end];
        let Some(labels) = known.get(name) else {
            wrong.push(format!("{name} is no metric"));
            continue;
        };
        let matchers = text[end..].strip_prefix('{').and_then(|rest| rest.split('}').next());
        for matcher in matchers.into_iter().flat_map(|all| all.split("\",")) {
            let label = matcher.split(['=', '!']).next().unwrap().trim();
            if !label.is_empty() && !labels.contains(&label) {
                wrong.push(format!("{name} has no label {label}"));
            }
        }
    }
    wrong
}

#[test]
fn dashboards_name_metrics_that_exist() {
    let rules = files("alerts", ".yaml");
    let panels = files("grafana", ".json");
    assert!(!rules.is_empty() && !panels.is_empty());
    for (name, text) in rules.into_iter().chain(panels) {
        assert!(text.contains("isobar_"), "{name}");
        // In JSON a quote is escaped.
        assert_eq!(wrong(&text.replace("\\\"", "\"")), [""; 0], "{name}");
    }
}

#[test]
fn wrong_sees_names_and_labels() {
    #[rustfmt::skip]
    let table: &[(&str, &[&str])] = &[
        // expression, what is wrong
        ("rate(isobar_ticks_total[5m])",                         &[]),
        ("isobar_ticks_total{cause=\"timer\",job=~\"a,b\"}",     &[]),
        ("isobar_tick_duration_seconds_bucket{le=\"1.0\"}",      &[]),
        ("isobar_tick_duration_seconds",                         &["isobar_tick_duration_seconds is no metric"]),
        ("isobar_tick_total",                                    &["isobar_tick_total is no metric"]),
        ("isobar_ticks_total{reason!=\"x\"}",                    &["isobar_ticks_total has no label reason"]),
    ];
    for (text, want) in table {
        assert_eq!(wrong(text), *want, "{text}");
    }
}

/// Each alert has what it takes to act on it: a severity, words with a number, a runbook, and a test.
#[test]
fn alerts_are_complete() {
    let docs = fs::read_to_string(dashboards().join("../docs/alerts.md")).unwrap();
    let tests: String = files("alerts", ".test.yaml").into_iter().map(|(_, text)| text).collect();
    let rules = fs::read_to_string(dashboards().join("alerts/isobar.rules.yaml")).unwrap();
    let scenarios = files("../tests/lab/scenarios", ".toml");
    let expected = scenarios.iter().flat_map(|(_, text)| text.lines());
    let expected: String = expected.filter(|line| line.starts_with("alerts = ")).collect();
    let mut alerts = rules.split("- alert: ");
    alerts.next();
    let mut n_alerts = 0;
    for alert in alerts {
        n_alerts += 1;
        let name = alert.lines().next().unwrap();
        for key in ["severity: ", "summary: ", "description: "] {
            assert!(alert.contains(key), "{name}: {key}");
        }
        let link = format!("runbook: docs/alerts.md#{}\n", name.to_lowercase());
        assert!(alert.contains(&link), "{name}: runbook should be {link}");
        assert!(docs.contains(&format!("\n## {name}\n")), "docs/alerts.md lacks {name}");
        let test = format!("- alertname: {name}\n");
        let mut played = tests.split(&test).skip(1).peekable();
        assert!(played.peek().is_some(), "{name} has no test");
        assert!(played.any(|one| one.contains("exp_alerts")), "{name} never fires in its test");
        assert!(expected.contains(&format!("\"{name}\"")), "{name} fires in no scenario");
    }
    let of_kill = docs.split("\n## IsobarOomKill\n").nth(1).unwrap().split("\n## ").next().unwrap();
    for text in [of_kill, rules.split("- alert: IsobarOomKill\n").nth(1).unwrap()] {
        assert!(text.contains("`isobar incidents show latest`"), "{text}");
    }
    let n_sections = docs.matches("\n## Isobar").count();
    assert_eq!(n_sections, n_alerts, "docs/alerts.md has a section of an alert that is gone");
}

#[test]
fn alerts_fire_as_promtool_plays_them() {
    let rules = dashboards().join("alerts/isobar.rules.yaml");
    let tests = dashboards().join("alerts/isobar.test.yaml");
    promtool(&["check", "rules", rules.to_str().unwrap()], "");
    promtool(&["test", "rules", tests.to_str().unwrap()], "");
}

/// Values of all keys `key`, wherever they are.
fn all<'a>(json: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match json {
        Value::Object(fields) => {
            found.extend(fields.get(key));
            fields.values().for_each(|value| all(value, key, found));
        }
        Value::Array(values) => values.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

#[test]
fn dashboards_are_sound() {
    for (name, text) in files("grafana", ".json") {
        let json: Value = serde_json::from_str(&text).unwrap();
        let panels = json["panels"].as_array().unwrap();
        let mut ids: Vec<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|a, b| a < b), "{name}: two panels have one id");
        for panel in panels.iter().filter(|panel| panel["type"] != "row") {
            let title = panel["title"].as_str().unwrap();
            assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{title}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}: {title}");
            // A query without one takes its panel's.
            let queries = panel["targets"].as_array().into_iter().flatten();
            assert_eq!(queries.filter(|one| !one["datasource"].is_null()).count(), 0, "{title}");
        }
        let mut exprs = Vec::new();
        all(&json, "expr", &mut exprs);
        // As rules, because promtool reads expressions nowhere else without a server.
        let rule = |(i, expr): (usize, &&Value)| {
            let expr = expr.as_str().unwrap().replace("$__rate_interval", "1m");
            let expr = expr.replace("$__range", "1h");
            format!("  - {{record: 'r:{i}', expr: {}}}\n", Value::from(expr))
        };
        let rules: String = exprs.iter().enumerate().map(rule).collect();
        let rules = format!("groups:\n- name: panels\n  rules:\n{rules}");
        assert!(!exprs.is_empty(), "{name}");
        promtool(&["check", "rules", "/dev/stdin"], &rules);
    }
}
