//! A client without manners: it sends what it is told and shows what comes.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

use crate::{Kubelet, Options, Stub, generate};

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A server with the node `worker-1` and the pod `shop/web-0` on it.
pub(super) fn stub() -> Stub {
    stub_with(Kubelet::AtOnce)
}

pub(super) fn stub_with(kubelet: Kubelet) -> Stub {
    let stub = Stub::start(&Options { kubelet, ..Options::default() }).unwrap();
    stub.put(generate::node("worker-1")).unwrap();
    stub.put(generate::pod("worker-1", "shop", "web-0")).unwrap();
    stub
}

fn agent() -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(20)));
    config.build().into()
}

/// The status and the body of an answer; `Retry-After` where it has one.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) retry_after: Option<String>,
    pub(super) body: Value,
}

impl Reply {
    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The code and the message of a refusal.
    pub(super) fn refusal(&self) -> (u16, &str) {
        (self.code, self.body["message"].as_str().unwrap_or(""))
    }
}

pub(super) fn send(
    stub: &Stub,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<Reply, ureq::Error> {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("{}{path}", stub.url()))
        .header("content-type", content_type);
    let agent = agent();
    let config =
        agent.configure_request(request.body(text).unwrap()).allow_non_standard_methods(true);
    let mut response = agent.run(config.build())?;
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
    let text = response.body_mut().with_config().limit(64 << 20).read_to_string()?;
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Ok(Reply { code: response.status().as_u16(), retry_after, body })
}

pub(super) fn get(stub: &Stub, path: &str) -> Reply {
    send(stub, "GET", path, "", &Value::Null).unwrap()
}

pub(super) fn post(stub: &Stub, path: &str, body: &Value) -> Reply {
    send(stub, "POST", path, JSON, body).unwrap()
}

pub(super) fn patch(stub: &Stub, path: &str, kind: &str, body: &Value) -> Reply {
    send(stub, "PATCH", path, kind, body).unwrap()
}

pub(super) fn delete(stub: &Stub, path: &str, body: &Value) -> Reply {
    send(stub, "DELETE", path, JSON, body).unwrap()
}

/// The lines of a watch, as they come.
pub(super) struct Watch(Box<dyn Iterator<Item = std::io::Result<String>> + Send>);

impl Watch {
    pub(super) fn open(stub: &Stub, path: &str) -> Self {
        let response = agent().get(format!("{}{path}", stub.url())).call().unwrap();
        assert_eq!(response.status(), 200, "{path}");
        Self(Box::new(BufReader::new(response.into_body().into_reader()).lines()))
    }

    /// The next event as JSON; None at the end.
    pub(super) fn next(&mut self) -> Option<Value> {
        self.0.next().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    /// The next event's type, its object's name, and the object's version.
    pub(super) fn brief(&mut self) -> (String, String, u64) {
        let event = self.next().expect("the watch has ended");
        let text =
            |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
        let version = text("/object/metadata/resourceVersion").parse().unwrap_or(0);
        (text("/type"), text("/object/metadata/name"), version)
    }

    /// The next line as it is, or the error in place of it.
    pub(super) fn line(&mut self) -> Option<std::io::Result<String>> {
        self.0.next()
    }
}
