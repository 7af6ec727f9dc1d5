//! The kubelet's own fields, by its own names. Source: `KubeletConfiguration`,
//! kubelet.config.k8s.io/v1beta1.

use super::{Key, Kind};

const I32: Kind = Kind::Number(i32::MIN as i64, i32::MAX as i64);

#[rustfmt::skip]
pub(in crate::config) const KUBELET: &[Key] = &[
    Key { name: "kubeReserved",         kind: Kind::Scalars, default: Some("{}"), about: "Set aside for Kubernetes daemons: cpu, memory, ephemeral-storage, pid" },
    Key { name: "systemReserved",       kind: Kind::Scalars, default: Some("{}"), about: "Set aside for system daemons: cpu, memory, ephemeral-storage, pid" },
    Key { name: "kubeReservedCgroup",   kind: Kind::Text,    default: Some("\"\""), about: "Cgroup of the Kubernetes daemons" },
    Key { name: "systemReservedCgroup", kind: Kind::Text,    default: Some("\"\""), about: "Cgroup of the system daemons" },
    Key { name: "enforceNodeAllocatable", kind: Kind::Texts, default: Some("[pods]"), about: "Whose limits are enforced: pods, system-reserved, kube-reserved, system-reserved-compressible, kube-reserved-compressible; or none" },
    Key { name: "reservedSystemCPUs",   kind: Kind::Text,    default: Some("\"\""), about: "CPUs set aside for daemons, as 0-1,8; takes the place of cpu in kubeReserved and systemReserved" },
    Key { name: "cpuManagerPolicy",     kind: Kind::Word(&["none", "static"]), default: Some("none"), about: "How CPUs are given to containers" },
    Key { name: "cpuManagerPolicyOptions", kind: Kind::Scalars, default: Some("{}"), about: "Options of the static policy, such as strict-cpu-reservation" },
    Key { name: "cgroupsPerQOS",        kind: Kind::Flag,    default: Some("true"), about: "Whether pods have cgroups of their own, by class of service" },
    Key { name: "cgroupDriver",         kind: Kind::Word(&["cgroupfs", "systemd"]), default: Some("cgroupfs"), about: "How cgroups are named" },
    Key { name: "cgroupRoot",           kind: Kind::Text,    default: Some("\"\""), about: "Cgroup above kubepods" },
    Key { name: "systemCgroups",        kind: Kind::Text,    default: Some("\"\""), about: "Cgroup for processes that are in none; needs cgroupRoot" },
    Key { name: "evictionHard",         kind: Kind::Scalars, default: Some("{memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, imagefs.available: 15%, imagefs.inodesFree: 5%}"), about: "Signals and amounts below which a pod is evicted at once; {} for none" },
    Key { name: "evictionSoft",         kind: Kind::Scalars, default: Some("{}"), about: "Signals and amounts below which a pod is evicted after a grace period" },
    Key { name: "evictionSoftGracePeriod", kind: Kind::Scalars, default: Some("{}"), about: "Grace period of each signal of evictionSoft" },
    Key { name: "evictionMinimumReclaim", kind: Kind::Scalars, default: Some("{}"), about: "What must be available above the threshold before it counts as left" },
    Key { name: "evictionPressureTransitionPeriod", kind: Kind::Duration, default: Some("5m"), about: "How long MemoryPressure and its like outlive their reason; 0s is taken for 5m" },
    Key { name: "evictionMaxPodGracePeriod", kind: I32,      default: Some("0"), about: "Seconds that a soft eviction gives a pod at most" },
    Key { name: "mergeDefaultEvictionSettings", kind: Kind::Flag, default: Some("false"), about: "Whether evictionHard keeps the defaults that it does not name" },
    Key { name: "podPidsLimit",         kind: Kind::Number(i64::MIN, i64::MAX), default: Some("-1"), about: "Processes and threads of a pod at most; negative for any number" },
    Key { name: "maxPods",              kind: I32,           default: Some("110"), about: "Pods on this node at most" },
    Key { name: "podsPerCore",          kind: I32,           default: Some("0"), about: "Pods for each CPU at most; 0 for any number" },
    Key { name: "memoryThrottlingFactor", kind: Kind::Decimal, default: Some("0.9"), about: "Checked as the kubelet does, and not used" },
    Key { name: "memoryReservationPolicy", kind: Kind::Text, default: Some("None"), about: "Checked as the kubelet does, and not used" },
    Key { name: "featureGates",         kind: Kind::Flags,   default: Some("{}"), about: "Only MemoryQoS is looked at, for memoryReservationPolicy" },
];
