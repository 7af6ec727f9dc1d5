//! Where a kubelet puts the cgroups of its pods, with either driver, and containerd those of their
//! containers.

use isobar_core::model::pod::QosClass;

use crate::form::group::Driver;

impl Driver {
    /// The cgroup of all pods.
    pub(super) fn kubepods(self) -> &'static str {
        match self {
            Self::Systemd => "/kubepods.slice",
            Self::Cgroupfs => "/kubepods",
        }
    }

    /// The cgroup of all pods of a class; Guaranteed ones have none of their own.
    pub(super) fn class(self, class: QosClass) -> String {
        let name = match class {
            QosClass::BestEffort => "besteffort",
            QosClass::Burstable => "burstable",
            QosClass::Guaranteed => return self.kubepods().into(),
        };
        match self {
            Self::Systemd => format!("{}/kubepods-{name}.slice", self.kubepods()),
            Self::Cgroupfs => format!("{}/{name}", self.kubepods()),
        }
    }

    /// The cgroup of a pod.
    pub(super) fn pod(self, class: QosClass, uid: &str) -> String {
        let above = self.class(class);
        match self {
            // A slice's name holds those of the slices above it.
            Self::Systemd => {
                let last = above.rsplit('/').next().unwrap_or_default();
                let prefix = last.trim_end_matches(".slice");
                format!("{above}/{prefix}-pod{}.slice", uid.replace('-', "_"))
            }
            Self::Cgroupfs => format!("{above}/pod{uid}"),
        }
    }

    /// The cgroup of a container or a sandbox.
    pub(super) fn container(self, pod: &str, id: &str) -> String {
        match self {
            Self::Systemd => format!("{pod}/cri-containerd-{id}.scope"),
            Self::Cgroupfs => format!("{pod}/{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_driver_names_cgroups_as_the_kubelet_does() {
        let uid = "44444444-1111-4111-8111-444444444444";
        let (under, bare) = (uid.replace('-', "_"), uid);
        #[rustfmt::skip]
        let table = [
            // driver, class, the pod's cgroup, its container's below that
            (Driver::Systemd,  QosClass::BestEffort, format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{under}.slice"), "cri-containerd-c0.scope"),
            (Driver::Systemd,  QosClass::Guaranteed, format!("/kubepods.slice/kubepods-pod{under}.slice"),                                     "cri-containerd-c0.scope"),
            (Driver::Cgroupfs, QosClass::Burstable,  format!("/kubepods/burstable/pod{bare}"),                                                 "c0"),
            (Driver::Cgroupfs, QosClass::Guaranteed, format!("/kubepods/pod{bare}"),                                                           "c0"),
        ];
        for (driver, class, pod, container) in table {
            assert_eq!(driver.pod(class, uid), pod, "{driver:?} {class:?}");
            assert_eq!(driver.container(&pod, "c0"), format!("{pod}/{container}"), "{driver:?}");
        }
    }
}
