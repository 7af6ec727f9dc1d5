//! A candidate as somebody to act upon: its cgroups, by id and path.

use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::decision::{Candidate, Target};
use crate::model::pod::Place;
use crate::model::sample::Sample;

/// Where the candidate's work runs.
#[must_use]
pub fn target_of(candidate: &Candidate, sample: &Sample) -> Target {
    let found: Option<(CgroupId, CgroupPath)> = sample.cgroups.iter().find_map(|(id, group)| {
        let is_it =
            matches!(Place::of(&group.path), Place::Pod { uid, .. } if uid == candidate.uid);
        is_it.then(|| (*id, group.path.clone()))
    });
    // A group has cgroups of its own accord: those of its members.
    let (cgroup, path) = found.filter(|_| candidate.members.is_empty()).unzip();
    Target {
        name: candidate.name.clone(),
        namespace: candidate.namespace.clone(),
        uid: candidate.uid.clone(),
        members: candidate.members.clone(),
        cgroup,
        path,
        ..Target::default()
    }
}
