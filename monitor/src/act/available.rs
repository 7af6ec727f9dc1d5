//! The steps that can be taken on this node: what its kernel has and what this process may.

use std::collections::BTreeSet;

use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::thread::CapabilitySet;

use super::cgroup::{CgroupDir, Root};
use super::process::can_release;
use isobar_core::model::decision::StepKind;

/// Children of the root that are looked at: a controller is on for all of them or for none, but
/// for those that are threaded.
const LOOKED_AT: usize = 8;

/// The steps that this kernel has and this process may take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AvailableSteps {
    /// They can be told of: an agent that only observes needs no right to say what it would do.
    pub known: BTreeSet<StepKind>,
    /// They can be taken.
    pub allowed: BTreeSet<StepKind>,
}

/// What can be taken, and what can be told of.
///
/// Source: `cgroup.kill` Linux 5.14, `memory.reclaim` 5.19, `process_mrelease` 5.15,
/// Documentation/admin-guide/cgroup-v2.rst.
pub(super) fn steps(root: &Root, can_evict: bool) -> AvailableSteps {
    // The root itself has none of the files; a controller that any child has is on.
    let children = CgroupDir::children_of_root(root).unwrap_or_default();
    let children = children.iter().take(LOOKED_AT);
    let has_pidfds = pidfd_open(getpid(), PidfdFlags::empty()).is_ok();
    let any = |can: fn(&CgroupDir, &'static str) -> bool, files: &[&'static str]| {
        children.clone().any(|child| files.iter().any(|file| can(child, file)))
    };
    let among = |can, can_mark| {
        let is_there = |step: &StepKind| match step {
            StepKind::Mark => can_mark,
            StepKind::Reclaim => any(can, &["memory.reclaim"]),
            StepKind::Squeeze => any(can, &["memory.high", "cpu.weight"]),
            StepKind::StopContainers => has_pidfds,
            StepKind::KillContainers => has_pidfds || any(can, &["cgroup.kill"]),
            StepKind::ReleaseMemory => has_pidfds && can_release(),
            StepKind::Evict => can_evict,
        };
        StepKind::ALL.into_iter().filter(is_there).collect()
    };
    AvailableSteps {
        known: among(CgroupDir::has, true),
        // Taking a mark back lowers a score: CAP_SYS_RESOURCE, `proc_oom_score_adj_write`, fs/proc/base.c.
        allowed: among(CgroupDir::can_write, can_lower_scores()),
    }
}

/// Whether this process may lower an OOM score.
fn can_lower_scores() -> bool {
    let sets = rustix::thread::capabilities(None);
    sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}
