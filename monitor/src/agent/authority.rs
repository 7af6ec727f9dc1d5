//! What the agent may do on the node: the mode, what can be done here, and the lock that lets one
//! agent alone enforce.
//! In: settings as they were configured. Out: the same, naming as enforced what really will be.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::state;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::settings::Settings;

/// What the operator lets the agent do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// What the configuration names: nothing, if it names nothing.
    #[default]
    Configured,
    /// Nothing, whatever the configuration names.
    Observe,
}

impl Mode {
    fn apply(self, settings: &mut Settings) {
        let enforce = &mut settings.relief.enforce;
        if self == Self::Observe && !enforce.is_empty() {
            tracing::warn!("ignoring relief.enforce: --mode observe");
            enforce.clear();
        }
    }
}

/// Why this agent may not enforce.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Two agents that take victims for one shortage take one too many.
    #[error(
        "{holder} enforces on this node already (lock {lock}): stop it, or run this one with \
         --mode observe"
    )]
    Held {
        /// `isobar (process 4711)`.
        holder: String,
        lock: PathBuf,
    },
}

/// What may be done, and what it takes: an actuator, and no other agent that enforces.
#[derive(Debug, Default)]
pub(super) struct Authority {
    mode: Mode,
    /// Why no step can be taken on this node, if none can.
    pub(super) unable: Option<String>,
    state_dir: PathBuf,
    /// Held for as long as this process lives, however it ends.
    lock: Option<File>,
    /// Why there is no lock although one is wanted.
    trouble: Option<String>,
    /// Limits that the settings name are written.
    writes_limits: bool,
    /// What the settings in force name as enforced, in words.
    words: String,
}

impl Authority {
    /// Nothing is made or read yet.
    pub(super) fn new(mode: Mode, state_dir: &Path) -> Self {
        Self { mode, state_dir: state_dir.into(), ..Self::default() }
    }

    /// Makes the settings say what will be enforced. If something is, this agent is the only one
    /// on the node that enforces, from now until it ends. Where no lock can be made it goes on
    /// without, and a capability says so.
    ///
    /// # Errors
    /// [`LockError::Held`] if another one enforces; the settings are as configured then.
    pub(super) fn bind(&mut self, settings: &mut Settings) -> Result<(), LockError> {
        self.mode.apply(settings);
        self.writes_limits = self.mode != Mode::Observe && !settings.node.write_limits.is_empty();
        if self.writes_limits || !settings.relief.enforce.is_empty() {
            match &self.unable {
                Some(why) => {
                    tracing::error!("observing only: no step can be taken on this node: {why}");
                    settings.relief.enforce.clear();
                    self.writes_limits = false;
                    self.release();
                }
                None => self.claim()?,
            }
        }
        self.describe(settings);
        Ok(())
    }

    /// Has the settings say that nothing is enforced.
    pub(super) fn only_observe(&mut self, settings: &mut Settings) {
        settings.relief.enforce.clear();
        self.writes_limits = false;
        self.describe(settings);
    }

    fn describe(&mut self, settings: &Settings) {
        self.words = settings.relief.mode();
        if self.writes_limits {
            let names: Vec<_> = settings.node.write_limits.iter().map(|one| one.name()).collect();
            self.words = format!("{}, and writing limits ({})", self.words, names.join(", "));
        }
    }

    pub(super) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Where the ledger is kept; `None` where another agent's may lie.
    pub(super) fn ledger_dir(&self) -> Option<&Path> {
        (self.lock.is_some() || self.trouble.is_some()).then_some(&self.state_dir)
    }

    /// True if limits are written that the settings name; else they are only compared.
    pub(super) fn writes_limits(&self) -> bool {
        self.writes_limits
    }

    /// What is enforced: `observing`, or `enforcing` with the steps.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    fn claim(&mut self) -> Result<(), LockError> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = self.state_dir.join("lock");
        match lock(&path) {
            Ok(file) => (self.lock, self.trouble) = (Some(file), None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The ledger is the holder's from now on.
                self.trouble = None;
                return Err(LockError::Held { holder: holder(&path), lock: path });
            }
            Err(error) => {
                let trouble = format!("cannot lock {}: {error}", path.display());
                tracing::warn!("{trouble}; a second agent that enforces would not be noticed");
                self.trouble = Some(trouble);
            }
        }
        Ok(())
    }

    /// Lets another agent enforce.
    pub(super) fn release(&mut self) {
        (self.lock, self.trouble) = (None, None);
    }

    /// Lets another agent enforce if this one enforces nothing any more; true if it now may.
    pub(super) fn release_if_observing(&mut self, settings: &Settings) -> bool {
        let is_over = self.ledger_dir().is_some()
            && settings.relief.enforce.is_empty()
            && !self.writes_limits;
        if is_over {
            self.release();
            tracing::info!(
                "lock released: no step is enforced or in force, so another agent may enforce"
            );
        }
        is_over
    }

    /// What is enforced, and whether the state directory can be used.
    pub(super) fn capabilities(&self, settings: &Settings) -> Vec<Capability> {
        let mut relief = Capability::relief(&settings.relief);
        relief.detail.clone_from(&self.words);
        if let Some(why) = &self.unable {
            relief.detail = format!("{}; no step can be taken on this node: {why}", relief.detail);
            if settings.relief.enforce.is_empty() {
                relief.state = CapabilityState::Absent;
                relief.remedy = Some("run as root, in the node's own namespaces".into());
            }
        }
        let lock = |state, detail: &str| Capability::new("state on disk", state, detail);
        let remedy = "name a directory that can be written, with --state-dir";
        let lock = match (&self.trouble, &self.lock) {
            (Some(trouble), _) => Some(lock(CapabilityState::Absent, trouble).remedied(remedy)),
            (None, Some(_)) => {
                Some(lock(CapabilityState::Attached, &self.state_dir.display().to_string()))
            }
            (None, None) => None,
        };
        [Some(relief), lock].into_iter().flatten().collect()
    }
}

fn lock(path: &Path) -> io::Result<File> {
    let mut file = state::lock(path)?;
    // Only the agent that holds the lock may write its process id into it.
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

/// The agent that wrote its process id into the lock; one that has just locked may not have yet.
fn holder(lock: &Path) -> String {
    let mut text = String::new();
    let read = File::open(lock).and_then(|file| file.take(32).read_to_string(&mut text));
    match text.trim().parse::<u32>() {
        Ok(pid) if read.is_ok() => format!("isobar (process {pid})"),
        _ => "another isobar".into(),
    }
}

#[cfg(test)]
mod tests;
