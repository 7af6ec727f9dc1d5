//! A node's allocatable: capacity less reservations.
//! In: settings and a capacity. Out: amounts by resource, or why the kubelet would not start, in
//! its words.
//! Source: kubelet `pkg/kubelet/cm/node_container_manager_linux.go` and
//! `pkg/kubelet/nodestatus/setters.go`.

use std::collections::BTreeMap;

use serde::Serialize;

use isobar_core::model::duration::GoDuration;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::settings::{Eviction, Node, Settings};
use isobar_core::model::threshold::{Amount, Signal, Threshold};

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
/// Bytes on the kubelet's file system.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub const PODS: &str = "pods";
/// Processes and threads: never part of a node's status.
pub const PID: &str = "pid";
/// Prefix; the page size follows: `hugepages-2Mi`.
pub const HUGEPAGES: &str = "hugepages-";

/// What is reserved on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    pub kube: ResourceList,
    pub system: ResourceList,
    /// Hard eviction thresholds.
    pub eviction: ResourceList,
}

impl Reservation {
    /// The reservations of `settings` on a node of `capacity`.
    ///
    /// `reservedSystemCPUs` replaces both reservations of CPU time. Of the hard thresholds the
    /// last on `memory.available` and the last on `nodefs.available` count.
    pub fn of(settings: &Settings, capacity: &ResourceList) -> Self {
        let Node { mut kube_reserved, mut system_reserved, reserved_cpus, .. } =
            settings.node.clone();
        if let Some(cpus) = reserved_cpus {
            kube_reserved.remove(CPU);
            let n = u64::try_from(cpus.0.len()).unwrap_or(u64::MAX);
            system_reserved.insert(CPU.into(), Quantity::count(n));
        }
        let known = signal_capacities(capacity);
        let mut eviction = ResourceList::new();
        let reserving =
            [(Signal::MemoryAvailable, MEMORY), (Signal::NodefsAvailable, EPHEMERAL_STORAGE)];
        for (signal, resource) in reserving {
            let Some(threshold) = hard(&settings.eviction, signal) else { continue };
            if let Amount::Quantity(amount) = resolve(signal, threshold.value, &known) {
                eviction.insert(resource.into(), amount);
            }
        }
        Self { kube: kube_reserved, system: system_reserved, eviction }
    }

    /// kube-reserved and system-reserved: what limits keep from pods.
    pub fn daemons(&self) -> ResourceList {
        sum(&self.system, &self.kube)
    }

    /// With the eviction thresholds: what the scheduler must not assign.
    pub fn total(&self) -> ResourceList {
        sum(&self.daemons(), &self.eviction)
    }

    /// Why the kubelet would not start, in its words. A resource of unknown capacity is not
    /// checked.
    pub fn refusal(&self, capacity: &ResourceList) -> Option<String> {
        let wrong: Vec<_> = self
            .total()
            .iter()
            .filter_map(|(name, reserved)| {
                let of = capacity.get(name).filter(|of| *of < reserved)?;
                Some(format!(
                    "Resource {name:?} has a reservation of {reserved} but capacity of {of}. \
                     Expected capacity >= reservation."
                ))
            })
            .collect();
        (!wrong.is_empty())
            .then(|| format!("invalid Node Allocatable configuration. {}", wrong.join(" ")))
    }

    /// `status.allocatable`.
    pub fn allocatable(&self, capacity: &ResourceList) -> ResourceList {
        let mut left = less(capacity, &self.total());
        // The kubelet uses pids for limits only.
        left.remove(PID);
        let huge = capacity.iter().filter(|(name, _)| name.starts_with(HUGEPAGES));
        if let Some(memory) = left.get_mut(MEMORY) {
            *memory = huge.fold(*memory, |left, (_, size)| left.minus(*size).at_least_zero());
        }
        left
    }
}

/// The last threshold of `evictionHard` on `signal`.
fn hard(eviction: &Eviction, signal: Signal) -> Option<&Threshold> {
    let mut all = eviction.thresholds.iter().filter(|one| one.signal == signal && one.is_hard());
    if eviction.soft_at_once.contains(&signal) {
        // A soft threshold comes after the hard ones.
        all.next_back();
    }
    all.next_back()
}

/// The difference per resource of `from`, at least 0.
pub fn less(from: &ResourceList, list: &ResourceList) -> ResourceList {
    let left = |(name, of): (&String, &Quantity)| {
        let taken = list.get(name).copied().unwrap_or(Quantity::ZERO);
        (name.clone(), of.minus(taken).at_least_zero())
    };
    from.iter().map(left).collect()
}

/// The sum per resource.
pub fn sum(one: &ResourceList, other: &ResourceList) -> ResourceList {
    let mut all = one.clone();
    for (name, amount) in other {
        let so_far = all.entry(name.clone()).or_default();
        *so_far = so_far.plus(*amount);
    }
    all
}

/// Capacities by signal, in bytes or processes.
pub fn signal_capacities(capacity: &ResourceList) -> BTreeMap<Signal, u64> {
    [
        (Signal::MemoryAvailable, MEMORY),
        (Signal::NodefsAvailable, EPHEMERAL_STORAGE),
        (Signal::PidAvailable, PID),
    ]
    .into_iter()
    .filter_map(|(signal, name)| Some((signal, capacity.get(name)?.to_u64())))
    .collect()
}

/// The hard thresholds by signal, as amounts where the capacity is known.
///
/// `allocatableMemory.available` is left out: the kubelet derives it from `memory.available`.
pub fn hard_thresholds(
    settings: &Settings,
    known: &BTreeMap<Signal, u64>,
) -> BTreeMap<&'static str, String> {
    let hard = settings.eviction.thresholds.iter().filter(|threshold| threshold.is_hard());
    hard.filter(|threshold| threshold.signal != Signal::AllocatableMemoryAvailable)
        .map(|t| (t.signal.name(), resolve(t.signal, t.value, known).to_string()))
        .collect()
}

/// The same of soft thresholds, which reserve nothing, each with its grace period.
pub fn soft_thresholds(
    settings: &Settings,
    known: &BTreeMap<Signal, u64>,
) -> BTreeMap<&'static str, (String, GoDuration)> {
    let soft = settings.eviction.thresholds.iter().filter(|threshold| !threshold.is_hard());
    let told = |t: &Threshold| {
        let grace = GoDuration(i64::try_from(t.grace.0).unwrap_or(i64::MAX));
        (t.signal.name(), (resolve(t.signal, t.value, known).to_string(), grace))
    };
    soft.map(told).collect()
}

fn resolve(signal: Signal, value: Amount, known: &BTreeMap<Signal, u64>) -> Amount {
    match (value, known.get(&signal)) {
        (Amount::Percentage(share), Some(capacity)) => {
            Amount::Quantity(Quantity::bytes(share.of(*capacity)))
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests;
