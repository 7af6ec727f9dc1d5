//! Takes steps of relief, follows them to their end, and takes squeezes back.
//! In: actions and releases. Out: outcomes, and the ledger.

mod ending;
mod prune;
mod steps;
mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustix::fs::{CWD, Mode, OFlags, openat};

use self::ending::Ending;
use self::steps::leftovers;
use super::available::{self, AvailableSteps};
use super::cgroup::{Killer, Root};
use super::deny::DenyList;
use super::error::{ActError, Done};
use super::evict::{Evictions, Way};
use super::ledger::{Ledger, LedgerError};
use super::process::Releaser;
use super::reclaim::Reclaim;
use super::target::{Node, OpenTarget};
use crate::clock;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::{InForce, Outcome, OutcomeResult, Release, StepKind, Target};
use isobar_core::model::pattern::PathPattern;
use isobar_core::model::units::Nanos;

/// Targets that are kept open, at most.
const PREPARED: usize = 16;
/// Processes of all of them of which pidfds are kept, at most.
const PREPARED_HELD: usize = 128;

/// Where to act, and what is never touched.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where cgroup v2 is mounted.
    pub cgroup_root: PathBuf,
    /// Where procfs is mounted.
    pub proc: PathBuf,
    /// The directory of the ledger; `None` for an agent that does not enforce: it keeps its ledger
    /// in memory, and leaves alone what another agent has in force.
    pub state: Option<PathBuf>,
    /// Cgroups that are never touched, beside those that are built in.
    pub never_touch: Vec<PathPattern>,
    /// The way to the API server; `None` where there is none.
    pub evict_by: Option<Way>,
}

/// Why no step can be taken at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open {path}, where cgroup v2 should be mounted")]
    Root { path: PathBuf, source: io::Error },
    #[error("cannot read {path}: is procfs mounted there?")]
    Boot { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Changes the node for relief; nothing else does.
#[derive(Debug)]
pub struct Actuator {
    options: Options,
    root: Root,
    deny: DenyList,
    killer: Killer,
    /// Files that were written once more after another program had undone a squeeze.
    mended: BTreeSet<(CgroupId, String)>,
    ledger: Ledger,
    prepared: Vec<OpenTarget>,
    evictions: Option<Evictions>,
    endings: Vec<Ending>,
    releaser: Releaser,
    reclaims: Vec<Reclaim>,
    /// Releases that failed, and why: the same failure is reported once.
    unreleased: BTreeMap<u64, String>,
    /// Marks are enforced: those in force are extended to containers that start.
    extends_marks: bool,
    pruned: Nanos,
}

impl Actuator {
    /// Finds out what can be done here, and reads the ledger.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, &options.cgroup_root, directory, Mode::empty());
        let root: Root = Arc::new(root.map_err(|why| {
            let path = options.cgroup_root.clone();
            OpenError::Root { path, source: why.into() }
        })?);
        let ledger = ledger(&options.proc, options.state.as_deref())?;
        let deny = DenyList::new(&options.proc, options.never_touch.clone());
        let evictions = options.evict_by.clone().map(Evictions::new);
        let (prepared, endings, releaser, reclaims, unreleased) = Default::default();
        let pruned = Nanos(0);
        let mut actuator = Self {
            options,
            root,
            deny,
            killer: Killer::new(),
            mended: BTreeSet::new(),
            ledger,
            prepared,
            evictions,
            endings,
            releaser,
            reclaims,
            unreleased,
            extends_marks: true,
            pruned,
        };
        // A squeeze that was taken back, as the ledger could not tell, is not written once more.
        let overrides = actuator.ledger.overrides().iter();
        actuator.mended = overrides.map(|one| (one.cgroup, one.file.clone())).collect();
        actuator.prune(clock::now().boot);
        actuator.mended.clear();
        Ok(actuator)
    }

    /// The steps that can be taken here, and those that can be told of.
    pub fn available_steps(&self) -> AvailableSteps {
        let can_evict = self.evictions.as_ref().is_some_and(Evictions::are_possible);
        available::steps(&self.root, can_evict)
    }

    /// What is in force or under way, and evictions that still count.
    pub fn in_force(&self) -> &[InForce] {
        self.ledger.in_force()
    }

    /// Why the ledger is not on disk, if it is not: the next agent would not know of it.
    pub fn trouble(&self) -> Option<&str> {
        self.ledger.trouble()
    }

    /// True while something is under way: `poll` has to be called.
    pub fn is_busy(&self) -> bool {
        !self.endings.is_empty() || !self.reclaims.is_empty()
    }

    /// Opens targets that may be acted upon next, so that nothing has to be looked up then.
    pub fn prepare(&mut self, targets: &[Target]) {
        self.deny.find_own(&self.options.proc);
        let node = node(&self.root, &self.options, &self.deny, &self.killer);
        let mut before = std::mem::take(&mut self.prepared);
        let mut n_held = 0;
        for target in targets.iter().take(PREPARED) {
            let most = PREPARED_HELD.saturating_sub(n_held);
            let known = before.iter().position(|one| one.is_of(target) && one.is_fresh(node));
            let opened = match known.map(|i| before.swap_remove(i)) {
                Some(mut opened) => opened.look(node, most).map(|()| opened),
                None => OpenTarget::open(node, target, most),
            };
            // One that cannot be opened is reported when a step is taken on it.
            if let Ok(opened) = opened {
                n_held += opened.held.len();
                self.prepared.push(opened);
            }
        }
    }

    /// Takes a squeeze back; `None` where it fails in the same way as the last time.
    pub fn release(&mut self, release: &Release) -> Option<Outcome> {
        let began = clock::now().boot;
        let Release { action, is_enforced, .. } = release;
        let done = self.put_back(*action, *is_enforced);
        match &done {
            Ok(_) => {
                let its = |e: &&InForce| e.action.id == *action;
                let is_real =
                    self.in_force().iter().find(its).is_some_and(|e| e.action.is_enforced);
                // What is really in force is not forgotten by a release that is only observed.
                if *is_enforced || !is_real {
                    self.ledger.remove(*action);
                }
                self.unreleased.remove(action);
            }
            Err(error) => {
                let text = error.to_string();
                let before = self.unreleased.insert(*action, text.clone());
                if before == Some(text) {
                    return None;
                }
            }
        }
        Some(outcome(*action, began, done.map(Done::from)))
    }

    /// Takes every enforced squeeze back: the agent leaves.
    pub fn release_all(&mut self) -> Vec<Outcome> {
        // One that failed before is told again: it stays.
        self.unreleased.clear();
        self.ledger.releases().iter().filter_map(|release| self.release(release)).collect()
    }

    /// Outcomes of what was under way, and SIGKILL where a grace is over.
    pub fn poll(&mut self) -> Vec<Outcome> {
        let now = clock::now().boot;
        let mut outcomes = self.hear_answers();
        let node = node(&self.root, &self.options, &self.deny, &self.killer);
        let mut over = Vec::new();
        self.endings.retain_mut(|ending| match ending.look(node) {
            Some(outcome) => {
                let leftovers = (outcome.result == OutcomeResult::Done)
                    .then(|| leftovers(&self.root, &ending.target, ending.action))
                    .flatten();
                over.push((ending.action, leftovers));
                outcomes.push(outcome);
                false
            }
            None => true,
        });
        for (action, leftovers) in over {
            self.ledger.end(action, now);
            self.reclaims.extend(leftovers);
        }
        outcomes.extend(self.poll_reclaims());
        if self.prune(now) && self.extends_marks {
            self.extend_marks();
        }
        outcomes
    }

    /// Lets no SIGKILL follow on steps that are no longer enforced, and extends no mark where marks are
    /// not. What the API server was asked for is not taken back.
    pub fn call_off(&mut self, is_enforced: impl Fn(StepKind) -> bool) -> Vec<Outcome> {
        let now = clock::now().boot;
        self.extends_marks = is_enforced(StepKind::Mark);
        let its = |ending: &mut Ending| !is_enforced(ending.step) && ending.step != StepKind::Evict;
        let called_off: Vec<_> = self.endings.extract_if(.., its).map(Ending::call_off).collect();
        called_off.iter().for_each(|outcome| self.ledger.end(outcome.action, now));
        called_off
    }
}

/// How many squeezes of any agent are in force by the ledger in this directory, which is not owned.
///
/// # Errors
/// If the ledger cannot be read.
pub fn n_squeezes(proc: &Path, state: &Path) -> Result<usize, OpenError> {
    Ok(ledger(proc, Some(state))?.releases().len())
}

/// The files that isobar has changed and will put back, by the ledger in this directory, which is
/// not owned. Of a mark it is `oom_score_adj`.
///
/// # Errors
/// If the ledger cannot be read.
pub fn changed(proc: &Path, state: &Path) -> Result<Vec<(CgroupPath, String)>, OpenError> {
    let ledger = ledger(proc, Some(state))?;
    let changed = ledger.overrides().iter().map(|entry| (entry.path.clone(), entry.file.clone()));
    Ok(changed.collect())
}

fn ledger(proc: &Path, state: Option<&Path>) -> Result<Ledger, OpenError> {
    let path = proc.join("sys/kernel/random/boot_id");
    let boot = fs::read_to_string(&path).map_err(|source| OpenError::Boot { path, source })?;
    Ok(Ledger::open(state, boot.trim_end().into())?)
}

fn node<'a>(
    root: &'a Root,
    options: &'a Options,
    deny: &'a DenyList,
    killer: &'a Killer,
) -> Node<'a> {
    Node { root, proc: &options.proc, deny, killer }
}

fn outcome(action: u64, began: Nanos, done: Result<Done, ActError>) -> Outcome {
    let (result, detail, freed) = match done {
        Ok(Done { detail, freed }) => (OutcomeResult::Done, detail, freed),
        Err(error) => (OutcomeResult::Failed, error.to_string(), None),
    };
    let (took, ended, never_begun) = (clock::now().boot.since(began), None, false);
    Outcome { action, result, detail, took, freed, ended, never_begun }
}
