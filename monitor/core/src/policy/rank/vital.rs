//! The services of which all work on the node depends, by the names that root gave them.

use crate::model::cgroup::CgroupPath;

/// Services that the node could not do without: the kernel's OOM killer is never pointed at them.
/// Matched against the name of the cgroup, and of units above it, up to the first `.` or `@`, as far
/// as root gave them: `/docker/ID` is a container of docker, not docker.
pub(crate) const VITAL: [&str; 20] = [
    "k3s",
    "k3s-agent",
    "rke2-server",
    "rke2-agent",
    "k0scontroller",
    "k0sworker",
    "snap",
    "kubelite",
    "kubelet",
    "containerd",
    "crio",
    "docker",
    "cri-docker",
    "dockerd",
    "ssh",
    "sshd",
    "init",
    "isobar",
    "dbus",
    "systemd-logind",
];

/// Whether the cgroup is one of these, or lies in one; so many names of the path count.
pub(super) fn is_vital(path: &CgroupPath, n_names: usize) -> bool {
    let n = path.segments().count();
    path.segments().enumerate().take(n_names).any(|(i, segment)| {
        let name = segment.split(['.', '@']).next().unwrap_or_default();
        let is_unit = i + 1 == n || name != segment;
        is_unit && VITAL.contains(&name)
    })
}
