//! What the ledger still answers for, looked through once a second.

use std::collections::BTreeSet;

use super::Actuator;
use super::ending::LONGEST;
use crate::act::cgroup::{CgroupDir, Root};
use crate::act::mark;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::{InForce, Phase};
use isobar_core::model::units::Nanos;

/// How often the ledger is looked through for what no longer matters.
const PRUNED: Nanos = Nanos::SECOND;

impl Actuator {
    /// Drops what no longer matters, if that is due.
    pub(super) fn prune(&mut self, now: Nanos) {
        if now.since(self.pruned) < PRUNED {
            return;
        }
        self.pruned = now;
        let kept = self.undo_left();
        let root = &self.root;
        self.ledger.prune(now, |path, id| kept.contains(&id) || is_there(root, path, id));
        self.end_unfollowed(now);
    }

    /// Takes the mark from processes that left a cgroup which is gone since. Those cgroups of which
    /// that failed: they are not forgotten, so that it is tried again, and a release reports why.
    fn undo_left(&self) -> BTreeSet<CgroupId> {
        let marks = self.ledger.overrides().iter().filter(|entry| entry.file == mark::SCORE);
        let gone = marks.filter(|entry| !is_there(&self.root, &entry.path, entry.cgroup));
        let failed = gone.filter_map(|entry| match mark::undo_left(&self.options.proc, entry) {
            Ok(0) => None,
            Ok(n) => {
                let (file, path) = (&entry.file, &entry.path);
                tracing::info!("{file} of {n} processes that left {path} put back; it is gone");
                None
            }
            Err(why) => {
                tracing::debug!("{why}");
                Some(entry.cgroup)
            }
        });
        failed.collect()
    }

    /// After a crash the victims of the agent before are not followed any more.
    fn end_unfollowed(&mut self, now: Nanos) {
        let root = &self.root;
        let is_followed = |id: u64| self.endings.iter().any(|ending| ending.action == id);
        let is_over = |entry: &&InForce| {
            let is_empty = |(id, path): (_, _)| match CgroupDir::open(root, path, id) {
                Ok(group) => group.is_empty(),
                Err(error) => error.is_gone(),
            };
            entry.phase == Phase::Ending
                && !is_followed(entry.action.id)
                && (now.since(entry.since) > LONGEST || entry.action.target.cgroups().all(is_empty))
        };
        let over = self.ledger.in_force().iter().filter(is_over).map(|entry| entry.action.id);
        let over: Vec<u64> = over.collect();
        over.into_iter().for_each(|id| self.ledger.end(id, now));
    }
}

/// One that cannot be opened for want of memory or descriptors is not gone.
fn is_there(root: &Root, path: &CgroupPath, id: CgroupId) -> bool {
    CgroupDir::open(root, path, id).map_or_else(|error| !error.is_gone(), |_| true)
}
