//! Pods as Kubernetes writes them: manifests, and what `kubectl get pods -o yaml` or `-o json`
//! prints, statuses included. In: text. Out: pods, in the order of the file.
//!
//! These files belong to Kubernetes, so keys that nobody here asks for are passed over; what is
//! asked for must be what the API takes. Of what makes pods (Deployment, Job, ..) the template is
//! read, and named after its maker. Requests above their limits are read as they stand: the
//! kubelet judges them, it is the API server that refuses them.

mod spec;
#[cfg(test)]
mod tests;

use jiff::fmt::temporal::DateTimeParser;

use super::problem::{Invalid, Place, Problem, Problems};
use super::yaml::{self, Field, Fields};
use isobar_core::model::pod::QosClass;
use isobar_core::model::workload::{Container, Owner, Pod};

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The pods.
    pub pods: Vec<Pod>,
    /// Objects that make no pods, and were passed over: to be told, because a kind may be
    /// mistyped.
    pub others: Vec<Problem>,
    /// It has a list, or several documents: there is one pod only by chance.
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

/// Reads all documents of `text`, the text of `file`.
///
/// # Errors
/// With everything that is wrong with it, each with its place; or if there is no pod in it, and
/// no list that could have held one.
pub fn read(file: &str, text: &str) -> Result<Manifest, Invalid> {
    let documents = yaml::parse(text).map_err(|problem| Invalid::one(file, problem))?;
    let problems = Problems::default();
    let mut found = Manifest { is_list: documents.len() > 1, ..Manifest::default() };
    for document in &documents {
        if let Some(object) = Fields::of(document, &problems) {
            found.object(object.lenient(), None);
        }
    }
    if found.pods.is_empty() && !found.others.is_empty() {
        problems.push(Place::START, "", "expected a pod, or something that makes pods");
        for Problem { at, path, message } in &found.others {
            problems.push(*at, path, message);
        }
    }
    problems.unless_any(file, found)
}

impl Manifest {
    /// An object of any kind; one that does not say it is of kind `usual`.
    fn object(&mut self, mut object: Fields<'_>, usual: Option<&str>) {
        let said = object.field("kind");
        let kind = match (&said, usual) {
            (Some(field), _) => field.text(),
            (None, Some(usual)) => Some(usual),
            (None, None) => {
                object.problem("kind", "expected this key, it is missing");
                None
            }
        };
        match kind {
            Some("Pod") => self.pod(&mut object),
            Some("List") => self.list(&mut object, None),
            Some("PodList") => self.list(&mut object, Some("Pod")),
            Some(kind) => match MAKERS.iter().find(|(maker, _)| *maker == kind) {
                Some((_, way)) => self.maker(&mut object, way),
                None => self.other(said.as_ref(), kind),
            },
            None => {}
        }
        object.finish();
    }

    fn list(&mut self, list: &mut Fields<'_>, usual: Option<&str>) {
        self.is_list = true;
        for item in list.required("items").and_then(|items| items.list()).unwrap_or_default() {
            if let Some(object) = item.map() {
                self.object(object, usual);
            }
        }
    }

    fn other(&mut self, said: Option<&Field<'_>>, kind: &str) {
        let (at, path) = said.map_or((Place::START, ""), |field| (field.at(), field.path()));
        let message = format!("passed over: {kind:?} is no kind that has pods");
        self.others.push(Problem { at, path: path.into(), message });
    }

    fn pod(&mut self, object: &mut Fields<'_>) {
        let mut pod = Pod::default();
        let mut created = None;
        if let Some(mut metadata) = object.map("metadata") {
            created = metadata.field("creationTimestamp").and_then(|field| seconds(&field));
            described(&mut metadata, &mut pod);
            metadata.finish();
        }
        if let Some(spec) = object.required("spec").and_then(|spec| spec.map()) {
            spec::read(spec, &mut pod);
        }
        if let Some(mut status) = object.map("status") {
            pod.started = status.field("startTime").and_then(|field| seconds(&field));
            pod.qos_class = class(&mut status);
            for key in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"]
            {
                running(&mut status, key, &mut pod.containers);
            }
            status.finish();
        }
        pod.started = pod.started.or(created);
        self.pods.push(pod);
    }

    /// The pod that `object` would make; `way` leads to its template.
    fn maker(&mut self, object: &mut Fields<'_>, way: &[&'static str]) {
        let mut pod = Pod::default();
        if let Some(mut metadata) = object.map("metadata") {
            described(&mut metadata, &mut pod);
            metadata.finish();
        }
        // The maker's own: its pods have others.
        let Pod { name, namespace, .. } = pod;
        pod = Pod { name, namespace, ..Pod::default() };
        let Some(mut template) = below(object, way) else { return };
        if let Some(mut metadata) = template.map("metadata") {
            (pod.labels, pod.annotations) =
                (spec::texts(&mut metadata, "labels"), spec::texts(&mut metadata, "annotations"));
            metadata.finish();
        }
        if let Some(spec) = template.required("spec").and_then(|spec| spec.map()) {
            spec::read(spec, &mut pod);
        }
        template.finish();
        self.pods.push(pod);
    }
}

/// The mapping that `way` leads to. Each on it must be there.
fn below<'a>(object: &mut Fields<'a>, way: &[&'static str]) -> Option<Fields<'a>> {
    let (first, rest) = way.split_first()?;
    let mut next = object.required(first)?.map()?;
    if rest.is_empty() {
        return Some(next);
    }
    let last = below(&mut next, rest);
    next.finish();
    last
}

/// `metadata`.
fn described(metadata: &mut Fields<'_>, pod: &mut Pod) {
    let text = |metadata: &mut Fields<'_>, key| metadata.text(key).unwrap_or_default().to_owned();
    pod.name = text(metadata, "name");
    if pod.name.is_empty() {
        pod.name = text(metadata, "generateName");
    }
    pod.namespace = text(metadata, "namespace");
    pod.uid = text(metadata, "uid");
    pod.labels = spec::texts(metadata, "labels");
    pod.annotations = spec::texts(metadata, "annotations");
    for owner in metadata.list("ownerReferences").unwrap_or_default() {
        let Some(mut owner) = owner.map() else { continue };
        if owner.flag("controller") == Some(true) {
            pod.owner = Some(Owner {
                kind: text(&mut owner, "kind"),
                name: text(&mut owner, "name"),
                uid: text(&mut owner, "uid"),
            });
        }
        owner.finish();
    }
}

/// `status.qosClass`. A pod that was never admitted has an empty one.
fn class(status: &mut Fields<'_>) -> Option<QosClass> {
    let field = status.field("qosClass")?;
    let classes = [
        ("Guaranteed", QosClass::Guaranteed),
        ("Burstable", QosClass::Burstable),
        ("BestEffort", QosClass::BestEffort),
    ];
    if field.scalar("a text") == Some("") { None } else { field.one_of(&classes) }
}

/// One of the lists of containers' statuses: the runtime's ids, as `containerd://0f3c..`.
fn running(status: &mut Fields<'_>, key: &'static str, containers: &mut [Container]) {
    for status in status.list(key).unwrap_or_default() {
        let Some(mut status) = status.map() else { continue };
        let (name, id) = (status.text("name"), status.text("containerID"));
        let id = id.map(|id| id.split_once("://").map_or(id, |(_, id)| id));
        if let Some(container) = containers.iter_mut().find(|c| Some(c.name.as_str()) == name) {
            container.id = id.filter(|id| !id.is_empty()).map(Into::into);
        }
        status.finish();
    }
}

/// Seconds since 1970 of a time as RFC 3339 has it.
fn seconds(field: &Field<'_>) -> Option<i64> {
    let text = field.text()?;
    match DateTimeParser::new().parse_timestamp(text) {
        Ok(time) => Some(time.as_second()),
        Err(_) => {
            field.problem(format!("expected a time as 2026-01-31T12:00:00Z, found {text:?}"));
            None
        }
    }
}
