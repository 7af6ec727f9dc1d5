//! `/api/v1/history` and `/api/v1/history/events`, request by request.

use crate::http::{get, text};
use crate::made_up;
use isobar::serve::router;
use serde_json::Value;

#[tokio::test]
async fn history_document() {
    let (mut publisher, latest) = made_up::publisher();
    for tick in 1..=3 {
        made_up::publish(&mut publisher, tick);
    }
    let router = router(latest);
    let ask = async |query: &str| -> (u16, Value) {
        let response = get(&router, &format!("/api/v1/history{query}")).await;
        let status = response.status().as_u16();
        (status, serde_json::from_str(&text(response).await).unwrap())
    };
    let (_, all) = ask("?begin=-1m&series=system,agent,kubepods").await;
    assert_eq!(all["series"].as_object().unwrap().len(), 52);
    let newest = |name: &str| {
        let values = all["series"][name]["values"].as_array().unwrap();
        (values.len(), values[0].to_string(), values.last().unwrap().to_string())
    };
    #[rustfmt::skip]
    let table = [
        // series, the newest point
        ("system.cpu.some",               "64.21"),
        ("system.cpu.contention",         "42.31"),
        ("system.cpu.wait.p50",           "8192"),
        ("system.memory.stall.ownLimit",  "19.0"),
        ("system.memory.stall.swapIn",    "0.0"),
        ("system.memory.lasts",           "null"),
        ("system.memory.memAvailable",    "6710886400"),
        ("kubepods.memory.shortage",      "0.0"),
        ("agent.cpu",                     "7"),
        ("agent.resident",                "18284544"),
    ];
    for (name, want) in table {
        assert_eq!(newest(name), (60, "null".into(), want.into()), "{name}");
    }
    #[rustfmt::skip]
    let refused = [
        // query, what is wrong
        ("?series=cpu",                    "there is no series"),
        ("?begin=yesterday",               "expected now, a time ago such as -10m"),
        ("?begin=-5m&end=-10m",            "begin must be before end"),
        ("?begin=-48h",                   "goes back 24 h"),
        ("?step=0",                        "must be a multiple of 1 s"),
        ("?from=-5m",                      "only begin, end, step, series, at, cgroup"),
        ("/events?series=system",          "only begin, end"),
    ];
    for (query, want) in refused {
        let (status, document) = ask(query).await;
        let message = document["message"].as_str().unwrap();
        assert_eq!(status, 400, "{query}");
        assert!(message.contains(want), "{query}: {message}");
    }
    assert_eq!(ask("").await.1["series"].as_object().unwrap().len(), 25, "all of the node");
}

#[tokio::test]
async fn history_events_document() {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 3);
    let response = get(&router(latest), "/api/v1/history/events").await;
    let document: Value = serde_json::from_str(&text(response).await).unwrap();
    #[rustfmt::skip]
    let table = [
        // pointer, value
        ("/kind",                                 "\"HistoryEvents\""),
        ("/events/0/kind",                        "\"oomKill\""),
        ("/minutes/0/aggressions/0/victim",       "12"),
        ("/minutes/0/aggressions/0/time",         "905000000"),
        ("/spans",                                "[]"),
    ];
    for (pointer, want) in table {
        let found = document.pointer(pointer).map(Value::to_string);
        assert_eq!(found.as_deref(), Some(want), "{pointer}");
    }
}
