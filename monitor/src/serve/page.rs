//! The page: the files of dashboards/web/dist, which that directory's `npm run build` writes, packed
//! by gzip and compiled into the binary. It requests nothing from other hosts.

use std::io::Read as _;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, get};
use flate2::read::GzDecoder;

use super::negotiate::{accepts_gzip, tag_of, tagged};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// A text that the build has packed.
macro_rules! packed {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
    };
}
pub(super) use packed;

/// A proxy may add any path prefix (the API server's node proxy does), so the files name each other
/// by relative URLs only.
pub(super) fn routes() -> Router {
    Router::new()
        .route("/", file(HTML, packed!("index.html")))
        .route("/page.js", file(JS, packed!("page.js")))
        .route("/page.css", file(CSS, packed!("page.css")))
        .route("/icon.svg", file(SVG, packed!("icon.svg")))
        .route("/LICENSES.txt", file(TEXT, packed!("LICENSES.txt")))
}

/// A text that never changes; unpacked for a client that does not accept gzip.
pub(super) fn file<S: Clone + Send + Sync + 'static>(
    content_type: &'static str,
    packed: &'static [u8],
) -> MethodRouter<S> {
    let tag = tag_of(packed);
    get(move |headers: HeaderMap| async move {
        tagged(&headers, &tag, || {
            let fixed = [
                (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
                (header::VARY, HeaderValue::from_static("accept-encoding")),
            ];
            if accepts_gzip(&headers) {
                let coding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
                return (fixed, coding, packed).into_response();
            }
            let mut text = Vec::new();
            GzDecoder::new(packed).read_to_end(&mut text).expect("the build has packed it");
            (fixed, text).into_response()
        })
    })
}
