//! The page: five files, compiled in. No build step, no request to anywhere else.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::routing::{MethodRouter, get};

/// Any path prefix may stand before these (a port forwarded, the API server's node proxy), so the
/// files name each other by relative URLs only.
pub(super) fn routes() -> Router {
    const JS: &str = "text/javascript; charset=utf-8";
    Router::new()
        .route(
            "/",
            file("text/html; charset=utf-8", include_str!("../../../dashboards/web/index.html")),
        )
        .route("/page.js", file(JS, include_str!("../../../dashboards/web/page.js")))
        .route("/words.js", file(JS, include_str!("../../../dashboards/web/words.js")))
        .route(
            "/page.css",
            file("text/css; charset=utf-8", include_str!("../../../dashboards/web/page.css")),
        )
        .route("/icon.svg", file("image/svg+xml", include_str!("../../../dashboards/web/icon.svg")))
}

fn file(content_type: &'static str, text: &'static str) -> MethodRouter {
    get(
        move || async move { ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))], text) },
    )
}
