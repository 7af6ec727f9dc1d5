//! What a client asks before all else: which versions, groups and resources there are.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::kind::{KINDS, Kind, Scope, VERSION};

const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

pub(crate) fn answer(call: &Call) -> Answer {
    if call.verb != "get" {
        return Answer::Text(405, "405 method not allowed\n");
    }
    let parts: Vec<&str> = call.path.split('/').filter(|part| !part.is_empty()).collect();
    let object = match parts.as_slice() {
        ["livez" | "readyz" | "healthz", ..] => return Answer::Text(200, "ok"),
        ["version"] => version(),
        ["api"] => json!({
            "kind": "APIVersions",
            "versions": [VERSION],
            "serverAddressByClientCIDRs": [],
        }),
        ["apis"] => json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": groups().map(group).collect::<Vec<_>>(),
        }),
        ["api", VERSION] => resources("", VERSION),
        ["apis", name] if groups().any(|g| g == *name) => {
            let mut group = group(name);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        ["apis", name, VERSION] if groups().any(|g| g == *name) => {
            resources(name, &format!("{name}/{VERSION}"))
        }
        _ => return Answer::Text(404, "404 page not found\n"),
    };
    Answer::Object(200, object)
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

/// All but the core API.
fn groups() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.group).filter(|group| !group.is_empty())
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/{VERSION}"), "version": VERSION});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn resources(group: &str, version: &str) -> Value {
    let kinds = KINDS.iter().filter(|kind| kind.group == group);
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": version,
        "resources": kinds.flat_map(resource).collect::<Vec<_>>(),
    })
}

/// A resource and its subresources.
fn resource(kind: &Kind) -> Vec<Value> {
    let namespaced = kind.scope == Scope::Namespaced;
    let mut own = json!({
        "name": kind.plural,
        "singularName": kind.name.to_lowercase(),
        "namespaced": namespaced,
        "kind": kind.name,
        "verbs": VERBS,
    });
    if !kind.short.is_empty() {
        own["shortNames"] = json!([kind.short]);
    }
    let below = kind.subresources.iter().map(|subresource| {
        let name = format!("{}/{subresource}", kind.plural);
        match *subresource {
            "eviction" => json!({
                "name": name,
                "singularName": "",
                "namespaced": namespaced,
                "group": "policy",
                "version": VERSION,
                "kind": "Eviction",
                "verbs": ["create"],
            }),
            _ => json!({
                "name": name,
                "singularName": "",
                "namespaced": namespaced,
                "kind": kind.name,
                "verbs": ["get", "patch", "update"],
            }),
        }
    });
    [own].into_iter().chain(below).collect()
}
