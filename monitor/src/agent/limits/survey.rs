//! What the node is like, as far as limits depend on it.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::intruders::{Intruder, intruders};
use crate::source::machine::{self, Groups};
use crate::source::processes::Processes;
use crate::source::{OpenError, Roots};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::limit::NodeResources;
use isobar_core::model::names;
use isobar_core::model::sample::Gap;
use isobar_core::model::settings::{Node, Settings, WrittenLimit};
use isobar_kubelet::allocatable::Reservation;
use isobar_kubelet::capacity;
use isobar_kubelet::checkpoint::State;
use isobar_kubelet::cpus::{Plan, Pool, Sets};
use isobar_kubelet::drift::Live;
use isobar_kubelet::writes::{Ground, Writes, writes};

/// The state of the kubelet's CPU manager, below the kubelet's directory.
pub const CPU_STATE: &str = "cpu_manager_state";

/// Where the node is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Where procfs is mounted.
    pub proc: PathBuf,
    /// Where sysfs is mounted.
    pub sys: PathBuf,
    /// Where cgroup v2 is mounted; `None` finds it.
    pub cgroup_root: Option<PathBuf>,
}

/// A node as it was found.
#[derive(Debug)]
pub struct Survey {
    places: Places,
    /// Cgroups are spelled as they are found.
    settings: Settings,
    ground: Ground,
    reserved: CpuSet,
    pool: Option<Pool>,
}

impl Survey {
    /// Looks at the node.
    ///
    /// # Errors
    /// If there is no cgroup v2 tree.
    pub fn of(places: &Places, settings: &Settings) -> Result<Self, OpenError> {
        let groups = Groups::open(&places.proc, places.cgroup_root.as_deref())?;
        let mut settings = settings.clone();
        settings.node = spelled(&groups, &settings.node);
        let node = &settings.node;
        let machine = machine::read(&places.proc, &places.sys, Path::new(&node.kubelet_root));
        let plan = Plan::of(&settings, &machine.cpus).unwrap_or_default();
        let pool = pool(node, &plan);
        // A state that the kubelet refuses assigns nothing, but containers may run by it.
        let exclusive = pool.sets.as_ref().filter(|_| pool.problems.is_empty());
        let exclusive = exclusive.map(|sets| sets.exclusive.clone());
        let pool = (node.static_cpus && !machine.cpus.cpus.is_empty()).then_some(pool);
        let ground = Ground {
            capacity: capacity::capacity(&machine, node),
            live: look(&groups, node, &mut Vec::new()),
            offered: groups.controllers(),
            exclusive,
            topology: machine.cpus,
        };
        Ok(Self { places: places.clone(), settings, ground, reserved: plan.reserved, pool })
    }

    /// What is to be written of `what`, and what is not.
    pub fn writes(&self, what: &BTreeSet<WrittenLimit>) -> Writes {
        writes(&self.settings, what, &self.ground)
    }

    /// What the CPU manager leaves to whom; `None` without the static policy.
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// What the kubelet would give to pods.
    pub fn resources(&self) -> NodeResources {
        let capacity = self.ground.capacity.clone();
        let reservation = Reservation::of(&self.settings, &capacity);
        let allocatable = reservation.allocatable(&capacity);
        let Reservation { kube, system, eviction } = reservation;
        let (kube_reserved, system_reserved, eviction_hard) = (kube, system, eviction);
        NodeResources { capacity, kube_reserved, system_reserved, eviction_hard, allocatable }
    }

    /// Processes of pods that may run on reserved CPUs, and what could not be read.
    ///
    /// # Errors
    /// If there is no cgroup v2 tree.
    pub fn intruders(&self) -> Result<(Vec<Intruder>, Vec<Gap>), OpenError> {
        let Places { proc, cgroup_root, .. } = self.places.clone();
        let roots = Roots { proc, cgroup: cgroup_root, ..Roots::default() };
        Ok(intruders(&Processes::open(&roots)?, &self.settings.node, &self.reserved))
    }
}

/// `node` with the cgroup driver by which kubepods is spelled here. Of both, an empty one is left from before
/// the driver was changed.
pub fn spelled(groups: &Groups, node: &Node) -> Node {
    let node = &names::as_spelled(node, |path| groups.is_populated(path));
    names::as_spelled(node, |path| groups.exists(path))
}

/// The cgroups that the kubelet limits.
pub fn look(groups: &Groups, node: &Node, gaps: &mut Vec<Gap>) -> Live {
    let mut one = |path: CgroupPath| groups.look(&path, gaps);
    let pods = one(names::kubepods(node));
    let mut reserved = |name: &str| names::reserved(node.cgroup_driver, name).map(&mut one);
    Live {
        pods,
        kube_reserved: reserved(&node.kube_reserved_cgroup),
        system_reserved: reserved(&node.system_reserved_cgroup),
    }
}

/// What the CPU manager leaves to whom. Without a state nobody has CPUs for itself, nor with one that
/// the kubelet would refuse; of one that isobar cannot read nothing is known.
fn pool(node: &Node, plan: &Plan) -> Pool {
    let file = Path::new(&node.kubelet_root).join(CPU_STATE);
    let unknown = Pool { reserved: plan.reserved.clone(), ..Pool::default() };
    let of = |exclusive| Pool { sets: Some(Sets::of(plan, exclusive)), ..unknown.clone() };
    let none = || of(CpuSet::default());
    let state = match fs::read_to_string(&file) {
        Ok(text) => State::read(&text),
        Err(why) if why.kind() == ErrorKind::NotFound => return none(),
        Err(why) => {
            let problems = vec![format!("cannot read {}: {why}", file.display())];
            return Pool { problems, ..unknown };
        }
    };
    let policy = if node.static_cpus { "static" } else { "none" };
    match state.refusals(Some(policy), plan) {
        problems if problems.is_empty() => {
            Pool { assignments: state.assignments.clone(), ..of(state.exclusive()) }
        }
        problems => Pool { problems, ..none() },
    }
}
