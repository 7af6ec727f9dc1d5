//! Which new pods the kubelet refuses under node pressure.
//! Source: kubelet `pkg/kubelet/eviction/eviction_manager.go`, `Admit`; tolerations as in
//! `Toleration.ToleratesTaint` of `k8s.io/api/core/v1`.

use crate::model::decision::NodePressure;
use crate::model::pod::QosClass;
use crate::model::workload::{Pod, Toleration};
use crate::policy::assess::critical::is_critical;

/// The taint of `MemoryPressure`. It has no value.
pub(crate) const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

/// The status that the kubelet gives to a refused pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: &'static str,
    pub message: String,
}

/// Whether the kubelet admits `pod`. `pressure` is in fixed order.
///
/// # Errors
/// The kubelet's refusal.
pub fn admits(pod: &Pod, class: QosClass, pressure: &[NodePressure]) -> Result<(), Refusal> {
    let is_let_in = match pressure {
        [] => true,
        _ if is_critical(pod) => true,
        [NodePressure::MemoryPressure] => {
            class != QosClass::BestEffort || pod.tolerations.iter().any(tolerates_memory_pressure)
        }
        _ => false,
    };
    if is_let_in {
        return Ok(());
    }
    let names: Vec<_> = pressure.iter().map(|pressure| pressure.name()).collect();
    let message = format!("The node had condition: [{}]. ", names.join(" "));
    Err(Refusal { reason: "Evicted", message })
}

/// QoS classes whose ordinary pods (not critical, no tolerations) are refused.
pub fn refused(pressure: &[NodePressure]) -> Vec<QosClass> {
    let classes = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
    let is_refused = |class: &QosClass| admits(&Pod::default(), *class, pressure).is_err();
    classes.into_iter().filter(is_refused).collect()
}

fn tolerates_memory_pressure(toleration: &Toleration) -> bool {
    let Toleration { key, operator, value, effect } = toleration;
    let fits =
        (effect.is_empty() || effect == "NoSchedule") && (key.is_empty() || key == MEMORY_PRESSURE);
    fits && match operator.as_str() {
        "" | "Equal" => value.is_empty(),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::workload::MIRROR;
    use crate::policy::assess::critical::SOURCE;
    use NodePressure::{DiskPressure, MemoryPressure, PidPressure};
    use QosClass::{BestEffort, Burstable, Guaranteed};

    #[test]
    fn admit_under_pressure() {
        #[rustfmt::skip]
        let table: &[(&[NodePressure], &[QosClass])] = &[
            // conditions, classes refused
            (&[],                             &[]),
            (&[MemoryPressure],               &[BestEffort]),
            (&[MemoryPressure, DiskPressure], &[Guaranteed, Burstable, BestEffort]),
            (&[DiskPressure],                 &[Guaranteed, Burstable, BestEffort]),
            (&[PidPressure],                  &[Guaranteed, Burstable, BestEffort]),
        ];
        for (pressure, want) in table {
            assert_eq!(refused(pressure), *want, "{pressure:?}");
        }
    }

    #[test]
    fn admit_critical_pods() {
        let annotated = |key: &str, value: &str| {
            let annotations = [(key.to_owned(), value.to_owned())].into();
            Pod { annotations, ..Pod::default() }
        };
        let of_priority = |priority| Pod { priority: Some(priority), ..Pod::default() };
        #[rustfmt::skip]
        let table = [
            (annotated(SOURCE, "file"),  true),
            (annotated(SOURCE, "api"),   false),
            (annotated(MIRROR, "abc"),   true),
            (of_priority(2_000_000_000), true),
            (of_priority(1_000_000_000), false),
        ];
        for (pod, want) in table {
            let got = admits(&pod, BestEffort, &[MemoryPressure, DiskPressure, PidPressure]);
            assert_eq!(got.is_ok(), want, "{pod:?}");
        }
    }

    #[test]
    fn admit_by_toleration() {
        #[rustfmt::skip]
        let table = [
            // key, operator, value, effect, is let in
            (MEMORY_PRESSURE, "Exists", "",  "NoSchedule", true),
            (MEMORY_PRESSURE, "Exists", "",  "",           true),
            (MEMORY_PRESSURE, "",       "",  "NoSchedule", true),
            (MEMORY_PRESSURE, "Equal",  "x", "NoSchedule", false), // the taint has no value
            (MEMORY_PRESSURE, "Exists", "",  "NoExecute",  false),
            (MEMORY_PRESSURE, "Lt",     "1", "NoSchedule", false),
            ("",              "Exists", "",  "",           true),
            ("other",         "Exists", "",  "",           false),
        ];
        for (key, operator, value, effect, want) in table {
            let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
            let toleration = Toleration { key, operator, value, effect };
            let pod = Pod { tolerations: vec![toleration], ..Pod::default() };
            assert_eq!(admits(&pod, BestEffort, &[MemoryPressure]).is_ok(), want, "{pod:?}");
            let all = [MemoryPressure, DiskPressure];
            assert!(admits(&pod, BestEffort, &all).is_err(), "it tolerates memory alone: {pod:?}");
        }
    }

    #[test]
    fn admit_refusal_message() {
        let got = admits(&Pod::default(), Burstable, &[MemoryPressure, DiskPressure]).unwrap_err();
        let message = "The node had condition: [MemoryPressure DiskPressure]. ";
        assert_eq!(got, Refusal { reason: "Evicted", message: message.into() });
    }
}
