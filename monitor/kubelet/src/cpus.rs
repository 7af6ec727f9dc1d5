//! Which CPUs are reserved for daemons, and which the pods share.
//! In: settings and a topology. Out: sets, or why the kubelet would not start, in its words.
//! Source: kubelet `pkg/kubelet/cm/cpumanager/policy_static.go` and `cpu_assignment.go`.

use serde::Serialize;

use super::allocatable::{CPU, Reservation};
use super::checkpoint::Assignment;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::settings::{Node, Settings, WrittenLimit};
use isobar_core::model::topology::Topology;

mod take;

pub use take::take;

/// How CPUs are divided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// All online CPUs.
    pub online: CpuSet,
    /// For daemons: no container gets one exclusively.
    pub reserved: CpuSet,
    /// Where containers without exclusive CPUs start.
    pub default: CpuSet,
    /// No container runs on reserved CPUs.
    pub strict: bool,
}

impl Plan {
    /// The plan for `topology`.
    ///
    /// `reservedSystemCPUs` is taken as it is. Otherwise the reserved CPU time, rounded up, is
    /// taken as the kubelet allocates CPUs on a free machine: whole NUMA nodes and sockets first,
    /// then cores, then threads, lowest first.
    ///
    /// # Errors
    /// Why the kubelet would not start, in its words.
    pub fn of(settings: &Settings, topology: &Topology) -> Result<Self, String> {
        let node = &settings.node;
        let online = topology.all();
        if let Some(cpus) = &node.reserved_cpus
            && !cpus.0.is_subset(&online.0)
        {
            return Err(format!("reserved-cpus: {cpus} is not a subset of online-cpus: {online}"));
        }
        let reservation = reserved_time(settings);
        let n_online = u64::try_from(online.0.len()).unwrap_or(u64::MAX);
        let capacity = ResourceList::from([(CPU.into(), Quantity::count(n_online))]);
        if let Some(refusal) = Reservation::of(settings, &capacity).refusal(&capacity) {
            return Err(refusal);
        }
        if node.static_cpus && reservation == 0 {
            return Err("the static policy requires systemreserved.cpu + kubereserved.cpu to be \
                        greater than zero"
                .into());
        }
        let reserved = match &node.reserved_cpus {
            Some(cpus) => cpus.clone(),
            None => take(topology, usize::try_from(reservation.div_ceil(1_000)).unwrap_or(0)),
        };
        // An option of the static policy. Without that policy pods run everywhere.
        let strict = node.strict_cpu_reservation && node.static_cpus;
        let default = if strict { minus(&online, &reserved) } else { online.clone() };
        Ok(Self { online, reserved, default, strict })
    }

    /// The CPUs that the state file must contain.
    pub fn managed(&self) -> CpuSet {
        if self.strict { minus(&self.online, &self.reserved) } else { self.online.clone() }
    }
}

/// Reserved CPU time, in thousandths of a CPU.
fn reserved_time(settings: &Settings) -> u64 {
    let reservation = Reservation::of(settings, &ResourceList::new());
    reservation.daemons().get(CPU).map_or(0, |cpu| cpu.to_milli())
}

/// How many CPUs a strict reservation keeps from pods; `None` if the settings reserve no set of them.
pub fn n_reserved(settings: &Settings) -> Option<u64> {
    let node = &settings.node;
    if let Some(cpus) = &node.reserved_cpus {
        return u64::try_from(cpus.0.len()).ok();
    }
    let n = reserved_time(settings).div_ceil(1_000);
    ((is_strict(node) || node.strict_cpu_reservation) && n > 0).then_some(n)
}

/// Whether pods are kept from reserved CPUs: by the static policy of the kubelet, or by isobar.
pub fn is_strict(node: &Node) -> bool {
    node.strict_cpu_reservation && node.static_cpus
        || node.write_limits.contains(&WrittenLimit::ReservedCpus)
}

/// What the static policy leaves to whom, once containers have CPUs for themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// CPUs that the kubelet keeps for daemons.
    pub reserved: CpuSet,
    /// `None` if isobar could not read the state file.
    #[serde(flatten)]
    pub sets: Option<Sets>,
    /// Whose the exclusive CPUs are.
    pub assignments: Vec<Assignment>,
    /// Why the kubelet would not start with its state file, in its words, and it assigns nothing then;
    /// or why isobar could not read it.
    pub problems: Vec<String>,
}

/// The CPUs that are not for daemons alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sets {
    /// Of containers without exclusive CPUs.
    pub default: CpuSet,
    pub exclusive: CpuSet,
    /// Of the CPUs in `default`, those that are not reserved, in thousandths.
    pub shared_millicores: u64,
}

impl Sets {
    pub fn of(plan: &Plan, exclusive: CpuSet) -> Self {
        let default = minus(&plan.default, &exclusive);
        let shared_millicores = shared_pool_millicores(&default, &plan.reserved);
        Self { default, exclusive, shared_millicores }
    }
}

/// `cpu_manager_shared_pool_size_millicores`: CPUs of containers without exclusive ones, in
/// thousandths. Reserved CPUs never count, although such containers also run there unless the
/// reservation is strict.
pub fn shared_pool_millicores(default: &CpuSet, reserved: &CpuSet) -> u64 {
    u64::try_from(minus(default, reserved).0.len()).unwrap_or(u64::MAX).saturating_mul(1_000)
}

/// What an operator should know although the kubelet would start.
pub fn warnings(node: &Node, plan: &Plan, shared_millicores: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if !node.static_cpus && !plan.reserved.0.is_empty() {
        warnings.push(format!(
            "cpuManagerPolicy is none, so pods also run on the CPUs that the static policy would \
             reserve: {}",
            plan.reserved
        ));
    }
    let shared = shared_millicores / 1_000;
    if shared < u64::from(node.min_shared_cpus) {
        warnings.push(format!(
            "the shared pool has {shared} CPUs, and minSharedCPUs wants {}",
            node.min_shared_cpus
        ));
    }
    warnings
}

pub fn minus(one: &CpuSet, other: &CpuSet) -> CpuSet {
    CpuSet(one.0.difference(&other.0).copied().collect())
}

pub fn common(one: &CpuSet, other: &CpuSet) -> CpuSet {
    CpuSet(one.0.intersection(&other.0).copied().collect())
}

#[cfg(test)]
mod tests;
