//! `/metrics`: every name, type, unit and label, as a scraper sees them.

mod full;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response, header};
use http_body_util::BodyExt as _;
use isobar::serve::metrics::catalogue::{ALL, Kind};
use isobar::serve::publish::Latest;
use isobar::serve::router;
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryEvents};
use isobar_core::model::cost::Cost;
use isobar_core::model::pod::{Place, QosClass};
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
use isobar_core::model::snapshot::{Scope, Snapshot};
use isobar_core::model::stall::Coverage;
use isobar_core::model::units::Bytes;
use isobar_core::policy::engine::Step;
use tower::ServiceExt as _;

use crate::promtool::promtool;

const OPEN_METRICS: &str = "application/openmetrics-text";

/// What was published is kept by `latest` until the body was read.
async fn ask(latest: &Latest, accept: &str) -> Response<Body> {
    let request = Request::builder().uri("/metrics").header("host", "127.0.0.1");
    let request = request.header(header::ACCEPT, accept).body(Body::empty()).unwrap();
    router(latest.clone()).oneshot(request).await.unwrap()
}

async fn scrape(latest: &Latest, accept: &str) -> String {
    let body = ask(latest, accept).await.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Scrapes of several nodes, one after the other.
async fn scrapes(nodes: &[Latest], accept: &str) -> String {
    let mut all = String::new();
    for latest in nodes {
        all += &scrape(latest, accept).await;
    }
    all
}

/// Lines that are no comments.
fn samples(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

/// The series of a line, without its value.
fn series(line: &str) -> &str {
    line.rsplit_once(' ').unwrap().0
}

/// The metric of a line.
fn name(line: &str) -> &str {
    line.split(['{', ' ']).next().unwrap()
}

/// Names of what a kind of metric writes.
fn written(name: &str, kind: Kind) -> Vec<String> {
    match kind {
        Kind::Histogram => ["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")).into(),
        Kind::Counter | Kind::Gauge => vec![name.into()],
    }
}

#[tokio::test]
async fn metrics_full_scrape() {
    let text = scrape(&full::latest(), OPEN_METRICS).await;
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    insta::assert_snapshot!(text.replace(&version, "version=\"VERSION\""));
}

#[tokio::test]
async fn metrics_of_the_headline_are_its_figures() {
    for latest in full::each() {
        let text = scrape(&latest, OPEN_METRICS).await;
        let told = samples(&text).into_iter().filter(|line| line.starts_with("isobar_headline_"));
        let told: Vec<_> = told.collect();
        let view = &latest.borrow().clone().unwrap().view;
        let figures = view.headline_figures.len();
        assert!(figures > 0 && told.len() == figures, "{}: {told:?}", view.headline);
        // As the sentence rounds it.
        let said = |line: &str| {
            let value: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
            match line.contains("_seconds_") {
                true => format!(" {} ms", (value * 1e3).round()),
                false => Bytes(value as u64).to_string(),
            }
        };
        for line in told {
            assert!(view.headline.contains(&said(line)), "{}: {line}", view.headline);
        }
    }
}

#[tokio::test]
async fn metrics_formats() {
    for (accept, want) in [
        (OPEN_METRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("text/plain", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
    ] {
        let response = ask(&full::latest(), accept).await;
        assert_eq!(response.headers()["content-type"], want, "{accept}");
        assert_eq!(response.headers()["vary"], "accept", "{accept}");
    }
    let nodes = full::each();
    let [open, plain] = [scrapes(&nodes, OPEN_METRICS).await, scrapes(&nodes, "text/plain").await];
    assert!(open.ends_with("\n# EOF\n") && !plain.contains("EOF"));
    assert_eq!(samples(&open), samples(&plain));
    for metric in ALL {
        let (family, kind) = (metric.family(), metric.kind.name());
        let head = format!("\n# HELP {family} {}\n# TYPE {family} {kind}\n", metric.help);
        assert!(format!("\n{open}").contains(&head), "{head}");
        let unit = metric.unit().map(|unit| format!("\n# UNIT {family} {}\n", unit.name()));
        assert!(unit.is_none_or(|unit| open.contains(&unit)), "{family}");
        let head = format!("# HELP {0} {1}\n# TYPE {0} {kind}\n", metric.name, metric.help);
        assert!(plain.contains(&head), "{head}");
    }
}

#[tokio::test]
async fn metrics_catalogue_is_what_is_written() {
    let text = scrapes(&full::each(), OPEN_METRICS).await;
    let found: BTreeSet<&str> = samples(&text).into_iter().map(name).collect();
    let want: BTreeSet<String> =
        ALL.iter().flat_map(|metric| written(metric.name, metric.kind)).collect();
    assert_eq!(found, want.iter().map(String::as_str).collect());
    for metric in ALL {
        assert!(metric.name.starts_with("isobar_"), "{}", metric.name);
        let is_counter = metric.kind == Kind::Counter;
        assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
        assert!(metric.help.ends_with('.'), "{}", metric.name);
        assert!(!metric.help.contains(['\\', '"', '\n']), "{}: would need escapes", metric.name);
    }
}

/// A row of docs/metrics.md, as the code has it, but for what makes the metric absent.
fn rows() -> BTreeMap<&'static str, String> {
    let row = |metric: &'static isobar::serve::metrics::catalogue::Metric| {
        let unit = metric.unit().map_or("", |unit| unit.name());
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (metric.name, metric.kind.name(), labels.join(", "));
        (name, format!("| `{name}` | {kind} | {unit} | {labels} | {} |", metric.help))
    };
    ALL.iter().map(row).collect()
}

#[test]
fn metrics_table_is_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let text = fs::read_to_string(path).unwrap();
    let documented = text.lines().filter(|line| line.starts_with("| `isobar_"));
    let mut missing = rows();
    for line in documented {
        let name = line.split('`').nth(1).unwrap();
        let want = missing.remove(name);
        let want = want.unwrap_or_else(|| panic!("docs/metrics.md: {name} is twice, or no metric"));
        assert!(line.starts_with(&want), "docs/metrics.md should say\n{want}\nand says\n{line}");
        let absent = line[want.len()..].trim_matches([' ', '|']);
        assert!(!absent.is_empty(), "{name}: say when it is absent, or `never`");
    }
    let missing: Vec<_> = missing.into_values().collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks\n{}", missing.join("\n"));
}

#[tokio::test]
async fn metrics_unknown_is_absent() {
    let text = scrape(&full::of(Snapshot::default()), OPEN_METRICS).await;
    let found: BTreeSet<&str> = samples(&text).into_iter().map(name).collect();
    for absent in [
        "isobar_pressure_waiting_seconds_total",
        "isobar_cpu_contention_seconds_total",
        "isobar_cpu_wait_seconds_total",
        "isobar_run_queue_latency_seconds_count",
        "isobar_memory_shortage_seconds_total",
        "isobar_aggression_seconds_total",
        "isobar_aggression_loss_seconds_total",
        "isobar_aggression_other_seconds_total",
        "isobar_lost_total",
        "isobar_oom_kills_total",
        "isobar_memory_left_bytes",
        "isobar_condition_average_ratio",
        "isobar_process_cpu_seconds_total",
        "isobar_ebpf_map_bytes",
    ] {
        assert!(!found.contains(absent), "{absent}");
    }
    assert!(found.contains("isobar_covered"), "what is not covered is known");
}

#[tokio::test]
async fn metrics_of_a_recording_have_oom_kills_if_a_source_told_of_them() {
    let all = Coverage::ALL;
    let (none, waits) = (Coverage::default(), Coverage { waits: true, ..Coverage::default() });
    #[rustfmt::skip]
    let table = [
        // what programs measured, whether memory.events is read, whether kills are counted from 0 on
        (all,   false, true), // a rate needs to see the first one come
        (none,  true,  true),
        (none,  false, false),
        (waits, false, false), // what counts waits sees no kill
    ];
    for (covers, has_events, want) in table {
        let (mut publisher, latest) = full::publisher();
        for tick in 1..3 {
            let mut snapshot = Snapshot { tick, covers, oom_kills: vec![], ..full::snapshot() };
            let mut files = Cgroup::default();
            files.memory.events = has_events.then(MemoryEvents::default);
            for scope in snapshot.scopes.values_mut() {
                scope.files = Some(Arc::new(files.clone()));
            }
            let step = Step { snapshot, ..Step::default() };
            publisher.note(&Sample::default(), &Settings::default(), &step);
            // Of a recorded tick there are no capabilities.
            publisher.publish(step, Vec::new(), Cost::default());
            let text = scrape(&latest, OPEN_METRICS).await;
            for name in ["isobar_oom_kills_total{", "isobar_oom_kills_foreseen_total "] {
                let is_there = samples(&text).iter().any(|line| line.starts_with(name));
                assert_eq!(is_there, want, "{name} {covers:?} {tick}");
            }
        }
    }
}

fn pod(uid: &str) -> Scope {
    let from = full::snapshot().scopes.into_values();
    let is_pod = |scope: &Scope| matches!(scope.place, Place::Pod { .. });
    let like = from.into_iter().find(is_pod).unwrap();
    let place = Place::Pod { uid: uid.into(), class: QosClass::Burstable };
    Scope { path: CgroupPath(format!("/kubepods/pod{uid}").into()), place, ..like }
}

#[tokio::test]
async fn metrics_pods_are_bounded() {
    let scopes = (1..=600).map(|id| (CgroupId(id), pod(&format!("u{id:04}"))));
    let snapshot = Snapshot { scopes: scopes.collect(), ..full::snapshot() };
    let text = scrape(&full::of(snapshot), OPEN_METRICS).await;
    let of_pods = |line: &&str| line.starts_with("isobar_pod_");
    let of_pods: Vec<_> = samples(&text).into_iter().filter(of_pods).collect();
    assert_eq!(of_pods.len(), 500 * 7);
    assert!(of_pods.iter().all(|line| !line.contains("u0501")), "the newest are dropped");
    assert!(text.contains("\nisobar_pods 600\n") && text.contains("\nisobar_pods_dropped 100\n"));
}

#[tokio::test]
async fn metrics_no_series_twice() {
    let twice = [(CgroupId(70), pod("same")), (CgroupId(71), pod("same"))];
    let mut snapshot = full::snapshot();
    snapshot.scopes.extend(twice);
    for snapshot in [snapshot, full::snapshot()] {
        let text = scrape(&full::of(snapshot), OPEN_METRICS).await;
        let mut seen = BTreeSet::new();
        for line in samples(&text) {
            assert!(seen.insert(series(line)), "{line}");
        }
    }
}

#[tokio::test]
async fn metrics_labels_are_escaped() {
    let text = scrape(&full::latest(), OPEN_METRICS).await;
    let want = r#"namespace="shop",pod="od\"d\\\nname","#;
    assert!(text.contains(want), "{}", full::ODD_NAME);
}

#[tokio::test]
async fn metrics_counters_never_fall() {
    let (mut publisher, latest) = full::publisher();
    let mut before = BTreeMap::<String, f64>::new();
    for tick in 1..=5 {
        full::publish(&mut publisher, Snapshot { tick, ..full::snapshot() });
        let text = scrape(&latest, OPEN_METRICS).await;
        let is_counter = |line: &&str| name(line).ends_with("_total");
        let now = samples(&text).into_iter().filter(is_counter);
        let now: BTreeMap<_, f64> = now
            .map(|line| (series(line).to_owned(), line[series(line).len() + 1..].parse().unwrap()))
            .collect();
        for (series, then) in &before {
            assert!(now[series] >= *then, "{series}: {then}, then {}", now[series]);
        }
        before = now;
    }
    assert_eq!(before["isobar_ticks_total{cause=\"pressure\"}"], 5.0);
}

#[tokio::test]
async fn metrics_pass_promtool() {
    for snapshot in [full::snapshot(), Snapshot::default()] {
        let text = scrape(&full::of(snapshot), "text/plain").await;
        promtool(&["check", "metrics"], &text);
    }
}
