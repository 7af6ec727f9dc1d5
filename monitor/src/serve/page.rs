//! The page: five files, compiled into the binary. It requests nothing from other hosts.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::routing::{MethodRouter, get};

/// A proxy may add any path prefix (the API server's node proxy does), so the files name each other
/// by relative URLs only.
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

pub(super) fn file<S: Clone + Send + Sync + 'static>(
    content_type: &'static str,
    text: &'static str,
) -> MethodRouter<S> {
    get(
        move || async move { ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))], text) },
    )
}
