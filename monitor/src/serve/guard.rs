//! The checks and headers that every request and every response passes.

use std::future::poll_fn;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::refuse;

/// Refuses a request that names this server by anything but an address or `localhost`.
///
/// A foreign page can have its own name resolve to this machine (DNS rebinding) and then read what
/// is served here; but the browser sends that name as `Host`. Any address as `Host` is safe: the
/// client chose it. Of two, a proxy before this server may go by the other one (RFC 9112, 3.2).
pub(super) async fn check_host(request: Request, next: Next) -> Response {
    let hosts = request.headers().get_all(header::HOST);
    if hosts.iter().count() > 1 {
        return refuse(StatusCode::BAD_REQUEST, "more than one Host header");
    }
    let host = hosts.iter().next().and_then(|host| host.to_str().ok());
    if host.is_some_and(is_allowed) {
        return next.run(request).await;
    }
    refuse(
        StatusCode::MISDIRECTED_REQUEST,
        "the Host header is neither an IP address nor localhost; use the address, or forward a port",
    )
}

fn is_allowed(host: &str) -> bool {
    // The parser accepts user names and ports that are not numbers.
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let has_only_port = match host.strip_prefix(authority.host()) {
        Some("") => true,
        Some(port) => authority.port_u16().is_some() && port.starts_with(':'),
        None => false,
    };
    let name = authority.host();
    let address = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    };
    has_only_port && (address || name.eq_ignore_ascii_case("localhost"))
}

/// Answers a request whose handler panics: without an answer, hyper closes the connection.
pub(super) async fn answer_panic(request: Request, next: Next) -> Response {
    let mut answer = pin!(next.run(request));
    // The closure is not polled again after a panic, so no broken state is seen.
    poll_fn(|context| {
        let answered = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
        answered.unwrap_or_else(|_| {
            let text = "the agent panicked while it made this answer; see its log";
            Poll::Ready(refuse(StatusCode::INTERNAL_SERVER_ERROR, text))
        })
    })
    .await
}

/// Headers that restrict what a browser does with a response. There is no CORS header on purpose:
/// no other origin may read this.
pub(super) async fn harden(mut response: Response) -> Response {
    const HEADERS: [(header::HeaderName, &str); 5] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-cache"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ];
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    async fn broken() -> &'static str {
        panic!("as a handler might")
    }

    #[tokio::test]
    async fn answer_panic_is_a_status_of_500() {
        let router = Router::new().route("/", get(broken)).layer(from_fn(answer_panic));
        let request = Request::builder().uri("/").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["kind"], &body["code"]), (&"Status".into(), &500.into()));
    }

    #[test]
    fn is_allowed_accepts_addresses_and_localhost() {
        #[rustfmt::skip]
        let table = [
            // host, allowed
            ("127.0.0.1:9797",        true),
            ("10.1.2.3",              true),  // a pod's own address, as probes ask for it
            ("[::1]:9797",            true),
            ("[::1]",                 true),
            ("localhost:8001",        true),
            ("LOCALHOST",             true),
            ("evil.example",          false),
            ("evil.example:9797",     false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1:99999",       false),
            ("[::1",                  false),
            ("[::1]x",                false),
            ("user@127.0.0.1",        false),
            ("127.0.0.1:",            false),
            ("[127.0.0.1]",           false),
            ("",                      false),
        ];
        for (host, want) in table {
            assert_eq!(is_allowed(host), want, "{host:?}");
        }
    }
}
