//! The history of one cgroup, read from a recording: what its row showed at each moment.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use axum::Router;
use isobar::record::journal::Ring;
use isobar::serve::router;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use serde_json::Value;
use tempfile::TempDir;

use crate::http::{get, text};
use crate::made_up;
use crate::moment::anew;
use crate::recorded::{leak, read, recording_agent, served, serving};

const SECOND: u64 = 1_000_000_000;
/// Between the first tick and the last.
const MIDDLE: &str = "at=2026-11-22T10:13:50Z";

async fn history(router: &Router, cgroup: &str, query: &str) -> Value {
    read(router, &format!("/api/v1/history?cgroup={cgroup}&{query}")).await
}

/// The pod that takes what all pods may have.
async fn pod(router: &Router) -> (String, String) {
    let view = read(router, &format!("/api/v1/snapshot?{MIDDLE}")).await;
    let scopes = view["scopes"].as_object().unwrap();
    let own = scopes.iter().find(|(_, scope)| scope["name"] == "shop/leak").unwrap();
    (own.0.clone(), own.1["path"].as_str().unwrap().to_owned())
}

/// By second of the boot clock, the largest that the rows of its ticks showed.
async fn shown(router: &Router, id: &str, figure: &str) -> BTreeMap<u64, f64> {
    let mut shown = BTreeMap::new();
    let mut at = 1_795_342_408_900_000_000_u64;
    for _ in 0..45 {
        let when = jiff::Timestamp::from_nanosecond(at.into()).unwrap();
        let view = read(router, &format!("/api/v1/snapshot?at={when}")).await;
        let second = view["at"]["boot"].as_u64().unwrap() / SECOND;
        if let Some(value) = view["scopes"][id].pointer(figure).and_then(Value::as_f64) {
            shown
                .entry(second)
                .and_modify(|most: &mut f64| *most = most.max(value))
                .or_insert(value);
        }
        let next = read(router, &format!("/api/v1/snapshot?at={when}&then=next")).await;
        at = next["at"]["wall"].as_u64().unwrap();
    }
    shown
}

#[tokio::test]
async fn history_of_a_cgroup_is_what_its_row_showed() {
    let router = served(None).await;
    let (id, path) = pod(&router).await;
    let told = history(&router, &path, &format!("{MIDDLE}&begin=-1m&step=1s")).await;
    assert_eq!((&told["cgroup"], &told["isWhole"]), (&path.as_str().into(), &true.into()));
    let begin = told["begin"]["boot"].as_u64().unwrap() / SECOND;
    #[rustfmt::skip]
    let table = [
        // series, of the row, by how much it may be rounded
        ("cgroup.cpu.some",          "/pressure/cpu/some/avg10",    0.0),
        ("cgroup.cpu.contention",    "/contention/avg10",           0.0),
        ("cgroup.memory.some",       "/pressure/memory/some/avg10", 0.0),
        ("cgroup.memory.shortage",   "/shortage/avg10",             0.0),
        ("cgroup.io.some",           "/pressure/io/some/avg10",     0.0),
        ("cgroup.memory.current",    "/files/memory/current",       0.001),
        ("cgroup.io.read",           "/io/read",                    0.001),
        ("cgroup.io.written",        "/io/written",                 0.001),
    ];
    for (name, figure, within) in table {
        let values = told["series"][name]["values"].as_array().unwrap();
        let rows = shown(&router, &id, figure).await;
        assert!(rows.len() >= 20, "{name}: {rows:?}");
        for (second, want) in rows {
            let got = values[usize::try_from(second - begin).unwrap()].as_f64();
            let got = got.unwrap_or_else(|| panic!("{name} at {second}: {values:?}"));
            assert!((got - want).abs() <= within * want, "{name} at {second}: {got}, not {want}");
        }
    }
    for name in ["cgroup.cpu.used", "cgroup.cpu.throttled", "cgroup.memory.workingSet"] {
        let values = told["series"][name]["values"].as_array().unwrap();
        assert!(values.iter().filter(|value| value.is_number()).count() >= 20, "{name}");
    }
}

/// A recording, an agent with it in files or in memory, and one that is written in chapters.
#[tokio::test]
async fn history_of_a_cgroup_is_the_same_everywhere() {
    let dir = TempDir::new().unwrap();
    let chapters = dir.path().join("chapters.isobar");
    anew(&leak(), &chapters);
    let in_memory = Ring::One(Arc::new(fs::File::open(leak()).unwrap()));
    let recorded = served(None).await;
    let (_, path) = pod(&recorded).await;
    let query = "at=2026-11-22T10:13:59.9Z&begin=-1m&step=1s";
    let want = history(&recorded, &path, query).await;
    let known = |told: &Value| {
        let values = told["series"]["cgroup.memory.some"]["values"].as_array().unwrap();
        values.iter().filter(|value| value.is_number()).count()
    };
    assert!(known(&want) >= 29, "{want}");
    let others = [
        ("in chapters", serving(&chapters, None).await),
        ("files of an agent", recording_agent(Some(&Ring::Files(leak())))),
        ("an agent's memory", recording_agent(Some(&in_memory))),
        ("an agent's chapters", recording_agent(Some(&Ring::Files(chapters)))),
    ];
    for (which, router) in &others {
        assert_eq!(history(router, &path, query).await, want, "{which}");
    }
    // The newest moment of an agent needs no moment, and a part of the hour no more than its ticks.
    let newest = history(&others[1].1, &path, "begin=-1m&step=1s").await;
    assert_eq!(newest["series"], want["series"]);
    let part = history(&recorded, &path, &format!("{query}&end=-20s")).await;
    assert!((5..=12).contains(&known(&part)), "{part}");
}

#[tokio::test]
async fn history_of_a_cgroup_that_is_refused() {
    let recorded = served(None).await;
    // Of a node that runs for longer than an hour, unlike this machine perhaps.
    let (mut publisher, latest) = made_up::publisher();
    let mut snapshot = made_up::snapshot(3);
    snapshot.at.boot = snapshot.at.boot.plus(Nanos(36_000 * SECOND));
    made_up::publish_step(&mut publisher, Step { snapshot, ..Step::default() });
    let live = router(latest);
    #[rustfmt::skip]
    let table = [
        // server, query, words
        (&recorded, "cgroup=/none",                    "no tick of this time has the cgroup /none"),
        (&recorded, "cgroup=/x&series=system",         "there is no series \"system\""),
        (&live,     "cgroup=/x&begin=-2h",             "one hour before end at most"),
        (&recorded, "cgroup=/x&from=-5m",              "only begin, end, step, series, at, cgroup"),
        (&live,     "cgroup=/x",                       "nothing is recorded"),
    ];
    for (router, query, words) in table {
        let response = get(router, &format!("/api/v1/history?{query}")).await;
        assert_eq!(response.status().as_u16(), 400, "{query}");
        let said = text(response).await;
        assert!(said.contains(&words.replace('"', "\\\"")), "{query}: {said}");
    }
}
