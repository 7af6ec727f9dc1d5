//! A machine's capacity as the kubelet counts it.
//! Source: kubelet `pkg/kubelet/cm/container_manager_linux.go` and `pkg/kubelet/nodestatus`.

use super::allocatable::{CPU, EPHEMERAL_STORAGE, HUGEPAGES, MEMORY, PID, PODS};
use isobar_core::model::machine::Machine;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::settings::Node;

/// A resource that could not be read is missing.
pub fn capacity(machine: &Machine, node: &Node) -> ResourceList {
    let mut list = ResourceList::new();
    let n_cpus = u64::try_from(machine.cpus.cpus.len()).unwrap_or(u64::MAX);
    if n_cpus > 0 {
        list.insert(CPU.into(), Quantity::count(n_cpus));
        list.insert(PODS.into(), Quantity::count(n_pods(node, n_cpus)));
    }
    let mut add = |name: &str, amount: Option<Quantity>| {
        list.extend(amount.map(|amount| (name.to_owned(), amount)));
    };
    add(MEMORY, machine.memory.map(|bytes| Quantity::bytes(bytes.0)));
    add(EPHEMERAL_STORAGE, machine.nodefs.map(|nodefs| Quantity::bytes(nodefs.capacity.0)));
    add(PID, machine.max_threads.map(Quantity::count));
    for (size, bytes) in &machine.huge_pages {
        add(&format!("{HUGEPAGES}{}", Quantity::bytes(size.0)), Some(Quantity::bytes(bytes.0)));
    }
    list
}

/// `maxPods`, limited by `podsPerCore`.
fn n_pods(node: &Node, n_cpus: u64) -> u64 {
    let max = u64::from(node.max_pods);
    match u64::from(node.pods_per_core) {
        0 => max,
        per_core => max.min(per_core.saturating_mul(n_cpus)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::cpuset::CpuSet;
    use isobar_core::model::node::Filesystem;
    use isobar_core::model::topology::Topology;
    use isobar_core::model::units::Bytes;

    #[test]
    fn capacity_of_a_machine() {
        let cpus: CpuSet = "0-3".parse().unwrap();
        let machine = Machine {
            cpus: Topology::flat(&cpus),
            memory: Some(Bytes(8 << 30)),
            huge_pages: [(Bytes(2 << 20), Bytes(64 << 20)), (Bytes(1 << 30), Bytes(0))].into(),
            nodefs: Some(Filesystem { capacity: Bytes(100 << 30), ..Filesystem::default() }),
            max_threads: Some(32_768),
            ..Machine::default()
        };
        let printed = |node: &Node| {
            let list = capacity(&machine, node);
            list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>()
        };
        let want = [
            "cpu=4",
            "ephemeral-storage=100Gi",
            "hugepages-1Gi=0",
            "hugepages-2Mi=64Mi",
            "memory=8Gi",
            "pid=32768",
            "pods=110",
        ];
        assert_eq!(printed(&Node::default()), want);
        for (per_core, want) in [(10, "pods=40"), (100, "pods=110")] {
            let node = Node { pods_per_core: per_core, ..Node::default() };
            assert_eq!(printed(&node).last().unwrap(), want);
        }
        assert_eq!(capacity(&Machine::default(), &Node::default()), ResourceList::new());
    }
}
