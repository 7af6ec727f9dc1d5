//! Which limits the kubelet writes so that pods and daemons keep to what is theirs.
//! In: settings, a capacity and what is set aside of it. Out: the values of cgroup files.
//! Source: kubelet `pkg/kubelet/cm/node_container_manager_linux.go` and
//! `pkg/kubelet/cm/cgroup_manager_linux.go`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::allocatable::{CPU, HUGEPAGES, MEMORY, PID, Reservation, less};
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::settings::{Enforcement, Node};
use isobar_core::model::shares;

/// The limits of one cgroup; `None` is not written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    pub memory_max: Option<u64>,
    /// CPU shares.
    pub cpu_shares: Option<u64>,
    /// `cpu.weight`, computed from the shares.
    pub cpu_weight: Option<u64>,
    pub pids_max: Option<u64>,
    /// `hugetlb.<size>.max` by the kernel's name of the page size: `2MB`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hugetlb_max: BTreeMap<String, u64>,
}

/// The enforced limits by level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Enforced {
    /// kubepods.
    pub pods: Limits,
    /// `None` if not enforced.
    pub kube_reserved: Option<Limits>,
    /// `None` if not enforced.
    pub system_reserved: Option<Limits>,
}

impl Enforced {
    /// What the kubelet writes on a node of `capacity`.
    ///
    /// Pods may use what no daemon has set aside, the eviction threshold included: it must be
    /// reached before anybody is evicted. Without `pods` among what is enforced they may use all.
    #[must_use]
    pub fn of(node: &Node, capacity: &ResourceList, reservation: &Reservation) -> Self {
        let has = |enforcement| node.enforce.contains(&enforcement);
        let for_pods = match has(Enforcement::Pods) {
            true => less(capacity, &reservation.daemons()),
            false => capacity.clone(),
        };
        let daemons = |list, full, compressible| match (has(full), has(compressible)) {
            (true, _) => Limits::of_daemons(list, capacity),
            (false, true) => Limits::compressible(list),
            (false, false) => None,
        };
        Self {
            // Without a cgroup of all pods there is nothing to write to.
            pods: if node.cgroups_per_qos { Limits::of(&for_pods) } else { Limits::default() },
            kube_reserved: daemons(
                &reservation.kube,
                Enforcement::KubeReserved,
                Enforcement::KubeReservedCompressible,
            ),
            system_reserved: daemons(
                &reservation.system,
                Enforcement::SystemReserved,
                Enforcement::SystemReservedCompressible,
            ),
        }
    }
}

impl Limits {
    /// All limits of `list`. CPU time becomes a weight, never a quota.
    fn of(list: &ResourceList) -> Self {
        let value = |name| list.get(name).map(|amount| amount.to_u64());
        let cpu = list.get(CPU).map(|cpu| shares::shares(cpu.to_milli()));
        Self {
            memory_max: value(MEMORY),
            cpu_shares: cpu,
            cpu_weight: cpu.map(shares::weight),
            pids_max: value(PID),
            hugetlb_max: huge(list).collect(),
        }
    }

    /// File names and values.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        let Self { memory_max, cpu_weight, pids_max, hugetlb_max, .. } = self;
        let named =
            [("memory.max", memory_max), ("cpu.weight", cpu_weight), ("pids.max", pids_max)];
        let named = named.into_iter().filter_map(|(file, value)| Some((file.into(), (*value)?)));
        let huge = hugetlb_max.iter().map(|(size, value)| (format!("hugetlb.{size}.max"), *value));
        named.chain(huge).collect()
    }

    /// CPU weight alone; `None` if nothing is reserved, which the kubelet refuses.
    #[must_use]
    pub fn compressible(list: &ResourceList) -> Option<Self> {
        let full = Self::of(list);
        let Self { cpu_shares, cpu_weight, .. } = full;
        (!list.is_empty()).then(|| Self { cpu_shares, cpu_weight, ..Self::default() })
    }

    /// As [`Limits::of`], and no huge pages at all: none can be set aside, and a size that is not
    /// named is limited to nothing.
    #[must_use]
    pub fn of_daemons(list: &ResourceList, capacity: &ResourceList) -> Option<Self> {
        let hugetlb_max = huge(capacity).map(|(size, _)| (size, 0)).collect();
        (!list.is_empty()).then(|| Self { hugetlb_max, ..Self::of(list) })
    }
}

/// Huge pages in `list`: the kernel's name of the page size, and bytes.
fn huge(list: &ResourceList) -> impl Iterator<Item = (String, u64)> {
    list.iter().filter_map(|(name, amount)| {
        let size = name.strip_prefix(HUGEPAGES)?.parse().ok()?;
        Some((huge_size(size), amount.to_u64()))
    })
}

/// The kernel's name of a huge page size: `mem_fmt`, mm/hugetlb_cgroup.c.
fn huge_size(size: Quantity) -> String {
    match size.to_u64() {
        size if size >= 1 << 30 => format!("{}GB", size >> 30),
        size if size >= 1 << 20 => format!("{}MB", size >> 20),
        size => format!("{}KB", size >> 10),
    }
}

/// What the kubelet would not put up with at runtime: a cgroup to be limited, and nothing that is
/// set aside for it.
#[must_use]
pub fn problems(node: &Node, reservation: &Reservation) -> Vec<String> {
    use Enforcement::{
        KubeReserved, KubeReservedCompressible, SystemReserved, SystemReservedCompressible,
    };
    [
        (&reservation.kube, &node.kube_reserved_cgroup, [KubeReserved, KubeReservedCompressible]),
        (
            &reservation.system,
            &node.system_reserved_cgroup,
            [SystemReserved, SystemReservedCompressible],
        ),
    ]
    .into_iter()
    .filter(|(list, _, on)| list.is_empty() && on.iter().any(|on| node.enforce.contains(on)))
    .map(|(_, name, _)| format!("{name:?} cgroup is not configured properly"))
    .collect()
}

#[cfg(test)]
mod tests;
