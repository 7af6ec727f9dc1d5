//! What is known of cgroups by their ids, also of those that are gone: the cgroup of who was killed is
//! often removed before a tick tells of the kill.

use std::collections::BTreeMap;

use isobar_core::model::cgroup::{CgroupId, CgroupPath, Limit};
use isobar_core::model::pod::Place;
use isobar_core::model::snapshot::{Scope, Snapshot};
use isobar_core::model::workload::Pods;
use isobar_core::view::waiting::short_name;

/// Cgroups that are gone and still known, at most.
const GONE: usize = 1_024;

#[derive(Debug)]
struct Cgroup {
    /// A container has the name of its pod.
    name: String,
    path: CgroupPath,
    /// Its `memory.max` when isobar last looked.
    max: Option<Limit>,
}

#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    cgroups: BTreeMap<CgroupId, Cgroup>,
    /// The pods by which the cgroups have their names.
    pods: Option<Pods>,
}

impl Cgroups {
    /// Whether a cgroup is not known yet, or may have another name since.
    pub(crate) fn lacks(&self, snapshot: &Snapshot) -> bool {
        self.pods != snapshot.pods
            || snapshot.scopes.keys().any(|id| !self.cgroups.contains_key(id))
    }

    /// Takes note of the cgroups of a snapshot whose scopes have names.
    pub(crate) fn see(&mut self, named: &Snapshot) {
        let scopes = &named.scopes;
        self.pods.clone_from(&named.pods);
        self.cgroups.extend(scopes.iter().map(|(id, scope)| {
            let name = short_name(pod_of(scope, named).unwrap_or(scope));
            let max = scope.files.as_ref().and_then(|files| files.memory.max);
            (*id, Cgroup { name, path: scope.path.clone(), max })
        }));
        // Ids grow: those that have been gone for longest are first.
        let over = self.cgroups.len().saturating_sub(scopes.len() + GONE);
        let gone = self.cgroups.keys().filter(|id| !scopes.contains_key(id));
        let forgotten: Vec<_> = gone.take(over).copied().collect();
        forgotten.iter().for_each(|id| drop(self.cgroups.remove(id)));
    }

    pub(crate) fn name(&self, id: CgroupId) -> Option<&str> {
        self.cgroups.get(&id).map(|known| &*known.name)
    }

    pub(crate) fn path(&self, id: CgroupId) -> Option<&CgroupPath> {
        self.cgroups.get(&id).map(|known| &known.path)
    }

    /// The `memory.max` of a cgroup when it was last looked at.
    pub(crate) fn max(&self, id: CgroupId) -> Option<Limit> {
        self.cgroups.get(&id).and_then(|known| known.max)
    }
}

/// The pod that a container is of.
pub(crate) fn pod_of<'a>(scope: &Scope, snapshot: &'a Snapshot) -> Option<&'a Scope> {
    match scope.place {
        Place::Container { .. } => scope.parent.and_then(|parent| snapshot.scopes.get(&parent)),
        _ => None,
    }
}
