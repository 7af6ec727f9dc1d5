//! What the ledger still answers for, looked through once a second.

use std::collections::BTreeSet;

use super::ending::longest;
use super::{Actuator, node};
use crate::act::cgroup::{CgroupDir, Root};
use crate::act::error::ActError;
use crate::act::ledger::Override;
use crate::act::mark;
use crate::act::process::processes;
use crate::act::target::OpenTarget;
use crate::act::throttle;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::{Action, InForce, Phase};
use isobar_core::model::units::Nanos;

/// How often the ledger is looked through for what no longer matters.
const PRUNED: Nanos = Nanos::SECOND;
/// A write that the kernel was slow to take counts as done by then.
const WRITTEN: Nanos = Nanos(3 * Nanos::SECOND.0);

impl Actuator {
    /// Drops what no longer matters, if that is due; whether it was.
    pub(super) fn prune(&mut self, now: Nanos) -> bool {
        if now.since(self.pruned) < PRUNED {
            return false;
        }
        self.pruned = now;
        self.mend_undone(now);
        let kept = self.undo_left();
        let root = &self.root;
        self.ledger.prune(now, |path, id| kept.contains(&id) || is_there(root, path, id));
        let in_force: BTreeSet<u64> = self.in_force().iter().map(|e| e.action.id).collect();
        self.unreleased.retain(|action, _| in_force.contains(action));
        self.end_unfollowed(now);
        true
    }

    /// Extends marks to containers that were started since. One beside them that did not end keeps
    /// the mark in force, and what is in force is not decided again.
    pub(super) fn extend_marks(&mut self) {
        let is_mark = |e: &&InForce| e.phase == Phase::Marked && e.action.is_enforced;
        let marks = self.ledger.in_force().iter().filter(is_mark);
        let actions: Vec<Action> = marks.map(|entry| entry.action.clone()).collect();
        if !actions.is_empty() {
            self.deny.find_own(&self.options.proc);
        }
        for action in actions {
            match self.extend_mark(&action) {
                Ok(done) => {
                    done.iter().for_each(|done| tracing::info!(action = action.id, "{done}"));
                }
                // It is gone, or may not be touched any more; the mark is taken back as it stands.
                Err(why) => tracing::debug!(action = action.id, "mark not extended: {why}"),
            }
        }
    }

    fn extend_mark(&mut self, action: &Action) -> Result<Vec<String>, ActError> {
        let node = node(&self.root, &self.options, &self.deny, &self.killer);
        let target = OpenTarget::open(node, &action.target, 0)?;
        let is_new = |group: &&CgroupDir| self.ledger.override_of(group.id, mark::SCORE).is_none();
        let new: Vec<_> = target.work().filter(is_new).collect();
        let mut mark = |group| mark::mark(&self.options.proc, group, action, &mut self.ledger);
        // As when it was marked, one may be empty, or be protected by its scores.
        Ok(new.into_iter().filter_map(|group| mark(group).ok()).collect())
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
                let processes = processes(n as u64);
                tracing::info!("{file} of {processes} that left {path} put back; it is gone");
                None
            }
            Err(why) => {
                tracing::debug!("{why}");
                Some(entry.cgroup)
            }
        });
        failed.collect()
    }

    /// Squeezes that another program has undone, as `systemctl daemon-reload` does of pods' slices, are written
    /// once more. One that is undone again is over.
    fn mend_undone(&mut self, now: Nanos) {
        let is_old = |e: &&InForce| e.phase == Phase::Squeezed && now.since(e.since) >= WRITTEN;
        let old = self.ledger.in_force().iter().filter(is_old).map(|entry| entry.action.id);
        let mut ended: BTreeSet<u64> = old.collect();
        let is_undone = |entry: &&Override| {
            entry.actions.is_subset(&ended) && throttle::is_undone(&self.root, entry)
        };
        let undone = self.ledger.overrides().iter().filter(is_undone).cloned();
        let (again, undone): (Vec<_>, Vec<_>) =
            undone.partition(|entry| self.mended.insert((entry.cgroup, entry.file.clone())));
        for entry in &again {
            let Override { path, file, wrote, .. } = entry;
            match throttle::write_again(&self.root, entry) {
                Ok(_) => {
                    tracing::info!("{path}/{file} is {wrote} again: another program had undone it");
                }
                Err(why) => tracing::warn!("{why}"),
            }
        }
        for Override { cgroup, path, file, before, .. } in &undone {
            tracing::warn!("{path}/{file} is left at {before}: another program undoes the squeeze");
            self.ledger.forget(*cgroup, file);
            self.mended.remove(&(*cgroup, file.clone()));
        }
        ended.retain(|id| undone.iter().any(|entry| entry.actions.contains(id)));
        let overrides = self.ledger.overrides();
        ended.retain(|id| !overrides.iter().any(|entry| entry.actions.contains(id)));
        ended.into_iter().for_each(|id| self.ledger.remove(id));
        self.mended.retain(|(cgroup, file)| self.ledger.override_of(*cgroup, file).is_some());
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
                && (now.since(entry.since) > longest(&entry.action)
                    || entry.action.target.cgroups().all(is_empty))
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
