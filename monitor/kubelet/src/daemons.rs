//! The cgroups of kubelets and container runtimes, by the names that distributions give their units.

use isobar_core::model::cgroup::CgroupPath;

/// What runs in a cgroup of the node's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Daemon {
    /// Also where the runtime is a part of the same unit, as with k3s.
    Kubelet,
    Runtime,
    /// A slice in which both may be.
    Either,
}

/// Units without their suffix.
const UNITS: [(&str, Daemon); 14] = [
    ("kubelet", Daemon::Kubelet),
    ("k3s", Daemon::Kubelet),
    ("k3s-agent", Daemon::Kubelet),
    ("rke2-server", Daemon::Kubelet),
    ("rke2-agent", Daemon::Kubelet),
    ("containerd", Daemon::Runtime),
    ("crio", Daemon::Runtime),
    ("cri-o", Daemon::Runtime),
    ("docker", Daemon::Runtime),
    ("dockerd", Daemon::Runtime),
    ("cri-docker", Daemon::Runtime),
    ("cri-dockerd", Daemon::Runtime),
    ("podruntime", Daemon::Either),
    ("runtime", Daemon::Either),
];
const SUFFIXES: [&str; 2] = [".service", ".slice"];

/// The daemon that a cgroup is named after.
pub fn named(path: &CgroupPath) -> Option<Daemon> {
    let last = path.segments().next_back()?;
    let stem = SUFFIXES.iter().find_map(|suffix| last.strip_suffix(suffix)).unwrap_or(last);
    UNITS.iter().find(|(unit, _)| *unit == stem).map(|(_, daemon)| *daemon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_after_units() {
        #[rustfmt::skip]
        let table = [
            ("/system.slice/kubelet.service",    Some(Daemon::Kubelet)),
            ("/system.slice/k3s.service",        Some(Daemon::Kubelet)),
            ("/system.slice/containerd.service", Some(Daemon::Runtime)),
            ("/podruntime.slice",                Some(Daemon::Either)),
            ("/kubelet",                         Some(Daemon::Kubelet)),
            ("/system.slice/kubelet-helper.service", None),
            ("/",                                None),
        ];
        for (path, want) in table {
            assert_eq!(named(&CgroupPath(path.into())), want, "{path}");
        }
    }
}
