//! The actuator's ledger: which actions are in force or under way, and which limits were written
//! over what. It is on disk before anything follows from it, so that the next agent knows what an
//! agent that crashed had done. One JSON file.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::{Action, InForce, Phase, Release, ReleaseReason};
use isobar_core::model::units::{Bytes, Nanos, Percent};
use serde::{Deserialize, Serialize};

use crate::state;

/// The file's name in the state directory.
const FILE: &str = "ledger.json";
/// Evictions that are over count for an hour at most, whatever the budget's window.
const REMEMBERED: Nanos = Nanos(3600 * Nanos::SECOND.0);
/// And as many of them, of more the latest.
const MOST: usize = 64;

/// A limit that was written over another one: one file of one cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Override {
    pub(super) cgroup: CgroupId,
    pub(super) path: CgroupPath,
    pub(super) file: String,
    /// What stood there before isobar wrote.
    pub(super) before: String,
    /// What was written, as the kernel reads it back.
    pub(super) wrote: String,
    /// The actions that it is for; with the last of them it is undone.
    pub(super) actions: BTreeSet<u64>,
}

/// Why the ledger cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    /// Another version's file. What it remembers must not be lost.
    #[error(
        "cannot understand {path}; move it away, and see whether memory.high, cpu.weight, \
         io.weight, io.bfq.weight and memory.oom.group of the cgroups that it names, and oom_score_adj of their \
         processes, stand as they should"
    )]
    Text { path: PathBuf, source: serde_json::Error },
    /// The disk is full, or mounted read-only.
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Document {
    /// `/proc/sys/kernel/random/boot_id`: cgroup ids and moments mean nothing beyond it.
    boot: String,
    actions: Vec<InForce>,
    overrides: Vec<Override>,
}

/// What isobar has done on this node and still answers for.
#[derive(Debug)]
pub(super) struct Ledger {
    /// `None` for an agent that does not own the node's ledger: then nothing is kept on disk.
    path: Option<PathBuf>,
    document: Document,
    /// Why the last change is not on disk.
    trouble: Option<String>,
}

impl Ledger {
    /// Reads what an agent before this one left in the same boot.
    ///
    /// # Errors
    /// If there is a file and it cannot be read or understood.
    pub(super) fn open(state: Option<&Path>, boot: String) -> Result<Self, LedgerError> {
        let path = state.map(|state| state.join(FILE));
        let document = match &path {
            None => Document::default(),
            Some(path) => match state::read(path) {
                Ok(text) => serde_json::from_slice(&text)
                    .map_err(|source| LedgerError::Text { path: path.clone(), source })?,
                Err(why) if why.kind() == io::ErrorKind::NotFound => Document::default(),
                Err(source) => return Err(LedgerError::Read { path: path.clone(), source }),
            },
        };
        let document =
            if document.boot == boot { document } else { Document { boot, ..Document::default() } };
        Ok(Self { path, document, trouble: None })
    }

    /// Actions in force or under way, and evictions that still count; oldest first.
    pub(super) fn in_force(&self) -> &[InForce] {
        &self.document.actions
    }

    pub(super) fn overrides(&self) -> &[Override] {
        &self.document.overrides
    }

    /// Why the ledger on disk lags behind, if it does.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Enters an action before it is taken.
    ///
    /// # Errors
    /// If it cannot be written down. It is entered all the same: the caller decides whether an
    /// action may be taken that a crash would forget.
    pub(super) fn begin(
        &mut self,
        action: &Action,
        since: Nanos,
        held: Option<Bytes>,
        phase: Phase,
    ) -> Result<(), LedgerError> {
        self.document.actions.retain(|entry| entry.action.id != action.id);
        self.document.actions.push(InForce {
            action: action.clone(),
            since,
            held,
            phase,
            largest: None,
        });
        self.save()
    }

    /// What is known of a mark's largest process. It is written down with the next entry.
    pub(super) fn weigh(&mut self, action: u64, largest: Option<Percent>) {
        let mut its = self.document.actions.iter_mut().filter(|entry| entry.action.id == action);
        if let Some(entry) = its.next() {
            entry.largest = largest.or(entry.largest);
        }
    }

    /// A stop or a kill is over.
    pub(super) fn end(&mut self, action: u64, at: Nanos) {
        let mut its = self.document.actions.iter_mut().filter(|entry| entry.action.id == action);
        if let Some(entry) = its.find(|entry| entry.phase == Phase::Ending) {
            entry.phase = Phase::Ended { at };
            self.save_or_note();
        }
    }

    /// An action came to nothing, or was undone.
    pub(super) fn remove(&mut self, action: u64) {
        self.document.actions.retain(|entry| entry.action.id != action);
        self.save_or_note();
    }

    pub(super) fn override_of(&self, cgroup: CgroupId, file: &str) -> Option<&Override> {
        self.document.overrides.iter().find(|one| one.is_of(cgroup, file))
    }

    /// Enters a limit before it is written, in place of what is known of the same file.
    ///
    /// # Errors
    /// If it is not on disk: then it must not be written.
    pub(super) fn keep(&mut self, new: Override) -> Result<(), LedgerError> {
        let before = self.document.overrides.clone();
        self.document.overrides.retain(|old| !old.is_of(new.cgroup, &new.file));
        self.document.overrides.push(new);
        self.save().inspect_err(|_| self.document.overrides = before)
    }

    /// A limit stands as it stood before.
    pub(super) fn forget(&mut self, cgroup: CgroupId, file: &str) {
        self.document.overrides.retain(|old| !old.is_of(cgroup, file));
        self.save_or_note();
    }

    /// Drops what no longer matters: squeezes of cgroups that are gone, and evictions of long ago.
    pub(super) fn prune(&mut self, now: Nanos, is_there: impl Fn(&CgroupPath, CgroupId) -> bool) {
        let Document { actions, overrides, .. } = &mut self.document;
        let before = (actions.len(), overrides.len());
        overrides.retain(|one| is_there(&one.path, one.cgroup));
        let n_ended = actions.iter().filter(|e| matches!(e.phase, Phase::Ended { .. })).count();
        let mut n_surplus = n_ended.saturating_sub(MOST);
        actions.retain(|entry| match entry.phase {
            Phase::Ending => true,
            Phase::Squeezed => entry.action.target.cgroups().any(|(id, path)| is_there(path, id)),
            // With all containers that were marked the mark is gone: those that are started again
            // beside them are marked by the actuator, those after them by the next decision.
            Phase::Marked if entry.action.is_enforced => {
                overrides.iter().any(|one| one.actions.contains(&entry.action.id))
            }
            Phase::Marked => entry.action.target.cgroups().any(|(id, path)| is_there(path, id)),
            Phase::Ended { at } => {
                let is_surplus = n_surplus > 0;
                n_surplus = n_surplus.saturating_sub(1);
                !is_surplus && now.since(at) < REMEMBERED
            }
        });
        if (actions.len(), overrides.len()) != before || self.trouble.is_some() {
            self.save_or_note();
        }
    }

    /// What undoes each enforced squeeze and mark.
    pub(super) fn releases(&self) -> Vec<Release> {
        let actions = self.document.actions.iter();
        let undoable = actions.filter(|e| e.can_be_undone() && e.action.is_enforced);
        let release = |InForce { action, .. }: &InForce| Release {
            action: action.id,
            step: action.step,
            target: action.target.clone(),
            why: ReleaseReason::Leaving,
            is_enforced: true,
        };
        undoable.map(release).collect()
    }

    fn save_or_note(&mut self) {
        // That it is not on disk is reported by `trouble`.
        let _ = self.save();
    }

    fn save(&mut self) -> Result<(), LedgerError> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut document = self.document.clone();
        document.actions.retain(|entry| entry.action.is_enforced);
        let saved = write(path, &document)
            .map_err(|source| LedgerError::Write { path: path.clone(), source });
        self.trouble = saved.as_ref().err().map(|why| {
            let cause = std::error::Error::source(why).map(ToString::to_string);
            format!("{why}: {}", cause.unwrap_or_default())
        });
        saved
    }
}

fn write(path: &Path, document: &Document) -> io::Result<()> {
    state::replace(path, &serde_json::to_vec(document)?)
}

impl Override {
    fn is_of(&self, cgroup: CgroupId, file: &str) -> bool {
        self.cgroup == cgroup && self.file == file
    }
}

#[cfg(test)]
pub(super) mod tests;
