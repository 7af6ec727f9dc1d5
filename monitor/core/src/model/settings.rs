//! The configuration as the policy sees it: validated, without open choices. The `config` module
//! builds it from files; the defaults apply without any file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::condition::{ConditionName, Measure, Resource};
use super::cpuset::CpuSet;
use super::decision::{Order, StepKind};
use super::is_default;
use super::pattern::PathPattern;
use super::pod::QosClass;
use super::quantity::ResourceList;
use super::threshold::{PressureThreshold, Signal, Threshold};
use super::units::{Bytes, Nanos, Percent};

/// The configuration as the policy sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SettingsInForce"))]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// Incremented by each reload.
    pub generation: u64,
    pub eviction: Eviction,
    /// KEP-4205's conditions.
    pub conditions: Conditions,
    /// The order of candidates.
    pub ranking: Ranking,
    pub relief: Relief,
    pub node: Node,
    /// Cgroups outside pods that may be ranked and evicted; the first matching rule counts.
    pub workloads: Vec<WorkloadRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRule {
    pub path: PathPattern,
    pub qos_class: QosClass,
    pub priority: i32,
    /// Requests; without one for memory, `memory.low` counts as the request.
    pub requests: ResourceList,
}

/// Eviction thresholds: the kubelet's and isobar's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Eviction {
    /// Hard thresholds, then soft ones, then allocatable ones.
    pub thresholds: Vec<Threshold>,
    /// Signals whose soft threshold has no grace period. It evicts at once and follows the hard one in
    /// `thresholds`, but the kubelet does not subtract it from the allocatable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub soft_at_once: Vec<Signal>,
    /// isobar's pressure thresholds.
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
            soft_at_once: Vec::new(),
            pressure: Vec::new(),
            transition_period: Nanos(300 * Nanos::SECOND.0),
            max_pod_grace: 0,
        }
    }
}

/// Settings of KEP-4205's conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ConditionConfig"))]
#[serde(default, rename_all = "camelCase")]
pub struct Conditions {
    /// Prefix of each condition's type, such as `isobar.example/`; empty for KEP-4205's names.
    pub prefix: String,
    /// The effect of the taints on a contended node.
    pub taint_effect: TaintEffect,
    /// By condition name. A condition without a rule is off.
    pub rules: BTreeMap<String, ConditionRule>,
    /// How long contention must last before the condition becomes True; KEP-4205 has 0.
    pub raise_after: Nanos,
    /// How long it must be over before the condition becomes False; KEP-4205 has 0.
    pub clear_after: Nanos,
    /// A condition without a measurement for longer than this becomes Unknown.
    pub stale_after: Nanos,
}

impl Default for Conditions {
    fn default() -> Self {
        let rule = |resource| {
            let (measure, threshold) = match resource {
                Resource::Cpu => (Measure::Contention, Percent(50_00)),
                Resource::Memory => (Measure::Shortage, Percent(10_00)),
                Resource::Disk => (Measure::RawFull, Percent(60_00)),
            };
            ConditionRule { measure, threshold }
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

/// The figure and the threshold of one condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConditionRule {
    /// The figure to compare.
    pub measure: Measure,
    /// At or above it the figure is high.
    pub threshold: Percent,
}

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TaintEffect {
    /// The scheduler places no new pods here.
    #[default]
    NoSchedule,
    /// The scheduler places new pods elsewhere if it can.
    PreferNoSchedule,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RankingConfig"))]
#[serde(default, rename_all = "camelCase")]
pub struct Ranking {
    pub order: Order,
    /// Pods that have this label with the value `true` are never evicted.
    pub opt_out_label: String,
    /// Pods of one owner that each use less than this form one candidate; 0 forms none.
    pub group_below: Bytes,
}

impl Default for Ranking {
    fn default() -> Self {
        Self {
            order: Order::Cause,
            opt_out_label: "isobar/never-evict".into(),
            group_below: Bytes(64 << 20),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ReliefConfig"))]
#[serde(default, rename_all = "camelCase")]
pub struct Relief {
    /// Steps that the actuator takes. All others are recorded only.
    pub enforce: BTreeSet<StepKind>,
    /// Steps that the engine may choose.
    pub steps: BTreeSet<StepKind>,
    /// How long a step may take to show an effect.
    pub deadlines: BTreeMap<StepKind, Nanos>,
    /// Most evictions and kills within the time that follows.
    pub budget: u32,
    /// The time in which the budget may be spent.
    pub budget_window: Nanos,
    /// Pause after a victim's memory is back.
    pub cool_down: Nanos,
    /// Waiting caused to others, per second. Below it no pod is evicted for pressure alone.
    pub harm_budget: Nanos,
    /// Whether a pod that the API server does not evict is deleted.
    #[serde(skip_serializing_if = "is_default")]
    pub deletion: Deletion,
    /// Further cgroups that the agent never touches. Always protected are the root, the agent's
    /// own cgroup and its ancestors, and both reserved cgroups.
    pub never_touch: Vec<PathPattern>,
}

impl Relief {
    /// `observing`, or `enforcing` with the steps that may be chosen and will be taken.
    pub fn mode(&self) -> String {
        let steps: Vec<&str> = self.enforce.intersection(&self.steps).map(|s| s.name()).collect();
        match (self.enforce.is_empty(), steps.is_empty()) {
            (true, _) => "observing".into(),
            (false, true) => {
                "enforcing nothing: relief.steps names no step of relief.enforce".into()
            }
            (false, false) => format!("enforcing {}", steps.join(", ")),
        }
    }
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
            deletion: Deletion::Never,
            never_touch: Vec::new(),
        }
    }
}

impl Relief {
    /// Whether this step may delete a pod.
    pub fn deletion_by(&self, step: StepKind) -> Deletion {
        if step == StepKind::Evict { self.deletion } else { Deletion::Never }
    }
}

/// When the step `evict` deletes the pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Deletion {
    #[default]
    Never,
    /// Where the API server has no eviction for this agent: it knows none, or does not allow it.
    NoEviction,
    /// The same, and where a disruption budget forbids the eviction.
    OverBudgets,
}

/// Reservations and their enforcement. The fields are the kubelet's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "NodeConfig"))]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    pub kube_reserved: ResourceList,
    pub system_reserved: ResourceList,
    /// Empty for none.
    pub kube_reserved_cgroup: String,
    /// Empty for none.
    pub system_reserved_cgroup: String,
    /// The kubelet's own; empty if it finds out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubelet_cgroups: String,
    /// Of processes that are in no other; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system_cgroups: String,
    /// `enforceNodeAllocatable`.
    pub enforce: BTreeSet<Enforcement>,
    /// `reservedSystemCPUs`.
    pub reserved_cpus: Option<CpuSet>,
    /// True if `cpuManagerPolicy` is `static`.
    pub static_cpus: bool,
    /// `strict-cpu-reservation` of `cpuManagerPolicyOptions`.
    pub strict_cpu_reservation: bool,
    /// isobar's own, from the archived KEP-4540: fewest CPUs in the shared pool.
    pub min_shared_cpus: u32,
    pub cgroup_driver: CgroupDriver,
    /// `cgroupRoot`; empty for the root.
    pub cgroup_root: String,
    pub cgroups_per_qos: bool,
    /// Negative for no limit.
    pub pod_pids_limit: i64,
    pub max_pods: u32,
    /// 0 for no limit.
    pub pods_per_core: u32,
    pub kubelet_root: String,
    /// A file with this node's pods; empty for none.
    pub pods_file: String,
    /// isobar's own: limits that the agent writes and keeps in force.
    pub write_limits: BTreeSet<WrittenLimit>,
}

impl Node {
    /// A configuration says what is reserved or enforced: limits can be compared with it.
    pub fn is_told(&self) -> bool {
        let Self { kube_reserved, system_reserved, reserved_cpus, enforce, .. } = self;
        let reserves = !kube_reserved.is_empty() || !system_reserved.is_empty();
        reserves || reserved_cpus.is_some() || *enforce != BTreeSet::from([Enforcement::Pods])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum WrittenLimit {
    /// The limits that `enforceNodeAllocatable` names.
    Allocatable,
    /// `cpuset.cpus` of kubepods and the QoS slices, without the reserved CPUs.
    ReservedCpus,
}

named!(WrittenLimit {
    Allocatable => "allocatable",
    ReservedCpus => "reservedCpus",
});

impl Default for Node {
    fn default() -> Self {
        Self {
            kube_reserved: ResourceList::new(),
            system_reserved: ResourceList::new(),
            kube_reserved_cgroup: String::new(),
            system_reserved_cgroup: String::new(),
            kubelet_cgroups: String::new(),
            system_cgroups: String::new(),
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

/// A value of `enforceNodeAllocatable`; the empty set is `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    Pods,
    /// All limits of the system daemons' cgroup.
    SystemReserved,
    /// Only the CPU weight of that cgroup.
    SystemReservedCompressible,
    KubeReserved,
    /// Only the CPU weight of that cgroup.
    KubeReservedCompressible,
}

/// How the kubelet spells cgroup names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// `/kubepods/burstable/pod..`.
    #[default]
    Cgroupfs,
    /// `/kubepods.slice/kubepods-burstable.slice/..`.
    Systemd,
}
