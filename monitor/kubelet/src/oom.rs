//! `oom_score_adj` of containers as the kubelet sets it: from -997, killed last, to 1000, killed
//! first.
//! Source: kubernetes `pkg/kubelet/qos/policy.go`, `GetContainerOOMScoreAdjust`, 1.36.

use std::num::NonZeroU64;

use crate::qos;
use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::request;
use isobar_core::model::workload::{Container, ContainerKind, Pod};
use isobar_core::policy::assess::critical::is_node_critical;

/// Guaranteed and node-critical pods.
pub const GUARANTEED: i32 = -997;
/// BestEffort pods.
pub const BEST_EFFORT: i32 = 1_000;
/// Burstable pods: never the score of another class.
pub const BURSTABLE: std::ops::RangeInclusive<i32> = 1_000 + GUARANTEED..=BEST_EFFORT - 1;
/// A pod's sandbox. Set by containerd and CRI-O, not by the kubelet.
pub const SANDBOX: i32 = -998;
/// The kubelet, kube-proxy and the runtime.
pub const DAEMON: i32 = -999;

const MEMORY: &str = "memory";

/// The score of `container` in `pod` on a node with `capacity` bytes of memory (`MemTotal`).
pub fn score(pod: &Pod, container: &Container, capacity: NonZeroU64) -> i32 {
    if is_node_critical(pod) {
        return GUARANTEED;
    }
    match qos::class(pod) {
        QosClass::Guaranteed => GUARANTEED,
        QosClass::BestEffort => BEST_EFFORT,
        QosClass::Burstable => burstable(pod, container, capacity),
    }
}

/// The larger a container's share of the node's memory, the lower its score.
fn burstable(pod: &Pod, container: &Container, capacity: NonZeroU64) -> i32 {
    let own = request::of_container(container, MEMORY).value();
    let asked = match container.kind {
        // A sidecar must not be killed before the containers that it serves.
        ContainerKind::Sidecar => own.max(least(pod).unwrap_or(0)),
        _ => own,
    };
    let share = (asked + unshared(pod)).saturating_mul(1_000) / i128::from(capacity.get());
    let score = i32::try_from(1_000_i128.saturating_sub(share)).unwrap_or(i32::MIN);
    score.clamp(*BURSTABLE.start(), *BURSTABLE.end())
}

/// The smallest request of a regular container.
fn least(pod: &Pod) -> Option<i128> {
    let regular = pod.containers.iter().filter(|c| c.kind == ContainerKind::Regular);
    regular.map(|container| request::of_container(container, MEMORY).value()).min()
}

/// Each container's part of the pod-level request that no container requests.
fn unshared(pod: &Pod) -> i128 {
    let whole = pod.resources.as_ref().map(|whole| request::of_pod(whole, MEMORY));
    let Some(whole) = whole.filter(|whole| *whole != Quantity::ZERO) else { return 0 };
    let rest = whole.value() - request::of_containers(pod, MEMORY).value();
    let parts = pod.containers.iter().filter(|c| c.kind != ContainerKind::Ephemeral).count();
    rest / i128::try_from(parts.max(1)).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests;
