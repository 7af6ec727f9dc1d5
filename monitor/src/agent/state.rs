//! What an enforcing agent remembers beyond its own life, in `--state-dir`: that it is the one who
//! enforces, and what of the relief is under way. One that begins after a crash then knows of the
//! victim whose memory is still coming back, and takes no second one for it.
//! In: the relief's standing, before anything follows from it. Out: the same, if the boot is the
//! same.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::units::Nanos;
use isobar_core::policy::decide::ReliefStanding;

/// The form of the file. Another one is not read.
const FORMAT: u32 = 1;

/// Why this agent may not enforce.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Two that take victims for one shortage take one too many.
    #[error(
        "{holder} enforces on this node already, as {lock} says: stop it, or run this one with \
         --mode observe"
    )]
    Held {
        /// Who: `isobar (process 4711)`.
        holder: String,
        /// The file that it holds.
        lock: PathBuf,
    },
}

/// The directory, and what was last written to it.
#[derive(Debug)]
pub(super) struct State {
    dir: PathBuf,
    boot_id: String,
    /// Held for as long as this process lives, however it ends.
    lock: Option<File>,
    saved: Option<ReliefStanding>,
    /// Why nothing can be kept, if nothing can.
    trouble: Option<String>,
}

/// The file's content.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept<S> {
    format: u32,
    /// Moments are of the boot clock, so those of another boot say nothing.
    boot_id: String,
    relief: S,
}

impl State {
    /// Nothing is made or read yet.
    pub(super) fn at(dir: &Path) -> Self {
        Self { dir: dir.into(), boot_id: String::new(), lock: None, saved: None, trouble: None }
    }

    /// Where it lies.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// True if this agent is the one who enforces, and what it does can be remembered.
    pub(super) fn is_ours(&self) -> bool {
        self.lock.is_some()
    }

    /// Makes this agent the one who enforces, until it ends. Where nothing can be kept it goes on
    /// without, and a capability says so.
    ///
    /// # Errors
    /// [`StateError::Held`] if another one does.
    pub(super) fn claim(&mut self) -> Result<(), StateError> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = self.dir.join("lock");
        match self.lock(&path) {
            Ok(file) => (self.lock, self.trouble) = (Some(file), None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(StateError::Held { holder: holder(&path), lock: path });
            }
            Err(error) => {
                let trouble = format!("cannot lock {}: {error}", path.display());
                tracing::warn!(
                    "{trouble}; a crash will be forgotten, and a second agent not be noticed"
                );
                self.trouble = Some(trouble);
            }
        }
        Ok(())
    }

    /// Leaves enforcing to others, who may write what they like to what was kept.
    pub(super) fn let_go(&mut self) {
        (self.lock, self.saved) = (None, None);
    }

    fn lock(&self, path: &Path) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o755).create(&self.dir)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let mut file = options.open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // Only who holds the lock may write down that it does.
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(file)
    }

    /// What an agent before this one had under way in this boot, as far as it still holds `now`
    /// for one whose `own` standing this is; `None` if nothing, or if this agent is not the one who
    /// enforces.
    pub(super) fn restore(
        &mut self,
        boot_id: &str,
        own: &ReliefStanding,
        now: Nanos,
    ) -> Option<ReliefStanding> {
        self.boot_id = boot_id.into();
        self.lock.as_ref()?;
        let path = self.file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!("cannot read {}, so it is not gone by: {error}", path.display());
                return None;
            }
        };
        let misread = |why: &serde_json::Error| {
            tracing::warn!("{} is not understood, so it is not gone by: {why}", path.display());
        };
        let kept: Kept<ReliefStanding> = serde_json::from_str(&text).inspect_err(misread).ok()?;
        if kept.boot_id != self.boot_id || kept.format != FORMAT {
            tracing::info!("{} is of another boot or version: not gone by", path.display());
            return None;
        }
        tracing::info!("going on with the relief that {} tells of", path.display());
        Some(kept.relief.gone_on_with(own, now))
    }

    /// Keeps it before anything follows from it. What has not changed is not written again.
    pub(super) fn keep(&mut self, relief: &ReliefStanding) {
        if self.lock.is_none() || self.saved.as_ref() == Some(relief) {
            return;
        }
        match self.write(relief) {
            Ok(()) => (self.saved, self.trouble) = (Some(relief.clone()), None),
            Err(error) => {
                let trouble = format!("cannot write {}: {error}", self.file().display());
                if self.trouble.as_ref() != Some(&trouble) {
                    tracing::warn!("{trouble}; a crash will be forgotten");
                }
                self.trouble = Some(trouble);
            }
        }
    }

    /// Whole or not at all: a crash in the middle leaves the file before it. Nothing is flushed to
    /// a disk, for what this is about does not outlive the kernel.
    fn write(&self, relief: &ReliefStanding) -> io::Result<()> {
        let kept = Kept { format: FORMAT, boot_id: self.boot_id.clone(), relief };
        let path = self.file();
        let new = path.with_extension("new");
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&new)?.write_all(&serde_json::to_vec(&kept)?)?;
        fs::rename(&new, &path)
    }

    fn file(&self) -> PathBuf {
        self.dir.join("relief.json")
    }

    /// Whether it is kept; `None` for an agent that has nothing to keep.
    pub(super) fn capability(&self) -> Option<Capability> {
        let capability = |state, detail, remedy| {
            Some(Capability { name: "state on disk".into(), state, detail, remedy })
        };
        match (&self.trouble, self.is_ours()) {
            (Some(trouble), _) => {
                let remedy = Some("name a directory that can be written, with --state-dir".into());
                capability(CapabilityState::Absent, trouble.clone(), remedy)
            }
            (None, true) => {
                capability(CapabilityState::Attached, self.dir.display().to_string(), None)
            }
            (None, false) => None,
        }
    }
}

/// Who wrote its number into the lock; whoever holds it may not have done so yet.
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
