//! The only part of isobar that changes anything on the node.
//! In: actions and releases as they were decided, and limits as they should be. Out: what came of
//! each. It never judges: it refuses what may never be touched, does what it is told as far as it
//! is enforced, and says what it saw.

mod aside;
mod cgroup;
mod failure;
mod guard;
mod journal;
mod kill;
pub mod limits;
mod means;
mod mrelease;
mod process;
mod reclaim;
mod reclaiming;
mod running;
mod scene;
mod squeeze;
mod steps;
mod sweep;
mod work;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};

use self::cgroup::{Group, Root};
use self::guard::Guard;
pub use self::journal::JournalError;
use self::journal::{Entry, Journal};
use self::mrelease::Releaser;
use self::reclaiming::Reclaiming;
use self::running::Running;
use self::scene::{Scene, Stage};
use self::sweep::Sweeps;
use crate::clock;
use isobar_core::model::decision::{
    Action, Outcome, OutcomeResult, Release, ReleaseReason, StepKind, Target,
};
use isobar_core::model::pattern::PathPattern;
use isobar_core::model::units::{Bytes, Nanos};

/// Targets that are kept open, at most.
const LIKELY: usize = 16;
/// Processes of all of them that are held, at most.
const LIKELY_HELD: usize = 128;

/// Where to act, and where nothing is done.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where cgroup v2 is mounted.
    pub cgroup_root: PathBuf,
    /// Where procfs is mounted.
    pub proc: PathBuf,
    /// What is remembered beyond the life of the agent lies here: what was written, and over what.
    pub state: PathBuf,
    /// Cgroups that nothing is ever done to, beside those that are built in.
    pub never_touch: Vec<PathPattern>,
}

/// Why nothing can be done at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such directory, or it may not be read.
    #[error("cannot open {path}, where cgroup v2 should be mounted")]
    Root {
        /// Which directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// procfs is not mounted there.
    #[error("cannot read {path}: is procfs mounted there?")]
    Boot {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What was written before cannot be known.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Who acts.
#[derive(Debug)]
pub struct Actor {
    options: Options,
    root: Root,
    guard: Guard,
    journal: Journal,
    likely: Vec<Scene>,
    running: Vec<Running>,
    releaser: Releaser,
    reclaiming: Vec<Reclaiming>,
    sweeps: Sweeps,
    /// Releases that have failed.
    owed: Vec<Release>,
    /// When they were last tried again.
    settled: Nanos,
}

impl Actor {
    /// Finds out what can be done here, and takes up what another agent left behind.
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
        let path = options.proc.join("sys/kernel/random/boot_id");
        let boot = fs::read_to_string(&path).map_err(|source| OpenError::Boot { path, source })?;
        let journal = Journal::open(&options.state, boot.trim_end().into(), |entry| {
            Group::open(&root, &entry.path, entry.cgroup).is_ok()
        })?;
        let guard = Guard::new(&options.proc, options.never_touch.clone());
        let (likely, running, releaser, reclaiming, sweeps, owed, settled) = Default::default();
        Ok(Self {
            options,
            root,
            guard,
            journal,
            likely,
            running,
            releaser,
            reclaiming,
            sweeps,
            owed,
            settled,
        })
    }

    /// The steps that can be taken here. Never the API's eviction, which is no matter of the node.
    #[must_use]
    pub fn means(&self) -> BTreeSet<StepKind> {
        means::of(&self.root)
    }

    /// Squeezes in force that nobody may remember, each as a release that undoes it: an agent before
    /// this one left them, or taking them back has failed.
    #[must_use]
    pub fn left_over(&self) -> Vec<Release> {
        releases(self.journal.orphans())
    }

    /// All squeezes in force, those that were left over too, each as a release that undoes it.
    #[must_use]
    pub fn in_force(&self) -> Vec<Release> {
        releases(self.journal.entries().iter())
    }

    /// Opens the cgroups of those who may be next, so that nothing has to be looked up then.
    pub fn prepare(&mut self, likely: &[Target]) {
        self.guard.find_own(&self.options.proc);
        let stage = Stage { root: &self.root, proc: &self.options.proc, guard: &self.guard };
        let mut before = std::mem::take(&mut self.likely);
        let mut n_held = 0;
        for target in likely.iter().take(LIKELY) {
            let most = LIKELY_HELD - n_held;
            let known =
                before.iter().position(|scene| scene.is_of(target) && scene.is_fresh(stage));
            let scene = match known.map(|i| before.swap_remove(i)) {
                Some(mut scene) => scene.look(stage, most).map(|()| scene),
                None => Scene::open(stage, target, most),
            };
            // Who cannot be opened now is told so when it is to be done.
            if let Ok(scene) = scene {
                n_held += scene.held.len();
                self.likely.push(scene);
            }
        }
    }

    /// Takes one step. One that is not enforced goes the same way up to the last write.
    pub fn take(&mut self, action: &Action) -> Outcome {
        self.step(action)
    }

    /// Takes a squeeze back.
    pub fn release(&mut self, release: &Release) -> Outcome {
        self.undo(release)
    }

    /// What has come since the last call of actions whose end was not awaited: processes that
    /// ended, memory that came back. Each such action is told of once more, and here the grace of
    /// those who were asked to end runs out. What could not be taken back is tried again.
    pub fn news(&mut self) -> Vec<Outcome> {
        let stage = Stage { root: &self.root, proc: &self.options.proc, guard: &self.guard };
        let mut news = Vec::new();
        self.running.retain_mut(|running| match running.look(stage) {
            Some(outcome) => {
                if outcome.result == OutcomeResult::Done {
                    self.sweeps.begin(running.action, stage.root, &running.scene);
                }
                news.push(outcome);
                false
            }
            None => true,
        });
        news.extend(self.sweeps.look());
        news.extend(self.reclaimed());
        news.extend(self.settle(clock::now().boot));
        news
    }

    /// Lets nothing more follow on steps that are not enforced any longer: whoever was asked to end
    /// and has not is left alone. What had come of each by then.
    pub fn call_off(&mut self, is_enforced: impl Fn(StepKind) -> bool) -> Vec<Outcome> {
        let its = |running: &mut Running| !is_enforced(running.step);
        self.running.extract_if(.., its).map(Running::call_off).collect()
    }

    /// True while there is somebody whose end is awaited: `news` has to be asked for.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.running.is_empty() || !self.reclaiming.is_empty() || self.sweeps.is_busy()
    }
}

/// What undoes these.
fn releases<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<Release> {
    let mut releases: Vec<Release> = Vec::new();
    for entry in entries {
        for action in &entry.actions {
            let target = Target {
                name: entry.path.0.clone(),
                cgroup: Some(entry.cgroup),
                path: Some(entry.path.clone()),
                ..Target::default()
            };
            let why = ReleaseReason::Expired;
            let release = Release { action: *action, target, why, is_enforced: true };
            if !releases.contains(&release) {
                releases.push(release);
            }
        }
    }
    releases
}

/// An amount of memory for people.
fn size(bytes: Bytes) -> String {
    match bytes.0 {
        n if n >= 10 << 20 => format!("{} MiB", n >> 20),
        n if n >= 10 << 10 => format!("{} KiB", n >> 10),
        n => format!("{n} bytes"),
    }
}
