//! A pod's request as a whole, which the ranking compares with its usage.
//! Source: kubernetes `pkg/api/v1/resource/helpers.go`, `GetResourceRequestQuantity`, and
//! component-helpers `resource/helpers.go`, `AggregateContainerRequests`.

use std::collections::BTreeMap;

use crate::model::pod::Place;
use crate::model::quantity::{Quantity, ResourceList};
use crate::model::units::MilliCpu;
use crate::model::workload::{Container, ContainerKind, Pod, Resources};

/// The pod's request for `resource`, overhead included if the request is not 0.
///
/// With pod-level requests the containers' requests do not count, not even for ephemeral storage,
/// which cannot be requested at pod level.
pub fn request(pod: &Pod, resource: &str) -> Quantity {
    let asked = match &pod.resources {
        Some(whole) if is_pod_level(whole) => of_pod(whole, resource),
        _ => of_containers(pod, resource),
    };
    if asked.is_zero() { asked } else { asked.plus(of(&pod.overhead, resource)) }
}

/// The CPU time that the pod or the container at `place` requests; `None` if it requests none, or
/// is not known. `pods` by the uid of their cgroups.
pub fn cpu_at(place: &Place, pods: &BTreeMap<&str, &Pod>) -> Option<MilliCpu> {
    let asked = match place {
        Place::Pod { uid, .. } => request(pods.get(&**uid)?, "cpu"),
        Place::Container { pod, id, .. } => of_container(pods.get(&**pod)?.container(id)?, "cpu"),
        _ => return None,
    };
    u64::try_from(asked.milli_value()).ok().filter(|milli| *milli > 0).map(MilliCpu)
}

/// What the containers request at the same time.
pub fn of_containers(pod: &Pod, resource: &str) -> Quantity {
    at_once(pod, |container| of_container(container, resource))
}

/// What the containers are limited to at the same time, overhead included; `None` if none is.
/// Source: component-helpers `resource/helpers.go`, `PodLimits`.
pub fn limit_of_containers(pod: &Pod, resource: &str) -> Option<Quantity> {
    let limit = limit_without_overhead(pod, resource)?;
    Some(if limit.is_zero() { limit } else { limit.plus(of(&pod.overhead, resource)) })
}

/// The same without overhead. Source: `AggregateContainerLimits`.
pub fn limit_without_overhead(pod: &Pod, resource: &str) -> Option<Quantity> {
    let limits = |container: &Container| container.resources.limits.get(resource).copied();
    let is_limited = pod.containers.iter().any(|container| limits(container).is_some());
    is_limited.then(|| at_once(pod, |container| limits(container).unwrap_or_default()))
}

/// All regular containers and sidecars, or one init container and the sidecars started before it,
/// whichever is more.
fn at_once(pod: &Pod, of: impl Fn(&Container) -> Quantity) -> Quantity {
    let [mut running, mut sidecars, mut starting] = [Quantity::ZERO; 3];
    for container in &pod.containers {
        let asked = of(container);
        match container.kind {
            ContainerKind::Regular => running = running.plus(asked),
            ContainerKind::Sidecar => sidecars = sidecars.plus(asked),
            ContainerKind::Init => starting = asked.plus(sidecars).max(starting),
            // They cannot have requests.
            ContainerKind::Ephemeral => {}
        }
    }
    running.plus(sidecars).max(starting)
}

/// The container's request.
pub fn of_container(container: &Container, resource: &str) -> Quantity {
    of(&container.resources.requests, resource)
}

/// The pod-level request. Resources that cannot be set for a pod count as 0.
pub fn of_pod(whole: &Resources, resource: &str) -> Quantity {
    if is_supported(resource) { of(&whole.requests, resource) } else { Quantity::ZERO }
}

/// Whether a pod-level request or limit is set: `IsPodLevelResourcesSet`.
fn is_pod_level(whole: &Resources) -> bool {
    whole.requests.keys().chain(whole.limits.keys()).any(|name| is_supported(name))
}

/// Whether a pod can have a request for `resource` as a whole.
pub fn is_supported(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource) || resource.starts_with("hugepages-")
}

fn of(list: &ResourceList, resource: &str) -> Quantity {
    list.get(resource).copied().unwrap_or_default()
}
