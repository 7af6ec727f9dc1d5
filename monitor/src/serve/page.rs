//! The page: the files of dashboards/web/dist, compiled into the binary, packed by gzip for a client
//! that accepts it. It requests nothing from other hosts.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, get};

use super::negotiate::{accepts_gzip, gzip};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// A file in dashboards/web/dist, which that directory's `npm run build` writes.
macro_rules! built {
    ($name:literal) => {
        include_str!(concat!("../../../dashboards/web/dist/", $name))
    };
}

/// A proxy may add any path prefix (the API server's node proxy does), so the files name each other
/// by relative URLs only.
pub(super) fn routes() -> Router {
    Router::new()
        .route("/", file(HTML, built!("index.html")))
        .route("/page.js", file(JS, built!("page.js")))
        .route("/page.css", file(CSS, built!("page.css")))
        .route("/icon.svg", file(SVG, built!("icon.svg")))
        .route("/LICENSES.txt", file(TEXT, built!("LICENSES.txt")))
}

/// A text that never changes; packed for the first client that accepts it.
pub(super) fn file<S: Clone + Send + Sync + 'static>(
    content_type: &'static str,
    text: &'static str,
) -> MethodRouter<S> {
    let packed = Arc::new(OnceLock::<Bytes>::new());
    get(move |headers: HeaderMap| async move {
        let fixed = [
            (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
        ];
        if !accepts_gzip(&headers) {
            return (fixed, text).into_response();
        }
        let packed = packed.get_or_init(|| gzip(text.as_bytes()).into()).clone();
        let coding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        (fixed, coding, packed).into_response()
    })
}
