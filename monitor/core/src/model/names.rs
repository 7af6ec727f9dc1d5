//! Paths of the kubelet's cgroups. An internal name is a list of components, which each cgroup
//! driver spells in its own way. Source: kubelet `pkg/kubelet/cm/cgroup_manager_linux.go`.

use crate::model::cgroup::CgroupPath;
use crate::model::settings::{CgroupDriver, Node};

/// Internal name of the cgroup of all pods.
const KUBEPODS: &str = "kubepods";
/// Internal name of the slice of Burstable pods.
pub const BURSTABLE: &str = "burstable";
/// Internal name of the slice of BestEffort pods. Guaranteed pods have no slice of their own.
pub const BEST_EFFORT: &str = "besteffort";
const SLICE: &str = ".slice";

/// The path of the cgroup with these name components; none is the root.
pub fn path(driver: CgroupDriver, components: &[&str]) -> CgroupPath {
    match driver {
        _ if components.is_empty() => CgroupPath::root(),
        CgroupDriver::Cgroupfs => CgroupPath(format!("/{}", components.join("/")).into()),
        CgroupDriver::Systemd => {
            // A dash separates a slice's name from its parent's, so a component's own is escaped.
            let names: Vec<_> = components.iter().map(|name| name.replace('-', "_")).collect();
            let slice = |depth| format!("{}{SLICE}", names[..depth].join("-"));
            (1..=names.len()).fold(CgroupPath::root(), |path, depth| path.child(&slice(depth)))
        }
    }
}

/// The cgroup of all pods.
pub fn kubepods(node: &Node) -> CgroupPath {
    below_root(node, [KUBEPODS])
}

/// The slice of a QoS class: [`BURSTABLE`] or [`BEST_EFFORT`].
pub fn of_class(node: &Node, class: &str) -> CgroupPath {
    below_root(node, [KUBEPODS, class])
}

fn below_root<const N: usize>(node: &Node, names: [&str; N]) -> CgroupPath {
    let above = node.cgroup_root.split('/').filter(|part| !part.is_empty());
    let components: Vec<_> = above.chain(names).collect();
    path(node.cgroup_driver, &components)
}

/// `node` with the cgroup driver whose kubepods cgroup `exists`. The kubelet takes the driver from
/// the container runtime; its own configuration may differ.
pub fn as_spelled(node: &Node, exists: impl Fn(&CgroupPath) -> bool) -> Node {
    let cgroup_driver = match node.cgroup_driver {
        CgroupDriver::Cgroupfs => CgroupDriver::Systemd,
        CgroupDriver::Systemd => CgroupDriver::Cgroupfs,
    };
    let other = Node { cgroup_driver, ..node.clone() };
    let is_other = !exists(&kubepods(node)) && exists(&kubepods(&other));
    if is_other { other } else { node.clone() }
}

/// The cgroup that `kubeReservedCgroup` or `systemReservedCgroup` names; `None` if empty.
///
/// With the systemd driver only the last part of the name counts, as a slice: `/a/b.slice` is
/// `/b.slice`, and `/kubelet.service` is `/kubelet.service.slice`.
pub fn reserved(driver: CgroupDriver, name: &str) -> Option<CgroupPath> {
    let components = components(driver, name);
    let components: Vec<_> = components.iter().map(String::as_str).collect();
    (!components.is_empty()).then(|| path(driver, &components))
}

/// The internal name that `kubeReservedCgroup` or `systemReservedCgroup` stands for; empty for the root.
/// Source: `ParseSystemdToCgroupName`, `ParseCgroupfsToCgroupName`.
pub fn components(driver: CgroupDriver, name: &str) -> Vec<String> {
    let mut parts = name.split('/').filter(|part| !part.is_empty());
    match driver {
        CgroupDriver::Cgroupfs => parts.map(str::to_owned).collect(),
        CgroupDriver::Systemd => {
            let slice = parts.next_back().map(|last| last.strip_suffix(SLICE).unwrap_or(last));
            // An underscore is a component's own dash, escaped.
            let names = slice.into_iter().flat_map(|slice| slice.split('-'));
            names.map(|name| name.replace('_', "-")).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CgroupDriver::{Cgroupfs, Systemd};

    #[test]
    fn names_systemd_escapes() {
        let uid = "pod-6c1a4e95-6bb6-11e6-bc26-28d2444e470d";
        #[rustfmt::skip]
        let table: &[(CgroupDriver, &[&str], &str)] = &[
            // driver, components, path
            (Systemd,  &[],                               "/"),
            (Cgroupfs, &[],                               "/"),
            (Systemd,  &["kubepods"],                     "/kubepods.slice"),
            (Systemd,  &["Burstable", "pod-123"],         "/Burstable.slice/Burstable-pod_123.slice"),
            (Systemd,  &["BestEffort", uid],              "/BestEffort.slice/BestEffort-pod_6c1a4e95_6bb6_11e6_bc26_28d2444e470d.slice"),
            (Systemd,  &["test", "a", "b", "Burstable"],  "/test.slice/test-a.slice/test-a-b.slice/test-a-b-Burstable.slice"),
            (Cgroupfs, &["kubepods", "burstable", "pod1-2"], "/kubepods/burstable/pod1-2"),
        ];
        for (driver, components, want) in table {
            assert_eq!(&*path(*driver, components).0, *want, "{driver:?} {components:?}");
        }
    }

    #[test]
    fn names_kubepods() {
        #[rustfmt::skip]
        let table = [
            // driver, cgroupRoot, path
            (Cgroupfs, "",          "/kubepods"),
            (Cgroupfs, "/",         "/kubepods"),
            (Cgroupfs, "/a/b",      "/a/b/kubepods"),
            (Systemd,  "",          "/kubepods.slice"),
            (Systemd,  "/kubelet",  "/kubelet.slice/kubelet-kubepods.slice"),
            (Systemd,  "/a-b",      "/a_b.slice/a_b-kubepods.slice"),
        ];
        for (driver, root, want) in table {
            let node = Node { cgroup_driver: driver, cgroup_root: root.into(), ..Node::default() };
            assert_eq!(&*kubepods(&node).0, want, "{driver:?} {root:?}");
        }
    }

    #[test]
    fn names_qos_and_driver() {
        #[rustfmt::skip]
        let table = [
            // configured, what is there, path of the Burstable pods
            (Cgroupfs, "/kubepods",       "/kubepods/burstable"),
            (Cgroupfs, "/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"),
            (Systemd,  "/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"),
            (Systemd,  "/kubepods",       "/kubepods/burstable"),
            (Systemd,  "/",               "/kubepods.slice/kubepods-burstable.slice"),
        ];
        for (driver, there, want) in table {
            let node = Node { cgroup_driver: driver, ..Node::default() };
            let spelled = as_spelled(&node, |path| &*path.0 == there);
            assert_eq!(&*of_class(&spelled, BURSTABLE).0, want, "{driver:?}, {there}");
        }
    }

    #[test]
    fn names_reserved_by_last_part() {
        #[rustfmt::skip]
        let table = [
            // driver, name, path
            (Systemd,  "/system.slice",     Some("/system.slice")),
            (Systemd,  "system",            Some("/system.slice")),
            (Systemd,  "/a/b.slice",        Some("/b.slice")),
            (Systemd,  "/kubelet.service",  Some("/kubelet.service.slice")),
            (Systemd,  "/kube-system.slice", Some("/kube.slice/kube-system.slice")),
            (Systemd,  "/kube_system.slice", Some("/kube_system.slice")),
            (Cgroupfs, "/a/b.slice",        Some("/a/b.slice")),
            (Cgroupfs, "kube",              Some("/kube")),
            (Cgroupfs, "",                  None),
            (Systemd,  "/",                 None),
        ];
        for (driver, name, want) in table {
            let got = reserved(driver, name).map(|path| path.0);
            assert_eq!(got.as_deref(), want, "{driver:?} {name:?}");
        }
    }
}
