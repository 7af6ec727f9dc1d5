//! Whether pods fit on a node: their requests compared with its allocatable.
//! In: pods and an allocatable. Out: one result per resource.
//! Source: scheduler `pkg/scheduler/framework/plugins/noderesources/fit.go` and component-helpers
//! `resource/helpers.go`, `PodRequests`.

use std::collections::BTreeSet;

use serde::Serialize;

use super::allocatable::PODS;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::request::{is_supported, of_containers, of_pod};
use isobar_core::model::workload::Pod;

/// Requests and allocatable of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fit {
    pub resource: String,
    /// Sum over all pods.
    pub requested: Quantity,
    /// `None` if unknown.
    pub allocatable: Option<Quantity>,
    /// Negative if the pods do not fit.
    pub free: Option<Quantity>,
    /// True if it is enough, or if no pod requests it.
    pub fits: bool,
}

/// Compares each resource; pods that are over request nothing any more.
/// One that the node does not have fits only if no pod requests it.
pub fn fit(pods: &[Pod], allocatable: &ResourceList) -> Vec<Fit> {
    let pods: Vec<&Pod> = pods.iter().filter(|pod| !pod.is_over).collect();
    let named = pods.iter().flat_map(|pod| resources(pod)).map(String::as_str);
    let mut all: BTreeSet<&str> = named.chain(allocatable.keys().map(String::as_str)).collect();
    all.insert(PODS);
    let line = |resource: &str| {
        let requested = match resource {
            PODS => Quantity::count(u64::try_from(pods.len()).unwrap_or(u64::MAX)),
            _ => requested(pods.iter().copied(), resource),
        };
        let allocatable = allocatable.get(resource).copied();
        let free = allocatable.map(|there| there.minus(requested));
        let fits = match free {
            Some(free) => requested.is_zero() || !free.is_negative(),
            // The number of pods is no request, so an unknown limit does not matter.
            None => requested.is_zero() || resource == PODS,
        };
        Fit { resource: resource.into(), requested, allocatable, free, fits }
    };
    all.into_iter().map(line).collect()
}

/// What those of `pods` request together that have not ended.
pub fn requested<'a>(pods: impl Iterator<Item = &'a Pod>, resource: &str) -> Quantity {
    let running = pods.filter(|pod| !pod.is_over);
    running.map(|pod| of(pod, resource)).fold(Quantity::ZERO, Quantity::plus)
}

/// The pod's request as the scheduler counts it: the pod-level request where one is set, else what
/// its containers need at the same time; and its overhead.
fn of(pod: &Pod, resource: &str) -> Quantity {
    let whole = pod.resources.as_ref().filter(|whole| whole.requests.contains_key(resource));
    let asked = match whole.filter(|_| is_supported(resource)) {
        Some(whole) => of_pod(whole, resource),
        None => of_containers(pod, resource),
    };
    asked.plus(pod.overhead.get(resource).copied().unwrap_or_default())
}

fn resources(pod: &Pod) -> impl Iterator<Item = &String> {
    let whole = pod.resources.iter().flat_map(|whole| whole.requests.keys());
    let parts = pod.containers.iter().flat_map(|container| container.resources.requests.keys());
    whole.chain(parts).chain(pod.overhead.keys())
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::workload::{Container, ContainerKind, Resources};

    fn list(text: &str) -> ResourceList {
        let pair = |pair: &str| {
            let (name, amount) = pair.split_once('=').unwrap();
            (name.to_owned(), amount.parse().unwrap())
        };
        text.split_whitespace().map(pair).collect()
    }

    fn container(kind: ContainerKind, requests: &str) -> Container {
        let resources = Resources { requests: list(requests), ..Resources::default() };
        Container { kind, resources, ..Container::default() }
    }

    fn pod(requests: &str) -> Pod {
        let containers = vec![container(ContainerKind::Regular, requests)];
        Pod { containers, ..Pod::default() }
    }

    fn lines(pods: &[Pod], allocatable: &str) -> Vec<String> {
        let line = |fit: &Fit| {
            let free = fit.free.map_or_else(|| "?".into(), |free| free.to_string());
            let fits = if fit.fits { "fits" } else { "too much" };
            format!("{} {} {free} {fits}", fit.resource, fit.requested)
        };
        fit(pods, &list(allocatable)).iter().map(line).collect()
    }

    #[test]
    fn fit_of_pods() {
        let two = [pod("cpu=1500m memory=1Gi"), pod("cpu=500m")];
        #[rustfmt::skip]
        let table: &[(&str, &[&str])] = &[
            // allocatable, lines
            ("cpu=2 memory=1Gi pods=2",    &["cpu 2 0 fits", "memory 1Gi 0 fits", "pods 2 0 fits"]),
            ("cpu=1999m memory=2Gi pods=1", &["cpu 2 -1m too much", "memory 1Gi 1Gi fits", "pods 2 -1 too much"]),
            ("cpu=4",                      &["cpu 2 2 fits", "memory 1Gi ? too much", "pods 2 ? fits"]),
        ];
        for (allocatable, want) in table {
            assert_eq!(lines(&two, allocatable), *want, "{allocatable}");
        }
        let idle = ["memory 0 0 fits", "pods 0 ? fits"];
        assert_eq!(lines(&[], "memory=0"), idle, "nobody asks for what is not there");
    }

    #[test]
    fn fit_counts_pods() {
        let mut starting = pod("cpu=100m");
        starting.containers.push(container(ContainerKind::Init, "cpu=1"));
        starting.overhead = list("cpu=250m memory=64Mi");
        assert_eq!(
            lines(&[starting], ""),
            ["cpu 1250m ? too much", "memory 64Mi ? too much", "pods 1 ? fits"]
        );

        let mut whole = pod("cpu=100m ephemeral-storage=1Gi memory=1Gi");
        whole.resources = Some(Resources { requests: list("cpu=2"), ..Resources::default() });
        let want = [
            "cpu 2 ? too much",
            "ephemeral-storage 1Gi ? too much",
            "memory 1Gi ? too much",
            "pods 1 ? fits",
        ];
        assert_eq!(lines(&[whole], ""), want, "only what the pod itself sets replaces the sum");

        let over = Pod { is_over: true, ..pod("cpu=1 example.com/gpu=1") };
        assert_eq!(lines(&[over, pod("cpu=2")], ""), ["cpu 2 ? too much", "pods 1 ? fits"]);
    }
}
