//! A candidate as somebody to act upon: its cgroups, by id and path, and its containers.

use std::collections::BTreeSet;

use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::decision::{Candidate, Target, TargetGroup};
use crate::model::pod::Place;
use crate::model::sample::Sample;

/// Where the candidate's work runs. Its cgroups are told by id as well: a path can be used again
/// by somebody else until something is done.
#[must_use]
pub fn target_of(candidate: &Candidate, sample: &Sample) -> Target {
    let is_group = !candidate.members.is_empty();
    let own = std::slice::from_ref(&candidate.uid);
    let uids = if is_group { &candidate.members[..] } else { own };
    let its = sample.cgroups.iter().filter(|(_, group)| uids.contains(&uid(group)));
    let mut groups: Vec<_> =
        its.map(|(id, group)| TargetGroup { id: *id, path: group.path.clone() }).collect();
    let one = if is_group { None } else { groups.drain(..).next() };
    let (cgroup, path) = one.map(|one| (one.id, one.path)).unzip();
    let pods = uids.iter().filter_map(|uid| sample.pods.as_ref()?.get(uid));
    let containers = pods.flat_map(|pod| &pod.containers);
    Target {
        name: candidate.name.clone(),
        namespace: candidate.namespace.clone(),
        uid: candidate.uid.clone(),
        members: candidate.members.clone(),
        cgroup,
        path,
        groups,
        containers: containers.filter_map(|container| container.id.clone()).collect(),
    }
}

/// The cgroups of a target that are there: its own, or those of the pods of a group.
pub(super) fn cgroups_of<'a>(
    target: &'a Target,
    sample: &'a Sample,
) -> impl Iterator<Item = (CgroupId, &'a Cgroup)> {
    let ids = target.groups.iter().map(|group| group.id).chain(target.cgroup);
    ids.filter_map(|id| Some((id, sample.cgroups.get(&id)?)))
}

/// Those of `uids` that are still there.
pub(super) fn present(uids: &BTreeSet<String>, sample: &Sample) -> BTreeSet<String> {
    sample.cgroups.values().map(uid).filter(|uid| uids.contains(uid)).collect()
}

/// A pod's uid; of what is no pod's cgroup, its path.
fn uid(group: &Cgroup) -> String {
    match Place::of(&group.path) {
        Place::Pod { uid, .. } => uid,
        _ => group.path.0.clone(),
    }
}
