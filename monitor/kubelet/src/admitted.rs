//! Defaults that the API server fills in before anything else reads a pod. The kubelet fills them
//! in for static pods.
//! Source: kubernetes `pkg/apis/core/v1/defaults.go`, `SetDefaults_Pod`,
//! `defaultHugePagePodLimits` and `defaultPodRequests`.

use isobar_core::model::quantity::ResourceList;
use isobar_core::model::request;
use isobar_core::model::workload::{ContainerKind, Pod, Resources};

/// What the names of all sizes of huge pages begin with.
const HUGE_PAGES: &str = "hugepages-";

/// Priorities of the classes that every cluster has; others only the API server knows.
/// Source: `pkg/apis/scheduling/types.go`, `SystemCriticalPriority`.
const PRIORITIES: [(&str, i32); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// `pod` with missing requests filled in: for each container from its limits; for the pod, if it
/// has pod-level limits, first from the containers' requests, then from its own limits. Before that
/// a pod with pod-level resources gets the limits of huge pages that its containers have. With the
/// priority of its class, if it has none and every cluster has the class.
pub fn admitted(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    let of_class = PRIORITIES.iter().find(|(class, _)| *class == pod.priority_class);
    pod.priority = pod.priority.or(of_class.map(|(_, priority)| *priority));
    // Ephemeral containers cannot have resources.
    for container in pod.containers.iter_mut().filter(|c| c.kind != ContainerKind::Ephemeral) {
        let resources = &mut container.resources;
        fill(&mut resources.requests, &resources.limits);
    }
    let Some(mut whole) = pod.resources.take() else { return pod };
    if !whole.requests.is_empty() || !whole.limits.is_empty() {
        limit_huge_pages(&mut whole, &pod);
    }
    if !whole.limits.is_empty() {
        // Huge pages cannot be overcommitted, so the pod's request is not taken from the
        // containers.
        let aggregated = ["cpu", "memory"]
            .into_iter()
            .filter(|name| pod.containers.iter().any(|c| c.resources.requests.contains_key(*name)))
            .map(|name| (name.to_owned(), request::of_containers(&pod, name)));
        fill(&mut whole.requests, &aggregated.collect());
        let limits = whole.limits.iter().filter(|(name, _)| request::is_supported(name));
        let limits = limits.map(|(name, quantity)| (name.clone(), *quantity)).collect();
        fill(&mut whole.requests, &limits);
    }
    pod.resources = Some(whole);
    pod
}

/// Limits of huge pages are the containers' unless the pod names the size itself.
fn limit_huge_pages(whole: &mut Resources, pod: &Pod) {
    let limits = pod.containers.iter().flat_map(|container| container.resources.limits.keys());
    let pages = limits.filter(|name| name.starts_with(HUGE_PAGES));
    let unnamed = pages.filter(|name| !whole.requests.contains_key(*name));
    let limited = |name: &String| Some((name.clone(), request::limit_without_overhead(pod, name)?));
    let defaults = unnamed.filter_map(limited).collect();
    fill(&mut whole.limits, &defaults);
}

/// Adds what `list` lacks.
fn fill(list: &mut ResourceList, defaults: &ResourceList) {
    for (name, quantity) in defaults {
        list.entry(name.clone()).or_insert(*quantity);
    }
}

#[cfg(test)]
mod tests;
