//! What of a target is its work: the cgroups that are ended when it is to end.
//!
//! A service is its work altogether. Of a pod only containers are: its sandbox holds the pod's
//! network, and to lose it makes orphans of the runtime's shims, so it is never ended. The API's
//! container ids tell them apart; where nobody told, a sandbox is a cgroup in which all processes
//! are called `pause` (or `conmon`: CRI-O's monitor), or all have the `oom_score_adj` -998 that
//! the kubelet gives to sandboxes alone.

use std::path::Path;

use super::cgroup::{Group, Root, relative};
use super::failure::Failure;
use super::guard::Guard;
use super::process::{Stat, oom_score_adj};
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::decision::Target;
use crate::model::pod::Place;

/// `PodInfraOOMAdj`, kubelet `pkg/kubelet/qos/policy.go`.
const SANDBOX: i32 = -998;

/// The cgroups of a target: its own, or those of the pods of a group.
pub(super) fn cgroups(target: &Target) -> Result<Vec<(CgroupId, &CgroupPath)>, Failure> {
    let own = target.cgroup.zip(target.path.as_ref());
    let groups = target.groups.iter().map(|group| (group.id, &group.path));
    let all: Vec<_> =
        if target.groups.is_empty() { own.into_iter().collect() } else { groups.collect() };
    if all.is_empty() {
        return Err(Failure::Nowhere(target.full_name()));
    }
    Ok(all)
}

/// Opens one cgroup of a target, if it may be touched at all.
pub(super) fn open(
    root: &Root,
    guard: &Guard,
    id: CgroupId,
    path: &CgroupPath,
) -> Result<Group, Failure> {
    relative(path)?;
    guard.allows(path)?;
    Group::open(root, path, id)
}

/// The cgroups that hold the work of `group`, which are ended when it is to end.
pub(super) fn of(
    root: &Root,
    proc: &Path,
    group: &Group,
    containers: &[String],
) -> Result<Vec<Group>, Failure> {
    let none = |why| Err(Failure::NoWork { path: group.path.clone(), why });
    match Place::of(&group.path) {
        Place::Pod { .. } => {}
        Place::Container { .. } if is_sandbox(proc, group)? => {
            return none("it is the pod's sandbox");
        }
        _ => return Ok(vec![Group::open(root, &group.path, group.id)?]),
    }
    let mut work = Vec::new();
    for child in group.children()? {
        let Place::Container { id, .. } = Place::of(&child.path) else { continue };
        let is_work = match containers {
            [] => !is_sandbox(proc, &child)?,
            named => named.iter().any(|name| name.contains(&id)),
        };
        if is_work {
            work.push(child);
        }
    }
    match (work.is_empty(), containers.is_empty()) {
        (false, _) => Ok(work),
        (true, true) => none("all that it has look like sandboxes, or are empty"),
        (true, false) => none("none that it has is named by the API"),
    }
}

/// True for what looks like the cgroup of a sandbox, and for what is empty: it may become one.
/// What cannot be seen cannot be told from a sandbox.
fn is_sandbox(proc: &Path, group: &Group) -> Result<bool, Failure> {
    let mut pids = Vec::new();
    let hidden = group.pids(&mut pids)?;
    if hidden > 0 {
        return Err(Failure::Hidden { path: group.path.clone(), n: hidden });
    }
    let is_named = |pid: &u32| {
        Stat::of(proc, *pid).is_some_and(|stat| matches!(stat.name.as_str(), "pause" | "conmon"))
    };
    let is_adjusted = |pid: &u32| oom_score_adj(proc, *pid) == Some(SANDBOX);
    Ok(pids.iter().all(is_named) || pids.iter().all(is_adjusted))
}
