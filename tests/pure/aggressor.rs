//! Who hurts whom is told in one order, by what it cost, by everything that tells it.

use axum::Router;
use isobar::serve::router;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::snapshot::{Blame, Scope};
use isobar_core::model::units::{MilliCpu, Nanos};
use isobar_core::policy::engine::Step;
use serde_json::Value;

use crate::cli::agent_at;
use crate::http::{get, text};
use crate::machine::output;
use crate::made_up;
use crate::program;
use crate::stream::event;

/// More pairs than any reader is sent, each with a longer wait than the one that costs most.
const SHORT_LIVED: u64 = 60;
/// The cgroups that the made-up node's greatest loss is between, by id.
const SUFFERER: u64 = 12;
const AGGRESSOR: u64 = 22;
const AGGRESSOR_NAME: &str = "backup-nightly";

/// Hundreds of threads waited for seconds while others ran for a few milliseconds.
fn step() -> Step {
    let mut snapshot = made_up::snapshot(3);
    for id in 1_000..1_000 + SHORT_LIVED {
        let path = CgroupPath(format!("/system.slice/short-{id}.service").into());
        let cpu_usage = Some(MilliCpu(3));
        let scope = Scope { path: path.clone(), cpu_usage, ..Scope::default() };
        snapshot.scopes.insert(CgroupId(id), scope);
        let long = Blame {
            victim: CgroupId(SUFFERER),
            aggressor: CgroupId(id),
            aggressor_path: Some(path),
            time: Nanos(id * 5_000_000),
            ..Blame::default()
        };
        snapshot.aggressions.insert(0, long);
    }
    assert!(snapshot.aggressions.is_sorted_by(|a, b| a.time >= b.time));
    Step { snapshot, ..Step::default() }
}

async fn read(router: &Router, path: &str) -> Value {
    serde_json::from_str(&text(get(router, path).await).await).unwrap()
}

/// The first of `aggressions`, and its figures.
fn first(document: &Value) -> (u64, u64, &Value, &Value) {
    let pair = &document["aggressions"][0];
    let [victim, aggressor] = ["victim", "aggressor"].map(|of| pair[of].as_u64().unwrap());
    (victim, aggressor, &pair["time"], &pair["loss"])
}

#[tokio::test]
async fn aggressor_first_named_is_the_same_everywhere() {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish_step(&mut publisher, step());
    let router = router(latest);
    let snapshot = read(&router, "/api/v1/snapshot").await;
    let headline = snapshot["headline"].as_str().unwrap();
    assert!(headline.contains(&format!("mostly while {AGGRESSOR_NAME}")), "{headline}");
    let want = first(&snapshot);
    assert_eq!((want.0, want.1), (SUFFERER, AGGRESSOR));

    let matrix = read(&router, "/api/v1/matrix").await;
    let events = read(&router, "/api/v1/history/events").await;
    let (_, sent) = event(&mut get(&router, "/api/v1/stream").await.into_body()).await;
    for (what, told) in [("matrix", &matrix), ("minute", &events["minutes"][0]), ("page", &sent)] {
        assert_eq!(first(told), want, "{what}");
    }

    let metrics = text(get(&router, "/metrics").await).await;
    let loss = metrics.lines().filter_map(|line| {
        let (pair, lost) =
            line.strip_prefix("isobar_aggression_loss_seconds_total")?.split_once("} ")?;
        Some((lost.parse::<f64>().unwrap(), pair))
    });
    let (lost, pair) = loss.max_by(|(a, _), (b, _)| a.total_cmp(b)).unwrap();
    assert!(pair.contains(&format!("aggressor=\"/system.slice/{AGGRESSOR_NAME}")), "{metrics}");
    assert_eq!((lost * 1e9).round(), want.3.as_f64().unwrap(), "{pair}");
}

#[test]
fn aggressor_first_named_by_verbs() {
    let agent = agent_at(step()).to_string();
    let told =
        |verb: &[&str]| program::text(&output(&[verb, &["--agent", &agent]].concat()).stdout);
    let explained = told(&["explain"]);
    let headline = explained.lines().next().unwrap();
    assert!(headline.contains(&format!("mostly while {AGGRESSOR_NAME}")), "{explained}");
    let top = told(&["top", "--once"]);
    let mut rows = top.lines().skip_while(|line| !line.starts_with("NAME"));
    assert!(rows.next().unwrap().contains("LOST/s"), "{top}");
    let sufferer = rows.next().unwrap().split("  ").next().unwrap();
    assert!(headline.contains(&sufferer[..12]), "{headline} {sufferer}");
    let mut pairs = top.lines().skip_while(|line| !line.starts_with("SUFFERER"));
    assert!(pairs.next().unwrap().contains("LOST"), "{top}");
    assert!(pairs.next().unwrap().contains(AGGRESSOR_NAME), "{top}");
}
