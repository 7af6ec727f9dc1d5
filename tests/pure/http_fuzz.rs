//! The HTTP surface with requests that nobody would send on purpose.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, StatusCode};
use tower::ServiceExt as _;

use crate::dice::Dice;
use crate::http::{get, observing, text};

/// What is known, in any order, spoilt or not.
#[tokio::test]
async fn router_survives_any_request() {
    const ROUTES: [&str; 15] = [
        "/",
        "/api/v1/snapshot",
        "/api/v1/history",
        "/api/v1/history/events",
        "/api/v1/cgroups",
        "/api/v1/incidents",
        "/api/v1/recording",
        "/api/v1/recording/ticks",
        "/api/v1/what-if",
        "/api/v1/advice",
        "/api/v1/rank",
        "/api/v1/stream",
        "/metrics",
        "/stats/summary",
        "/openapi.json",
    ];
    const PIECES: [&str; 20] = [
        "..",
        ".",
        "%2F",
        "%00",
        "%ff%fe",
        "%",
        "*",
        "\\",
        "'\"<script>",
        "🦀",
        ":",
        "-1",
        "0",
        "18446744073709551616",
        "1e309",
        "-10m",
        "2026-11-23T02:40:00Z",
        "9999999999999h",
        "+",
        "system.cpu.some,,kubepods.",
    ];
    const NAMES: [&str; 13] = [
        "at", "then", "begin", "end", "step", "series", "delta", "last", "verbose", "mode", "set",
        "settings", "signal",
    ];
    const HEADERS: [&str; 9] = [
        "accept",
        "accept-encoding",
        "if-none-match",
        "last-event-id",
        "range",
        "host",
        "content-length",
        "expect",
        "x-forwarded-prefix",
    ];
    const VALUES: [&str; 12] = [
        "gzip;q=0",
        "*",
        "gzip;q=nan, br",
        "W/\"",
        "application/openmetrics-text;version=1.0.0",
        "bytes=5-1",
        "-1",
        "localhost:0",
        "evil.example",
        "[::1",
        "100-continue",
        "\u{7f}",
    ];
    let methods = [Method::GET, Method::HEAD, Method::POST, Method::OPTIONS, Method::DELETE];
    let router = observing();
    let mut dice = Dice(12);
    let of = |all: &[&str], dice: &mut Dice| all[dice.below(all.len() as u64) as usize].to_owned();
    let mut seen = BTreeMap::<u16, u32>::new();
    for _ in 0..3_000 {
        let mut uri = of(&ROUTES, &mut dice);
        if dice.one_in(3) {
            uri += &format!("/{}", of(&PIECES, &mut dice));
        }
        for n in 0..dice.below(4) {
            let value = if dice.one_in(8) { "x".repeat(9_000) } else { of(&PIECES, &mut dice) };
            let between = if n == 0 { '?' } else { '&' };
            uri += &format!("{between}{}={value}", of(&NAMES, &mut dice));
        }
        let method = methods[dice.below(5).saturating_sub(dice.below(5)) as usize].clone();
        let mut request = Request::builder().method(method).uri(&uri);
        if !dice.one_in(10) {
            request = request.header("host", "localhost");
        }
        for _ in 0..dice.below(3) {
            request = request.header(of(&HEADERS, &mut dice), of(&VALUES, &mut dice));
        }
        let body = Body::from("b".repeat(dice.below(3) as usize * 70_000));
        // What is no request to hyper either never comes as far as the router.
        let Ok(request) = request.body(body) else { continue };
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        *seen.entry(status).or_default() += 1;
        assert!(status < 500 || status == 503, "{uri}: {status}");
        if status >= 400 && response.headers().get("content-type").is_some_and(is_json) {
            let told = text(response).await;
            assert!(told.is_empty() || told.contains("\"message\""), "{uri}: {told}");
        }
    }
    println!("{seen:?}");
    let kinds = [200, 400, 404, 405, 421];
    assert!(kinds.iter().all(|status| seen.contains_key(status)), "not all were met: {seen:?}");
    assert_eq!(get(&router, "/livez").await.status(), StatusCode::OK);
}

fn is_json(value: &HeaderValue) -> bool {
    value.as_bytes().starts_with(b"application/json")
}
