//! The kubelet's own fields, by its own names. Source: `KubeletConfiguration`,
//! kubelet.config.k8s.io/v1beta1.

use super::Kind::{self, Decimal, Duration, Flag, Flags, Number, Scalars, Text, Texts, Word};
use super::{Key, key};

const I32: Kind = Number(i32::MIN as i64, i32::MAX as i64);

#[rustfmt::skip]
pub(in crate::config) const KUBELET: &[Key] = &[
    key("kubeReserved", Scalars, Some("{}"), "Reserved for Kubernetes daemons: cpu, memory, ephemeral-storage, pid"),
    key("systemReserved", Scalars, Some("{}"), "Reserved for system daemons: cpu, memory, ephemeral-storage, pid"),
    key("kubeReservedCgroup", Text, Some("\"\""), "Cgroup of the Kubernetes daemons"),
    key("systemReservedCgroup", Text, Some("\"\""), "Cgroup of the system daemons"),
    key("enforceNodeAllocatable", Texts, Some("[pods]"), "Cgroups whose limits are enforced: pods, system-reserved, kube-reserved, system-reserved-compressible, kube-reserved-compressible; or none"),
    key("reservedSystemCPUs", Text, Some("\"\""), "CPUs reserved for daemons, such as 0-1,8; replaces cpu in kubeReserved and systemReserved"),
    key("cpuManagerPolicy", Word(&["none", "static"]), Some("none"), "How CPUs are assigned to containers"),
    key("cpuManagerPolicyOptions", Scalars, Some("{}"), "Options of the static policy, such as strict-cpu-reservation"),
    key("cgroupsPerQOS", Flag, Some("true"), "Whether pods have cgroups below one cgroup per QoS class"),
    key("cgroupDriver", Word(&["cgroupfs", "systemd"]), Some("cgroupfs"), "How cgroups are named: cgroupfs or systemd"),
    key("cgroupRoot", Text, Some("\"\""), "Parent cgroup of kubepods"),
    key("kubeletCgroups", Text, Some("\"\""), "The kubelet's own cgroup; empty: found by the names of units"),
    key("systemCgroups", Text, Some("\"\""), "Cgroup for processes that are in no other; requires cgroupRoot"),
    key("evictionHard", Scalars, Some("{memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, imagefs.available: 15%, imagefs.inodesFree: 5%}"), "Amount of each signal below which a pod is evicted immediately; {} disables hard eviction"),
    key("evictionSoft", Scalars, Some("{}"), "Amount of each signal below which a pod is evicted after a grace period"),
    key("evictionSoftGracePeriod", Scalars, Some("{}"), "Grace period of each signal of evictionSoft"),
    key("evictionMinimumReclaim", Scalars, Some("{}"), "Amount above the threshold that must be available before eviction stops"),
    key("evictionPressureTransitionPeriod", Duration, Some("5m"), "How long conditions such as MemoryPressure stay True after their threshold is no longer met; 0s means 5m"),
    key("evictionMaxPodGracePeriod", I32, Some("0"), "Maximum grace period of a soft eviction, in seconds"),
    key("mergeDefaultEvictionSettings", Flag, Some("false"), "Whether defaults apply to signals that evictionHard does not name"),
    key("podPidsLimit", Number(i64::MIN, i64::MAX), Some("-1"), "Maximum number of processes and threads of a pod; negative for no limit"),
    key("maxPods", I32, Some("110"), "Maximum number of pods on this node"),
    key("podsPerCore", I32, Some("0"), "Maximum number of pods per CPU; 0 for no limit"),
    key("memoryThrottlingFactor", Decimal, Some("0.9"), "Validated as the kubelet does; otherwise unused"),
    key("memoryReservationPolicy", Text, Some("None"), "Validated as the kubelet does; otherwise unused"),
    key("featureGates", Flags, Some("{}"), "Feature gates; only MemoryQoS and AllAlpha are used, to validate memoryReservationPolicy"),
];
