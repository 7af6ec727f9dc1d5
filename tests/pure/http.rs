//! The HTTP surface, request by request, without a socket.

use crate::made_up;
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use isobar::clock;
use isobar::serve::router;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::snapshot::{Scope, Snapshot};
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use isobar_core::view::View;
use serde_json::Value;
use tower::ServiceExt as _;

async fn ask(router: &Router, method: Method, host: &str, path: &str) -> Response<Body> {
    let request = Request::builder().method(method).uri(path).header("host", host);
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn get(router: &Router, path: &str) -> Response<Body> {
    ask(router, Method::GET, "127.0.0.1:9797", path).await
}

async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn observing() -> Router {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 3);
    router(latest)
}

#[tokio::test]
async fn router_paths() {
    let (_publisher, latest) = made_up::publisher();
    let (before, after) = (router(latest), observing());
    #[rustfmt::skip]
    let table = [
        // path, before, after, type
        ("/",                    200, 200, "text/html"),
        ("/page.js",             200, 200, "text/javascript"),
        ("/words.js",            200, 200, "text/javascript"),
        ("/page.css",            200, 200, "text/css"),
        ("/icon.svg",            200, 200, "image/svg+xml"),
        ("/api/v1/snapshot",     503, 200, "application/json"),
        ("/api/v1/history",      503, 200, "application/json"),
        ("/api/v1/history/events", 503, 200, "application/json"),
        ("/api/v1/stream",       200, 200, "text/event-stream"),
        ("/metrics",             503, 200, "text/plain"),
        ("/livez",               200, 200, "text/plain"),
        ("/healthz",             200, 200, "text/plain"),
        ("/readyz",              503, 200, "text/plain"),
        ("/readyz?verbose",      503, 200, "text/plain"),
        ("/nothing",             404, 404, "application/json"),
        ("/api/v1/../../etc",    404, 404, "application/json"),
    ];
    for (path, status_before, status_after, content_type) in table {
        for (router, want) in [(&before, status_before), (&after, status_after)] {
            let response = get(router, path).await;
            assert_eq!(response.status().as_u16(), want, "{path}");
            let found = response.headers()["content-type"].to_str().unwrap();
            assert!(found.starts_with(content_type), "{path}: {found}");
        }
    }
}

#[tokio::test]
async fn router_headers() {
    let router = observing();
    for path in ["/", "/api/v1/snapshot", "/api/v1/stream", "/livez", "/nothing"] {
        let response = get(&router, path).await;
        let headers = response.headers();
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert!(!headers.contains_key("access-control-allow-origin"), "{path}");
    }
}

#[tokio::test]
async fn router_refuses_other_hosts() {
    let router = observing();
    #[rustfmt::skip]
    let table = [
        // host, status
        ("127.0.0.1:9797",     200),
        ("localhost:8001",     200),
        ("[::1]:9797",         200),
        ("10.0.0.7:9797",      200),
        ("rebound.example",    421),
        ("localhost.example",  421),
    ];
    for (host, want) in table {
        for path in ["/", "/api/v1/snapshot", "/livez"] {
            let status = ask(&router, Method::GET, host, path).await.status();
            assert_eq!(status.as_u16(), want, "{host}{path}");
        }
    }
    let without = Request::builder().uri("/livez").body(Body::empty()).unwrap();
    let status = router.oneshot(without).await.unwrap().status();
    assert_eq!(status, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn router_reads_only() {
    let router = observing();
    for path in ["/", "/api/v1/snapshot", "/api/v1/stream", "/metrics", "/livez", "/readyz"] {
        for (method, want) in [(Method::HEAD, 200), (Method::POST, 405), (Method::DELETE, 405)] {
            let response = ask(&router, method.clone(), "localhost", path).await;
            assert_eq!(response.status().as_u16(), want, "{method} {path}");
            if method == Method::HEAD {
                assert_eq!(text(response).await, "", "{path}");
            }
        }
    }
}

#[tokio::test]
async fn snapshot_document() {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 3);
    let json = text(get(&router(latest.clone()), "/api/v1/snapshot").await).await;
    let value: Value = serde_json::from_str(&json).unwrap();
    #[rustfmt::skip]
    let table = [
        // pointer, value
        ("/apiVersion",                              "\"isobar/v1alpha1\""),
        ("/kind",                                    "\"Snapshot\""),
        ("/tick",                                    "3"),
        ("/interval",                                "1000000000"),
        ("/facts/nCpus",                             "8"),
        ("/whole/contention/avg10",                  "42.31"),
        ("/whole/pressure/cpu/some/avg10",           "64.21"),
        ("/scopes/13/cpu/throttledOwn/now",          "1610000000"),
        ("/scopes/11/place/kind",                    "\"pod\""),
        ("/capabilities/2/state",                    "\"absent\""),
        ("/cost/kernel/programs/0/perRun",           "312"),
        ("/verdict/0/mood",                          "\"pressed\""),
        ("/recentOomKills/0/kill/victimPid",         "48213"),
    ];
    for (pointer, want) in table {
        let found = value.pointer(pointer).map(Value::to_string);
        assert_eq!(found.as_deref(), Some(want), "{pointer}");
    }
    let view = View::parse(json.as_bytes()).unwrap();
    assert_eq!(view, *latest.borrow().as_ref().unwrap().view);
}

#[tokio::test]
async fn readyz_verbose() {
    let got = text(get(&observing(), "/readyz?verbose").await).await;
    let want = "[+]sample ok: tick 3\n\
        [+]sched_switch attached: tp_btf\n\
        [+]throttle intervals attached: fentry on throttle_cfs_rq\n\
        [-]psi_memstall_enter absent: not in this kernel's BTF (a kernel with CONFIG_PSI=y)\n\
        [-]io_schedule blind: saw nothing of the agent's own work\n\
        [-]oom_kill_process off: switched off by --probes (--probes all)\n\
        [+]memory controller attached: /sys/fs/cgroup\n\
        readyz check passed\n";
    assert_eq!(got, want);
}

#[tokio::test]
async fn livez_silent_sampler() {
    #[rustfmt::skip]
    let table = [
        // seconds since the last sample, status
        (0,  200),
        (9,  200),
        (12, 503),
        (90, 503),
    ];
    for (seconds, want) in table {
        let (mut publisher, latest) = made_up::publisher();
        let mut snapshot = made_up::snapshot(1);
        snapshot.at.boot = clock::now().boot.since(Nanos(seconds * Nanos::SECOND.0));
        publisher.publish(Step { snapshot, ..Step::default() }, vec![], Default::default());
        let status = get(&router(latest), "/livez").await.status();
        assert_eq!(status.as_u16(), want, "{seconds} s");
    }
}

#[tokio::test]
async fn stream_newest_first() {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 1);
    let mut body = get(&router(latest), "/api/v1/stream").await.into_body();
    assert!(next(&mut body).await.starts_with("event: sample\nid: 1\ndata: {"));
    for tick in 2..=5 {
        made_up::publish(&mut publisher, tick);
    }
    assert!(next(&mut body).await.starts_with("event: sample\nid: 5\n"));
}

async fn next(body: &mut Body) -> String {
    let bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn stream_limit() {
    let router = observing();
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(get(&router, "/api/v1/stream").await);
    }
    let refused = get(&router, "/api/v1/stream").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(text(refused).await.contains("all 64 streams are taken"));
    open.pop();
    assert_eq!(get(&router, "/api/v1/stream").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn stream_size() {
    let (mut publisher, latest) = made_up::publisher();
    let mut snapshot: Snapshot = made_up::snapshot(1);
    for id in 1_000..3_000 {
        let path = CgroupPath(format!("/system.slice/unit-{id}.service").into());
        snapshot.scopes.insert(CgroupId(id), Scope { path, ..Scope::default() });
    }
    publisher.publish(Step { snapshot, ..Step::default() }, vec![], Default::default());
    let router = router(latest);
    let full: Value =
        serde_json::from_str(&text(get(&router, "/api/v1/snapshot").await).await).unwrap();
    assert_eq!(full["scopes"].as_object().unwrap().len(), 2_010);

    let event = next(&mut get(&router, "/api/v1/stream").await.into_body()).await;
    let json = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let brief: Value = serde_json::from_str(json).unwrap();
    let kept = brief["scopes"].as_object().unwrap();
    assert!(kept.len() <= 60 + 2 * 40, "{}", kept.len());
    for id in ["11", "12", "13", "14", "22", "23"] {
        assert!(kept.contains_key(id), "the cgroup {id} waits, and is left out");
    }
}

#[tokio::test]
async fn oom_kills_remembered() {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 3);
    let kill = made_up::snapshot(3).oom_kills.remove(0);
    for pid in 1..=70 {
        let mut snapshot = made_up::snapshot(4);
        // The kill took its cgroup with it: the name is that of the tick before.
        if pid == 1 {
            snapshot.scopes.remove(&CgroupId(12));
        }
        snapshot.oom_kills =
            vec![isobar_core::model::stall::OomKill { victim_pid: pid, ..kill.clone() }];
        publisher.publish(Step { snapshot, ..Step::default() }, vec![], Default::default());
        let published = latest.borrow().clone().unwrap();
        let newest = &published.view.recent_oom_kills[0];
        assert_eq!(newest.kill.victim_pid, pid);
        let path = newest.victim_path.as_ref().unwrap();
        assert!(path.0.ends_with(".scope"), "{pid}: {path}");
    }
    let published = latest.borrow().clone().unwrap();
    let kills = &published.view.recent_oom_kills;
    assert_eq!((kills.len(), kills[63].kill.victim_pid), (64, 7));
}

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
    assert_eq!(all["series"].as_object().unwrap().len(), 51);
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
        ("?begin=yesterday",               "expected a time in RFC 3339"),
        ("?begin=-5m&end=-10m",            "begin must be before end"),
        ("?begin=-48h",                   "goes back 24 h"),
        ("?step=0",                        "must be a multiple of 1 s"),
        ("?from=-5m",                      "only begin, end, step, series"),
        ("/events?series=system",          "only begin, end"),
    ];
    for (query, want) in refused {
        let (status, document) = ask(query).await;
        let message = document["message"].as_str().unwrap();
        assert_eq!(status, 400, "{query}");
        assert!(message.contains(want), "{query}: {message}");
    }
    assert_eq!(ask("").await.1["series"].as_object().unwrap().len(), 24, "all of the node");
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
