use proptest::prelude::*;

use super::*;
use crate::pod_notation::pod;

const SYSTEM_CRITICAL: i32 = 2_000_000_000;

fn scores(pod: &Pod, capacity: u64) -> Vec<i32> {
    let capacity = NonZeroU64::new(capacity).unwrap();
    pod.containers.iter().map(|container| score(pod, container, capacity)).collect()
}

#[test]
fn score_kubelet_cases() {
    const S: u64 = 8_000_000_000;
    #[rustfmt::skip]
    let table: [(&str, u64, &[i32]); 33] = [
        // pod, capacity, scores
        ("main l 10/-",                                         4_000_000_000, &[999]),
        ("main r 0/- l -/10G",                                  S,             &[999]),
        ("main l -/0",                                          7_230_457_451, &[1_000]),
        ("main",                                                4_000_000_000, &[1_000]),
        ("main r 5m/10G l 5m/10G",                              123_456_789,   &[-997]),
        ("main r 5m/7999999999",                                S,             &[3]),
        ("main r -/1000000000 l -/1000001000",                  S,             &[875]),
        ("init r -/1000000000; main r -/1000000000",            S,             &[875, 875]),
        ("init r -/1G; sidecar r -/1G; main r -/1G",            S,             &[875, 875, 875]),
        ("init r -/1G; sidecar r -/4G; main r -/1G",            S,             &[875, 500, 875]),
        ("main r -/100Mi",                                      16 << 30,      &[994]),
        ("main r -/16G",                                        S,             &[3]), // twice the capacity
        ("main r -/8E",                                         1,             &[3]),
        ("main r -/32Gi",                                       32 << 30,      &[3]),
        ("main r -/1",                                          32 << 30,      &[999]),
        ("main r 1/-; main r -/16Gi",                           32 << 30,      &[999, 500]),
        ("main r -/8G; main r -/7976M; main r -/7975M",         S,             &[3, 3, 4]),
        // a sidecar asks for at least what any container that it serves asks for
        ("sidecar r -/1G; main r -/4G; main r -/2G",            S,             &[750, 500, 750]),
        ("sidecar r -/1G; main r -/4G; main",                   S,             &[875, 500, 999]),
        ("sidecar; main r -/4G",                                S,             &[500, 500]),
        ("init r -/1G; sidecar r -/1G",                         S,             &[875, 875]), // serves no container
        // a pod's own request: what no container has is shared by all
        ("pod r 5m/2G l 5m/2G; main; main",                     4_000_000_000, &[-997, -997]),
        ("pod r -/2000000000 l -/2000001000; main; main",       4_000_000_000, &[750, 750]),
        ("pod r -/2G; main r -/1G l -/1G; main r -/1G l -/1G",  4_000_000_000, &[750, 750]),
        ("pod r -/2G; sidecar; main",                           4_000_000_000, &[750, 750]),
        ("pod r -/3G; sidecar; main r -/1G",                    4_000_000_000, &[500, 500]),
        ("pod r -/4G; init r -/1G; main r -/1G",                S,             &[688, 688]), // one at a time
        ("pod r 1/-; main r -/1G",                              S,             &[875]),
        ("pod l 1/1G; main r -/1G",                             S,             &[875]),
        ("pod r -/10; main; main; main",                        10_000,        &[999, 999, 999]),
        // the API server refuses a pod that asks for less than its containers
        ("pod r -/1G; main r -/2G; main",                       S,             &[813, 999]),
        // for debugging, without a request of its own
        ("main r -/4G; debug",                                  S,             &[500, 999]),
        ("main r 1/1Gi l 1/1Gi; debug",                         S,             &[-997, -997]),
    ];
    for (text, capacity, want) in table {
        assert_eq!(scores(&pod(text), capacity), want, "{text} of {capacity}");
    }
}

#[test]
fn score_node_critical() {
    #[rustfmt::skip]
    let table = [
        // priority, class, pod, score
        (Some(SYSTEM_CRITICAL),         "system-cluster-critical", "main",           1_000),
        (Some(SYSTEM_CRITICAL + 1_000), "system-node-critical",    "main",           -997),
        (Some(SYSTEM_CRITICAL + 1_000), "system-node-critical",    "main r -/1G",    -997),
        (Some(SYSTEM_CRITICAL - 1),     "system-node-critical",    "main",           1_000),
        (None,                          "system-node-critical",    "main r -/1G",    875),
    ];
    for (priority, class, text, want) in table {
        let pod = Pod { priority, priority_class: class.into(), ..pod(text) };
        assert_eq!(scores(&pod, 8_000_000_000), [want], "{priority:?} {class} {text}");
    }
}

#[test]
fn score_by_status_class() {
    let pod = Pod { qos_class: Some(QosClass::Burstable), ..pod("main r 1/4G l 1/4G") };
    assert_eq!(scores(&pod, 8_000_000_000), [500]);
}

proptest! {
    #[test]
    fn score_falls_with_request(a: u64, b: u64, capacity in 1_u64..) {
        let of = |asked: u64| scores(&pod(&format!("main r 1m/{asked}")), capacity)[0];
        prop_assert!(a > b || of(a) >= of(b));
        prop_assert!(BURSTABLE.contains(&of(a)));
    }
}
