//! Pods that are never evicted and always admitted.
//! Source: kubelet `pkg/kubelet/types/pod_update.go`, `IsCriticalPod`, `IsStaticPod`,
//! `IsMirrorPod`, `IsNodeCriticalPod`; `SystemCriticalPriority` of `pkg/apis/scheduling`.

use crate::model::decision::SparedReason;
use crate::model::workload::{MIRROR, Pod};

/// The source of a pod in the kubelet: `file`, `http` or `api`.
pub const SOURCE: &str = "kubernetes.io/config.source";
/// Pods of this priority or higher are critical: `SystemCriticalPriority`.
pub const CRITICAL_PRIORITY: i32 = 2_000_000_000;
/// The priority class of pods that the node needs to work.
pub(crate) const NODE_CRITICAL: &str = "system-node-critical";

/// Why `pod` is never evicted; `None` if it may be.
///
/// A mirror pod also has the annotations of its static pod; it counts as a mirror pod.
pub fn spared_as(pod: &Pod) -> Option<SparedReason> {
    if pod.annotations.contains_key(MIRROR) {
        return Some(SparedReason::Mirror);
    }
    if pod.annotations.get(SOURCE).is_some_and(|source| source != "api") {
        return Some(SparedReason::Static);
    }
    (pod.priority.unwrap_or(0) >= CRITICAL_PRIORITY).then_some(SparedReason::Critical)
}

/// True for static, mirror and system-critical pods.
pub fn is_critical(pod: &Pod) -> bool {
    spared_as(pod).is_some()
}

/// True for critical pods of the class `system-node-critical`: they get the `oom_score_adj` of a
/// Guaranteed pod.
pub fn is_node_critical(pod: &Pod) -> bool {
    is_critical(pod) && pod.priority_class == NODE_CRITICAL
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: &[(&str, &str)], priority: Option<i32>) -> Pod {
        let annotations = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        Pod { annotations: annotations.collect(), priority, ..Pod::default() }
    }

    #[test]
    fn critical_never_evicted() {
        use SparedReason::{Critical, Mirror, Static};
        type Row<'a> = (&'a [(&'a str, &'a str)], Option<i32>, Option<SparedReason>);
        #[rustfmt::skip]
        let table: &[Row<'_>] = &[
            // annotations, priority, spared as
            (&[(SOURCE, "file")],                  None,                Some(Static)),
            (&[(SOURCE, "http")],                  None,                Some(Static)),
            (&[(SOURCE, "api")],                   None,                None),
            (&[(MIRROR, "abc")],                   None,                Some(Mirror)),
            (&[(MIRROR, "abc"), (SOURCE, "file")], None,                Some(Mirror)),
            (&[],                                  Some(2_000_000_000), Some(Critical)),
            (&[],                                  Some(2_000_000_001), Some(Critical)),
            (&[],                                  Some(1_999_999_999), None),
            (&[],                                  Some(1_000_000_000), None),
            (&[],                                  None,                None),
        ];
        for (annotations, priority, want) in table {
            let pod = pod(annotations, *priority);
            assert_eq!(spared_as(&pod), *want, "{annotations:?} {priority:?}");
            assert_eq!(is_critical(&pod), want.is_some(), "{annotations:?} {priority:?}");
        }
    }

    #[test]
    fn critical_node_critical() {
        #[rustfmt::skip]
        let table = [
            // priority, class, node-critical
            (Some(2_000_001_000), "system-node-critical",    true),
            (Some(2_000_000_000), "system-cluster-critical", false),
            (Some(1_000),         "system-node-critical",    false),
            (None,                "system-node-critical",    false),
        ];
        for (priority, class, want) in table {
            let pod = Pod { priority_class: class.into(), ..pod(&[], priority) };
            assert_eq!(is_node_critical(&pod), want, "{class} {priority:?}");
        }
    }
}
