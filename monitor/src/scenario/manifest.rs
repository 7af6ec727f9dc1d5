//! Pods as Kubernetes writes them, as a scenario: requests, class, priority and age of each. What a
//! pod uses and whom it harms is in neither its manifest nor its status, so both are unknown.

use std::collections::BTreeSet;

use isobar_core::model::request::request;
use isobar_core::model::workload::Pod;
use isobar_kubelet::admitted::admitted;
use isobar_kubelet::qos;

use super::{Described, REQUESTS, Scenario};
use crate::config::yaml::{Node, Value};
use crate::config::{API_VERSION, Invalid, pods};

/// Whether `document` is an object of Kubernetes, which always names its kind.
pub(super) fn is_manifest(document: &Node) -> bool {
    let kind = at(document, "kind").and_then(text);
    let version = at(document, "apiVersion").and_then(text);
    version != Some(API_VERSION) && kind.is_some_and(|kind| kind != "Scenario")
}

pub(super) fn read(file: &str, documents: &[Node]) -> Result<Scenario, Invalid> {
    let manifest = pods::of(file, documents)?;
    let has_places = !manifest.others.is_empty();
    let mut notes: Vec<_> = manifest.others.iter().map(|other| format!("{file}:{other}")).collect();
    let (over, alive): (Vec<Pod>, Vec<Pod>) =
        manifest.pods.into_iter().partition(|pod| pod.is_over);
    if !over.is_empty() {
        let n = over.len();
        notes.push(format!("{file}: left out because they have succeeded or failed: {n}"));
    }
    let nodes: BTreeSet<&str> = documents.iter().flat_map(objects).filter_map(node).collect();
    if nodes.len() > 1 {
        let n = nodes.len();
        notes.push(format!(
            "{file}: pods of {n} nodes, ranked as if they were on one; kubectl prints those of one \
             with --field-selector spec.nodeName=NAME"
        ));
    }
    let mut uids = BTreeSet::new();
    let pods: Vec<_> = alive.iter().map(|pod| described(pod, &mut uids)).collect();
    if !pods.is_empty() {
        notes.push(format!(
            "{file}: usage and harm are unknown: neither the manifest nor the status of a pod has them"
        ));
    }
    Ok(Scenario { pods, notes, has_places, ..Scenario::default() })
}

/// As the API server would admit it. `uids` are those of the pods before it.
fn described(pod: &Pod, uids: &mut BTreeSet<String>) -> Described {
    let mut pod = admitted(pod);
    if pod.uid.is_empty() {
        pod.uid = match (pod.namespace.as_str(), pod.name.as_str()) {
            ("", name) => name.into(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
    }
    // A Deployment and a Job may have the same name.
    let uid = pod.uid.clone();
    let mut n = 1;
    while !uids.insert(pod.uid.clone()) {
        n += 1;
        pod.uid = format!("{uid}#{n}");
    }
    let asked = REQUESTS.map(|name| (name.to_owned(), request(&pod, name)));
    Described {
        class: qos::class(&pod),
        request: asked.into_iter().collect(),
        usage: None,
        harm: None,
        taken: None,
        frees: None,
        spared: None,
        pod,
    }
}

/// The document, or what is in it if it is a list.
fn objects(document: &Node) -> Vec<&Node> {
    match at(document, "items").map(|items| &items.value) {
        Some(Value::List(items)) => items.iter().collect(),
        _ => vec![document],
    }
}

fn node(pod: &Node) -> Option<&str> {
    at(at(pod, "spec")?, "nodeName").and_then(text)
}

fn at<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
}

fn text(node: &Node) -> Option<&str> {
    let Value::Scalar(scalar) = &node.value else { return None };
    Some(&scalar.text)
}
