//! What every request and every response must pass.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::refuse;

/// Refuses a request that names this server by anything but an address or `localhost`.
///
/// A page of a stranger can have its own name resolve to this machine (DNS rebinding) and then
/// read whatever is served here; it cannot make the browser send another `Host` than that name.
/// An address as `Host` is safe, whichever it is: the reader asked for this address.
pub(super) async fn check_host(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(is_ours) {
        return next.run(request).await;
    }
    refuse(
        StatusCode::MISDIRECTED_REQUEST,
        "the Host header is neither an IP address nor localhost; ask by address, or forward a port",
    )
}

fn is_ours(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port));
    }
    let name = match host.split_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        Some(_) => return false,
        None => host,
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Headers that keep a browser from doing more with a response than was meant. There is no CORS
/// header on purpose: no other origin may read this.
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
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_ours() {
        #[rustfmt::skip]
        let table = [
            // host, ours
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
            ("",                      false),
        ];
        for (host, want) in table {
            assert_eq!(is_ours(host), want, "{host:?}");
        }
    }
}
