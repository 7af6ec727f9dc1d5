//! A real Prometheus scrapes the agent, or has what recordings say, and answers what the dashboards
//! ask.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::host::{Agent, Group, alone, free_port, last_cpu, skip};
use crate::program::{isobar, text};
use crate::sampling::data;

/// Fetched by `cargo xtask test`; Prometheus lies beside it.
const PROMTOOL: &str = "ISOBAR_PROMTOOL";
/// Scrapes before anything is asked: a rate needs two.
const SCRAPES: f64 = 8.0;
/// What a calm answer lacks, of metrics that are there; recordings have it.
const MAY_LACK: [&str; 3] = ["== 1", "result!=\"none\"", "result=\"held\""];
/// Metrics of the agent itself, which no recording has.
const OF_AGENT: [&str; 8] = [
    "isobar_build_info",
    "isobar_ebpf_",
    "isobar_gaps_total",
    "isobar_lost_total",
    "isobar_mode",
    "isobar_node_info",
    "isobar_process_",
    "isobar_tick",
];
/// Between them, everything that a panel is about but [`OF_AGENT`]: pods, an OOM kill and steps; a
/// condition that held.
const RECORDED: [&str; 2] = ["judged-leak-6.12.isobar", "judged-contended-6.1.isobar"];

struct Prometheus {
    process: Child,
    url: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    /// Scrapes `target` once a second; `None`, with the reason printed, where there is none.
    fn start(dir: &Path, target: &str) -> Option<Self> {
        let rules = dashboards().join("alerts/isobar.rules.yaml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{}]\n\
             scrape_configs: [{{job_name: isobar, static_configs: [{{targets: ['{target}']}}]}}]\n",
            rules.display()
        );
        Self::run(dir, &config)
    }

    /// Has what a recording says, under the times at which it was; `None`, with the reason printed,
    /// where there is none.
    fn of_recording(dir: &Path, file: &Path) -> Option<Self> {
        let printed = isobar(&["dump", "-o", "openmetrics", "-f"]).arg(file).output().unwrap();
        assert!(printed.status.success(), "{}", text(&printed.stderr));
        let metrics = dir.join("metrics");
        fs::write(&metrics, &printed.stdout).unwrap();
        let mut create = Command::new(program("promtool"));
        create.args(["tsdb", "create-blocks-from", "openmetrics"]).arg(metrics);
        let Ok(created) = create.arg(dir.join("data")).output() else {
            skip("no promtool: `cargo xtask test` fetches it");
            return None;
        };
        assert!(created.status.success(), "{}", text(&created.stderr));
        let own = Self::run(dir, "global: {}\n")?;
        own.wait_for("vector(1)", 1.0);
        Some(own)
    }

    fn run(dir: &Path, config: &str) -> Option<Self> {
        let file = dir.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let address = free_port().to_string();
        let process = Command::new(program("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
            .arg("--storage.tsdb.retention.time=100y")
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = process else {
            skip("no prometheus: `cargo xtask test` fetches it");
            return None;
        };
        Some(Self { process, url: format!("http://{address}/api/v1") })
    }

    fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, ureq::Error> {
        let request = ureq::get(format!("{}/{path}", self.url)).query_pairs(query.to_vec());
        let text = request.call()?.body_mut().read_to_string()?;
        Ok(serde_json::from_str(&text).unwrap())
    }

    /// The series that an expression gives.
    fn query(&self, expression: &str) -> Vec<Value> {
        let answer = self.get("query", &[("query", expression)]);
        let answer = answer.unwrap_or_else(|why| panic!("{expression}: {why}"));
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// Whether an expression has a series anywhere between two moments, in seconds since 1970.
    fn has(&self, expression: &str, [start, end]: [f64; 2]) -> bool {
        let (start, end) = (start.to_string(), end.to_string());
        let range = [("query", expression), ("start", &*start), ("end", &*end), ("step", "1")];
        let answer = self.get("query_range", &range);
        let answer = answer.unwrap_or_else(|why| panic!("{expression}: {why}"));
        !answer["data"]["result"].as_array().unwrap().is_empty()
    }

    /// Waits until it has scraped often enough.
    fn wait(&self) {
        self.wait_for("sum(sum_over_time(up[1m]))", SCRAPES);
    }

    fn wait_for(&self, expression: &str, least: f64) {
        for _ in 0..300 {
            let n = self.get("query", &[("query", expression)]);
            let n = n.ok().and_then(|n| n["data"]["result"][0]["value"][1].as_str()?.parse().ok());
            if n >= Some(least) {
                return;
            }
            sleep(Duration::from_millis(200));
        }
        panic!("Prometheus has not answered {expression} with {least} within a minute");
    }
}

/// A program of Prometheus: beside promtool, else by its name.
fn program(name: &str) -> PathBuf {
    let promtool = env::var_os(PROMTOOL).map(PathBuf::from);
    promtool.map_or_else(|| name.into(), |promtool| promtool.with_file_name(name))
}

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards")
}

/// Every expression of a dashboard, of every node and of the last seconds.
fn expressions(json: &Value, found: &mut Vec<String>) {
    match json {
        Value::Object(fields) => {
            let expression = fields.get("expr").and_then(Value::as_str);
            found.extend(expression.map(|text| {
                let text = text.replace("$__rate_interval", "5s").replace("$__range", "1m");
                text.replace("=\"$instance\"", "=~\".+\"")
            }));
            fields.values().for_each(|value| expressions(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

/// Every expression of the dashboards.
fn asked() -> Vec<String> {
    let mut all = Vec::new();
    for name in ["grafana/node.json", "grafana/fleet.json"] {
        let n = all.len();
        let json = fs::read_to_string(dashboards().join(name)).unwrap();
        expressions(&serde_json::from_str(&json).unwrap(), &mut all);
        assert!(all.len() > n, "{name}");
    }
    all
}

fn is_of_agent(metric: &str) -> bool {
    OF_AGENT.iter().any(|of| metric.starts_with(of))
}

/// The metrics that an expression asks for.
fn metrics(expression: &str) -> impl Iterator<Item = &str> {
    expression.match_indices("isobar_").map(|(at, _)| {
        let rest = &expression[at..];
        &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())]
    })
}

#[test]
fn prometheus_answers_what_the_dashboards_ask() {
    let _alone = alone();
    let Some(above) = Group::make("prometheus") else { return };
    let (cpu, mut spinners) = (last_cpu(), [above.child("one"), above.child("other")]);
    spinners.iter_mut().for_each(|group| _ = group.spin(cpu));
    let mut agent = Agent::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let Some(prometheus) = Prometheus::start(dir.path(), &agent.address().to_string()) else {
        return;
    };
    prometheus.wait();
    // What no recording has must be there: of the programs, where there are any.
    let is_there = |metric: &str| {
        is_of_agent(metric) && !metric.starts_with("isobar_ebpf_")
            || !prometheus.query(metric).is_empty()
    };
    // A forecast comes and goes with the scrapes, so an answer that lacks is asked for again.
    let lacks = |expression: &String| {
        let mut tries = (0..3).map(|_| {
            sleep(Duration::from_millis(300));
            prometheus.query(expression).is_empty() && metrics(expression).all(is_there)
        });
        tries.all(|lacks| lacks)
    };
    let (mut n_asked, mut lacking) = (0, Vec::new());
    for expression in asked() {
        n_asked += 1;
        let may_lack = MAY_LACK.iter().any(|part| expression.contains(part));
        if prometheus.query(&expression).is_empty() && !may_lack && lacks(&expression) {
            lacking.push(expression);
        }
    }
    println!("{n_asked} expressions");
    assert!(lacking.is_empty(), "{lacking:#?}");
    if agent.sees_waits() {
        // Others may make each other wait longer on a busy machine.
        let own = format!("aggressor=~\"{0}/.+\",victim=~\"{0}/.+\"", above.path());
        let rate = format!("rate(isobar_aggression_seconds_total{{{own}}}[5s]) > 0.1");
        assert!(!prometheus.query(&rate).is_empty(), "{own}");
    }

    let rules = |state: &str| {
        let rules = prometheus.get("rules", &[]).unwrap();
        let groups = rules["data"]["groups"].as_array().unwrap().clone();
        let all = groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone());
        let all: Vec<_> = all.collect();
        all.iter().for_each(|rule| assert_eq!(rule["health"], "ok", "{rule:#}"));
        let names = all.iter().filter(|rule| rule["state"] == state);
        names.map(|rule| rule["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(rules("firing"), <[&str; 0]>::default());
    agent.stop();
    for _ in 0..100 {
        if rules("pending").contains(&"IsobarAway".to_owned()) {
            return;
        }
        sleep(Duration::from_millis(200));
    }
    panic!("nothing tells that the agent is away");
}

/// A machine without pods, or where nothing happens, has no answer to half of the panels.
#[test]
fn prometheus_answers_every_panel_of_recordings() {
    // Without the labels that a scrape adds.
    let all = asked().into_iter().map(|one| one.replace("=~\".+\"", "=~\".*\""));
    let mut left: Vec<_> = all.filter(|one| !metrics(one).any(is_of_agent)).collect();
    let n_asked = left.len();
    assert!(n_asked > 40, "{n_asked}");
    for name in RECORDED {
        let (file, dir) = (data(&format!("recordings/{name}")), tempfile::tempdir().unwrap());
        let lines = isobar(&["dump", "-f"]).arg(&file).output().unwrap();
        let walls = text(&lines.stdout);
        let walls = walls.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let walls: Vec<_> = walls.map(|tick| tick["at"]["wall"].as_f64().unwrap() / 1e9).collect();
        let Some(prometheus) = Prometheus::of_recording(dir.path(), &file) else { return };
        let span = [walls[0], walls[walls.len() - 1] + 1.0];
        left.retain(|expression| !prometheus.has(expression, span));
    }
    assert!(left.is_empty(), "{n_asked} expressions, without an answer: {left:#?}");
}
