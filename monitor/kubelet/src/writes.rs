//! Which files of which cgroups are to hold what, so that pods and daemons keep to what is theirs.
//! In: settings, and the machine as it was found. Out: the writes, and what is not written and why.
//! Source: kubelet `pkg/kubelet/cm/node_container_manager_linux.go`, which fails to start where a
//! level is refused here; for CPUs KEP-4540, whose reservation the kubelet leaves to containers.

use std::collections::BTreeSet;

use super::allocatable::{CPU, MEMORY, PID, Reservation};
use super::cpus::{self, Plan};
use super::drift::Live;
use super::enforce::{Enforced, Limits};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::limit::LimitWrite;
use isobar_core::model::machine::Found;
use isobar_core::model::names;
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::settings::{Enforcement, Node, Settings, WrittenLimit};
use isobar_core::model::topology::Topology;

/// The machine to write to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ground {
    pub capacity: ResourceList,
    pub live: Live,
    /// Controllers of the root cgroup: the kubelet looks no further.
    pub offered: BTreeSet<String>,
    pub topology: Topology,
    /// Exclusive CPUs, from the CPU manager's state.
    pub exclusive: CpuSet,
}

/// The plan: what to write, and what is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writes {
    /// In the order of writing.
    pub writes: Vec<LimitWrite>,
    /// Levels that are not written.
    pub refused: Vec<Refusal>,
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

/// What is to be written of `what`. The settings must spell cgroups as `ground` was found:
/// [`names::as_spelled`].
#[must_use]
pub fn writes(settings: &Settings, what: &BTreeSet<WrittenLimit>, ground: &Ground) -> Writes {
    let mut all = Writes::default();
    for one in what {
        match one {
            WrittenLimit::Allocatable => all.allocatable(settings, ground),
            WrittenLimit::ReservedCpus => all.reserved_cpus(settings, ground),
        }
    }
    all
}

impl Writes {
    fn allocatable(&mut self, settings: &Settings, ground: &Ground) {
        let (node, capacity) = (&settings.node, &ground.capacity);
        let reservation = Reservation::of(settings, capacity);
        let unknown: Vec<_> =
            [CPU, MEMORY, PID].into_iter().filter(|name| !capacity.contains_key(*name)).collect();
        let refusal = match reservation.refusal(capacity) {
            Some(why) => Some((why, "reserve less")),
            None if unknown.is_empty() => None,
            None => {
                let why = format!("the capacity of {} is not known", unknown.join(", "));
                Some((why, "let /proc and /sys of the host be read"))
            }
        };
        if let Some((why, remedy)) = refusal {
            return self.refused.push(Refusal::new("allocatable", why, remedy));
        }
        let enforced = Enforced::of(node, capacity, &reservation);
        match node.cgroups_per_qos {
            true => self.files(&ground.live.pods.path, &enforced.pods, ground),
            false => self.refused.push(Refusal::new(
                "kubepods",
                "without cgroupsPerQOS there is no cgroup of all pods",
                "set cgroupsPerQOS, or leave allocatable out of writeLimits",
            )),
        }
        for daemons in both(node, ground, &reservation, &enforced) {
            match daemons.refusal(ground) {
                Some(refusal) => self.refused.push(refusal),
                None => {
                    if let (Some(found), Some(limits)) = (daemons.found, daemons.limits) {
                        self.files(&found.path, limits, ground);
                    }
                }
            }
        }
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

    fn reserved_cpus(&mut self, settings: &Settings, ground: &Ground) {
        const LEVEL: &str = "reserved CPUs";
        let plan = match Plan::of(settings, &ground.topology) {
            Ok(plan) => plan,
            Err(why) => {
                let remedy = "name CPUs that are online, and leave some to pods";
                return self.refused.push(Refusal::new(LEVEL, why, remedy));
            }
        };
        if plan.reserved.0.is_empty() {
            let why = "no CPU is reserved";
            let remedy = "set reservedSystemCPUs, or leave reservedCpus out of writeLimits";
            return self.refused.push(Refusal::new(LEVEL, why, remedy));
        }
        let pods = cpus::minus(&plan.online, &plan.reserved);
        if pods.0.is_empty() {
            let why = format!("all CPUs are reserved: {}, so none is left for pods", plan.reserved);
            return self.refused.push(Refusal::new(LEVEL, why, "reserve fewer CPUs"));
        }
        let node = &settings.node;
        self.cpus(names::kubepods(node), &pods);
        // Pods that have CPUs for themselves are Guaranteed, so they lie beside the two.
        let shared = cpus::minus(&pods, &ground.exclusive);
        if shared.0.is_empty() {
            let why = format!(
                "containers have all CPUs that are not reserved for themselves: {}",
                ground.exclusive
            );
            let remedy = "leave CPUs to the pods that share them";
            return self.refused.push(Refusal::new("reserved CPUs of the QoS slices", why, remedy));
        }
        for class in [names::BURSTABLE, names::BEST_EFFORT] {
            self.cpus(names::of_class(node, class), &shared);
        }
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

/// One of the two reserved cgroups.
struct Daemons<'a> {
    level: &'static str,
    /// The configuration key of the reservation.
    key: &'static str,
    name: &'a str,
    is_enforced: bool,
    reserved: &'a ResourceList,
    limits: Option<&'a Limits>,
    found: Option<&'a Found>,
    /// The other reserved cgroup.
    other: Option<&'a Found>,
}

/// system-reserved first, as the kubelet does.
fn both<'a>(
    node: &'a Node,
    ground: &'a Ground,
    reservation: &'a Reservation,
    enforced: &'a Enforced,
) -> [Daemons<'a>; 2] {
    use Enforcement::{
        KubeReserved, KubeReservedCompressible, SystemReserved, SystemReservedCompressible,
    };
    let has = |any: [Enforcement; 2]| any.iter().any(|one| node.enforce.contains(one));
    let system = Daemons {
        level: "system-reserved",
        key: "systemReserved",
        name: &node.system_reserved_cgroup,
        is_enforced: has([SystemReserved, SystemReservedCompressible]),
        reserved: &reservation.system,
        limits: enforced.system_reserved.as_ref(),
        found: ground.live.system_reserved.as_ref(),
        other: None,
    };
    let kube = Daemons {
        level: "kube-reserved",
        key: "kubeReserved",
        name: &node.kube_reserved_cgroup,
        is_enforced: has([KubeReserved, KubeReservedCompressible]),
        reserved: &reservation.kube,
        limits: enforced.kube_reserved.as_ref(),
        found: ground.live.kube_reserved.as_ref(),
        other: system.found.filter(|_| system.is_enforced),
    };
    [system, kube]
}

impl Daemons<'_> {
    /// `None` if the limits can be written, or if none are configured.
    fn refusal(&self, ground: &Ground) -> Option<Refusal> {
        let Self { level, key, name, .. } = self;
        let refused = |why: String, remedy: String| Some(Refusal::new(level, why, remedy));
        let or_leave_out =
            |first: &str| format!("{first}, or take {level} out of enforceNodeAllocatable");
        if !self.is_enforced {
            return None;
        }
        if self.reserved.is_empty() {
            let why = format!("{name:?} cgroup is not configured properly");
            return refused(why, or_leave_out(&format!("set {key}")));
        }
        let Some(found) = self.found else {
            let why = format!("{key}Cgroup {name:?} names no cgroup");
            return refused(why, or_leave_out("name one below the root"));
        };
        let path = &found.path;
        if !found.exists {
            let why = format!("cgroup {path} is not there, so the kubelet would not start");
            return refused(why, or_leave_out("make it before the kubelet starts"));
        }
        if self.other.is_some_and(|other| other.path == *path) {
            let why = format!("{path} is that of system-reserved too, and cannot hold both limits");
            return refused(why, or_leave_out("name another cgroup"));
        }
        let missing: BTreeSet<_> = files(self.limits?, ground)
            .filter(|(file, _)| found.file(file).is_none())
            .filter_map(|(file, _)| Some(file.split_once('.')?.0.to_owned()))
            .collect();
        if missing.is_empty() {
            return None;
        }
        let missing: Vec<_> = missing.into_iter().collect();
        let why = format!("cgroup {name:?} has some missing controllers: {}", missing.join(", "));
        let on: Vec<_> = missing.iter().map(|controller| format!("+{controller}")).collect();
        let remedy = format!("write {:?} to cgroup.subtree_control above {path}", on.join(" "));
        refused(why, or_leave_out(&remedy))
    }
}

#[cfg(test)]
mod tests;
