//! The component `podmonitor` beside what the Prometheus operator and the agents' pods take.
//! The API server drops a key that it does not know, so a wrong one would leave nothing scraped and
//! no word about it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

const FILE: &str = "../deploy/kustomize/components/podmonitor/podmonitor.yaml";

/// `PodMonitor` of monitoring.coreos.com/v1: keys that the operator's CRD had in its first version,
/// 0.31, and still has in 2026. Any other is an error here, also one that newer operators know.
/// Source: example/prometheus-operator-crd and pkg/apis/monitoring/v1/podmonitor_types.go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PodMonitor {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
    /// Pods of this namespace alone are scraped, since there is no `namespaceSelector`.
    namespace: String,
}

/// Both are required.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    /// The label of a pod whose value is the job's name.
    job_label: String,
    selector: Selector,
    pod_metrics_endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Endpoint {
    /// The name of a container's port.
    port: String,
    path: String,
    interval: String,
    honor_labels: bool,
    relabelings: Vec<Relabeling>,
}

/// With the action that is the default, `replace`, for which a target is mandatory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Relabeling {
    source_labels: Vec<String>,
    target_label: String,
}

/// `Duration` of the CRD, of one unit.
fn is_duration(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() < text.len() && ["y", "w", "d", "h", "m", "s", "ms"].contains(&digits)
}

/// `LabelName` of the CRD.
fn is_label(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_word)
}

fn read(text: &str) -> Result<PodMonitor, serde_saphyr::Error> {
    serde_saphyr::from_str(text)
}

#[test]
fn pod_monitor_finds_the_agents_pods() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR"));
    let monitor = read(&fs::read_to_string(deploy.join(FILE)).unwrap()).unwrap();
    assert_eq!((&*monitor.api_version, &*monitor.kind), ("monitoring.coreos.com/v1", "PodMonitor"));
    let base = deploy.join("../deploy/kustomize/base/daemonset.yaml");
    let set: Value = serde_saphyr::from_str(&fs::read_to_string(base).unwrap()).unwrap();
    // kustomize gives the pods the labels that the set selects them by.
    let labels = &set["spec"]["selector"]["matchLabels"];
    assert_eq!(monitor.metadata.namespace, set["metadata"]["namespace"]);
    assert_eq!(monitor.metadata.name, "isobar");
    for (key, value) in &monitor.spec.selector.match_labels {
        assert_eq!(labels[key], **value, "{key}");
    }
    assert!(!monitor.spec.selector.match_labels.is_empty(), "it would select every pod");
    // The rules and dashboards ask for `job="isobar"`.
    assert_eq!(labels[&*monitor.spec.job_label], "isobar");
    let ports = set["spec"]["template"]["spec"]["containers"][0]["ports"].as_array().unwrap();
    let [endpoint] = &monitor.spec.pod_metrics_endpoints[..] else {
        panic!("the agent serves metrics at one place");
    };
    assert!(ports.iter().any(|port| port["name"] == *endpoint.port), "{}", endpoint.port);
    assert_eq!(endpoint.path, "/metrics");
    assert!(endpoint.honor_labels, "the scraper's `pod` would take the place of isobar's");
    assert!(is_duration(&endpoint.interval), "{}", endpoint.interval);
    for Relabeling { source_labels, target_label } in &endpoint.relabelings {
        let mut names = source_labels.iter().chain([target_label]);
        assert!(names.all(|name| is_label(name)), "{source_labels:?} {target_label}");
    }
}

#[test]
fn pod_monitor_with_a_mistake_is_refused() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)).unwrap();
    assert!(is_duration("15s") && !is_duration("15") && !is_duration("s") && !is_duration("1 s"));
    #[rustfmt::skip]
    let table = [
        // in place of, is
        ("podMetricsEndpoints:", "endpoints:"), // a ServiceMonitor's
        ("sourceLabels:",        "source_labels:"), // Prometheus' own
        ("    path:",            "    paths:"),
        ("  selector:",          "  selectors:"),
    ];
    for (right, wrong) in table {
        assert!(text.contains(right), "{right}");
        assert!(read(&text.replace(right, wrong)).is_err(), "{wrong}");
    }
}
