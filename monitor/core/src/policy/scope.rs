//! The two scopes of conditions and thresholds: the node, and the cgroup of all pods.

use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::condition::ScopeName;
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::snapshot::{Scope, Snapshot};

/// Why nothing is known about the pods.
pub const NO_KUBEPODS: &str =
    "there is no cgroup of all pods (kubepods) where the configuration puts it (cgroupRoot)";

/// The root of the cgroup v2 tree.
pub fn root(sample: &Sample) -> Option<&Cgroup> {
    sample.cgroups.values().map(|cgroup| &**cgroup).find(|cgroup| cgroup.path.is_root())
}

/// The scope that conditions and thresholds call so.
pub(crate) fn named(snapshot: &Snapshot, name: ScopeName) -> Option<&Scope> {
    match name {
        ScopeName::System => Some(&snapshot.whole),
        ScopeName::Kubepods => kubepods(snapshot).map(|(_, scope)| scope),
    }
}

/// The cgroup of all pods.
pub fn kubepods(snapshot: &Snapshot) -> Option<(CgroupId, &Scope)> {
    let mut all = snapshot.scopes.iter();
    let pods = all.find(|(_, scope)| scope.place == Place::Kubepods);
    pods.map(|(&id, scope)| (id, scope))
}
