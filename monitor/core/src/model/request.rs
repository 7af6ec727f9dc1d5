//! How much of a resource a pod asks for as a whole: what ranking holds its usage against.
//! Source: kubernetes `pkg/api/v1/resource/helpers.go`, `GetResourceRequestQuantity`, and
//! component-helpers `resource/helpers.go`, `AggregateContainerRequests`.

use crate::model::quantity::{Quantity, ResourceList};
use crate::model::workload::{Container, ContainerKind, Pod, Resources};

/// What `pod` asks for of `resource`, with its overhead.
///
/// A pod with resources of its own asks for those and for nothing else: what its containers ask
/// for is only how they share it. So it asks for no ephemeral storage, which cannot be set for a
/// whole pod. Overhead counts only where something is asked for.
#[must_use]
pub fn request(pod: &Pod, resource: &str) -> Quantity {
    let asked = match &pod.resources {
        Some(whole) if is_pod_level(whole) => of_pod(whole, resource),
        _ => of_containers(pod, resource),
    };
    if asked.is_zero() { asked } else { asked.plus(of(&pod.overhead, resource)) }
}

/// What the containers of `pod` need at their most demanding moment: all regular containers and
/// sidecars together, or one init container beside the sidecars that were started before it.
#[must_use]
pub fn of_containers(pod: &Pod, resource: &str) -> Quantity {
    let [mut running, mut sidecars, mut starting] = [Quantity::ZERO; 3];
    for container in &pod.containers {
        let asked = of_container(container, resource);
        match container.kind {
            ContainerKind::Regular => running = running.plus(asked),
            ContainerKind::Sidecar => sidecars = sidecars.plus(asked),
            ContainerKind::Init => starting = asked.plus(sidecars).max(starting),
            // May ask for nothing.
            ContainerKind::Ephemeral => {}
        }
    }
    running.plus(sidecars).max(starting)
}

/// The container's request.
#[must_use]
pub fn of_container(container: &Container, resource: &str) -> Quantity {
    of(&container.resources.requests, resource)
}

/// The pod-level request. Resources that cannot be set for a pod count as 0.
#[must_use]
pub fn of_pod(whole: &Resources, resource: &str) -> Quantity {
    if is_supported(resource) { of(&whole.requests, resource) } else { Quantity::ZERO }
}

/// Whether a pod-level request or limit is set: `IsPodLevelResourcesSet`.
fn is_pod_level(whole: &Resources) -> bool {
    whole.requests.keys().chain(whole.limits.keys()).any(|name| is_supported(name))
}

/// Whether a pod can have a request for `resource` as a whole.
#[must_use]
pub fn is_supported(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource) || resource.starts_with("hugepages-")
}

fn of(list: &ResourceList, resource: &str) -> Quantity {
    list.get(resource).copied().unwrap_or_default()
}
