use crate::pod_notation::pod;
use isobar_core::model::pod::{Place, QosClass, Runtime};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::request::*;
use isobar_core::model::units::MilliCpu;

#[test]
fn request_at_peak() {
    #[rustfmt::skip]
    let table = [
        // pod, memory
        ("",                                                        "0"),
        ("main",                                                    "0"),
        ("main r -/100Mi",                                          "100Mi"),
        ("main r -/100Mi; main r -/200Mi",                          "300Mi"),
        ("main r 1/- l 1/1Gi",                                      "0"),
        // init containers run one after the other
        ("init r -/1Gi; main r -/100Mi",                            "1Gi"),
        ("init r -/1Gi; init r -/2Gi; main r -/100Mi",              "2Gi"),
        ("init r -/50Mi; main r -/100Mi",                           "100Mi"),
        // beside the sidecars that were started before
        ("sidecar r -/1Gi; main r -/1Gi",                           "2Gi"),
        ("sidecar r -/1Gi; init r -/3Gi; main r -/1Gi",             "4Gi"),
        ("init r -/3Gi; sidecar r -/1Gi; main r -/1Gi",             "3Gi"),
        ("init r -/1Gi; sidecar r -/1Gi; init r -/1Gi; sidecar r -/1Gi; main r -/1Gi", "3Gi"),
        ("sidecar r -/1Gi; sidecar r -/1Gi; init r -/2Gi; main",    "4Gi"),
        // the pod as a whole, if it says so
        ("pod r -/250Mi; main r -/100Mi; main r -/500Mi",           "250Mi"),
        ("pod r 1/-; main r -/100Mi",                               "0"),
        ("pod l -/1Gi; main r -/100Mi",                             "0"),
        ("pod; main r -/100Mi",                                     "100Mi"),
        ("main r -/100Mi; debug",                                   "100Mi"),
    ];
    for (text, want) in table {
        assert_eq!(request(&pod(text), "memory").to_string(), want, "{text}");
    }
    assert_eq!(request(&pod("main r 100m/1Gi; main r 1/-"), "cpu").to_string(), "1100m");
}

#[test]
fn cpu_at_a_pod_or_a_container() {
    let mut asking = pod("main r 250m/1Gi; main r 1/-; main");
    asking.containers.iter_mut().zip(["aa", "bb", "cc"]).for_each(|(c, id)| c.id = Some(id.into()));
    let pods = [("u", &asking)].into();
    let (class, runtime) = (QosClass::Burstable, Runtime::Containerd);
    let of_pod = |uid: &str| Place::Pod { uid: uid.into(), class };
    let of_container =
        |id: &str| Place::Container { pod: "u".into(), class, id: id.into(), runtime };
    #[rustfmt::skip]
    let table = [
        // place, thousandths of a CPU
        (of_pod("u"),        Some(1_250)),
        (of_pod("unknown"),  None),
        (of_container("aa"), Some(250)),
        (of_container("bb"), Some(1_000)),
        (of_container("cc"), None), // it requests nothing
        (of_container("dd"), None), // the sandbox
        (Place::Kubepods,    None),
    ];
    for (place, want) in table {
        assert_eq!(cpu_at(&place, &pods), want.map(MilliCpu), "{place:?}");
    }
}

#[test]
fn request_overhead() {
    #[rustfmt::skip]
    let table = [
        // pod, memory with 64Mi of overhead
        ("main",                            "0"),
        ("main r -/0",                      "0"),
        ("main r -/64Mi",                   "128Mi"),
        ("pod r -/64Mi; main",              "128Mi"),
        ("init r -/1984Mi; main r -/64Mi",  "2Gi"),
    ];
    for (text, want) in table {
        let mut pod = pod(text);
        pod.overhead.insert("memory".into(), "64Mi".parse().unwrap());
        assert_eq!(request(&pod, "memory").to_string(), want, "{text}");
        assert_eq!(request(&pod, "cpu"), Quantity::ZERO, "{text}");
    }
}

#[test]
fn request_pod_level_storage() {
    let storage = |text: &str| {
        let mut pod = pod(text);
        let asked = "1Gi".parse().unwrap();
        pod.containers[0].resources.requests.insert("ephemeral-storage".into(), asked);
        if let Some(whole) = &mut pod.resources {
            whole.requests.insert("ephemeral-storage".into(), asked);
        }
        request(&pod, "ephemeral-storage").to_string()
    };
    assert_eq!(storage("main"), "1Gi");
    assert_eq!(storage("pod r 1/-; main"), "0");
}
