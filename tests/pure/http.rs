//! The HTTP surface, request by request, without a socket.

use crate::made_up;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response};
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use isobar::clock;
use isobar::serve::router;
use isobar_core::model::units::Nanos;
use isobar_core::policy::engine::Step;
use isobar_core::view::View;
use serde_json::Value;
use std::io::Read as _;
use tower::ServiceExt as _;

pub(crate) async fn ask(router: &Router, method: Method, host: &str, path: &str) -> Response<Body> {
    let request = Request::builder().method(method).uri(path).header("host", host);
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

pub(crate) async fn get(router: &Router, path: &str) -> Response<Body> {
    ask(router, Method::GET, "127.0.0.1:9797", path).await
}

pub(crate) async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn observing() -> Router {
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
        ("/page.css",            200, 200, "text/css"),
        ("/icon.svg",            200, 200, "image/svg+xml"),
        ("/LICENSES.txt",        200, 200, "text/plain"),
        ("/api/v1/snapshot",     503, 200, "application/json"),
        ("/api/v1/history",      503, 200, "application/json"),
        ("/api/v1/history/events", 503, 200, "application/json"),
        ("/api/v1/incidents",    503, 200, "application/json"),
        ("/api/v1/incidents/20260922T024003Z-condition-SystemCPUContentionPressure", 503, 200, "application/json"),
        ("/api/v1/incidents/none", 503, 404, "application/json"),
        ("/api/v1/incidents/..%2Flock", 503, 404, "application/json"),
        ("/api/v1/incidents/%ff", 400, 400, "application/json"),
        ("/api/v1/incidents/%ff/file", 400, 400, "application/json"),
        ("/api/v1/recording",    200, 200, "application/json"),
        ("/api/v1/recording/ticks", 503, 200, "application/json"),
        ("/api/v1/stream",       200, 200, "text/event-stream"),
        ("/metrics",             503, 200, "text/plain"),
        ("/api/v1/cgroups",      503, 200, "application/json"),
        ("/api/v1/matrix",       503, 200, "application/json"),
        ("/api/v1/conditions",   503, 200, "application/json"),
        ("/api/v1/decisions",    503, 200, "application/json"),
        ("/api/v1/allocatable",  503, 200, "application/json"),
        ("/api/v1/capabilities", 503, 200, "application/json"),
        ("/openapi.json",        200, 200, "application/json"),
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
    let hosts: [(&[&str], u16); 3] =
        [(&[], 421), (&["localhost", "rebound.example"], 400), (&["localhost", "localhost"], 400)];
    for (hosts, want) in hosts {
        let all = hosts.iter().fold(Request::builder(), |all, host| all.header("host", *host));
        let request = all.uri("/livez").body(Body::empty()).unwrap();
        let status = router.clone().oneshot(request).await.unwrap().status();
        assert_eq!(status.as_u16(), want, "{hosts:?}");
    }
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
async fn parts_are_as_in_the_snapshot() {
    let router = observing();
    let read = async |path: &str| -> Value {
        serde_json::from_str(&text(get(&router, path).await).await).unwrap()
    };
    let whole = read("/api/v1/snapshot").await;
    #[rustfmt::skip]
    let table: [(&str, &str, &str, &[&str]); 6] = [
        // path, kind, where the fields are in a snapshot, fields
        ("cgroups",      "Cgroups",      "",                     &["scopes"]),
        ("matrix",       "Matrix",       "",                     &["interval", "aggressions"]),
        ("conditions",   "Conditions",   "/decision/assessment", &["conditions", "taints", "nodePressure", "refused"]),
        ("decisions",    "Decisions",    "",                     &["decision", "explanation"]),
        ("allocatable",  "Allocatable",  "/decision/assessment", &["observations", "unobserved", "outlooks"]),
        ("capabilities", "Capabilities", "",                     &["capabilities", "covers", "gaps", "lost"]),
    ];
    for (path, kind, place, fields) in table {
        let part = read(&format!("/api/v1/{path}")).await;
        assert_eq!((&part["kind"], &part["tick"]), (&kind.into(), &3.into()), "{path}");
        assert_eq!(part["at"], whole["at"], "{path}");
        for field in fields {
            let want = whole.pointer(&format!("{place}/{field}"));
            assert_eq!(part.get(field), want, "{path} {field}");
            assert!(want.is_some(), "{path} {field}");
        }
    }
}

#[tokio::test]
async fn documents_are_tagged() {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 3);
    let router = router(latest);
    let again = async |path: &str, tag: &HeaderValue| {
        let request = Request::builder().uri(path).header("host", "localhost");
        let request = request.header("if-none-match", tag).body(Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap()
    };
    let paths = ["snapshot", "cgroups", "conditions", "history", "history/events"];
    for path in paths.map(|path| format!("/api/v1/{path}")) {
        let tag = get(&router, &path).await.headers()["etag"].clone();
        let same = again(&path, &tag).await;
        assert_eq!((same.status().as_u16(), &same.headers()["etag"]), (304, &tag), "{path}");
        assert_eq!(text(same).await, "", "{path}");
        made_up::publish(&mut publisher, 4);
        let other = again(&path, &tag).await;
        assert_eq!(other.status(), 200, "{path}");
        assert_ne!(other.headers()["etag"], tag, "{path}");
        made_up::publish(&mut publisher, 3);
    }
    // What does not change with the tick.
    let tag = get(&router, "/api/v1/incidents").await.headers()["etag"].clone();
    made_up::publish(&mut publisher, 4);
    assert_eq!(again("/api/v1/incidents", &tag).await.status(), 304);
}

#[tokio::test]
async fn router_names_the_parameters_that_exist() {
    let router = observing();
    #[rustfmt::skip]
    let table = [
        // path, the parameters that it has; none of what takes any
        ("/api/v1/snapshot",        Some("at, then")),
        ("/api/v1/cgroups",         Some("at, then")),
        ("/api/v1/settings",        Some("at, then")),
        ("/api/v1/recording/ticks", Some("at, then")),
        ("/api/v1/stream",          Some("delta, last")),
        ("/api/v1/history/events",  Some("begin, end, at")),
        ("/stats/summary",          None), // the kubelet's clients send only_cpu_and_memory
    ];
    for (path, names) in table {
        let response = get(&router, &format!("{path}?only=1")).await;
        let want = if names.is_some() { 400 } else { 200 };
        assert_eq!(response.status().as_u16(), want, "{path}");
        if let Some(names) = names {
            let told: Value = serde_json::from_str(&text(response).await).unwrap();
            let why = format!("there is no parameter \"only\", only {names}");
            assert_eq!(told["message"], why, "{path}");
        }
    }
}

#[tokio::test]
async fn documents_are_packed_where_gzip_is_accepted() {
    let router = observing();
    let packed = async |path: &str| {
        let request = Request::builder().uri(path).header("host", "localhost");
        let request = request.header("accept-encoding", "gzip").body(Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap()
    };
    for path in ["snapshot", "cgroups", "history"].map(|path| format!("/api/v1/{path}")) {
        let plain = text(get(&router, &path).await).await;
        let response = packed(&path).await;
        assert_eq!(response.headers()["content-encoding"], "gzip", "{path}");
        assert_eq!(response.headers()["vary"], "accept-encoding", "{path}");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert!(bytes.len() * 2 < plain.len(), "{path}");
        let mut unpacked = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain, "{path}");
    }
    let metrics = packed("/metrics").await;
    assert!(!metrics.headers().contains_key("content-encoding"), "it would cost twice as much");
    let stream = packed("/api/v1/stream").await;
    assert!(!stream.headers().contains_key("content-encoding"), "a stream is not held up");
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
async fn oom_kills_remembered() {
    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 3);
    let kill = made_up::snapshot(3).oom_kills.remove(0);
    for pid in 1..=70 {
        let mut snapshot = made_up::snapshot(4);
        snapshot.oom_kills =
            vec![isobar_core::model::stall::OomKill { victim_pid: Some(pid), ..kill.clone() }];
        publisher.publish(made_up::step(snapshot), vec![], Default::default());
        let published = latest.borrow().clone().unwrap();
        let newest = &published.view.recent_oom_kills[0];
        assert_eq!(newest.kill.victim_pid, Some(pid));
        let path = newest.victim_path.as_ref().unwrap();
        assert!(path.0.ends_with(".scope"), "{pid}: {path}");
    }
    let published = latest.borrow().clone().unwrap();
    let kills = &published.view.recent_oom_kills;
    assert_eq!((kills.len(), kills[63].kill.victim_pid), (64, Some(7)));
}
