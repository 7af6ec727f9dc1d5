use proptest::prelude::*;

use super::QosClass::{BestEffort, Burstable, Guaranteed};
use super::*;

const UID: &str = "7a1e5b1c-9d3f-4c58-8a86-2f0d4b7c6e19";
const STATIC: &str = "3f1a9c0e8b7d6a5f4e3d2c1b0a998877";
const ID: &str = "0f3c9d51e6a84b27c0d1f2e3948576a1b2c3d4e5f60718293a4b5c6d7e8f9012";

/// The path with `UID`, `UID_` (as systemd escapes it), `STATIC` and `ID` filled in.
fn path(shape: &str) -> CgroupPath {
    let escaped = UID.replace('-', "_");
    CgroupPath(
        shape
            .replace("UID_", &escaped)
            .replace("UID", UID)
            .replace("STATIC", STATIC)
            .replace("ID", ID)
            .into(),
    )
}

fn pod(uid: &str, class: QosClass) -> Place {
    Place::Pod { uid: uid.into(), class }
}

fn in_pod(uid: &str, class: QosClass, runtime: Runtime) -> Place {
    Place::Container { pod: uid.into(), class, id: ID.into(), runtime }
}

#[test]
fn place_of_each_driver_and_runtime() {
    use Runtime::{Containerd, CriO, Docker, Unknown};
    #[rustfmt::skip]
    let table = [
        ("/", Place::Node),
        // systemd driver
        ("/kubepods.slice", Place::Kubepods),
        ("/kubepods.slice/kubepods-burstable.slice", Place::Qos { class: Burstable }),
        ("/kubepods.slice/kubepods-besteffort.slice", Place::Qos { class: BestEffort }),
        ("/kubepods.slice/kubepods-podUID_.slice", pod(UID, Guaranteed)),
        ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice", pod(UID, Burstable)),
        ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podSTATIC.slice", pod(STATIC, Burstable)),
        ("/kubepods.slice/kubepods-podUID_.slice/cri-containerd-ID.scope", in_pod(UID, Guaranteed, Containerd)),
        ("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUID_.slice/crio-ID.scope", in_pod(UID, BestEffort, CriO)),
        ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/docker-ID.scope", in_pod(UID, Burstable, Docker)),
        ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podSTATIC.slice/cri-containerd-ID.scope", in_pod(STATIC, Burstable, Containerd)),
        // cgroupfs driver
        ("/kubepods", Place::Kubepods),
        ("/kubepods/burstable", Place::Qos { class: Burstable }),
        ("/kubepods/besteffort", Place::Qos { class: BestEffort }),
        ("/kubepods/podUID", pod(UID, Guaranteed)),
        ("/kubepods/podSTATIC", pod(STATIC, Guaranteed)),
        ("/kubepods/burstable/podUID", pod(UID, Burstable)),
        ("/kubepods/burstable/podUID/ID", in_pod(UID, Burstable, Unknown)),
        ("/kubepods/besteffort/podUID/crio-ID", in_pod(UID, BestEffort, CriO)),
        ("/kubepods/podUID/kata_ID", in_pod(UID, Guaranteed, Unknown)),
        ("/kubepods/burstable/podmy-own-uid/ID", in_pod("my-own-uid", Burstable, Unknown)), // set by a manifest
        // a runtime with the other driver than the kubelet's
        ("/kubepods.slice/kubepods-podUID_.slice/ID", in_pod(UID, Guaranteed, Unknown)),
        ("/kubepods/podUID/cri-containerd-ID.scope", in_pod(UID, Guaranteed, Containerd)),
        // a root of its own: --cgroup-root, kind, a node in a container
        ("/kubelet.slice/kubelet-kubepods.slice", Place::Kubepods),
        ("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podUID_.slice", pod(UID, Burstable)),
        ("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice/cri-containerd-ID.scope", in_pod(UID, Guaranteed, Containerd)),
        ("/docker/ID/kubelet/kubepods/besteffort/podUID/ID", in_pod(UID, BestEffort, Unknown)),
        ("/system.slice/docker-ID.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice", pod(UID, Guaranteed)),
        // what a container makes below itself
        ("/kubepods/podUID/ID/init.scope", in_pod(UID, Guaranteed, Unknown)),
        ("/kubepods.slice/kubepods-podUID_.slice/crio-ID.scope/container", in_pod(UID, Guaranteed, CriO)),
        ("/kubepods.slice/kubepods-podUID_.slice/cri-containerd-ID.scope/kubelet.slice/kubelet-kubepods.slice", in_pod(UID, Guaranteed, Containerd)),
    ];
    for (shape, want) in table {
        assert_eq!(Place::of(&path(shape)), want, "{shape}");
    }
}

#[test]
fn place_of_others() {
    #[rustfmt::skip]
    let table = [
        "",
        "//",
        "/init.scope",
        "/system.slice/containerd.service",
        "/system.slice/docker-ID.scope",
        "/user.slice/user-1000.slice/user@1000.service/app.slice",
        "/kubepods.slice/kubepods-burstable-podUID_.slice",             // not below its own class
        "/kubepods.slice/kubepods-burstable.slice/kubepods-podUID_.slice",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-besteffort-podUID_.slice",
        "/kubepods.slice/kubepods-podUID.slice",                        // dashes that were not escaped
        "/kubepods.slice/kubepods-pod.slice",
        "/kubepods.slice/burstable/podUID",
        "/kubepods/pod",
        "/kubepods/guaranteed/podUID",
        "/kubepods/burstable/ID",
        "/mykubepods/podUID",
        "/kubepods-extra.slice/kubepods-extra-podUID_.slice",
        "/kubepods.slice/kubepods-podUID_.slice/crio-conmon-ID.scope",  // the monitor
        "/kubepods/podUID/crio-conmon-ID",
        "/kubepods/podUID/crio-conmon-ID/deeper",
        "/kubepods/podUID/cri-containerd-0f3c9d51.scope",               // too short for an id
        "/kubepods/podUID/sandbox",
    ];
    for shape in table {
        assert_eq!(Place::of(&path(shape)), Place::Other, "{shape}");
    }
}

proptest! {
    #[test]
    fn place_of_never_panics(path in "(/?(kubepods|burstable|pod|crio-|-|_|\\.slice|\\.scope|[a-f0-9]{0,70}|\\PC{0,3}))*") {
        let place = Place::of(&CgroupPath(path.clone().into()));
        prop_assert_eq!(place == Place::Node, path == "/");
    }

    #[test]
    fn place_of_same_pod_by_both_drivers(uid in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,4}", id in "[0-9a-f]{64}") {
        let escaped = uid.replace('-', "_");
        let plain = format!("/kubepods/burstable/pod{uid}/{id}");
        let slices = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{escaped}.slice/{id}");
        let want = Place::Container { pod: uid.into(), class: Burstable, id: id.into(), runtime: Runtime::Unknown };
        prop_assert_eq!(Place::of(&CgroupPath(plain.into())), want.clone());
        prop_assert_eq!(Place::of(&CgroupPath(slices.into())), want);
    }
}
