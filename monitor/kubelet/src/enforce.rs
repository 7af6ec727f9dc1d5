//! The limits that the kubelet writes for pods and daemons.
//! In: settings, a capacity and reservations. Out: values of cgroup files.
//! Source: kubelet `pkg/kubelet/cm/node_container_manager_linux.go` and
//! `pkg/kubelet/cm/cgroup_manager_linux.go`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::allocatable::{CPU, HUGEPAGES, MEMORY, PID, Reservation, less};
use isobar_core::model::cgroup::Limit;
use isobar_core::model::names;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::quoted::quoted;
use isobar_core::model::settings::{Enforcement, Node, Settings};
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
    pub pods: Limits,
    /// `None` if not enforced.
    pub kube_reserved: Option<Limits>,
    /// `None` if not enforced.
    pub system_reserved: Option<Limits>,
}

impl Enforced {
    /// The limits that the kubelet writes on a node of `capacity`.
    ///
    /// kubepods is limited to the capacity less both reservations. The eviction threshold is part
    /// of it: pods must be able to reach the threshold, or it would never be met.
    pub fn of(node: &Node, capacity: &ResourceList, reservation: &Reservation) -> Self {
        let for_pods = match node.enforce.contains(&Enforcement::Pods) {
            true => less(capacity, &reservation.daemons()),
            false => capacity.clone(),
        };
        let limits = |daemons: Daemons| {
            let [full, compressible] =
                daemons.enforcements().map(|one| node.enforce.contains(&one));
            let list = daemons.reserved(reservation);
            match (full, compressible) {
                _ if list.is_empty() => None,
                (true, _) => Some(Limits::of_daemons(list, capacity)),
                (false, true) => Some(Limits::compressible(list)),
                (false, false) => None,
            }
        };
        Self {
            // Without cgroupsPerQOS there is no kubepods cgroup.
            pods: if node.cgroups_per_qos { Limits::of(&for_pods) } else { Limits::default() },
            kube_reserved: limits(Daemons::Kube),
            system_reserved: limits(Daemons::System),
        }
    }
}

/// `memory.max` that the kubelet gives kubepods with these settings, `max` where it sets no limit;
/// `None` if it does not start.
pub fn memory_of_pods(settings: &Settings, capacity: &ResourceList) -> Option<Limit> {
    let reservation = Reservation::of(settings, capacity);
    match reservation.refusal(capacity) {
        Some(_) => None,
        None => {
            let max = Enforced::of(&settings.node, capacity, &reservation).pods.memory_max;
            Some(max.map_or(Limit::Max, Limit::At))
        }
    }
}

/// The two kinds of daemons that resources can be reserved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Daemons {
    System,
    Kube,
}

impl Daemons {
    /// Enforcement of all limits, and of the CPU weight alone.
    fn enforcements(self) -> [Enforcement; 2] {
        match self {
            Self::System => [Enforcement::SystemReserved, Enforcement::SystemReservedCompressible],
            Self::Kube => [Enforcement::KubeReserved, Enforcement::KubeReservedCompressible],
        }
    }

    pub(crate) fn is_enforced(self, node: &Node) -> bool {
        self.enforcements().iter().any(|one| node.enforce.contains(one))
    }

    /// The cgroup's name in the configuration.
    pub(crate) fn cgroup(self, node: &Node) -> &str {
        match self {
            Self::System => &node.system_reserved_cgroup,
            Self::Kube => &node.kube_reserved_cgroup,
        }
    }

    fn reserved(self, reservation: &Reservation) -> &ResourceList {
        match self {
            Self::System => &reservation.system,
            Self::Kube => &reservation.kube,
        }
    }

    /// Why the kubelet fails at runtime, in its words: a limit without a reservation.
    pub(crate) fn problem(self, node: &Node, reservation: &Reservation) -> Option<String> {
        (self.is_enforced(node) && self.reserved(reservation).is_empty())
            .then(|| format!("{} cgroup is not configured properly", self.printed(node)))
    }

    /// The cgroup's internal name as Go prints a list: `["kube" "reserved"]`.
    pub(crate) fn printed(self, node: &Node) -> String {
        let components = names::components(node.cgroup_driver, self.cgroup(node));
        let quoted: Vec<_> = components.iter().map(|name| quoted(name)).collect();
        format!("[{}]", quoted.join(" "))
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
    pub fn files(&self) -> Vec<(String, u64)> {
        let Self { memory_max, cpu_weight, pids_max, hugetlb_max, .. } = self;
        let named =
            [("memory.max", memory_max), ("cpu.weight", cpu_weight), ("pids.max", pids_max)];
        let named = named.into_iter().filter_map(|(file, value)| Some((file.into(), (*value)?)));
        let huge = hugetlb_max.iter().map(|(size, value)| (format!("hugetlb.{size}.max"), *value));
        named.chain(huge).collect()
    }

    /// The CPU weight alone.
    fn compressible(list: &ResourceList) -> Self {
        let Self { cpu_shares, cpu_weight, .. } = Self::of(list);
        Self { cpu_shares, cpu_weight, ..Self::default() }
    }

    /// As [`Limits::of`], and no huge pages: they cannot be reserved, and the kubelet writes 0 for
    /// each page size that is not named.
    fn of_daemons(list: &ResourceList, capacity: &ResourceList) -> Self {
        let hugetlb_max = huge(capacity).map(|(size, _)| (size, 0)).collect();
        Self { hugetlb_max, ..Self::of(list) }
    }
}

/// What the kubelet writes as `hugetlb.<size>.max` of kubepods and the QoS slices with each change of a
/// pod, about once a minute; only at its start it writes the allocatable huge pages to kubepods.
/// Source: `pkg/kubelet/cm/qos_container_manager_linux.go`, `setHugePagesUnbounded`.
pub const HUGE_PAGES_OF_PODS: u64 = 1 << 62;

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

/// Why the kubelet fails at runtime, in its words.
pub fn problems(node: &Node, reservation: &Reservation) -> Vec<String> {
    let both = [Daemons::Kube, Daemons::System].into_iter();
    both.filter_map(|daemons| daemons.problem(node, reservation)).collect()
}

#[cfg(test)]
mod tests;
