//! The only part of isobar that changes anything on the node.
//! In: actions and releases as they were decided, and limits as they should be. Out: what came of
//! each. It never judges: it refuses what may never be touched, does what it is told as far as it
//! is enforced, and says what it saw.

pub mod limits;

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::model::decision::{Action, Outcome, Release, StepKind, Target};
use crate::model::pattern::PathPattern;

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
pub enum OpenError {}

/// Who acts.
#[derive(Debug)]
pub struct Actor {
    options: Options,
}

impl Actor {
    /// Finds out what can be done here, and takes up what another agent left behind.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: Options) -> Result<Self, OpenError> {
        Ok(Self { options })
    }

    /// The steps that can be taken here.
    #[must_use]
    pub fn means(&self) -> BTreeSet<StepKind> {
        BTreeSet::new()
    }

    /// Opens the cgroups of those who may be next, so that nothing has to be looked up then.
    pub fn prepare(&mut self, likely: &[Target]) {
        let _ = likely;
    }

    /// Takes one step. One that is not enforced goes the same way up to the last write.
    pub fn take(&mut self, action: &Action) -> Outcome {
        let _ = (action, &self.options);
        unimplemented!("the ladder")
    }

    /// Takes a squeeze back.
    pub fn release(&mut self, release: &Release) -> Outcome {
        let _ = release;
        unimplemented!("the ladder")
    }

    /// What has come since the last call of actions whose end was not awaited: processes that
    /// ended, memory that came back.
    pub fn news(&mut self) -> Vec<Outcome> {
        Vec::new()
    }
}
