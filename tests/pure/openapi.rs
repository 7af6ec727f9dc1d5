//! The OpenAPI document, held to what the router answers.

use std::fs;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use boon::{Compiler, SchemaIndex, Schemas};
use isobar::record::incident::shelf::Shelf;
use isobar::record::reader::Recording;
use isobar::record::replay::Replay;
use isobar::serve::router;
use isobar_core::model::cgroup::Limit;
use isobar_core::model::decision::{StepKind, made};
use isobar_core::model::fraction::Fraction;
use isobar_core::model::node::{Filesystem, Filesystems, NodeReading};
use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::{Deletion, Settings, WorkloadRule, WrittenLimit};
use isobar_core::model::snapshot::Snapshot;
use isobar_core::model::threshold::{Amount, Signal, Threshold};
use isobar_core::model::units::{Nanos, Percent};
use isobar_core::model::workload::Pod;
use isobar_core::policy::engine::Step;
use isobar_core::view::foresight::Tally;
use isobar_kubelet::cpus::Pool;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

use crate::http::{get, observing, text};
use crate::kept::keep;
use crate::made_up::{self, INCIDENT, POD_A};
use crate::recorded::{leak, served, serving};
use crate::sampling::data;

const PLACE: &str = "https://isobar.example/openapi.json";

pub(crate) async fn document() -> Value {
    serde_json::from_str(&text(get(&observing(), "/openapi.json").await).await).unwrap()
}

/// Its schemas, by which a field is wrong that they do not have.
struct Rules {
    document: Value,
    compiler: Compiler,
    schemas: Schemas,
}

impl Rules {
    async fn new() -> Self {
        let document = document().await;
        let mut strict = document.clone();
        close(&mut strict["components"]["schemas"]);
        let mut compiler = Compiler::new();
        compiler.add_resource(PLACE, strict).unwrap();
        Self { document, compiler, schemas: Schemas::new() }
    }

    fn schema(&mut self, pointer: &str) -> SchemaIndex {
        let place = format!("{PLACE}#{pointer}");
        self.compiler.compile(&place, &mut self.schemas).unwrap_or_else(|why| panic!("{why:#}"))
    }

    fn hold_as(&mut self, name: &str, value: &impl Serialize) {
        let schema = self.schema(&format!("/components/schemas/{name}"));
        let value = serde_json::to_value(value).unwrap();
        let held = self.schemas.validate(&value, schema);
        held.unwrap_or_else(|why| panic!("{name} {value}: {why:#}"));
    }

    /// A path with the parameters of a request, which are no part of its name.
    async fn hold(&mut self, router: &Router, path: &str, query: &str) -> Value {
        let asked = format!("{}{query}", path.replace("{name}", INCIDENT));
        let response = get(router, &asked).await;
        let status = response.status().as_u16();
        let media = response.headers()["content-type"].to_str().unwrap().to_owned();
        let media = media.split(';').next().unwrap();
        let escaped = |text: &str| text.replace('~', "~0").replace('/', "~1");
        let mut told = format!("/paths/{}/get/responses/{status}", escaped(path));
        let found = self.document.pointer(&told);
        let found = found.unwrap_or_else(|| panic!("{asked} answers {status}, which is not told"));
        if let Some(shared) = found.get("$ref") {
            told = shared.as_str().unwrap()[1..].into();
        }
        let told = format!("{told}/content/{}/schema", escaped(media));
        assert!(self.document.pointer(&told).is_some(), "{asked} answers {media} with {status}");
        let body = text(response).await;
        if media != "application/json" {
            return body.into();
        }
        let answer: Value = serde_json::from_str(&body).unwrap();
        let schema = self.schema(&told);
        let held = self.schemas.validate(&answer, schema);
        held.unwrap_or_else(|why| panic!("{asked}: {why:#}"));
        answer
    }
}

/// Permits no field that is not named.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(own) => {
            own.values_mut().for_each(close);
            // And not what is itself called `properties`.
            if own.get("properties").is_some_and(Value::is_object)
                && !own.contains_key("additionalProperties")
            {
                own.insert("unevaluatedProperties".into(), false.into());
            }
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

#[tokio::test]
async fn openapi_says_what_is_answered() {
    let mut rules = Rules::new().await;
    let (live, recorded) = (observing(), served(None).await);
    let (_publisher, latest) = made_up::publisher();
    let early = router(latest);
    let paths: Vec<_> = rules.document["paths"].as_object().unwrap().keys().cloned().collect();
    for path in &paths {
        if path == "/api/v1/stream" {
            continue;
        }
        // What a node that is made up has no recording for.
        let is_of_past =
            ["/api/v1/what-if", "/api/v1/advice", "/api/v1/rank"].contains(&path.as_str());
        let router = if is_of_past { &recorded } else { &live };
        let response = get(router, &path.replace("{name}", INCIDENT)).await;
        assert_eq!(response.status(), 200, "{path}");
        rules.hold(router, path, "").await;
        rules.hold(&early, path, "").await;
        rules.hold(&recorded, path, "").await;
        let about = rules.document["paths"][path].to_string();
        if about.contains("parameters/At") {
            rules.hold(&live, path, "?at=-5m").await;
            rules.hold(&recorded, path, "?at=2020-01-01T00:00:00Z").await;
        }
    }
    rules.hold(&live, "/api/v1/history", "?begin=-1h&step=10s&series=system,agent").await;
    rules.hold(&live, "/api/v1/history", "?series=nothing").await;
    rules.hold(&live, "/api/v1/what-if", "").await;
}

#[tokio::test]
async fn openapi_says_what_every_path_refuses() {
    let (document, live, recorded) = (document().await, observing(), served(None).await);
    for (path, about) in document["paths"].as_object().unwrap() {
        let is_of_past = ["/api/v1/what-if", "/api/v1/advice", "/api/v1/rank"];
        let router = if is_of_past.contains(&path.as_str()) { &recorded } else { &live };
        #[rustfmt::skip]
        let table = [
            // method, host, status
            ("POST", "localhost",       405),
            ("GET",  "rebound.example", 421),
            ("GET",  "localhost",       304), // of those that are tagged
        ];
        for (method, host, status) in table {
            let request = Request::builder().method(method).uri(path.replace("{name}", INCIDENT));
            let request = request.header("host", host).header("if-none-match", "*");
            let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await;
            let answered = response.unwrap().status().as_u16();
            let told = about["get"]["responses"].get(status.to_string());
            assert_eq!(answered == status, told.is_some(), "{method} {host}{path}: {answered}");
        }
    }
}

/// Recordings of real nodes have what a node that is made up lacks: pods, decisions, kills.
#[tokio::test]
async fn openapi_holds_for_kept_recordings() {
    let mut rules = Rules::new().await;
    let change = "?change=%7B%22ranking%22%3A%7B%22order%22%3A%22qos%22%7D%7D";
    for file in fs::read_dir(data("recordings")).unwrap().map(|file| file.unwrap().path()) {
        let dir = TempDir::new().unwrap();
        if file == leak() {
            keep(&file, dir.path());
        }
        let shelf = Shelf::in_dir(dir.path().join("incidents"));
        let router = serving(&file, Some(shelf)).await;
        let told = rules.hold(&router, "/api/v1/recording", "").await;
        let wall = |name: &str| told[name]["wall"].as_u64().unwrap() / 1_000_000_000;
        let (begin, end) = (wall("begin"), wall("end"));
        for at in [begin + 1, begin + (end - begin) / 2, begin + (end - begin) * 3 / 4, end] {
            let at = format!("?at={at}");
            for path in [
                "/api/v1/snapshot",
                "/api/v1/cgroups",
                "/api/v1/matrix",
                "/api/v1/conditions",
                "/api/v1/decisions",
                "/api/v1/allocatable",
                "/api/v1/capabilities",
                "/api/v1/settings",
                "/api/v1/history",
                "/api/v1/history/events",
                "/api/v1/recording/ticks",
                "/api/v1/rank",
                "/stats/summary",
            ] {
                rules.hold(&router, path, &at).await;
            }
        }
        rules.hold(&router, "/api/v1/what-if", change).await;
        rules.hold(&router, "/api/v1/advice", "").await;
        let kept = rules.hold(&router, "/api/v1/incidents", "").await;
        assert_eq!(kept["incidents"].as_array().unwrap().len(), usize::from(file == leak()));
        for incident in kept["incidents"].as_array().unwrap() {
            let name = incident["name"].as_str().unwrap();
            let answer = text(get(&router, &format!("/api/v1/incidents/{name}")).await).await;
            let answer: Value = serde_json::from_str(&answer).unwrap();
            rules.hold_as("Incident", &answer);
        }
        // Of all ticks: a step is decided in one of them.
        let mut replay = Replay::new(Recording::open(&file).unwrap(), None);
        while let Some(step) = replay.step_before(Nanos(u64::MAX)).unwrap() {
            rules.hold_as("Decision", &step.decision);
        }
    }
}

#[tokio::test]
async fn openapi_holds_for_cpu_sets() {
    let mut rules = Rules::new().await;
    let (mut publisher, latest) = made_up::publisher();
    let router = router(latest);
    publisher.note_node((Some(&made_up::cpus(None)), None));
    let pod = Pod { namespace: "shop".into(), name: "web".into(), ..Pod::default() };
    let pod = (POD_A.to_owned(), Pod { uid: POD_A.into(), ..pod });
    let snapshot = Snapshot { pods: Some(Arc::new([pod].into())), ..made_up::snapshot(1) };
    made_up::publish_step(&mut publisher, Step { snapshot, ..Step::default() });
    let told = rules.hold(&router, "/api/v1/allocatable", "").await["cpus"].take();
    let want = json!({
        "reserved": "0",
        "default": "0-1,4-7",
        "exclusive": "2-3",
        "sharedMillicores": 5_000,
        "assignments": [{ "pod": POD_A, "container": "app", "cpus": "2-3" }],
        "problems": [],
        "names": { POD_A: "shop/web" },
    });
    assert_eq!(told, want);
    let pool = made_up::cpus(Some("cannot read cpu_manager_state: Permission denied"));
    publisher.note_node((Some(&Pool { sets: None, assignments: vec![], ..pool }), None));
    made_up::publish(&mut publisher, 2);
    let told = rules.hold(&router, "/api/v1/allocatable", "").await["cpus"].take();
    let keys: Vec<_> = told.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["assignments", "names", "problems", "reserved"], "the rest is not known");
    publisher.note_node((None, None));
    made_up::publish(&mut publisher, 3);
    let told = rules.hold(&router, "/api/v1/allocatable", "").await;
    assert_eq!(told["cpus"], Value::Null, "without the static policy");
}

#[tokio::test]
async fn openapi_holds_for_rare_values() {
    let mut rules = Rules::new().await;
    let tenth = Amount::Percentage(Fraction::of_percent(10.5).unwrap());
    let (signal, grace) = (Signal::NodefsAvailable, Nanos::SECOND);
    let mut settings = Settings::default();
    settings.eviction.pressure = made::usual_pressure_thresholds();
    settings.eviction.thresholds =
        vec![Threshold { signal, value: tenth, grace, min_reclaim: Some(tenth) }];
    settings.node.reserved_cpus = Some("0-3,8".parse().unwrap());
    settings.node.write_limits = [WrittenLimit::Allocatable, WrittenLimit::ReservedCpus].into();
    settings.relief.enforce = StepKind::ALL.into();
    settings.relief.deletion = Deletion::OverBudgets;
    settings.workloads = vec![WorkloadRule {
        path: "/batch/**".parse().unwrap(),
        qos_class: QosClass::BestEffort,
        priority: -1,
        requests: [("memory".to_owned(), "1Gi".parse().unwrap())].into(),
    }];
    rules.hold_as("SettingsInForce", &settings);
    let file = Filesystem { device: u64::MAX, ..Filesystem::default() };
    let filesystems = Filesystems { nodefs: Some(file), ..Filesystems::default() };
    rules.hold_as("NodeReading", &NodeReading { filesystems, ..NodeReading::default() });
    rules.hold_as("Foresight", &Tally::default());
    for limit in [Limit::Max, Limit::At(0)] {
        rules.hold_as("Limit", &limit);
    }
    for share in [0, 12_34, u16::MAX] {
        rules.hold_as("Percent", &Percent(share));
    }
}

/// A rule that lets everything pass would hold nothing.
#[tokio::test]
async fn openapi_refuses_what_is_not_served() {
    let mut rules = Rules::new().await;
    let recorded = serving(&leak(), None).await;
    let answer = rules.hold(&recorded, "/api/v1/snapshot", "?at=-8s").await;
    let schema = rules.schema("/components/schemas/Snapshot");
    #[rustfmt::skip]
    let table = [
        // where, what stands there then
        ("/more",                                json!(1)),     // a field that is not told
        ("/whole/more",                          json!(null)),
        ("/whole/place/more",                    json!("x")),
        ("/decision/assessment/conditions/0/more", json!(0)),
        ("/kind",                                json!("Other")),
        ("/interval",                            json!(-1)),
        ("/headline",                            json!(null)),
        ("/verdict/0/mood",                      json!("glad")),
        ("/whole/pressure/cpu/some/avg10",       json!("1.00")),
        ("/scopes/x",                            answer["whole"].clone()), // an id is a number
    ];
    for (place, value) in table {
        let mut other = answer.clone();
        let (above, name) = place.rsplit_once('/').unwrap();
        let within = other.pointer_mut(above).unwrap_or_else(|| panic!("no {above}"));
        within.as_object_mut().unwrap().insert(name.into(), value.clone());
        assert!(rules.schemas.validate(&other, schema).is_err(), "{place}: {value}");
    }
    for gone in ["/at", "/whole/contention", "/decision/relief/held"] {
        let mut other = answer.clone();
        let (above, name) = gone.rsplit_once('/').unwrap();
        let within = other.pointer_mut(above).unwrap().as_object_mut().unwrap();
        assert!(within.remove(name).is_some(), "{gone}");
        assert!(rules.schemas.validate(&other, schema).is_err(), "without {gone}");
    }
}

#[tokio::test]
async fn openapi_has_what_it_refers_to() {
    let document = document().await;
    let mut all = vec![("", &document)];
    let mut named = Vec::new();
    while let Some((name, value)) = all.pop() {
        if let Some(place) = value.get("$ref") {
            let place = place.as_str().unwrap();
            assert!(document.pointer(&place[1..]).is_some(), "{place}");
            named.push(place);
        }
        match value {
            Value::Object(members) => {
                let is_bare = value["type"] == "object"
                    && !["properties", "additionalProperties"]
                        .iter()
                        .any(|key| value.get(key).is_some());
                assert!(!is_bare || name == "schema", "{name}: an object of which nothing is told");
                all.extend(members.iter().map(|(name, value)| (name.as_str(), value)));
            }
            Value::Array(members) => all.extend(members.iter().map(|value| (name, value))),
            Value::String(text) if name == "description" => {
                assert!(!text.contains("::"), "say it in the words of JSON: {text}");
            }
            _ => {}
        }
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        // It is told in words, as what a stream has.
        let is_named = named.contains(&&*format!("#/components/schemas/{name}")) || name == "Gap";
        assert!(is_named, "nothing is a {name}");
    }
}
