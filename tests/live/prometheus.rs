//! A real Prometheus scrapes the agent, and answers what the dashboards ask.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::host::{Agent, Group, alone, free_port, last_cpu, skip};

/// Fetched by `cargo xtask test`; Prometheus lies beside it.
const PROMTOOL: &str = "ISOBAR_PROMTOOL";
/// Scrapes before anything is asked: a rate needs two.
const SCRAPES: f64 = 8.0;
/// What a calm answer lacks, of metrics that are there.
const MAY_LACK: [&str; 3] = ["== 1", "result!=\"none\"", "result=\"held\""];

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
        let program = env::var_os(PROMTOOL)
            .map(|promtool| PathBuf::from(promtool).with_file_name("prometheus"));
        let program = program.unwrap_or_else(|| "prometheus".into());
        let rules = dashboards().join("alerts/isobar.rules.yaml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{}]\n\
             scrape_configs: [{{job_name: isobar, static_configs: [{{targets: ['{target}']}}]}}]\n",
            rules.display()
        );
        let file = dir.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let address = free_port().to_string();
        let process = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
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

    /// Waits until it has scraped often enough.
    fn wait(&self) {
        for _ in 0..300 {
            let n = self.get("query", &[("query", "sum(sum_over_time(up[1m]))")]);
            let n = n.ok().and_then(|n| n["data"]["result"][0]["value"][1].as_str()?.parse().ok());
            if n >= Some(SCRAPES) {
                return;
            }
            sleep(Duration::from_millis(200));
        }
        panic!("Prometheus has not scraped within a minute");
    }
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
    // A forecast comes and goes with the scrapes, so an answer that lacks is asked for again.
    let lacks = |expression: &String| {
        let mut tries = (0..3).map(|_| {
            sleep(Duration::from_millis(300));
            prometheus.query(expression).is_empty()
                && metrics(expression).all(|name| !prometheus.query(name).is_empty())
        });
        tries.all(|lacks| lacks)
    };
    let (mut n_asked, mut lacking) = (0, Vec::new());
    for name in ["grafana/node.json", "grafana/fleet.json"] {
        let json = fs::read_to_string(dashboards().join(name)).unwrap();
        let mut all = Vec::new();
        expressions(&serde_json::from_str(&json).unwrap(), &mut all);
        assert!(!all.is_empty(), "{name}");
        for expression in all {
            n_asked += 1;
            let may_lack = MAY_LACK.iter().any(|part| expression.contains(part));
            if prometheus.query(&expression).is_empty() && !may_lack && lacks(&expression) {
                lacking.push(expression);
            }
        }
    }
    println!("{n_asked} expressions");
    assert!(lacking.is_empty(), "{lacking:#?}");
    if agent.sees_waits() {
        let worst = prometheus.query("topk(1, rate(isobar_aggression_seconds_total[5s]))");
        let aggressor = worst[0]["metric"]["aggressor"].as_str().unwrap();
        assert!(aggressor.starts_with(above.path()), "{worst:?}");
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
