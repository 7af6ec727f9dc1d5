//! What was written over what, on disk: `limits.json` below the agent's state, for this boot alone,
//! because cgroups do not outlive it. Written whole and renamed, so that it is never half there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::normal;
use crate::state;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::limit::LimitWrite;
use isobar_core::model::settings::WrittenLimit;

/// The file's name below the state directory.
const NAME: &str = "limits.json";
/// Held while it is read and written, so that an agent and a verb do not mix their news.
const LOCK: &str = "limits.lock";
const BOOT_ID: &str = "sys/kernel/random/boot_id";

/// Why nothing is written: it could not be taken back.
#[derive(Debug, thiserror::Error)]
pub(super) enum RememberError {
    /// There is no place for it, or no room.
    #[error(
        "nothing is written that could not be taken back: cannot keep {path}: {source}; name a \
         directory that can be written by --state-dir"
    )]
    Keep { path: PathBuf, source: io::Error },
    /// It is there and says nothing.
    #[error(
        "no limit is written: {path} is damaged ({source}); restore the values that it names by \
         hand, then move it away"
    )]
    Spoilt { path: PathBuf, source: serde_json::Error },
}

/// One file that was written, or was about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    what: WrittenLimit,
    cgroup: CgroupPath,
    /// Which cgroup had that path: another one has limits of its own.
    pub(super) id: CgroupId,
    file: String,
    /// What stood there before.
    pub(super) before: String,
    /// What was written and read back.
    pub(super) written: Option<String>,
    /// What was about to be written, when it is not known whether it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<String>,
}

impl Entry {
    /// True if another writer wrote what stands there now.
    pub(super) fn is_overwritten_by(&self, live: &str) -> bool {
        let is = |one: &String| normal(&self.file, one) == normal(&self.file, live);
        let was_never = self.written.is_none() && is(&self.before);
        !was_never && !self.written.iter().chain(&self.pending).any(is)
    }

    pub(super) fn is_of(&self, write: &LimitWrite) -> bool {
        self.cgroup == write.cgroup && self.file == write.file
    }

    /// The write that takes it back.
    pub(super) fn back(&self) -> LimitWrite {
        let Self { what, cgroup, file, before, .. } = self.clone();
        LimitWrite { what, cgroup, file, value: before }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    boot_id: String,
    limits: Vec<Entry>,
}

/// All that is remembered, for as long as it is held.
pub(super) struct Remembered {
    path: PathBuf,
    content: Content,
    /// Released when it is closed; `None` if nothing will be written.
    _lock: Option<File>,
}

impl Remembered {
    /// Reads it; `is_held` keeps others from it, and makes its directory.
    pub(super) fn open(dir: &Path, proc: &Path, is_held: bool) -> Result<Self, RememberError> {
        let path = dir.join(NAME);
        let keep = |source| RememberError::Keep { path: path.clone(), source };
        let lock = match is_held {
            true => Some(state::lock_soon(&dir.join(LOCK)).map_err(keep)?),
            false => None,
        };
        let boot_id = fs::read_to_string(proc.join(BOOT_ID)).unwrap_or_default().trim().to_owned();
        let read = match state::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|source| RememberError::Spoilt { path: path.clone(), source })?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => Content::default(),
            Err(why) => return Err(keep(why)),
        };
        let limits = if read.boot_id == boot_id { read.limits } else { Vec::new() };
        Ok(Self { path, content: Content { boot_id, limits }, _lock: lock })
    }

    /// What is known of the file of that very cgroup.
    pub(super) fn entry(&self, write: &LimitWrite, id: CgroupId) -> Option<&Entry> {
        self.content.limits.iter().find(|entry| entry.is_of(write) && entry.id == id)
    }

    /// Those that were written because of `what`, in the order in which they first were.
    pub(super) fn of(&self, what: WrittenLimit) -> impl Iterator<Item = &Entry> {
        self.content.limits.iter().filter(move |entry| entry.what == what)
    }

    /// Notes that `write` comes next, over `live`.
    pub(super) fn announce(
        &mut self,
        write: &LimitWrite,
        id: CgroupId,
        live: &str,
    ) -> Result<(), RememberError> {
        // What was known of a cgroup of that path that has gone went with it.
        self.content.limits.retain(|entry| !entry.is_of(write) || entry.id == id);
        let LimitWrite { what, cgroup, file, value } = write.clone();
        match self.content.limits.iter_mut().find(|entry| entry.is_of(write)) {
            Some(entry) => {
                if entry.is_overwritten_by(live) {
                    entry.before = live.to_owned();
                }
                entry.what = what;
                entry.pending = Some(value);
            }
            None => {
                let (before, written, pending) = (live.to_owned(), None, Some(value));
                let entry = Entry { what, cgroup, id, file, before, written, pending };
                self.content.limits.push(entry);
            }
        }
        self.save()
    }

    /// Notes that `write` stands, if it was announced or anything was written there before. What another
    /// writer wrote is its own, and not taken back.
    pub(super) fn confirm(
        &mut self,
        write: &LimitWrite,
        id: CgroupId,
    ) -> Result<(), RememberError> {
        let mut entries = self.content.limits.iter_mut();
        let known = entries.find(|entry| entry.is_of(write) && entry.id == id);
        let Some(entry) = known else { return Ok(()) };
        if entry.is_overwritten_by(&write.value) {
            self.content.limits.retain(|entry| !(entry.is_of(write) && entry.id == id));
            return self.save();
        }
        let (written, pending) = (Some(write.value.clone()), None);
        if entry.written == written && entry.pending == pending {
            return Ok(());
        }
        (entry.written, entry.pending) = (written, pending);
        self.save()
    }

    /// Forgets all of `what` but these.
    pub(super) fn leave(
        &mut self,
        what: WrittenLimit,
        kept: Vec<Entry>,
    ) -> Result<(), RememberError> {
        self.content.limits.retain(|entry| entry.what != what);
        self.content.limits.extend(kept);
        self.save()
    }

    fn save(&self) -> Result<(), RememberError> {
        let keep = |source| RememberError::Keep { path: self.path.clone(), source };
        let text = serde_json::to_vec_pretty(&self.content)
            .expect("lists of texts and numbers, and writing to memory cannot fail");
        state::replace(&self.path, &text).map_err(keep)
    }
}
