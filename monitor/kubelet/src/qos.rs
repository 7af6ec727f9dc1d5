//! A pod's QoS class, from requests and limits.
//! Source: kubernetes `pkg/apis/core/v1/helper/qos/qos.go`, `GetPodQOS` and `ComputePodQOS`.

use super::allocatable::sum;
use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::workload::{ContainerKind, Pod, Resources};

/// Resources that the QoS class depends on.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// The class in the pod's status, which never changes, else the class computed from its spec.
pub fn class(pod: &Pod) -> QosClass {
    pod.qos_class.unwrap_or_else(|| computed(pod))
}

/// The class of the spec as written. Missing requests are not filled in from limits, as the API
/// server does before the kubelet sees a pod: see [`crate::admitted::admitted`].
///
/// Sums are compared, not containers: two containers whose differences cancel out are Guaranteed,
/// but the API server admits no request above its limit.
pub fn computed(pod: &Pod) -> QosClass {
    // Ephemeral containers cannot have resources.
    let containers = pod.containers.iter().filter(|c| c.kind != ContainerKind::Ephemeral);
    let parts: Vec<&Resources> = match &pod.resources {
        Some(whole) => vec![whole],
        None => containers.map(|container| &container.resources).collect(),
    };
    let total = |list: fn(&Resources) -> &ResourceList| {
        parts.iter().fold(ResourceList::new(), |all, part| sum(&all, &positive(list(part))))
    };
    let (requests, limits) = (total(|part| &part.requests), total(|part| &part.limits));
    let is_limited = parts.iter().all(|part| positive(&part.limits).len() == COUNTED.len());
    match requests.is_empty() && limits.is_empty() {
        true => QosClass::BestEffort,
        false if is_limited && requests == limits => QosClass::Guaranteed,
        false => QosClass::Burstable,
    }
}

/// Amounts of 0 do not count.
fn positive(list: &ResourceList) -> ResourceList {
    let counted = COUNTED.iter().filter_map(|name| list.get_key_value(*name));
    let positive = counted.filter(|(_, quantity)| **quantity > Quantity::ZERO);
    positive.map(|(name, quantity)| (name.clone(), *quantity)).collect()
}

#[cfg(test)]
mod tests;
