//! Pods as the API server and the kubelet tell of them: what is read of their JSON, and of a pod that can
//! be read in part that part.

use serde::Deserializer;

use super::{Manifest, NOTED, spec};
use crate::config::fields::Fields;
use crate::config::json::{self, Keys, Part};
use crate::config::problem::{Problem, Problems};
use isobar_core::model::workload::Pod;

/// Of a pod that a server tells of: most of its text is of no use here, and its owner writes it, up to
/// some megabytes. Each list has room of its own, in bytes of memory: many volumes do not hide where the
/// pod is, nor many labels what it requests.
const READ: Keys = Keys::Only(&[
    (
        "metadata",
        Keys::Only(&[
            ("name", Keys::All),
            ("generateName", Keys::All),
            ("namespace", Keys::All),
            ("uid", Keys::All),
            ("resourceVersion", Keys::All),
            ("creationTimestamp", Keys::All),
            ("deletionTimestamp", Keys::All),
            ("deletionGracePeriodSeconds", Keys::All),
            ("labels", FEW),
            ("annotations", Keys::Within(16 << 10, &Keys::Beginning(NOTED))),
            ("ownerReferences", FEW),
        ]),
    ),
    ("spec", spec::READ),
    (
        "status",
        Keys::Only(&[
            ("startTime", Keys::All),
            ("qosClass", Keys::All),
            ("allocatedResources", FEW),
            ("reason", Keys::All),
            ("message", FEW),
            ("phase", Keys::All),
            ("initContainerStatuses", STATUSES),
            ("containerStatuses", STATUSES),
            ("ephemeralContainerStatuses", STATUSES),
        ]),
    ),
]);
/// In 16 KiB there is room for some eighty labels.
pub(super) const FEW: Keys = Keys::Within(16 << 10, &Keys::All);
const STATUSES: Keys = Keys::Within(
    128 << 10,
    &Keys::Only(&[
        ("name", Keys::All),
        ("containerID", Keys::All),
        ("restartCount", Keys::All),
        ("allocatedResources", Keys::All),
        ("resources", Keys::All),
    ]),
);

/// How many faults of a pod are told.
const FAULTS: usize = 3;

/// A pod as a server tells of it.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// `metadata.resourceVersion`.
    pub version: Option<String>,
    /// `spec.nodeName`.
    pub node: String,
    pub pod: Pod,
    /// How much memory it takes, about.
    pub bytes: usize,
    /// What of it could not be read, and is left out; empty if nothing.
    pub faults: String,
}

/// Reads an object that a server sends, whatever it is. In place of what cannot be read the pod has
/// nothing: its owner must not make it nameless by one field.
pub fn told<'de, D: Deserializer<'de>>(from: D) -> Result<Told, D::Error> {
    let Part { node, bytes, is_cut } = json::part(&READ, from)?;
    let problems = Problems::default();
    let mut told = Told { bytes, ..Told::default() };
    if let Some(object) = Fields::of(&node, &problems) {
        let mut object = object.lenient();
        let mut manifest = Manifest::default();
        manifest.pod(&mut object);
        told.pod = manifest.pods.remove(0);
        let mut text = |part, key| object.map(part)?.raw(key).map(ToOwned::to_owned);
        told.version = text("metadata", "resourceVersion");
        told.node = text("spec", "nodeName").unwrap_or_default();
    }
    let cut = is_cut.then(|| "it has more than is read".to_owned());
    let faults = problems
        .take_sorted()
        .into_iter()
        .map(|Problem { path, message, .. }| format!("{path}: {message}"));
    told.faults = faults.take(FAULTS).chain(cut).collect::<Vec<_>>().join("; ");
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PRINTED, one};
    use super::*;
    use crate::config::yaml::{self, Node, Value};
    use isobar_core::model::pod::QosClass;
    use isobar_core::model::workload::RestartPolicy;

    #[test]
    fn told_has_all_that_a_file_has() {
        for (kind, key) in
            [("emptyDir", "{sizeLimit: 1Gi, medium: Memory}"), ("hostPath", "{path: /}")]
        {
            let volumes = format!(
                "  nodeName: n1\n  resources: {{requests: {{cpu: 1}}}}\n  volumes:\n  - {{name: v, {kind}: {key}}}\nstatus:\n  reason: Evicted\n  message: 'The node was low on resource: memory. '\n"
            );
            let resized = "    name: web\n    allocatedResources: {cpu: 250m}\n    resources: {limits: {memory: 1Gi}}";
            let printed = PRINTED.replacen("status:\n", &volumes, 1).replacen(
                "    name: web\n    ready: true",
                resized,
                1,
            );
            let printed = printed.replacen(
                "metadata:",
                "metadata:\n  deletionTimestamp: x\n  deletionGracePeriodSeconds: 5",
                1,
            );
            let of_file = one(&printed);
            let json = yaml_as_json(&printed);
            let told = told(&mut serde_json::Deserializer::from_str(&json)).unwrap();
            assert_eq!((told.pod, &*told.faults), (of_file, ""));
            assert_eq!((&*told.node, told.version.as_deref()), ("n1", Some("4711")));
        }
    }

    /// An API server writes a pod's lists before what says where it is.
    #[test]
    fn told_keeps_what_a_pod_is_whatever_its_lists_have() {
        let many = |item: &str| vec![item; 5_000].join(",");
        let (volume, container) = (many(r#"{"name":"v","emptyDir":{}}"#), many(r#"{"name":"c"}"#));
        let (label, status) = (
            (0..5_000).map(|n| format!("\"k{n}\":\"\"")).collect::<Vec<_>>().join(","),
            many(r#"{"name":"c","containerID":"x://1"}"#),
        );
        let text = format!(
            r#"{{"metadata":{{"name":"web","namespace":"shop","uid":"u1","resourceVersion":"7",
                "labels":{{{label}}},"annotations":{{{label},"kubernetes.io/config.mirror":"m"}},
                "ownerReferences":[{{"controller":true,"kind":"Job","name":"j"}}]}},
                "spec":{{"volumes":[{volume}],"initContainers":[{container}],"containers":[{container}],
                "restartPolicy":"Never","terminationGracePeriodSeconds":7,"nodeName":"n1",
                "tolerations":[{container}],"priorityClassName":"low","priority":-10}},
                "status":{{"phase":"Failed","reason":"Evicted","startTime":"2026-01-31T12:00:00Z",
                "initContainerStatuses":[{status}],"containerStatuses":[{status}],"qosClass":"BestEffort"}}}}"#
        );
        let told = told(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        let pod = &told.pod;
        assert_eq!((pod.full_name(), &*pod.uid, &*told.node), ("shop/web".into(), "u1", "n1"));
        assert_eq!(
            (told.version.as_deref(), pod.priority, &*pod.priority_class),
            (Some("7"), Some(-10), "low")
        );
        assert_eq!(
            (pod.termination_grace, pod.restart_policy),
            (Some(7), Some(RestartPolicy::Never))
        );
        assert_eq!(
            (pod.is_over, pod.is_evicted, pod.qos_class),
            (true, true, Some(QosClass::BestEffort))
        );
        assert_eq!(
            (pod.annotations.len(), pod.owner.as_ref().map(|owner| &*owner.name)),
            (1, Some("j"))
        );
        assert!((20..200).contains(&pod.labels.len()), "{} labels", pod.labels.len());
        assert!(
            told.bytes < 1 << 20 && told.faults.contains("more than is read"),
            "{} {}",
            told.bytes,
            told.faults
        );
    }

    /// Labels and containers as a large pod has them are all read.
    #[test]
    fn told_has_room_for_a_large_pod() {
        let container = |n: usize| {
            format!(
                r#"{{"name":"container-{n:02}","resources":{{"limits":{{"cpu":"2","memory":"1Gi"}},"requests":{{"cpu":"500m","memory":"512Mi"}}}}}}"#
            )
        };
        let status = |n: usize| {
            let id = "ab".repeat(32);
            format!(
                r#"{{"name":"container-{n:02}","containerID":"containerd://{id}","restartCount":3,"allocatedResources":{{"cpu":"500m","memory":"512Mi"}},"resources":{{"limits":{{"cpu":"2","memory":"1Gi"}},"requests":{{"cpu":"500m","memory":"512Mi"}}}}}}"#
            )
        };
        let (n_containers, n_labels) = (40, 60);
        let containers = (0..n_containers).map(container).collect::<Vec<_>>().join(",");
        let statuses = (0..n_containers).map(status).collect::<Vec<_>>().join(",");
        let labels =
            (0..n_labels).map(|n| format!("\"app.kubernetes.io/label-{n}\":\"a value of it\""));
        let text = format!(
            r#"{{"metadata":{{"name":"web","uid":"u1","labels":{{{}}}}},"spec":{{"nodeName":"n1","containers":[{containers}]}},"status":{{"containerStatuses":[{statuses}]}}}}"#,
            labels.collect::<Vec<_>>().join(",")
        );
        let told = told(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        assert_eq!(
            (told.pod.labels.len(), told.pod.containers.len(), &*told.faults),
            (n_labels, n_containers, "")
        );
        assert!(
            told.pod.containers.iter().all(|c| c.id.is_some() && c.resources.limits.len() == 2)
        );
    }

    /// As an API server writes it.
    fn yaml_as_json(text: &str) -> String {
        fn json(node: &Node) -> serde_json::Value {
            match &node.value {
                Value::List(items) => items.iter().map(json).collect(),
                Value::Map(entries) => {
                    entries.iter().map(|one| (one.key.clone(), json(&one.value))).collect()
                }
                Value::Scalar(scalar) => match scalar.integer() {
                    _ if scalar.is_null() => serde_json::Value::Null,
                    Some(number) => number.into(),
                    None => scalar.flag().map_or_else(|| scalar.text.clone().into(), Into::into),
                },
            }
        }
        json(&yaml::parse(text).unwrap()[0]).to_string()
    }
}
