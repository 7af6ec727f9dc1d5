//! What of a target is its work: the cgroups that are ended when it is to end.
//!
//! A service is its work altogether. Of a pod only containers are: its sandbox holds the pod's
//! network, and to lose it makes orphans of the runtime's shims, so it is never ended. The API's
//! container ids tell them apart. A container that was started again has an id that the API may not
//! know yet: while one of the ids has no cgroup, and where there are no ids, a sandbox is a cgroup
//! in which all processes are called `pause` (or `conmon`: CRI-O's monitor) and which holds little
//! memory, or in which all have the `oom_score_adj` -998 that the kubelet gives to sandboxes alone.

use std::path::Path;

use crate::act::cgroup::below::Unlisted;
use crate::act::cgroup::{CgroupDir, Root};
use crate::act::deny::DenyList;
use crate::act::error::ActError;
use crate::act::process::{Stat, oom_score_adj, resident};
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::Target;
use isobar_core::model::pod::{LARGER_THAN_SANDBOX, Place, QosClass};

/// `PodInfraOOMAdj`, kubelet `pkg/kubelet/qos/policy.go`.
const SANDBOX: i32 = -998;
/// `guaranteedOOMScoreAdj`, same file: what the kubelet gives to Guaranteed pods, and to those that
/// are critical to the node, whatever their class.
const CRITICAL: i32 = -997;

/// The cgroups of a target: its own, or those of the pods of a group.
pub(in crate::act) fn cgroups(target: &Target) -> Result<Vec<(CgroupId, &CgroupPath)>, ActError> {
    let own = target.cgroup.zip(target.path.as_ref());
    let groups = target.groups.iter().map(|group| (group.id, &group.path));
    let all: Vec<_> =
        if target.groups.is_empty() { own.into_iter().collect() } else { groups.collect() };
    if all.is_empty() {
        return Err(ActError::Nowhere(target.full_name()));
    }
    Ok(all)
}

/// Opens one cgroup of a target, if it may be touched at all.
pub(in crate::act) fn open(
    root: &Root,
    deny: &DenyList,
    id: CgroupId,
    path: &CgroupPath,
) -> Result<CgroupDir, ActError> {
    let group = CgroupDir::open(root, path, id)?;
    deny.allows(&group)?;
    Ok(group)
}

/// The cgroups that hold the work of `group`, which are ended when it is to end. A pod has none while
/// its containers wait to be started again.
pub(in crate::act) fn of(
    root: &Root,
    proc: &Path,
    group: &CgroupDir,
    containers: &[String],
) -> Result<Vec<CgroupDir>, ActError> {
    match group.place() {
        Place::Pod { .. } => {}
        Place::Container { .. } if is_sandbox(proc, group)? => {
            let why = "it is the pod's sandbox";
            return Err(ActError::NoWork { path: group.path.clone(), why });
        }
        _ => return Ok(vec![CgroupDir::open(root, &group.path, group.id)?]),
    }
    let children: Vec<_> = group
        .children()?
        .into_iter()
        .filter_map(|child| match child.place() {
            Place::Container { id, .. } => Some((id, child)),
            _ => None,
        })
        .collect();
    let is_there = |name: &String| children.iter().any(|(id, _)| name.contains(&**id));
    let all_known = !containers.is_empty() && containers.iter().all(is_there);
    let mut work = Vec::new();
    for (id, child) in children {
        let is_named = containers.iter().any(|name| name.contains(&*id));
        if is_named || !all_known && !is_sandbox(proc, &child)? {
            work.push(child);
        }
    }
    Ok(work)
}

/// Whether work with these processes may be ended, as far as the kubelet has said so in the kernel:
/// the policy may not know which pods are critical to the node.
pub(in crate::act) fn allows_critical(
    proc: &Path,
    group: &CgroupDir,
    pids: &[u32],
) -> Result<(), ActError> {
    let (Place::Pod { class, .. } | Place::Container { class, .. }) = group.place() else {
        return Ok(());
    };
    let is_critical = |pid: &&u32| oom_score_adj(proc, **pid) == Some(CRITICAL);
    match pids.iter().find(is_critical) {
        Some(pid) if class != QosClass::Guaranteed => {
            Err(ActError::Critical { path: group.path.clone(), pid: *pid })
        }
        _ => Ok(()),
    }
}

/// True for what looks like the cgroup of a sandbox, and for what is empty: it may become one.
/// A cgroup with hidden processes cannot be told from a sandbox.
fn is_sandbox(proc: &Path, group: &CgroupDir) -> Result<bool, ActError> {
    let mut pids = Vec::new();
    let Unlisted { hidden, is_cut } = group.pids(&mut pids)?;
    if hidden > 0 {
        return Err(ActError::Hidden { path: group.path.clone(), n: hidden });
    }
    if is_cut {
        return Ok(false);
    }
    let is_named = |pid: &u32| {
        Stat::of(proc, *pid).is_some_and(|stat| matches!(stat.name.as_str(), "pause" | "conmon"))
    };
    let is_adjusted = |pid: &u32| oom_score_adj(proc, *pid) == Some(SANDBOX);
    // Any process can choose that name, but a cgroup that holds memory is no sandbox. Without the
    // memory controller its processes tell how much.
    let held = group.bytes("memory.current").or_else(|| resident(proc, &pids));
    let is_small = held.is_some_and(|held| held < LARGER_THAN_SANDBOX.0);
    Ok((is_small && pids.iter().all(is_named)) || pids.iter().all(is_adjusted))
}
