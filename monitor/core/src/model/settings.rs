//! What the policy is told by configuration: validated, with no choice left open.
//! `config` makes it out of files; its defaults are those of an agent without any.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::condition::{ConditionName, Measure, Resource, ScopeName};
use super::cpuset::CpuSet;
use super::decision::{Order, StepKind};
use super::pattern::PathPattern;
use super::pod::QosClass;
use super::quantity::ResourceList;
use super::threshold::{PressureSignal, PressureThreshold, Threshold};
use super::units::{Bytes, Nanos, Percent};

/// Everything that the policy may depend on beside what it measures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// Raised by each reload.
    pub generation: u64,
    /// When to evict.
    pub eviction: Eviction,
    /// When the node is called contended.
    pub conditions: Conditions,
    /// Who goes first.
    pub ranking: Ranking,
    /// How the node is relieved.
    pub relief: Relief,
    /// What is set aside on this node, and how it is enforced.
    pub node: Node,
    /// Cgroups that are no pods and may be chosen all the same; the first rule that fits counts.
    pub workloads: Vec<WorkloadRule>,
}

/// What a cgroup outside pods counts as: a service, a slice, or a cgroup of somebody's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRule {
    /// Which cgroups, by path.
    pub path: PathPattern,
    /// As which class of service they count.
    pub qos_class: QosClass,
    /// As which priority.
    pub priority: i32,
    /// What they ask for; where nothing is given, `memory.low` is what they ask for of memory.
    pub requests: ResourceList,
}

/// When to evict, as the kubelet has it, and by pressure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Eviction {
    /// Hard ones, soft ones, then those of the allocatable.
    pub thresholds: Vec<Threshold>,
    /// Thresholds of ours.
    pub pressure: Vec<PressureThreshold>,
    /// `evictionPressureTransitionPeriod`.
    pub transition_period: Nanos,
    /// `evictionMaxPodGracePeriod`, in seconds.
    pub max_pod_grace: i32,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            thresholds: Vec::new(),
            pressure: Vec::new(),
            transition_period: Nanos(300 * Nanos::SECOND.0),
            max_pod_grace: 0,
        }
    }
}

/// The pressure thresholds of a configuration that names none: memory, for the node and for its
/// pods. Work that has waited for memory for most of twenty seconds waits in vain, and memory that
/// ends within ten seconds ends before a gentler step can help. CPU, disk and refaults have none:
/// what is a fault there, only whoever runs the node can say.
#[must_use]
pub fn usual_pressure_thresholds() -> Vec<PressureThreshold> {
    let seconds = |n: u64| Nanos(n * Nanos::SECOND.0);
    let both = [ScopeName::System, ScopeName::Kubepods];
    let of = |scope| {
        let shortage = PressureSignal::Memory(Percent(60_00));
        let exhaustion = PressureSignal::Exhaustion(seconds(10));
        [
            PressureThreshold { scope, on: shortage, grace: seconds(20) },
            PressureThreshold { scope, on: exhaustion, grace: seconds(2) },
        ]
    };
    both.into_iter().flat_map(of).collect()
}

/// When the node is called contended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Conditions {
    /// Put before each condition's type, such as `isobar.example/`; empty for KEP-4205's names.
    pub prefix: String,
    /// How pods are kept away from a contended node.
    pub taint_effect: TaintEffect,
    /// What each condition is judged on. One that is missing is not judged.
    pub rules: BTreeMap<String, ConditionRule>,
    /// How long a condition's reason must last before it is set; 0 is KEP-4205's.
    pub raise_after: Nanos,
    /// How long its end must last before it is cleared; 0 is KEP-4205's.
    pub clear_after: Nanos,
    /// How long a condition outlives its last measurement before it is Unknown.
    pub stale_after: Nanos,
}

impl Default for Conditions {
    fn default() -> Self {
        let rule = |resource| match resource {
            Resource::Cpu => {
                ConditionRule { measure: Measure::Contention, threshold: Percent(50_00) }
            }
            Resource::Memory => {
                ConditionRule { measure: Measure::Shortage, threshold: Percent(10_00) }
            }
            Resource::Disk => {
                ConditionRule { measure: Measure::RawFull, threshold: Percent(60_00) }
            }
        };
        let all = ConditionName::ALL.into_iter();
        Self {
            prefix: String::new(),
            taint_effect: TaintEffect::NoSchedule,
            rules: all.map(|name| (name.name().into(), rule(name.resource))).collect(),
            raise_after: Nanos(0),
            clear_after: Nanos(0),
            stale_after: Nanos(30 * Nanos::SECOND.0),
        }
    }
}

/// What one condition is judged on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionRule {
    /// Which figure.
    pub measure: Measure,
    /// At or above which it is high.
    pub threshold: Percent,
}

/// A taint's effect.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum TaintEffect {
    /// New pods stay away.
    #[default]
    NoSchedule,
    /// New pods stay away if they can.
    PreferNoSchedule,
}

/// Who goes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ranking {
    /// By which keys.
    pub order: Order,
    /// Pods with this label set to `true` are never evicted.
    pub opt_out_label: String,
    /// Pods of one owner that each use less than this are one candidate together; 0 for never.
    pub group_below: Bytes,
}

impl Default for Ranking {
    fn default() -> Self {
        Self {
            order: Order::Qos,
            opt_out_label: "isobar/never-evict".into(),
            group_below: Bytes(64 << 20),
        }
    }
}

/// How the node is relieved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Relief {
    /// Steps that are really taken; all others are only recorded.
    pub enforce: BTreeSet<StepKind>,
    /// Steps that may be chosen.
    pub steps: BTreeSet<StepKind>,
    /// How long each step has to show an effect.
    pub deadlines: BTreeMap<StepKind, Nanos>,
    /// Evictions and kills within [`Relief::budget_window`], at most.
    pub budget: u32,
    /// See [`Relief::budget`].
    pub budget_window: Nanos,
    /// How long nothing is done after a victim's memory is back.
    pub cool_down: Nanos,
    /// Harm to others, per second, below which nobody is evicted for pressure alone.
    pub harm_budget: Nanos,
    /// Cgroups that nothing is ever done to, beside those that nobody can take off this list: the
    /// root, the agent's own and those above it, the system's and Kubernetes' reserved ones.
    pub never_touch: Vec<PathPattern>,
}

impl Default for Relief {
    fn default() -> Self {
        let seconds = |n: u64| Nanos(n * Nanos::SECOND.0);
        Self {
            enforce: BTreeSet::new(),
            steps: StepKind::ALL.into_iter().collect(),
            deadlines: StepKind::ALL
                .into_iter()
                .map(|step| (step, seconds(step.usual_deadline_seconds())))
                .collect(),
            budget: 5,
            budget_window: seconds(600),
            cool_down: seconds(10),
            harm_budget: Nanos(50_000_000),
            never_touch: Vec::new(),
        }
    }
}

/// What is set aside on this node, and how it is enforced. Fields are the kubelet's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    /// `kubeReserved`.
    pub kube_reserved: ResourceList,
    /// `systemReserved`.
    pub system_reserved: ResourceList,
    /// `kubeReservedCgroup`; empty for none.
    pub kube_reserved_cgroup: String,
    /// `systemReservedCgroup`; empty for none.
    pub system_reserved_cgroup: String,
    /// `enforceNodeAllocatable`.
    pub enforce: BTreeSet<Enforcement>,
    /// `reservedSystemCPUs`; `None` if not given.
    pub reserved_cpus: Option<CpuSet>,
    /// `cpuManagerPolicy` is `static`.
    pub static_cpus: bool,
    /// `cpuManagerPolicyOptions`: `strict-cpu-reservation`.
    pub strict_cpu_reservation: bool,
    /// Ours, after the archived form of KEP-4540: the shared pool must keep so many CPUs.
    pub min_shared_cpus: u32,
    /// `cgroupDriver`.
    pub cgroup_driver: CgroupDriver,
    /// `cgroupRoot`; empty for the root.
    pub cgroup_root: String,
    /// `cgroupsPerQOS`.
    pub cgroups_per_qos: bool,
    /// `podPidsLimit`; negative for none.
    pub pod_pids_limit: i64,
    /// `maxPods`.
    pub max_pods: u32,
    /// `podsPerCore`; 0 for none.
    pub pods_per_core: u32,
    /// Where the kubelet keeps its files.
    pub kubelet_root: String,
    /// `pods`: a file with the pods of this node; empty for none.
    pub pods_file: String,
    /// Ours: limits that the agent writes, and keeps written.
    pub write_limits: BTreeSet<WrittenLimit>,
}

/// Limits of the node that the agent may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WrittenLimit {
    /// Those that `enforceNodeAllocatable` names.
    Allocatable,
    /// `cpuset.cpus` of kubepods and its slices, without the reserved CPUs.
    ReservedCpus,
}

impl WrittenLimit {
    /// As configurations name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocatable => "allocatable",
            Self::ReservedCpus => "reservedCpus",
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self {
            kube_reserved: ResourceList::new(),
            system_reserved: ResourceList::new(),
            kube_reserved_cgroup: String::new(),
            system_reserved_cgroup: String::new(),
            enforce: BTreeSet::from([Enforcement::Pods]),
            reserved_cpus: None,
            static_cpus: false,
            strict_cpu_reservation: false,
            min_shared_cpus: 0,
            cgroup_driver: CgroupDriver::Cgroupfs,
            cgroup_root: String::new(),
            cgroups_per_qos: true,
            pod_pids_limit: -1,
            max_pods: 110,
            pods_per_core: 0,
            kubelet_root: "/var/lib/kubelet".into(),
            pods_file: String::new(),
            write_limits: BTreeSet::new(),
        }
    }
}

/// One value of `enforceNodeAllocatable`; the empty set is `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// Limits of kubepods.
    Pods,
    /// Limits of the cgroup for system daemons.
    SystemReserved,
    /// Its CPU weight alone.
    SystemReservedCompressible,
    /// Limits of the cgroup for Kubernetes daemons.
    KubeReserved,
    /// Its CPU weight alone.
    KubeReservedCompressible,
}

/// How the kubelet spells cgroups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// `/kubepods/burstable/pod..`.
    #[default]
    Cgroupfs,
    /// `/kubepods.slice/kubepods-burstable.slice/..`.
    Systemd,
}
