//! What one request asks for, in the words of RBAC.

use std::collections::BTreeMap;

use axum::extract::Query;
use axum::http::{HeaderMap, Method, Uri, header};
use serde::Serialize;
use serde_json::Value;

use crate::select::Fields;

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// As RBAC names it: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`; of a path that is no resource, the method in small letters.
    pub verb: String,
    pub path: String,
    /// Empty for the core API, and for a path that is no resource.
    pub group: String,
    pub version: String,
    /// The plural; empty for a path that is no resource.
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    /// Also of a list whose field selector asks for one name: RBAC sees it so.
    pub name: String,
    pub query: BTreeMap<String, String>,
    pub content_type: String,
    /// The `User-Agent` header; not in the transcript, which is the same for every client.
    #[serde(skip)]
    pub user_agent: String,
    /// The `Authorization` header; not in the transcript.
    #[serde(skip)]
    pub authorization: String,
    /// JSON; a text where it is not JSON; null where there is none.
    pub body: Value,
}

impl Call {
    pub(crate) fn read(method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Self {
        let query = Query::<BTreeMap<String, String>>::try_from_uri(uri).map_or_else(
            |_| BTreeMap::new(), // what cannot be decoded asks for nothing
            |Query(query)| query,
        );
        let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("").to_owned();
        let content_type = text(header::CONTENT_TYPE);
        let content_type = content_type.split(';').next().unwrap_or("").trim().to_owned();
        let body = match body {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes)
                .unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned().into()),
        };
        let mut call = Self {
            verb: method.as_str().to_lowercase(),
            path: uri.path().to_owned(),
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            query,
            content_type,
            user_agent: text(header::USER_AGENT),
            authorization: text(header::AUTHORIZATION),
            body,
        };
        call.find_resource(method);
        call
    }

    /// Which resource the path names, by the rules of the real server's `RequestInfoFactory`.
    fn find_resource(&mut self, method: &Method) {
        let path = self.path.clone();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            ["stats", "summary"] => return self.of_kubelet("stats"),
            ["pods"] => return self.of_kubelet("pods"),
            ["configz"] => return self.of_kubelet("configz"),
            _ => return,
        };
        let (namespace, rest) = match rest {
            // A namespace itself, or its status.
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, below @ ..] if !below.is_empty() => (*namespace, below),
            _ => ("", rest),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, subresource] => (*resource, *name, *subresource),
            _ => return,
        };
        group.clone_into(&mut self.group);
        version.clone_into(&mut self.version);
        namespace.clone_into(&mut self.namespace);
        resource.clone_into(&mut self.resource);
        name.clone_into(&mut self.name);
        subresource.clone_into(&mut self.subresource);
        self.verb = match *method {
            Method::GET | Method::HEAD if !name.is_empty() => "get",
            Method::GET | Method::HEAD if self.asks("watch") => "watch",
            Method::GET | Method::HEAD => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ => "",
        }
        .to_owned();
        if self.name.is_empty() && matches!(self.verb.as_str(), "list" | "watch") {
            let fields = self.option("fieldSelector").map(Fields::parse);
            let name = fields.and_then(Result::ok).and_then(|fields| fields.one_name());
            self.name = name.unwrap_or_default();
        }
    }

    /// A path of the kubelet, by the subresource of nodes that guards it: fine-grained authorization.
    fn of_kubelet(&mut self, subresource: &str) {
        "v1".clone_into(&mut self.version);
        "nodes".clone_into(&mut self.resource);
        subresource.clone_into(&mut self.subresource);
    }

    pub(crate) fn is_for_kubelet(&self) -> bool {
        self.resource == "nodes" && matches!(&*self.subresource, "stats" | "pods" | "configz")
    }

    /// The value of a query parameter, if it has one.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A query parameter that is true or false; what is neither counts as true, as in the server.
    pub(crate) fn asks(&self, name: &str) -> bool {
        self.query.get(name).is_some_and(|value| value != "false" && value != "0")
    }
}
