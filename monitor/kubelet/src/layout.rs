//! Whether pods, Kubernetes' daemons and system daemons each run in their own cgroup, and within
//! their reservations.
//! In: what was found. Out: missing cgroups, processes outside, and daemons above their
//! reservation.
//! Source: Kubernetes documentation, "Reserve Compute Resources for System Daemons", recommends
//! the three cgroups; nothing enforces them.

use serde::Serialize;

use super::allocatable::{CPU, MEMORY, Reservation};
use super::drift::Live;
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::machine::Found;
use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_core::model::units::{Bytes, MilliCpu};

/// The node's cgroup layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Layout {
    pub cgroups: Vec<Group>,
    /// Processes in none of the three cgroups.
    pub outside: Outside,
    /// Daemons that use more than their reservation.
    pub outgrown: Vec<Outgrown>,
}

/// One of the three cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// `kubepods`, `kube-reserved` or `system-reserved`.
    pub name: &'static str,
    /// `None` if the configuration names none.
    pub path: Option<CgroupPath>,
    pub exists: bool,
}

/// Processes outside the three cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outside {
    /// Without kernel threads.
    pub processes: usize,
    /// They live in the root and cannot be moved.
    pub kernel_threads: usize,
    /// Resident memory; shared pages count once for each process.
    pub memory: Bytes,
    /// The process with the most resident memory.
    pub biggest: Option<Resident>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resident {
    /// `None` for a process without any, such as a zombie.
    pub memory: Option<Bytes>,
    pub pid: u32,
    pub name: String,
    pub cgroup: CgroupPath,
    #[serde(skip)]
    pub is_kernel: bool,
}

/// Daemons that use more than their reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outgrown {
    pub cgroup: CgroupPath,
    pub resource: &'static str,
    /// Memory: the working set. CPU: the use of the last second.
    pub used: Quantity,
    pub reserved: Quantity,
}

/// CPU use of the two reserved cgroups; `None` if not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    pub kube: Option<MilliCpu>,
    pub system: Option<MilliCpu>,
}

impl Layout {
    /// `processes` are all of the node.
    pub fn of(
        live: &Live,
        used: Use,
        reservation: &Reservation,
        processes: impl IntoIterator<Item = Resident>,
    ) -> Self {
        let (kube, system) = (live.kube_reserved.as_ref(), live.system_reserved.as_ref());
        let named =
            [("kubepods", Some(&live.pods)), ("kube-reserved", kube), ("system-reserved", system)];
        let groups = named.map(|(name, found)| Group {
            name,
            path: found.map(|found| found.path.clone()),
            exists: found.is_some_and(|found| found.exists),
        });
        let mut outgrown = Vec::new();
        outgrown.extend(kube.map(|found| over(found, used.kube, &reservation.kube)));
        outgrown.extend(system.map(|found| over(found, used.system, &reservation.system)));
        let outside = Outside::of(processes, &groups);
        let outgrown = outgrown.into_iter().flatten().collect();
        Self { cgroups: groups.into(), outside, outgrown }
    }
}

impl Outside {
    fn of(processes: impl IntoIterator<Item = Resident>, groups: &[Group]) -> Self {
        let mut outside = Self::default();
        let homes: Vec<_> = groups.iter().filter_map(|group| group.path.as_ref()).collect();
        for process in processes {
            if homes.iter().any(|home| process.cgroup.is_within(home)) {
                continue;
            }
            if process.is_kernel {
                outside.kernel_threads += 1;
                continue;
            }
            outside.processes += 1;
            let memory = process.memory.unwrap_or_default();
            outside.memory.0 = outside.memory.0.saturating_add(memory.0);
            // Of equals the lowest pid.
            if outside.biggest.as_ref().is_none_or(|biggest| biggest.memory < process.memory) {
                outside.biggest = Some(process);
            }
        }
        outside
    }
}

fn over(found: &Found, cpu: Option<MilliCpu>, reserved: &ResourceList) -> Vec<Outgrown> {
    let used = [
        (CPU, cpu.map(|cpu| Quantity::milli(cpu.0))),
        (MEMORY, found.working_set.map(|bytes| Quantity::bytes(bytes.0))),
    ];
    let over = |(resource, used): (&'static str, Option<Quantity>)| {
        let (used, reserved) = (used?, *reserved.get(resource)?);
        (used > reserved).then(|| Outgrown { cgroup: found.path.clone(), resource, used, reserved })
    };
    used.into_iter().filter_map(over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> CgroupPath {
        CgroupPath(path.into())
    }

    fn found(at: &str, exists: bool) -> Found {
        Found { path: path(at), exists, ..Found::default() }
    }

    fn process(pid: u32, cgroup: &str, memory: u64) -> Resident {
        let (name, cgroup) = (format!("p{pid}"), path(cgroup));
        let is_kernel = memory == 0;
        let memory = (memory > 0).then_some(Bytes(memory));
        Resident { memory, pid, name, cgroup, is_kernel }
    }

    fn live() -> Live {
        Live {
            pods: found("/kubepods", true),
            kube_reserved: Some(found("/kube", false)),
            system_reserved: Some(found("/system.slice", true)),
        }
    }

    #[test]
    fn layout_outside() {
        let processes = vec![
            process(1, "/init.scope", 10),
            process(2, "/", 0),
            process(3, "/", 0),
            process(4, "/kubepods/burstable/pod1/c", 500),
            process(5, "/system.slice/sshd.service", 500),
            process(6, "/user.slice", 70),
            process(7, "/system.slice-too", 70),
        ];
        let layout = Layout::of(&live(), Use::default(), &Reservation::default(), processes);
        let outside = layout.outside;
        assert_eq!((outside.processes, outside.kernel_threads), (3, 2));
        assert_eq!((outside.memory, outside.biggest.unwrap().pid), (Bytes(150), 6));
        let groups: Vec<_> = layout.cgroups.iter().map(|g| (g.name, g.exists)).collect();
        assert_eq!(
            groups,
            [("kubepods", true), ("kube-reserved", false), ("system-reserved", true)]
        );
    }

    #[test]
    fn layout_outgrown() {
        let amount = |text: &str| text.parse::<Quantity>().unwrap();
        let list = |cpu: &str, memory: &str| {
            ResourceList::from([("cpu".into(), amount(cpu)), ("memory".into(), amount(memory))])
        };
        let reservation = Reservation { system: list("500m", "1Gi"), ..Reservation::default() };
        #[rustfmt::skip]
        let table = [
            // row, working set, milli CPUs, what is outgrown
            ("within",     Some(1 << 30), Some(500), vec![]),
            ("memory",     Some((1 << 30) + 1), None, vec!["memory"]),
            ("both",       Some(2 << 30), Some(501), vec!["cpu", "memory"]),
            ("not known",  None,          None,      vec![]),
        ];
        for (row, memory, cpu, want) in table {
            let mut live = live();
            let system = Found { working_set: memory.map(Bytes), ..found("/system.slice", true) };
            live.system_reserved = Some(system);
            let used = Use { system: cpu.map(MilliCpu), kube: Some(MilliCpu(9_999)) };
            let layout = Layout::of(&live, used, &reservation, []);
            let got: Vec<_> = layout.outgrown.iter().map(|over| over.resource).collect();
            assert_eq!(got, want, "{row}");
        }
    }
}
