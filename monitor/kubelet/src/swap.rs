//! `memory.swap.max` of containers as the kubelet sets it with `swapBehavior: LimitedSwap`.
//! Source: kubernetes `pkg/kubelet/kuberuntime/kuberuntime_container_linux.go`,
//! `GetContainerSwapBehavior`, `calcSwapForBurstablePods`, 1.36.

use std::num::NonZeroU64;

use crate::qos;
use isobar_core::model::pod::QosClass;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::workload::{Container, Pod};
use isobar_core::policy::assess::critical::is_critical;

/// Bytes that a container may have in swap, on a node with so much memory and swap.
///
/// Only containers of Burstable pods swap, and of these only what requests memory, but less than
/// its limit; critical pods do not.
pub fn swap_max(pod: &Pod, container: &Container, memory: NonZeroU64, swap: u64) -> u64 {
    let amount = |list: &ResourceList| list.get("memory").copied().unwrap_or(Quantity::ZERO);
    let request = amount(&container.resources.requests);
    let is_limited = request == amount(&container.resources.limits);
    if is_critical(pod) || qos::class(pod) != QosClass::Burstable || is_limited {
        return 0;
    }
    of_request(request.to_u64(), memory.get(), swap)
}

/// The same share of swap as the request is of memory, in the kubelet's own precision: its file has
/// what a `float64` makes of it. More than the node has is an error there, and no swap.
fn of_request(request: u64, memory: u64, swap: u64) -> u64 {
    if request > memory {
        return 0;
    }
    (request as f64 / memory as f64 * swap as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_notation::pod;

    const GIB: u64 = 1 << 30;

    #[test]
    fn of_request_is_what_the_kubelet_computes() {
        // request, memory and swap of the node in GiB, bytes; rows of `TestCalcSwapForBurstablePods`
        let table = [(1, 80, 4, 53_687_091), (2, 40, 2, 107_374_182), (5, 150, 40, 1_431_655_765)];
        for (request, memory, swap, want) in table {
            assert_eq!(of_request(request * GIB, memory * GIB, swap * GIB), want, "{request}");
        }
        assert_eq!(of_request(2 * GIB, GIB, GIB), 0, "more than the node has");
    }

    #[test]
    fn swap_max_is_for_burstable_containers_with_a_request() {
        #[rustfmt::skip]
        let table = [
            // pod, priority, shares of 8 GiB of swap on 8 GiB of memory, in GiB
            ("main r 1/1Gi",                  0,             &[1][..]),
            ("main r 1/1Gi l 2/2Gi",          0,             &[1]),
            ("main r 1/1Gi l 2/1Gi",          0,             &[0]),    // all of its limit
            ("main r 1/1Gi l 1/1Gi",          0,             &[0]),    // Guaranteed
            ("main",                          0,             &[0]),    // BestEffort
            ("main r 1/1Gi; main",            0,             &[1, 0]), // requests nothing
            ("main r 1/1Gi; main r -/2Gi",    0,             &[1, 2]),
            ("main r 1/16Gi",                 0,             &[0]),
            ("main r 1/1Gi",                  2_000_000_000, &[0]),    // critical
        ];
        let memory = NonZeroU64::new(8 * GIB).unwrap();
        for (text, priority, want) in table {
            let pod = Pod { priority: Some(priority), ..pod(text) };
            let of = |one: &Container| swap_max(&pod, one, memory, 8 * GIB) / GIB;
            assert_eq!(
                pod.containers.iter().map(of).collect::<Vec<_>>(),
                want,
                "{text} {priority}"
            );
        }
    }
}
