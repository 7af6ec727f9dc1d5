//! RBAC rules of a manifest, and whether requests and rules cover each other.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::call::Call;
use crate::journal::Seen;
use crate::review::is_review;

/// What every authenticated client may get: the role `system:discovery`.
const DISCOVERY: [&str; 10] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
];

/// The rules of all ClusterRoles and Roles of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules(Vec<Grant>);

/// One verb on one resource: what a rule grants, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    /// The namespace of a Role; a ClusterRole has none.
    namespace: Option<String>,
    verb: String,
    on: Object,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    /// With its subresource after a slash; the name if the rule has names.
    Resource {
        group: String,
        resource: String,
        name: Option<String>,
    },
    Path(String),
}

/// What a check has found; nothing is good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Requests that no rule allows.
    pub denied: Vec<String>,
    /// Grants that no request has used.
    pub unused: Vec<String>,
}

impl Rules {
    /// Reads YAML or JSON, one document or several, or a List. Objects of other kinds are skipped.
    ///
    /// # Errors
    /// If the text is not YAML, or has no rule.
    pub fn parse(text: &str) -> Result<Self> {
        let mut grants = BTreeSet::new();
        let mut open: Vec<Value> =
            serde_saphyr::from_multiple(text).context("cannot read the manifest")?;
        while let Some(object) = open.pop() {
            open.extend(object["items"].as_array().into_iter().flatten().cloned());
            let namespace = match object["kind"].as_str() {
                Some("ClusterRole") => None,
                Some("Role") => object["metadata"]["namespace"].as_str().map(str::to_owned),
                _ => continue,
            };
            for rule in object["rules"].as_array().into_iter().flatten() {
                grants.extend(taken_apart(namespace.as_deref(), rule));
            }
        }
        ensure!(!grants.is_empty(), "no ClusterRole or Role with rules in the manifest");
        Ok(Self(grants.into_iter().collect()))
    }

    pub(crate) fn allow(&self, call: &Call) -> bool {
        self.0.iter().any(|grant| grant.allows(call)) || is_discovery(call) || is_review(call)
    }

    /// Whether each request is allowed, and each grant was used. What was asked and refused for
    /// another reason counts as used.
    pub fn check(&self, seen: &[Seen]) -> Findings {
        let denied = seen.iter().filter(|one| !self.allow(&one.call));
        let denied: BTreeSet<_> = denied.map(|one| asked(&one.call)).collect();
        let is_used = |grant: &Grant| seen.iter().any(|one| grant.allows(&one.call));
        let unused = self.0.iter().filter(|grant| !is_used(grant)).map(Grant::to_string).collect();
        Findings { denied: denied.into_iter().collect(), unused }
    }
}

fn taken_apart(namespace: Option<&str>, rule: &Value) -> Vec<Grant> {
    let texts = |name: &str| {
        let all = rule[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut names: Vec<_> = texts("resourceNames").into_iter().map(Some).collect();
    if names.is_empty() {
        names.push(None);
    }
    let mut objects: Vec<_> = texts("nonResourceURLs").into_iter().map(Object::Path).collect();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            let of = |name: &Option<String>| Object::Resource {
                group: group.clone(),
                resource: resource.clone(),
                name: name.clone(),
            };
            objects.extend(names.iter().map(of));
        }
    }
    let grant = |verb: &String, on: &Object| Grant {
        namespace: namespace.map(str::to_owned),
        verb: verb.clone(),
        on: on.clone(),
    };
    let verbs = texts("verbs");
    objects.iter().flat_map(|on| verbs.iter().map(move |verb| grant(verb, on))).collect()
}

impl Grant {
    fn allows(&self, call: &Call) -> bool {
        let is_here = self.namespace.as_ref().is_none_or(|namespace| *namespace == call.namespace);
        let is_verb = self.verb == "*" || self.verb == call.verb;
        is_here && is_verb && self.on.covers(call)
    }
}

impl Object {
    fn covers(&self, call: &Call) -> bool {
        let like = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        match self {
            Self::Path(pattern) => call.resource.is_empty() && is_path(pattern, &call.path),
            Self::Resource { group, resource, name } => {
                !call.resource.is_empty()
                    && like(group, &call.group)
                    && (like(resource, &full_name(call))
                        || resource.strip_prefix("*/").is_some_and(|sub| sub == call.subresource))
                    && name.as_ref().is_none_or(|name| *name == call.name)
            }
        }
    }
}

/// A star stands at the end alone.
fn is_path(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => pattern == path,
    }
}

fn is_discovery(call: &Call) -> bool {
    let is_known = || DISCOVERY.iter().any(|pattern| is_path(pattern, &call.path));
    call.resource.is_empty() && call.verb == "get" && is_known()
}

/// `pods/eviction`
fn full_name(call: &Call) -> String {
    match call.subresource.as_str() {
        "" => call.resource.clone(),
        subresource => format!("{}/{subresource}", call.resource),
    }
}

fn asked(call: &Call) -> String {
    match call.resource.as_str() {
        "" => format!("{} {}", call.verb, call.path),
        _ => format!("{} {} ({})", call.verb, in_group(&call.group, &full_name(call)), call.path),
    }
}

fn in_group(group: &str, resource: &str) -> String {
    match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.on {
            Object::Path(path) => write!(f, "{} {path}", self.verb),
            Object::Resource { group, resource, name } => {
                write!(f, "{} {}", self.verb, in_group(group, resource))?;
                name.as_ref().map_or(Ok(()), |name| write!(f, " {name}"))
            }
        }
    }
}
