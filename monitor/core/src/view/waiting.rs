//! Which cgroups wait most, and their names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::verdict::Resource;
use crate::model::cgroup::CgroupId;
pub use crate::model::cgroup::ROOT;
use crate::model::pod::Place;
use crate::model::psi::Pressure;
use crate::model::sample::{Resident, Runner};
use crate::model::snapshot::{Scope, Snapshot, Union};
use crate::model::units::{Bytes, Nanos, Percent};
use crate::model::workload::nameless;
use crate::policy::takers::held;
use crate::policy::workload::above;

/// A process is named for the memory of a cgroup if it has more than this part of it.
const REAL_PART: u64 = 4;

/// Which cgroups to list. A slice waits whenever any cgroup in it waits, so slices would hide the
/// cgroups that an operator can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Pods, services, scopes: no slices, no single containers.
    Units,
    All,
}

impl Level {
    pub fn shows(self, scope: &Scope) -> bool {
        self == Self::All
            || match scope.place {
                Place::Pod { .. } => true,
                Place::Other => !scope.path.is_slice(),
                Place::Node | Place::Kubepods | Place::Qos { .. } | Place::Container { .. } => {
                    false
                }
            }
    }
}

/// At most `n` cgroups, sorted by [`worst_share`], then by wait of the last interval, then by id.
pub fn waiting_most(snapshot: &Snapshot, level: Level, n: usize) -> Vec<(CgroupId, &Scope)> {
    let shown = snapshot.scopes.iter().filter(|(_, scope)| level.shows(scope));
    let mut all: Vec<_> = shown.map(|(id, scope)| (*id, scope)).collect();
    all.sort_by_cached_key(|(id, scope)| (Reverse(weight(scope)), *id));
    all.truncate(n);
    all
}

/// The largest share of the last ten seconds in which at least one task of a cgroup waited: for a
/// CPU (its own quota included), for memory or for IO.
pub fn worst_share(scope: &Scope) -> Percent {
    let some = |p: Option<Pressure>| p.and_then(|p| p.some).map(|line| line.avg10);
    let union = |u: Option<Union>| u.map(|u| u.avg10);
    let shares = [
        some(scope.pressure.cpu),
        some(scope.pressure.memory),
        some(scope.pressure.io),
        union(scope.contention),
        union(scope.shortage),
    ];
    shares.into_iter().flatten().max().unwrap_or_default()
}

/// Below it, waits with less CPU time than requested are those of any wake-up.
const BELOW_REQUEST: Percent = Percent(10_00);

/// Pods that waited for a CPU in a tenth of the last ten seconds or more although they used less
/// than they request, the one that waited longest first.
pub fn below_request(snapshot: &Snapshot) -> Vec<&Scope> {
    let share = |scope: &Scope| scope.below_request.map(|union| union.avg10);
    let pods = snapshot.scopes.values().filter(|scope| matches!(scope.place, Place::Pod { .. }));
    let mut pods: Vec<_> = pods.filter(|scope| share(scope) >= Some(BELOW_REQUEST)).collect();
    pods.sort_by_key(|scope| Reverse(share(scope)));
    pods
}

/// What lists are sorted by. The share comes first because it is smooth: rows keep their places.
pub(super) fn weight(scope: &Scope) -> (Percent, Nanos) {
    let times = [
        scope.cpu.as_ref().map(|cpu| cpu.wait.now),
        scope.memory.as_ref().map(|memory| memory.any.now),
        scope.io_wait.map(|io| io.now),
    ];
    (worst_share(scope), times.into_iter().flatten().max().unwrap_or_default())
}

/// The name of a cgroup: its pod or container if it is one, by the API's name where that is known;
/// else its path.
pub fn name(scope: &Scope) -> String {
    if let Some(name) = &scope.name {
        return name.clone();
    }
    match &scope.place {
        Place::Node => "node".into(),
        Place::Kubepods => "all pods".into(),
        Place::Qos { class } => format!("all {class:?} pods"),
        Place::Pod { uid, .. } => format!("pod {uid}"),
        Place::Container { pod, id, .. } => nameless(&format!("pod {pod}"), id),
        Place::Other => scope.path.0.to_string(),
    }
}

/// [`name`] for a sentence: the start of a pod's uid, the last part of a path.
pub fn short_name(scope: &Scope) -> String {
    let start = |uid: &str| uid.get(..8).unwrap_or(uid).to_owned();
    match &scope.place {
        _ if scope.name.is_some() => name(scope),
        Place::Pod { uid, .. } => format!("pod {}", start(uid)),
        Place::Container { pod, .. } => format!("a container of pod {}", start(pod)),
        Place::Other => scope.path.segments().next_back().unwrap_or("/").into(),
        Place::Node | Place::Kubepods | Place::Qos { .. } => name(scope),
    }
}

/// The name of the root cgroup as an aggressor, with its busiest process.
pub fn root_name(snapshot: &Snapshot) -> String {
    with_busiest(ROOT.into(), None, snapshot)
}

/// The units without those of which one inside has half or more: the inner one says more.
pub(super) fn innermost<T>(
    snapshot: &Snapshot,
    units: Vec<T>,
    of: impl Fn(&T) -> (CgroupId, u64),
) -> Vec<T> {
    let amounts: BTreeMap<CgroupId, u64> = units.iter().map(&of).collect();
    let is_outer = |id: &CgroupId, inner: u64| {
        amounts.get(id).is_some_and(|all| inner.saturating_mul(2) >= *all)
    };
    let outer: BTreeSet<CgroupId> = amounts
        .iter()
        .flat_map(|(id, amount)| above(*id, snapshot).filter(|id| is_outer(id, *amount)))
        .collect();
    units.into_iter().filter(|unit| !outer.contains(&of(unit).0)).collect()
}

/// The name of an aggressor, with its process that used most CPU time, where that is known; `None`
/// stands for the root cgroup.
pub fn with_busiest(name: String, cgroup: Option<CgroupId>, snapshot: &Snapshot) -> String {
    match busiest(cgroup, snapshot, Resource::Cpu) {
        Some(process) => with_process(&name, &process),
        None => name,
    }
}

/// The process of a cgroup that uses most of a resource, as `NAME, pid N`, where that is known.
pub fn busiest(
    cgroup: Option<CgroupId>,
    snapshot: &Snapshot,
    resource: Resource,
) -> Option<String> {
    let its = |runner: &&Runner| {
        runner.cgroup == cgroup && !runner.is_of_machine && is_for(runner, resource)
    };
    snapshot.runners.iter().find(its).map(process)
}

/// The process of a cgroup that has most memory, more than `than`, where that is known; `None` stands
/// for the root cgroup.
pub(super) fn largest(
    cgroup: Option<CgroupId>,
    than: Bytes,
    snapshot: &Snapshot,
) -> Option<String> {
    let its = |runner: &&Runner| runner.cgroup == cgroup && !runner.is_of_machine;
    let held = |runner: &Runner| runner.memory.map(|memory| memory.held);
    let than = than.max(one_of_many(cgroup, snapshot));
    let all = snapshot.runners.iter().filter(its).filter(|runner| held(runner) > Some(than));
    all.max_by_key(|runner| held(runner)).map(process)
}

/// The process of a cgroup that takes memory, where that is known; `None` stands for the root cgroup,
/// or the machine where that was looked at.
pub(super) fn growing(cgroup: Option<CgroupId>, snapshot: &Snapshot) -> Option<String> {
    let few = one_of_many(cgroup, snapshot);
    let its = |runner: &&Runner| {
        let takes = |memory: Resident| memory.growth > Bytes(0) && memory.held > few;
        runner.memory.is_some_and(takes) && runner.cgroup == cgroup
    };
    snapshot.runners.iter().find(its).map(process)
}

/// Up to which size a process is one of many of a cgroup, and says nothing of who has its memory.
fn one_of_many(cgroup: Option<CgroupId>, snapshot: &Snapshot) -> Bytes {
    let scope = cgroup.and_then(|id| snapshot.scopes.get(&id));
    let all = scope.and_then(|scope| held(scope.files.as_ref()?));
    Bytes(all.map_or(0, |all| all.0 / REAL_PART))
}

/// The process of the machine that uses most of a resource, where that is looked for.
pub fn busiest_of_machine(snapshot: &Snapshot, resource: Resource) -> Option<String> {
    let its = |runner: &&Runner| runner.is_of_machine && is_for(runner, resource);
    snapshot.runners.iter().find(its).map(process)
}

/// Whether it is a resource for which a process is named.
fn is_for(runner: &Runner, resource: Resource) -> bool {
    resource
        == match (runner.memory, runner.io) {
            (Some(_), _) => Resource::Memory,
            (None, Some(_)) => Resource::Io,
            (None, None) => Resource::Cpu,
        }
}

fn process(Runner { pid, name, memory, .. }: &Runner) -> String {
    match memory {
        Some(Resident { held, growth: Bytes(0) }) => format!("{name}, pid {pid}: {held}"),
        Some(Resident { held, growth }) => {
            format!("{name}, pid {pid}: {held}, growing by {growth}/s")
        }
        None => format!("{name}, pid {pid}"),
    }
}

pub fn with_process(name: &str, process: &str) -> String {
    format!("{name} (most of all {process})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::CgroupPath;
    use crate::model::pod::{QosClass, Runtime};

    #[test]
    fn level_units_hides_slices_and_containers() {
        let class = QosClass::Burstable;
        let pod = || "u".to_owned();
        let container =
            Place::Container { pod: pod().into(), class, id: "i".into(), runtime: Runtime::CriO };
        #[rustfmt::skip]
        let table = [
            // path, place, listed among units
            ("/system.slice",                Place::Other,             false),
            ("/system.slice/ssh.service",    Place::Other,             true),
            ("/mine",                        Place::Other,             true),
            ("/kubepods.slice",              Place::Kubepods,          false),
            ("/kubepods.slice/b.slice",      Place::Qos { class },     false),
            ("/kubepods.slice/p.slice",      Place::Pod { uid: pod().into(), class }, true),
            ("/kubepods.slice/p.slice/c",    container,                false),
        ];
        for (path, place, want) in table {
            let scope = Scope { path: CgroupPath(path.into()), place, ..Scope::default() };
            assert_eq!(Level::Units.shows(&scope), want, "{path}");
            assert!(Level::All.shows(&scope), "{path}");
        }
    }

    #[test]
    fn waiting_most_sorts_by_worst_share_then_id() {
        let union = |avg10| Some(Union { avg10: Percent(avg10), ..Union::default() });
        let scope = |contention, shortage| Scope {
            path: CgroupPath("/x".into()),
            contention: union(contention),
            shortage: union(shortage),
            ..Scope::default()
        };
        let scopes = [(1, scope(5, 0)), (2, scope(0, 90)), (3, scope(40, 1)), (4, scope(5, 5))];
        let scopes = scopes.map(|(id, scope)| (CgroupId(id), scope)).into();
        let snapshot = Snapshot { scopes, ..Snapshot::default() };
        let order = |n| {
            waiting_most(&snapshot, Level::Units, n).iter().map(|(id, _)| id.0).collect::<Vec<_>>()
        };
        assert_eq!(order(10), [2, 3, 1, 4]);
        assert_eq!(order(2), [2, 3]);
    }
}
