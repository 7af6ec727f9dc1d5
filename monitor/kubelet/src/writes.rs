//! Which values to write to which cgroup files, so that pods and daemons keep to their shares.
//! In: settings, and the machine as found. Out: the writes, and what is refused and why.
//! Source: kubelet `pkg/kubelet/cm/node_container_manager_linux.go`, which does not start where a
//! level is refused here; for CPUs KEP-4540 (the kubelet reserves CPUs from containers only).

use std::collections::BTreeSet;

use super::allocatable::{CPU, MEMORY, PID, Reservation};
use super::cpus::{self, Plan};
use super::drift::Live;
use super::enforce::{Daemons, Enforced, HUGE_PAGES_OF_PODS, Limits};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::limit::LimitWrite;
use isobar_core::model::names;
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::settings::{Node, Settings, WrittenLimit};
use isobar_core::model::topology::Topology;

/// The machine to write to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ground {
    pub capacity: ResourceList,
    pub live: Live,
    /// Controllers of the root cgroup: the kubelet looks no further.
    pub offered: BTreeSet<String>,
    pub topology: Topology,
    /// Exclusive CPUs, from the CPU manager's state; `None` if that cannot be read or is refused.
    pub exclusive: Option<CpuSet>,
}

/// The plan: what to write, and what is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writes {
    /// In the order of writing.
    pub writes: Vec<LimitWrite>,
    /// Levels that are not written.
    pub refused: Vec<Refusal>,
    /// What does harm where it still stands, and is to be taken back.
    pub withdrawn: BTreeSet<WrittenLimit>,
}

/// A level that is not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `kubepods`, `kube-reserved`, `reserved CPUs`, ...
    pub level: &'static str,
    /// Where the kubelet would not start either, in its words.
    pub why: String,
    pub remedy: String,
}

impl Refusal {
    fn new(level: &'static str, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level, why: why.into(), remedy: remedy.into() }
    }
}

/// The writes for `what`. The settings must spell cgroups as `ground` was found:
/// [`names::as_spelled`].
pub fn writes(settings: &Settings, what: &BTreeSet<WrittenLimit>, ground: &Ground) -> Writes {
    let mut all = Writes::default();
    for one in what {
        let done = match one {
            WrittenLimit::Allocatable => all.allocatable(settings, ground),
            WrittenLimit::ReservedCpus => all.reserved_cpus(settings, ground),
        };
        all.refused.extend(done.err());
    }
    all
}

impl Writes {
    fn allocatable(&mut self, settings: &Settings, ground: &Ground) -> Result<(), Refusal> {
        let (node, capacity) = (&settings.node, &ground.capacity);
        let reservation = Reservation::of(settings, capacity);
        if let Some(why) = reservation.refusal(capacity) {
            return Err(Refusal::new("allocatable", why, "reserve less of it"));
        }
        let mut needed = vec![CPU, MEMORY, PID];
        needed.retain(|name| !capacity.contains_key(*name));
        if !needed.is_empty() {
            let why = format!("the capacity of {} is not known", needed.join(", "));
            let remedy = "allow the agent to read /proc and /sys of the host";
            return Err(Refusal::new("allocatable", why, remedy));
        }
        let enforced = Enforced::of(node, capacity, &reservation);
        match node.cgroups_per_qos {
            true => {
                // The kubelet's own next write: another value would be overwritten for ever.
                let huge = enforced.pods.hugetlb_max.keys().cloned();
                let hugetlb_max = huge.map(|size| (size, HUGE_PAGES_OF_PODS)).collect();
                let limits = Limits { hugetlb_max, ..enforced.pods.clone() };
                self.files(&ground.live.pods.path, &limits, ground);
            }
            false => self.refused.push(Refusal::new(
                "kubepods",
                "without cgroupsPerQOS there is no cgroup of all pods",
                "set cgroupsPerQOS, or leave allocatable out of writeLimits",
            )),
        }
        for daemons in [Daemons::System, Daemons::Kube] {
            match limits(daemons, node, ground, &reservation, &enforced) {
                Ok(Some((cgroup, limits))) => self.files(cgroup, limits, ground),
                Ok(None) => {}
                Err(refusal) => self.refused.push(refusal),
            }
        }
        Ok(())
    }

    fn files(&mut self, cgroup: &CgroupPath, limits: &Limits, ground: &Ground) {
        let written = files(limits, ground).map(|(file, value)| LimitWrite {
            what: WrittenLimit::Allocatable,
            cgroup: cgroup.clone(),
            file,
            value: value.to_string(),
        });
        self.writes.extend(written);
    }

    fn reserved_cpus(&mut self, settings: &Settings, ground: &Ground) -> Result<(), Refusal> {
        const LEVEL: &str = "reserved CPUs";
        let plan = Plan::of(settings, &ground.topology).map_err(|why| {
            Refusal::new(LEVEL, why, "reserve online CPUs only, and leave some to pods")
        })?;
        if plan.reserved.0.is_empty() {
            let why = "no CPU is reserved";
            let remedy = "set reservedSystemCPUs, or leave reservedCpus out of writeLimits";
            return Err(Refusal::new(LEVEL, why, remedy));
        }
        let pods = cpus::minus(&plan.online, &plan.reserved);
        if pods.0.is_empty() {
            let why = format!("all CPUs are reserved: {}; none is left for pods", plan.reserved);
            return Err(Refusal::new(LEVEL, why, "reserve fewer CPUs"));
        }
        let node = &settings.node;
        let Some(exclusive) = &ground.exclusive else {
            self.cpus(names::kubepods(node), &pods);
            let why = "which CPUs are exclusive to containers is not known: the CPU manager's state \
                       cannot be read, or is refused";
            let remedy = "see `isobar cpus`";
            return Err(Refusal::new("reserved CPUs of the QoS slices", why, remedy));
        };
        // Pods with exclusive CPUs are Guaranteed, so they are in neither QoS slice.
        let shared = cpus::minus(&pods, exclusive);
        if shared.0.is_empty() {
            // Pods of the slices would stay on CPUs that are exclusive now, and go nowhere else.
            self.withdrawn.insert(WrittenLimit::ReservedCpus);
            let why =
                format!("all CPUs that are not reserved are exclusive to containers: {exclusive}");
            return Err(Refusal::new(LEVEL, why, "leave some CPUs to the shared pool"));
        }
        self.cpus(names::kubepods(node), &pods);
        for class in [names::BURSTABLE, names::BEST_EFFORT] {
            self.cpus(names::of_class(node, class), &shared);
        }
        Ok(())
    }

    fn cpus(&mut self, cgroup: CgroupPath, cpus: &CpuSet) {
        self.writes.push(LimitWrite {
            what: WrittenLimit::ReservedCpus,
            cgroup,
            file: "cpuset.cpus".into(),
            value: cpus.to_string(),
        });
    }
}

/// The files of `limits`; huge pages only if the root has the controller, as the kubelet does.
fn files(limits: &Limits, ground: &Ground) -> impl Iterator<Item = (String, u64)> {
    let has_huge_pages = ground.offered.contains("hugetlb");
    let files = limits.files().into_iter();
    files.filter(move |(file, _)| has_huge_pages || !file.starts_with("hugetlb."))
}

/// What a cgroup of daemons must have of the controllers that the root has. Source:
/// `pkg/kubelet/cm/cgroup_v2_manager_linux.go`, `Validate`, and `getSupportedUnifiedControllers`.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "hugetlb", "memory", "pids"];

/// The cgroup of `daemons` and its limits; `None` if none are enforced.
fn limits<'a>(
    daemons: Daemons,
    node: &Node,
    ground: &'a Ground,
    reservation: &Reservation,
    enforced: &'a Enforced,
) -> Result<Option<(&'a CgroupPath, &'a Limits)>, Refusal> {
    if !daemons.is_enforced(node) {
        return Ok(None);
    }
    let (live, name) = (&ground.live, daemons.cgroup(node));
    let (level, key, found, limits) = match daemons {
        Daemons::System => {
            ("system-reserved", "systemReserved", &live.system_reserved, &enforced.system_reserved)
        }
        Daemons::Kube => {
            ("kube-reserved", "kubeReserved", &live.kube_reserved, &enforced.kube_reserved)
        }
    };
    let refused = |why: String, remedy: &str| {
        let remedy = format!("{remedy}, or take {level} out of enforceNodeAllocatable");
        Err(Refusal { level, why, remedy })
    };
    if let Some(why) = daemons.problem(node, reservation) {
        return refused(why, &format!("set {key}"));
    }
    let Some(found) = found else {
        return refused(format!("{key}Cgroup {name:?} names no cgroup"), "name one below the root");
    };
    let path = &found.path;
    if !found.exists {
        let why = format!("cgroup {path} is not there, so the kubelet would not start");
        return refused(why, "create it before the kubelet starts");
    }
    let system = live.system_reserved.as_ref().filter(|_| Daemons::System.is_enforced(node));
    if daemons == Daemons::Kube && system.is_some_and(|system| system.path == *path) {
        let why = format!("{path} is the system-reserved cgroup too, and cannot hold both limits");
        return refused(why, "name another cgroup");
    }
    // Whichever of them it is to write.
    let missing = CONTROLLERS.into_iter().filter(|one| ground.offered.contains(*one));
    let missing: Vec<_> = missing.filter(|one| !found.controllers.contains(*one)).collect();
    if missing.is_empty() {
        return Ok(limits.as_ref().map(|limits| (path, limits)));
    }
    let (printed, list) = (daemons.printed(node), missing.join(", "));
    let why = format!("cgroup {printed} has some missing controllers: {list}");
    let on = format!("+{}", missing.join(" +"));
    refused(why, &format!("write {on:?} to cgroup.subtree_control above {path}"))
}

#[cfg(test)]
mod tests;
