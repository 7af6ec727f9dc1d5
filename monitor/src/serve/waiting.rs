//! Which cgroups wait most, and what to call them.

use std::cmp::Reverse;

use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::pod::{Place, QosClass};
use isobar_core::model::psi::Pressure;
use isobar_core::model::snapshot::{Scope, Snapshot, Union};
use isobar_core::model::units::{Nanos, Percent};

/// Which cgroups to list. A slice waits whenever anything in it waits, so by default the slices
/// would hide the ones that an operator can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Pods, services, scopes: no slices, no single containers.
    Units,
    /// Everything.
    All,
}

impl Level {
    fn shows(self, scope: &Scope) -> bool {
        self == Self::All
            || match scope.place {
                Place::Pod { .. } => true,
                Place::Other => !scope.path.0.ends_with(".slice"),
                Place::Node | Place::Kubepods | Place::Qos { .. } | Place::Container { .. } => {
                    false
                }
            }
    }
}

/// At most `n` cgroups, the longest waiting first; ties by id, so that the order is the same
/// every time.
#[must_use]
pub fn waiting_most(snapshot: &Snapshot, level: Level, n: usize) -> Vec<(CgroupId, &Scope)> {
    let mut all: Vec<_> =
        snapshot.scopes.iter().filter(|(_, s)| level.shows(s)).map(|(id, s)| (*id, s)).collect();
    all.sort_by_cached_key(|(id, scope)| (Reverse(weight(scope)), *id));
    all.truncate(n);
    all
}

/// How much a cgroup waits: the worst of its shares over ten seconds (smooth, so that rows do not
/// jump about), then the task time of the last interval.
fn weight(scope: &Scope) -> (Percent, Nanos) {
    let some = |p: Option<Pressure>| p.and_then(|p| p.some).map(|line| line.avg10);
    let union = |u: Option<Union>| u.map(|u| u.avg10);
    let shares = [
        some(scope.pressure.cpu),
        some(scope.pressure.memory),
        some(scope.pressure.io),
        union(scope.contention),
        union(scope.shortage),
    ];
    let times = [
        scope.cpu.as_ref().map(|cpu| cpu.wait.now),
        scope.memory.as_ref().map(|memory| memory.any.now),
        scope.io_wait.map(|io| io.now),
    ];
    (
        shares.into_iter().flatten().max().unwrap_or_default(),
        times.into_iter().flatten().max().unwrap_or_default(),
    )
}

/// What to call a cgroup: by its pod or container where the path tells, else by its path.
#[must_use]
pub fn name(scope: &Scope) -> String {
    match &scope.place {
        Place::Node => "node".into(),
        Place::Kubepods => "all pods".into(),
        Place::Qos { class } => format!("all {} pods", class_word(*class)),
        Place::Pod { uid, .. } => format!("pod {uid}"),
        Place::Container { pod, id, .. } => {
            format!("container {} of pod {pod}", id.get(..12).unwrap_or(id))
        }
        Place::Other => scope.path.0.clone(),
    }
}

/// [`name`] for a sentence: the start of a pod's uid, the last part of a path.
#[must_use]
pub fn short_name(scope: &Scope) -> String {
    let start = |uid: &str| uid.get(..8).unwrap_or(uid).to_owned();
    match &scope.place {
        Place::Pod { uid, .. } => format!("pod {}", start(uid)),
        Place::Container { pod, .. } => format!("a container of pod {}", start(pod)),
        Place::Other => scope.path.segments().next_back().unwrap_or("/").into(),
        Place::Node | Place::Kubepods | Place::Qos { .. } => name(scope),
    }
}

/// The class as Kubernetes writes it.
#[must_use]
pub fn class_word(class: QosClass) -> &'static str {
    match class {
        QosClass::Guaranteed => "Guaranteed",
        QosClass::Burstable => "Burstable",
        QosClass::BestEffort => "BestEffort",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::cgroup::CgroupPath;
    use isobar_core::model::pod::Runtime;

    #[test]
    fn slices_and_single_containers_are_listed_only_when_asked_for() {
        let class = QosClass::Burstable;
        let pod = || "u".to_owned();
        let container =
            Place::Container { pod: pod(), class, id: "i".into(), runtime: Runtime::CriO };
        #[rustfmt::skip]
        let table = [
            // path, place, listed among units
            ("/system.slice",                Place::Other,             false),
            ("/system.slice/ssh.service",    Place::Other,             true),
            ("/mine",                        Place::Other,             true),
            ("/kubepods.slice",              Place::Kubepods,          false),
            ("/kubepods.slice/b.slice",      Place::Qos { class },     false),
            ("/kubepods.slice/p.slice",      Place::Pod { uid: pod(), class }, true),
            ("/kubepods.slice/p.slice/c",    container,                false),
        ];
        for (path, place, want) in table {
            let scope = Scope { path: CgroupPath(path.into()), place, ..Scope::default() };
            assert_eq!(Level::Units.shows(&scope), want, "{path}");
            assert!(Level::All.shows(&scope), "{path}");
        }
    }

    #[test]
    fn the_longest_waiting_come_first_and_equals_in_the_order_of_their_ids() {
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
