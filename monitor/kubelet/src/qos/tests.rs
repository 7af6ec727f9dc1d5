use super::QosClass::{BestEffort, Burstable, Guaranteed};
use super::*;
use crate::pod_notation::pod;

#[test]
fn class_kubelet_cases() {
    #[rustfmt::skip]
    let table = [
        // pod, class
        ("main r 100m/100Mi l 100m/100Mi",                                  Guaranteed),
        ("main r 100m/100Mi l 100m/100Mi; main r 100m/100Mi l 100m/100Mi",  Guaranteed),
        ("main; main",                                                      BestEffort),
        ("main",                                                            BestEffort),
        ("",                                                                BestEffort),
        ("main; main r 1/- l 2/-",                                          Burstable),
        ("main; main r 10m/100Mi l 10m/100Mi",                              Burstable),
        ("main r -/100Mi l -/100Mi",                                        Burstable),
        ("main r 100m/100Mi",                                               Burstable),
        ("main r 1/100Mi l 2/100Mi; main r 100m/100Mi l 100m/100Mi",        Burstable),
        ("main r 10m/100Mi l 100m/200Mi",                                   Burstable),
        ("init r 10m/100Mi l 100m/200Mi; main",                             Burstable),
        ("init r 1/1Gi l 1/1Gi; main r 1/1Gi l 1/1Gi",                      Guaranteed),
        ("sidecar; main r 1/1Gi l 1/1Gi",                                   Burstable),
        ("main r 1/1Gi l 1/1Gi; debug",                                     Guaranteed), // may have none
        // a quantity of 0 is none, and so is less
        ("main r 0/0 l 0/0",                                                BestEffort),
        ("main r 0/- l -/0",                                                BestEffort),
        ("main r -1/- ",                                                    BestEffort),
        ("main r 1/1Gi l 1/0",                                              Burstable),
        // compared by value
        ("main r 1000m/1024Mi l 1/1Gi",                                     Guaranteed),
        // the pod as a whole
        ("pod r 10m/100Mi l 10m/100Mi; main",                               Guaranteed),
        ("pod r 10m/10Mi l 20m/50Mi; main",                                 Burstable),
        ("pod r 10m/10Mi l 20m/50Mi; main r 5m/10Mi l 5m/10Mi",             Burstable),
        ("pod r 10m/10Mi; main r 5m/10Mi",                                  Burstable),
        ("pod r -/10Mi l -/10Mi; main r 1/1Gi l 1/1Gi",                     Burstable),
        ("pod l 1/1Gi; main",                                               Burstable), // not defaulted
        ("pod; main r 1/1Gi l 1/1Gi",                                       BestEffort), // there, and empty
        // With pod-level resources `ComputePodQOS` looks at these alone, and of these at cpu and
        // memory above 0: a request of 0 and huge pages are none. Such a pod is Burstable where it
        // passed the API server, which fills in what its containers request: see `admitted`.
        ("pod r 0/-; main r -/1Gi l -/-/64Mi",                              BestEffort),
        ("pod r 0/- l -/-/64Mi; main",                                      BestEffort),
        ("pod r 0/1Gi l -/-/64Mi; main",                                    Burstable),
        // as written, without what the API server adds
        ("main l 100m/100Mi",                                               Burstable),
        // sums alone are compared
        ("main r 100m/1Gi l 200m/1Gi; main r 200m/1Gi l 100m/1Gi",          Guaranteed),
    ];
    for (text, want) in table {
        assert_eq!(computed(&pod(text)), want, "{text}");
    }
}

#[test]
fn class_of_other_resources() {
    for name in ["ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"] {
        let mut pod = pod("main");
        let one = "1Gi".parse().unwrap();
        pod.containers[0].resources.requests.insert(name.into(), one);
        pod.containers[0].resources.limits.insert(name.into(), one);
        assert_eq!(computed(&pod), BestEffort, "{name}");
    }
}

#[test]
fn class_in_status_stands() {
    let pod = Pod { qos_class: Some(Burstable), ..pod("main r 1/1Gi l 1/1Gi") };
    assert_eq!(class(&pod), Burstable);
    assert_eq!(computed(&pod), Guaranteed);
}
