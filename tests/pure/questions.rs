//! What other settings would have changed, and what to reserve, as a server answers it.

use std::fs;

use isobar::record::advice::{advise, name_evicted};
use isobar::record::journal::Ring;
use isobar::record::reader::{ReadError, Recording};
use isobar::record::replay::{Replay, Replayed, always};
use isobar::record::what_if::WhatIf;
use isobar_core::view::Document;
use serde_json::Value;

use crate::http::{get, observing, text};
use crate::recorded::{leak, read, recording_agent, served};

/// In a query.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn what_if_is_that_of_the_verb() {
    let (recorded, file) = (served(None).await, Ring::Files(leak()));
    let agent = recording_agent(Some(&file));
    #[rustfmt::skip]
    let table = [
        // change, lane of allocatableMemory.available then and otherwise, first step otherwise
        ("{}",                                                       [1, 1], Some("mark")),
        (r#"{"relief":{"enforce":["stopContainers"]}}"#,             [1, 1], Some("mark")),
        (r#"{"eviction":{"thresholds":[],"pressure":[]}}"#,          [1, 0], None),
    ];
    for (change, lanes, step) in table {
        let path = format!("/api/v1/what-if?change={}", escaped(change));
        let told = read(&recorded, &path).await;
        assert_eq!(read(&agent, &path).await, told, "{change}: of an agent the same");
        assert_eq!((&told["ticks"], &told["isWhole"]), (&63.into(), &true.into()), "{change}");
        let all = told["lanes"].as_array().unwrap().iter();
        let mut own = all.filter(|lane| lane["name"] == "allocatableMemory.available");
        let own = own.next().unwrap();
        let n = ["then", "otherwise"].map(|side| own[side].as_array().unwrap().len());
        assert_eq!(n, lanes, "{change}");
        assert_eq!(told["steps"]["otherwise"][0]["step"].as_str(), step, "{change}");
        let ended = ["then", "otherwise"].map(|side| &told["ended"][side]["n"]);
        assert_eq!(ended[0], 2, "{change}: stopContainers and killContainers");
        assert_eq!(*ended[1] == 0, step.is_none(), "{change}");
        // The limit is said where steps differ.
        assert_eq!(told["limit"].is_string(), change != "{}", "{change}");
    }
    let config = tempfile::NamedTempFile::new().unwrap();
    let head = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\nranking: {order: qos}\n";
    fs::write(config.path(), head).unwrap();
    let other = isobar::config::load(config.path()).unwrap();
    let judged = Replay::new(Recording::open(&leak()).unwrap(), Some(other.clone()));
    let ticks = judged.filter_map(|one| match one.unwrap() {
        Replayed::Tick(judged) => Some(Ok::<_, ReadError>(*judged)),
        Replayed::Notice(_) => None,
    });
    let verb = serde_json::to_value(Document::new("WhatIf", WhatIf::of(ticks).unwrap())).unwrap();
    let change = serde_json::to_string(&other).unwrap();
    let told = read(&recorded, &format!("/api/v1/what-if?change={}", escaped(&change))).await;
    for (name, value) in verb.as_object().unwrap() {
        assert_eq!(told[name], *value, "{name}");
    }
}

/// Another reservation is another limit of all pods: who would have been ended under it.
#[tokio::test]
async fn what_if_pods_had_another_limit() {
    let recorded = served(None).await;
    #[rustfmt::skip]
    let table = [
        // systemReserved, steps that end work, when the first of them would have come
        ("550Mi", 0, None),
        ("700Mi", 2, Some("later")),
        ("720Mi", 2, Some("sooner")),
    ];
    for (reserved, n, when) in table {
        let change = format!(r#"{{"node":{{"systemReserved":{{"memory":"{reserved}"}}}}}}"#);
        let told = read(&recorded, &format!("/api/v1/what-if?change={}", escaped(&change))).await;
        assert_eq!(told["ended"]["otherwise"]["n"], n, "{reserved}");
        let gained = told["ended"]["gained"].as_i64();
        assert_eq!(gained.map(|gained| if gained > 0 { "sooner" } else { "later" }), when);
        let steps = told["steps"]["otherwise"].as_array().unwrap().iter();
        let ended: Vec<_> = steps.filter(|step| step["step"] != "mark").collect();
        assert!(ended.iter().all(|step| step["target"] == "shop/leak"), "{ended:?}");
        assert_eq!(ended.len(), n);
    }
}

#[tokio::test]
async fn questions_that_are_refused() {
    let (recorded, live) = (served(None).await, observing());
    #[rustfmt::skip]
    let table = [
        // server, path, words
        (&recorded, "/api/v1/what-if?change=%7B%22ranking%22%3A%7B%22odrer%22%3A1%7D%7D", "no setting ranking.odrer"),
        (&recorded, "/api/v1/what-if?change=1",                   "expected an object"),
        (&recorded, "/api/v1/what-if?config=x",                   "only begin, end, change"),
        (&recorded, "/api/v1/what-if?begin=-0",                   "begin must be before end"),
        (&recorded, "/api/v1/advice?change=%7B%22node%22%3A%7B%22x%22%3A1%7D%7D", "no setting node.x"),
        (&recorded, "/api/v1/advice?begin=2020-01-01T00:00:00Z&end=2020-01-02T00:00:00Z", "no tick is recorded"),
        (&recorded, "/api/v1/rank?signal=memory",                 "there is none called"),
        (&recorded, "/api/v1/rank?at=2020-01-01T00:00:00Z",       "no tick of this time or before it"),
        (&live,     "/api/v1/rank",                               "nothing is recorded"),
        (&live,     "/api/v1/what-if",                            "nothing is recorded"),
        (&live,     "/api/v1/advice",                             "nothing is recorded"),
    ];
    for (router, path, words) in table {
        let response = get(router, path).await;
        assert_eq!(response.status().as_u16(), 400, "{path}");
        let said = text(response).await;
        assert!(said.contains(words), "{path}: {said}");
    }
}

/// One is answered at a time, and the next one after it.
#[tokio::test]
async fn questions_take_turns() {
    let recorded = served(None).await;
    let path = "/api/v1/what-if";
    let (one, other) = tokio::join!(get(&recorded, path), get(&recorded, path));
    assert_eq!([one.status(), other.status()], [200, 200]);
}

/// A client that asks all the time for what is read from the recording is told so, and never that
/// there is none.
#[tokio::test]
async fn questions_and_moments_by_the_hundred() {
    let paths = ["/api/v1/recording", "/api/v1/snapshot?at=-5s", "/api/v1/advice"];
    for path in paths {
        let agent = recording_agent(Some(&Ring::Files(leak())));
        let ask = |_| {
            let agent = agent.clone();
            tokio::spawn(async move { get(&agent, path).await })
        };
        let all: Vec<_> = (0..100).map(ask).collect();
        let mut n_refused = 0;
        for one in all {
            let answer = one.await.unwrap();
            if answer.status() == 503 {
                assert_eq!(answer.headers()["retry-after"], "1", "{path}");
                n_refused += 1;
                continue;
            }
            assert_eq!(answer.status(), 200, "{path}");
            let answer: Value = serde_json::from_str(&text(answer).await).unwrap();
            assert_ne!(answer["isServed"], false, "{path}");
        }
        assert!((1..96).contains(&n_refused), "{path}: {n_refused} of 100 were refused");
    }
}

#[tokio::test]
async fn advice_is_that_of_the_verb() {
    let told = read(&served(None).await, "/api/v1/advice").await;
    let recording = Recording::open(&leak()).unwrap();
    let verb = advise(recording, None, |why| panic!("{why}"), |_| true).unwrap();
    let mut verb = verb.unwrap();
    name_evicted(&mut verb, &Ring::Files(leak()), None, || true).unwrap();
    let verb = serde_json::to_value(verb).unwrap();
    for (name, value) in verb.as_object().unwrap() {
        assert_eq!(told[name], *value, "{name}");
    }
    // The limit of all pods is reached, and the kernel kills.
    let in_force = &told["pods"][0];
    assert_eq!((&in_force["limit"], &in_force["amount"]), (&"inForce".into(), &"256Mi".into()));
    assert_eq!(in_force["met"]["grew"][0]["pod"], "shop/leak");
    assert_eq!(in_force["evictedFirst"], "shop/leak");
    assert!(told["pods"][1]["evictedFirst"].is_null(), "the configured limit was never close");
}

/// Another reservation, and a strict set of CPUs, as with `isobar allocatable --advise --config`.
#[tokio::test]
async fn advice_previews_a_change() {
    let router = served(None).await;
    let changed = serde_json::json!({"node": {
        "systemReserved": {"memory": "800Mi"},
        "reservedCpus": "0", "staticCpus": true, "strictCpuReservation": true,
    }});
    let told =
        read(&router, &format!("/api/v1/advice?change={}", escaped(&changed.to_string()))).await;
    let config = "apiVersion: isobar/v1alpha1\nkind: MonitorConfiguration\n\
        systemReserved: {memory: 800Mi, cpu: 1}\nreservedSystemCPUs: \"0\"\n\
        cpuManagerPolicy: static\ncpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n";
    let settings = isobar::config::settings(config, "change", std::path::Path::new("")).unwrap();
    let recording = Recording::open(&leak()).unwrap();
    let verb =
        advise(recording, Some(&*always(settings)), |why| panic!("{why}"), |_| true).unwrap();
    let verb = serde_json::to_value(verb.unwrap()).unwrap();
    let limits = |of: &Value| -> Vec<_> {
        of["pods"].as_array().unwrap().iter().map(|one| one["limit"].clone()).collect()
    };
    assert_eq!(limits(&told), ["inForce", "configured", "strictCpus"]);
    assert_eq!(limits(&told), limits(&verb));
    assert_eq!(told["configured"]["systemReserved"]["memory"], "800Mi");
    let configured = &told["pods"][1];
    assert_eq!(configured["met"]["largest"][0]["pod"], "shop/leak", "{configured}");
    assert_eq!(configured["evictedFirst"], "shop/leak");
    assert!(told["pods"][2]["evictedFirst"].is_null(), "no pod is evicted for a set of CPUs");
    assert_ne!(configured["amount"], told["pods"][0]["amount"]);
}

#[tokio::test]
async fn advice_is_bounded_by_its_stretch() {
    let recorded = served(None).await;
    #[rustfmt::skip]
    let table = [
        // query, ticks
        ("",                                                              63),
        ("end=2026-11-22T10:13:50Z",                                      45),
        ("begin=2026-11-22T10:13:50.01Z",                                 18), // those of its chapter before it are left out
        ("begin=2026-11-22T10:13:00Z&end=2026-11-22T10:13:28.9Z",         1),
    ];
    for (query, ticks) in table {
        let advice = read(&recorded, &format!("/api/v1/advice?{query}")).await;
        assert_eq!(
            (&advice["ticks"], &advice["isWhole"]),
            (&ticks.into(), &true.into()),
            "{query}"
        );
    }
}
