//! A pod's QoS class, from requests and limits.
//! Source: kubernetes `pkg/apis/core/v1/helper/qos/qos.go`, `GetPodQOS` and `ComputePodQOS`.

use std::collections::BTreeMap;

use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::workload::{ContainerKind, Pod};

/// Resources that the QoS class depends on.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// The class in the pod's status, which never changes, else the class computed from its spec.
#[must_use]
pub fn class(pod: &Pod) -> QosClass {
    pod.qos_class.unwrap_or_else(|| computed(pod))
}

/// The class of the spec as written. Missing requests are not filled in from limits, as the API
/// server does before the kubelet sees a pod: see [`crate::admitted::admitted`].
///
/// Sums are compared, not containers: two containers whose differences cancel out are Guaranteed,
/// but the API server admits no request above its limit.
#[must_use]
pub fn computed(pod: &Pod) -> QosClass {
    let (mut requests, mut limits) = (Sums::new(), Sums::new());
    let mut is_limited = true;
    if let Some(whole) = &pod.resources {
        requests = positive(&whole.requests);
        limits = positive(&whole.limits);
        is_limited = limits.len() == COUNTED.len();
    } else {
        // Ephemeral containers cannot have resources.
        let counted = pod.containers.iter().filter(|c| c.kind != ContainerKind::Ephemeral);
        for container in counted {
            let own = positive(&container.resources.limits);
            is_limited &= own.len() == COUNTED.len();
            add(&mut limits, own);
            add(&mut requests, positive(&container.resources.requests));
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return QosClass::BestEffort;
    }
    if is_limited && requests == limits { QosClass::Guaranteed } else { QosClass::Burstable }
}

type Sums<'a> = BTreeMap<&'a str, Quantity>;

/// Amounts of 0 do not count.
fn positive(list: &ResourceList) -> Sums<'_> {
    let positive = |name: &&str| list.get(*name).filter(|q| **q > Quantity::ZERO).copied();
    COUNTED.into_iter().filter_map(|name| Some((name, positive(&name)?))).collect()
}

fn add<'a>(sums: &mut Sums<'a>, own: Sums<'a>) {
    for (name, quantity) in own {
        let sum = sums.entry(name).or_default();
        *sum = sum.plus(quantity);
    }
}

#[cfg(test)]
mod tests;
