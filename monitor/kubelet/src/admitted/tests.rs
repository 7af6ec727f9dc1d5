use super::*;
use crate::pod_notation::pod;
use crate::qos::computed;
use isobar_core::model::pod::QosClass::{BestEffort, Burstable, Guaranteed};

#[test]
fn admitted_fills_requests() {
    #[rustfmt::skip]
    let table = [
        // pod, as admitted, class before, class after
        ("main",                            "main",                              BestEffort, BestEffort),
        ("main l 1/1Gi",                    "main r 1/1Gi l 1/1Gi",              Burstable,  Guaranteed),
        ("main r 1/- l 1/1Gi",              "main r 1/1Gi l 1/1Gi",              Burstable,  Guaranteed),
        ("main r 500m/1Gi l 1/1Gi",         "main r 500m/1Gi l 1/1Gi",           Burstable,  Burstable),
        ("main r 0/- l 1/1Gi",              "main r 0/1Gi l 1/1Gi",              Burstable,  Burstable), // 0 is there
        ("init l 1/1Gi; main l 1/1Gi",      "init r 1/1Gi l 1/1Gi; main r 1/1Gi l 1/1Gi", Burstable, Guaranteed),
        ("main l -/1Gi",                    "main r -/1Gi l -/1Gi",              Burstable,  Burstable),
        // the pod as a whole: containers' requests first, then its own limits
        ("pod l 1/1Gi; main",               "pod r 1/1Gi l 1/1Gi; main",         Burstable,  Guaranteed),
        ("pod l 1/1Gi; main r 500m/-",      "pod r 500m/1Gi l 1/1Gi; main r 500m/-", Burstable, Burstable),
        ("pod l 1/1Gi; main l 500m/-",      "pod r 500m/1Gi l 1/1Gi; main r 500m/- l 500m/-", Burstable, Burstable),
        ("pod l 1/1Gi; sidecar r 500m/-; main r 500m/-", "pod r 1/1Gi l 1/1Gi; sidecar r 500m/-; main r 500m/-", Burstable, Guaranteed),
        ("pod r 1/- l 1/1Gi; main",         "pod r 1/1Gi l 1/1Gi; main",         Burstable,  Guaranteed),
        ("pod r 1/1Gi; main r 1/-",         "pod r 1/1Gi; main r 1/-",           Burstable,  Burstable),
        ("pod; main l 1/1Gi",               "pod; main r 1/1Gi l 1/1Gi",         BestEffort, BestEffort),
        // a limit of huge pages becomes the pod's, which so has limits: its requests are filled in
        ("pod r 0/-; main r -/1Gi l -/-/64Mi", "pod r 0/1Gi/64Mi l -/-/64Mi; main r -/1Gi/64Mi l -/-/64Mi", BestEffort, Burstable),
        ("pod r 0/-; main l -/-/64Mi",      "pod r 0/-/64Mi l -/-/64Mi; main r -/-/64Mi l -/-/64Mi", BestEffort, BestEffort),
        ("pod r 0/-; init l -/-/9Mi; main l -/-/4Mi; main l -/-/4Mi", "pod r 0/-/9Mi l -/-/9Mi; init r -/-/9Mi l -/-/9Mi; main r -/-/4Mi l -/-/4Mi; main r -/-/4Mi l -/-/4Mi", BestEffort, BestEffort),
        ("pod r 0/-/64Mi; main r -/1Gi l -/-/64Mi", "pod r 0/-/64Mi; main r -/1Gi/64Mi l -/-/64Mi", BestEffort, BestEffort), // named by the pod
        ("pod; main r -/1Gi l -/-/64Mi",    "pod; main r -/1Gi/64Mi l -/-/64Mi", BestEffort, BestEffort), // no pod-level resource
    ];
    for (text, as_admitted, before, after) in table {
        let (raw, got) = (pod(text), admitted(&pod(text)));
        assert_eq!(got, pod(as_admitted), "{text}");
        assert_eq!((computed(&raw), computed(&got)), (before, after), "{text}");
        assert_eq!(admitted(&got), got, "{text}: once is enough");
    }
}

#[test]
fn admitted_fills_the_priority_of_classes_that_every_cluster_has() {
    #[rustfmt::skip]
    let table = [
        // class, priority, as admitted
        ("system-node-critical",    None,     Some(2_000_001_000)),
        ("system-cluster-critical", None,     Some(2_000_000_000)),
        ("system-node-critical",    Some(7),  Some(7)), // what it was admitted with stays
        ("high",                    None,     None),
        ("",                        None,     None),
    ];
    for (class, priority, want) in table {
        let pod = Pod { priority_class: class.into(), priority, ..Pod::default() };
        assert_eq!(admitted(&pod).priority, want, "{class} {priority:?}");
    }
}
