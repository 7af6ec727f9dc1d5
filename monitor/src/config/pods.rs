//! Pods as Kubernetes writes them: manifests, and what `kubectl get pods -o yaml` or `-o json`
//! prints, statuses included. In: text. Out: pods, in file order.
//!
//! These files belong to Kubernetes, so keys that isobar does not use are ignored; the keys that it
//! uses must be what the API accepts. Of objects that make pods (Deployment, Job, ..) the template
//! is read, under the name of its maker. Requests above their limits are accepted: the API server
//! refuses them, the kubelet does not.

mod spec;
#[cfg(test)]
mod tests;
pub mod told;

use jiff::fmt::temporal::DateTimeParser;

use super::fields::{Field, Fields};
use super::json;
use super::problem::{Invalid, Place, Problem, Problems};
use super::yaml::{self, Node};
use isobar_core::model::pod::QosClass;
use isobar_core::model::threshold::Resource;
use isobar_core::model::workload::{Container, Owner, Pod};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    pub pods: Vec<Pod>,
    /// Objects that were ignored because they make no pods: reported, because a kind may be
    /// mistyped.
    pub others: Vec<Problem>,
    /// The file has a list or several documents, even if only one pod is in it.
    pub is_list: bool,
}

/// Kinds with a template of pods, and the keys that lead to it.
const MAKERS: [(&str, &[&str]); 8] = [
    ("Deployment", &["spec", "template"]),
    ("DaemonSet", &["spec", "template"]),
    ("StatefulSet", &["spec", "template"]),
    ("ReplicaSet", &["spec", "template"]),
    ("ReplicationController", &["spec", "template"]),
    ("Job", &["spec", "template"]),
    ("CronJob", &["spec", "jobTemplate", "spec", "template"]),
    ("PodTemplate", &["template"]),
];

/// Keys of annotations that are read: what the kubelet notes. Others are of any size.
const NOTED: &str = "kubernetes.io/config.";

/// Reads all documents of `file`. An error if there is neither a pod nor a list that could have
/// held one.
pub fn read(file: &str, bytes: &[u8]) -> Result<Manifest, Invalid> {
    // Read again for the places, if anything is to be said.
    let unplaced = json::document(bytes).map(|document| of(file, &[document]));
    match unplaced {
        Some(Ok(manifest)) if manifest.others.is_empty() => Ok(manifest),
        _ => of(file, &yaml::documents(file, bytes)?),
    }
}

/// Of `documents` that were read from `file`; see [`read`].
pub fn of(file: &str, documents: &[Node]) -> Result<Manifest, Invalid> {
    let problems = Problems::default();
    let mut manifest = Manifest { is_list: documents.len() > 1, ..Manifest::default() };
    for document in documents {
        if let Some(object) = Fields::of(document, &problems) {
            manifest.object(object.lenient(), None);
        }
    }
    if manifest.pods.is_empty() && !manifest.others.is_empty() {
        problems.push(Place::START, "", "expected a pod, or an object that makes pods");
        for Problem { at, path, message } in &manifest.others {
            problems.push(at.unwrap_or(Place::START), path, message);
        }
    }
    problems.unless_any(file, manifest)
}

impl Manifest {
    /// An object of any kind; `usual` if it names none.
    fn object(&mut self, mut object: Fields<'_>, usual: Option<&str>) {
        let given = object.field("kind");
        let kind = given.as_ref().map_or(usual, Field::text);
        if given.is_none() && usual.is_none() {
            object.problem("kind", "expected this key, it is missing");
        }
        match kind {
            Some("Pod") => self.pod(&mut object),
            Some("List") => self.list(&mut object, None),
            Some("PodList") => self.list(&mut object, Some("Pod")),
            Some(kind) => match MAKERS.iter().find(|(maker, _)| *maker == kind) {
                Some((_, keys)) => self.maker(&mut object, keys),
                None => self.other(given.as_ref(), kind),
            },
            None => {}
        }
    }

    fn list(&mut self, list: &mut Fields<'_>, usual: Option<&str>) {
        self.is_list = true;
        for item in list.required("items").and_then(|items| items.list()).unwrap_or_default() {
            if let Some(object) = item.map() {
                self.object(object, usual);
            }
        }
    }

    fn other(&mut self, given: Option<&Field<'_>>, kind: &str) {
        let message = format!("ignored: {kind:?} is not a kind that has pods");
        let path = given.map(|field| field.path().into()).unwrap_or_default();
        let at = Some(given.map_or(Place::START, Field::at));
        self.others.push(Problem { at, path, message });
    }

    fn pod(&mut self, object: &mut Fields<'_>) {
        let mut pod = Pod::default();
        let mut created = None;
        if let Some(mut metadata) = object.map("metadata") {
            created = metadata.field("creationTimestamp").and_then(|field| seconds(&field));
            read_metadata(&mut metadata, &mut pod);
        }
        if let Some(spec) = object.required("spec").and_then(|spec| spec.map()) {
            spec::read(spec, &mut pod);
        }
        if let Some(mut status) = object.map("status") {
            pod.started = status.field("startTime").and_then(|field| seconds(&field));
            pod.qos_class = class(&mut status);
            if let Some(resources) = &mut pod.resources {
                let allocated = spec::quantities(status.field("allocatedResources"));
                resources.requests.extend(allocated);
            }
            pod.is_evicted = status.text("reason") == Some("Evicted");
            pod.evicted_for =
                status.text("message").filter(|_| pod.is_evicted).and_then(evicted_for);
            pod.is_over = matches!(status.text("phase"), Some("Succeeded" | "Failed"));
            for key in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"]
            {
                read_statuses(&mut status, key, &mut pod.containers);
            }
        }
        pod.started = pod.started.or(created);
        pod.ends_within = pod.ends_within.or(pod.is_over.then_some(0));
        self.pods.push(pod);
    }

    /// The pod that `object` would make; `keys` lead to its template.
    fn maker(&mut self, object: &mut Fields<'_>, keys: &[&'static str]) {
        let mut maker = Pod::default();
        if let Some(mut metadata) = object.map("metadata") {
            read_metadata(&mut metadata, &mut maker);
        }
        // Uid, labels and annotations are the maker's own: its pods have others.
        let mut pod = Pod { name: maker.name, namespace: maker.namespace, ..Pod::default() };
        let Some(mut template) = below(object, keys) else { return };
        if let Some(mut metadata) = template.map("metadata") {
            pod.labels = spec::texts(&mut metadata, "labels");
            pod.annotations = spec::texts(&mut metadata, "annotations");
        }
        if let Some(spec) = template.required("spec").and_then(|spec| spec.map()) {
            spec::read(spec, &mut pod);
        }
        self.pods.push(pod);
    }
}

/// The mapping that `keys` lead to. Each must be there.
fn below<'a>(object: &mut Fields<'a>, keys: &[&'static str]) -> Option<Fields<'a>> {
    let (first, rest) = keys.split_first()?;
    let mut next = object.required(first)?.map()?;
    if rest.is_empty() { Some(next) } else { below(&mut next, rest) }
}

/// What was short when the kubelet evicted a pod, by the message that it leaves.
/// Source: `pkg/kubelet/eviction/helpers.go`, `evictionMessage`; `eviction_manager.go`,
/// `emptyDirMessageFmt`, `podEphemeralStorageMessageFmt`, `containerEphemeralStorageMessageFmt`.
fn evicted_for(message: &str) -> Option<Resource> {
    let Some(short) = message.strip_prefix("The node was low on resource: ") else {
        let own_limits = ["Usage of EmptyDir", "Pod ephemeral local storage", "Container "];
        let is_of_disk = own_limits.iter().any(|start| message.starts_with(start));
        return is_of_disk.then_some(Resource::Storage);
    };
    match short.split('.').next()? {
        "memory" => Some(Resource::Memory),
        "ephemeral-storage" => Some(Resource::Storage),
        "inodes" => Some(Resource::Inodes),
        "pids" => Some(Resource::Pids),
        _ => None,
    }
}

fn read_metadata(metadata: &mut Fields<'_>, pod: &mut Pod) {
    let text = |fields: &mut Fields<'_>, key| fields.text(key).unwrap_or_default().to_owned();
    pod.name = text(metadata, "name");
    if pod.name.is_empty() {
        pod.name = text(metadata, "generateName");
    }
    pod.namespace = text(metadata, "namespace");
    pod.uid = text(metadata, "uid");
    if metadata.field("deletionTimestamp").is_some() {
        pod.ends_within = Some(metadata.number("deletionGracePeriodSeconds").unwrap_or(0));
    }
    pod.labels = spec::texts(metadata, "labels");
    pod.annotations = spec::texts(metadata, "annotations");
    pod.annotations.retain(|key, _| key.starts_with(NOTED));
    for owner in metadata.list("ownerReferences").unwrap_or_default() {
        let Some(mut owner) = owner.map() else { continue };
        if owner.flag("controller") == Some(true) {
            pod.owner = Some(Owner {
                kind: text(&mut owner, "kind"),
                name: text(&mut owner, "name"),
                uid: text(&mut owner, "uid"),
            });
        }
    }
}

/// `status.qosClass`. A pod that was never admitted has an empty one.
fn class(status: &mut Fields<'_>) -> Option<QosClass> {
    let field = status.field("qosClass")?;
    if field.scalar("a text") == Some("") { None } else { field.one_of(&QosClass::NAMED) }
}

/// One of the lists of statuses: the runtime's container ids (`containerd://0f3c..`), and what the
/// kubelet has allocated, by which it goes while a resize of the spec is still to come.
fn read_statuses(status: &mut Fields<'_>, key: &'static str, containers: &mut [Container]) {
    for status in status.list(key).unwrap_or_default() {
        let Some(mut status) = status.map() else { continue };
        let (name, id) = (status.text("name"), status.text("containerID"));
        let id = id.map(|id| id.split_once("://").map_or(id, |(_, id)| id));
        if let Some(container) = containers.iter_mut().find(|c| Some(c.name.as_str()) == name) {
            container.id = id.filter(|id| !id.is_empty()).map(Into::into);
            container.n_restarts = status.number("restartCount");
            let allocated = spec::quantities(status.field("allocatedResources"));
            container.resources.requests.extend(allocated);
            let in_force = status.field("resources").map(|field| spec::resources(&field));
            container.resources.limits.extend(in_force.unwrap_or_default().limits);
        }
    }
}

/// A time in RFC 3339, as seconds since 1970.
fn seconds(field: &Field<'_>) -> Option<i64> {
    let text = field.text()?;
    let time = DateTimeParser::new().parse_timestamp(text).ok();
    if time.is_none() {
        field.problem(format!("expected a time such as 2026-01-31T12:00:00Z, found {text:?}"));
    }
    Some(time?.as_second())
}
