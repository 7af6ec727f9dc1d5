//! Where a kubelet puts the cgroups of its pods, with either driver, and containerd those of their
//! containers.

use isobar_core::model::names::{BEST_EFFORT, BURSTABLE, path};
use isobar_core::model::pod::QosClass;
use isobar_core::model::settings::CgroupDriver;

/// The cgroup of all pods of a class. Guaranteed ones have none of their own: it is that of all pods.
pub(super) fn class(driver: CgroupDriver, class: QosClass) -> String {
    path(driver, names(class)).to_string()
}

/// The cgroup of a pod.
pub(super) fn pod(driver: CgroupDriver, class: QosClass, uid: &str) -> String {
    let own = format!("pod{uid}");
    path(driver, &[names(class), &[&own]].concat()).to_string()
}

fn names(class: QosClass) -> &'static [&'static str] {
    match class {
        QosClass::BestEffort => &["kubepods", BEST_EFFORT],
        QosClass::Burstable => &["kubepods", BURSTABLE],
        QosClass::Guaranteed => &["kubepods"],
    }
}

/// The cgroup of a container or a sandbox.
pub(super) fn container(driver: CgroupDriver, pod: &str, id: &str) -> String {
    match driver {
        CgroupDriver::Systemd => format!("{pod}/cri-containerd-{id}.scope"),
        CgroupDriver::Cgroupfs => format!("{pod}/{id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CgroupDriver::{Cgroupfs, Systemd};

    #[test]
    fn each_driver_names_cgroups_as_the_kubelet_does() {
        let uid = "44444444-1111-4111-8111-444444444444";
        let (under, bare) = (uid.replace('-', "_"), uid);
        #[rustfmt::skip]
        let table = [
            // driver, class, the pod's cgroup, its container's below that
            (Systemd,  QosClass::BestEffort, format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{under}.slice"), "cri-containerd-c0.scope"),
            (Systemd,  QosClass::Guaranteed, format!("/kubepods.slice/kubepods-pod{under}.slice"),                                     "cri-containerd-c0.scope"),
            (Cgroupfs, QosClass::Burstable,  format!("/kubepods/burstable/pod{bare}"),                                                 "c0"),
            (Cgroupfs, QosClass::Guaranteed, format!("/kubepods/pod{bare}"),                                                           "c0"),
        ];
        for (driver, class, want, of_container) in table {
            assert_eq!(pod(driver, class, uid), want, "{driver:?} {class:?}");
            assert_eq!(
                container(driver, &want, "c0"),
                format!("{want}/{of_container}"),
                "{driver:?}"
            );
        }
    }
}
