//! A candidate as somebody to act upon: its cgroups, by id and path, and its containers.

use std::collections::{BTreeMap, BTreeSet};

use super::Question;
use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::decision::{Candidate, Target, TargetGroup};
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::snapshot::{Scope, Snapshot};
use crate::model::workload::Pod;

/// Where the candidate's work runs. Its cgroups are told by id as well: a path can be used again
/// by somebody else until something is done.
pub(super) fn target_of(candidate: &Candidate, question: &Question<'_>) -> Target {
    let Question { sample, snapshot, .. } = question;
    targets_of(&[candidate], sample, snapshot).pop().unwrap_or_default()
}

/// The same for several, in their order, at one pass through the tree.
pub(crate) fn targets_of(
    candidates: &[&Candidate],
    sample: &Sample,
    snapshot: &Snapshot,
) -> Vec<Target> {
    let wanted: BTreeSet<&str> =
        candidates.iter().flat_map(|one| one.uids()).map(String::as_str).collect();
    let mut found: BTreeMap<&str, Vec<TargetGroup>> = BTreeMap::new();
    for (id, scope) in snapshot.scopes.iter().filter(|_| !wanted.is_empty()) {
        if let Some(uid) = uid(scope).filter(|uid| wanted.contains(uid)) {
            found.entry(uid).or_default().push(TargetGroup { id: *id, path: scope.path.clone() });
        }
    }
    let one = |candidate: &&Candidate| {
        let its = candidate.uids().filter_map(|uid| found.get(uid.as_str())).flatten();
        let mut groups: Vec<TargetGroup> = its.cloned().collect();
        groups.sort_unstable_by_key(|group| group.id);
        let is_group = !candidate.members.is_empty();
        let own = if is_group { None } else { groups.drain(..).next() };
        let (cgroup, path) = own.map(|own| (own.id, own.path)).unzip();
        let pods = candidate.uids().filter_map(|uid| sample.pod(uid));
        // The API tells a container's id a second or more after its start: until it has told all of a
        // pod, those that it has told are not all of the pod's work.
        let is_told = |pod: &&Pod| pod.containers.iter().all(|one| one.id.is_some());
        let containers = pods.filter(is_told).flat_map(|pod| &pod.containers);
        Target {
            name: candidate.name.clone(),
            namespace: candidate.namespace.clone(),
            uid: candidate.uid.clone(),
            members: candidate.members.clone(),
            cgroup,
            path,
            groups,
            containers: containers.filter_map(|container| container.id.clone()).collect(),
            is_payer: false,
        }
    };
    candidates.iter().map(one).collect()
}

/// The cgroups of a target that are there: its own, or those of the pods of a group.
pub(super) fn cgroups_of<'a>(
    target: &'a Target,
    sample: &'a Sample,
) -> impl Iterator<Item = (CgroupId, &'a Cgroup)> {
    let ids = target.groups.iter().map(|group| group.id).chain(target.cgroup);
    ids.filter_map(|id| Some((id, &**sample.cgroups.get(&id)?)))
}

/// The cgroups of those of `uids` that are still there.
pub(super) fn present(uids: &BTreeSet<String>, snapshot: &Snapshot) -> BTreeMap<String, CgroupId> {
    if uids.is_empty() {
        return BTreeMap::new();
    }
    let all = snapshot.scopes.iter().filter_map(|(id, scope)| Some((uid(scope)?, *id)));
    all.filter(|(uid, _)| uids.contains(*uid)).map(|(uid, id)| (uid.to_owned(), id)).collect()
}

/// [`Scope::party`]; `None` for what lies in a pod.
pub(super) fn uid(scope: &Scope) -> Option<&str> {
    let is_party = scope.pod_uid().is_some() || scope.place == Place::Other;
    is_party.then(|| scope.party())
}
