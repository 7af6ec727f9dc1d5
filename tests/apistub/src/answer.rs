//! What a request is answered with, and which part of the server answers it.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio_stream::wrappers::ReceiverStream;

use crate::call::Call;
use crate::cluster::Cluster;
use crate::fault::Effect;
use crate::kind::{Kind, Scope};
use crate::review::is_review;
use crate::status::Failure;
use crate::{delete, evict, list, review, watch, write};

pub(crate) enum Answer {
    Object(u16, Value),
    Text(u16, &'static str),
    /// Not of this server's making: a fault's.
    Raw(u16, Body),
    /// The events of a watch, a line each.
    Lines(ReceiverStream<io::Result<Bytes>>),
    Refusal(Failure),
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self::Refusal(failure)
    }
}

impl Answer {
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Object(code, _) | Self::Text(code, _) | Self::Raw(code, _) => *code,
            Self::Lines(_) => 200,
            Self::Refusal(failure) => failure.code,
        }
    }

    pub(crate) fn response(self) -> Response {
        let code = StatusCode::from_u16(self.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = |object: &Value| {
            let text = format!("{object}\n");
            (code, [(header::CONTENT_TYPE, "application/json")], text).into_response()
        };
        match self {
            Self::Object(_, object) => json(&object),
            Self::Text(_, text) => (code, text).into_response(),
            Self::Raw(_, body) => {
                (code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Self::Lines(lines) => {
                let body = Body::from_stream(lines);
                (code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Self::Refusal(failure) => {
                let mut response = json(&failure.object());
                if let Some(seconds) = failure.retry_after() {
                    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
                }
                response
            }
        }
    }
}

/// Answers a request that no fault has struck, or only one that a watch plays itself.
pub(crate) fn answer(cluster: &Arc<Cluster>, call: &Call, effect: Option<Effect>) -> Answer {
    if let Err(failure) = cluster.access().check(call) {
        return failure.into();
    }
    if call.resource.is_empty() {
        return match (call.verb.as_str(), call.path.as_str()) {
            ("get", "/version") => Answer::Object(200, version()),
            _ => Answer::Text(404, "404 page not found\n"),
        };
    }
    if call.is_for_kubelet() {
        let said = cluster.kubelet_says().get(&call.path).cloned();
        let missing = Answer::Text(404, "404 page not found\n");
        return said.map_or(missing, |said| Answer::Object(200, said));
    }
    if is_review(call) {
        return review::answer(cluster, call);
    }
    let Some(kind) = Kind::of_path(&call.group, &call.version, &call.resource) else {
        return Answer::Text(404, "404 page not found\n");
    };
    let known = call.subresource.is_empty() || kind.subresources.contains(&&*call.subresource);
    let of_all = matches!(call.verb.as_str(), "list" | "watch" | "create" | "deletecollection");
    let placed = match kind.scope {
        Scope::Cluster => call.namespace.is_empty(),
        Scope::Namespaced => of_all || !call.namespace.is_empty(),
    };
    if !known || !placed {
        return Answer::Text(404, "404 page not found\n");
    }
    let done = match (call.verb.as_str(), call.subresource.as_str()) {
        ("get", "" | "status") => write::get(cluster, call, kind),
        ("list", "") => list::list(cluster, call, kind),
        ("watch", "") => watch::open(cluster, call, kind, effect),
        ("create", "") => write::create(cluster, call, kind),
        ("create", "eviction") => evict::evict(cluster, call, kind),
        ("patch", "" | "status") => write::patch(cluster, call, kind),
        ("delete", "") => delete::delete(cluster, call, kind),
        _ => Err(Failure::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )),
    };
    done.unwrap_or_else(Answer::Refusal)
}

/// No release was ever called so: a log that shows it shows that it was not a real server.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "34",
        "gitVersion": "v1.34.0-isobar-apistub",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}
