//! What was written to hold somebody back, and over what: on disk before it is in the kernel, so
//! that whoever comes after a crash can undo it.
//! One JSON file, written anew beside the old one, flushed, and put in its place.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use isobar_core::model::cgroup::{CgroupId, CgroupPath};

/// One file of one cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// `/proc/sys/kernel/random/boot_id`: cgroup ids mean nothing beyond it.
    pub(super) boot: String,
    pub(super) cgroup: CgroupId,
    pub(super) path: CgroupPath,
    pub(super) file: String,
    /// What stood there before anything of ours did.
    pub(super) before: String,
    /// What was written, as the kernel says it back.
    pub(super) wrote: String,
    /// The actions that it is for; with the last of them it is undone.
    pub(super) actions: BTreeSet<u64>,
}

/// Why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// No permission, as a rule.
    #[error("cannot read {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else's file, or a newer version's.
    #[error(
        "cannot understand {path}; move it away, and see whether memory.high, cpu.weight and \
         io.weight of the cgroups that it names stand as they should"
    )]
    Text {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The disk is full, or mounted read-only.
    #[error("cannot write {path}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    squeezes: Vec<Entry>,
}

/// The file, and what it says.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    pub(super) boot: String,
    entries: Vec<Entry>,
    /// Those that nobody will ask to undo, by cgroup and file: an agent before this one left them,
    /// or undoing them has failed.
    orphans: BTreeSet<(CgroupId, String)>,
}

impl Journal {
    /// Reads what was left behind. Of another boot, or of a cgroup that `is_there` does not know,
    /// nothing is left: the kernel has forgotten it, too.
    ///
    /// # Errors
    /// If there is a file and it cannot be read or understood: what it remembers must not be lost.
    pub(super) fn open(
        state: &Path,
        boot: String,
        is_there: impl Fn(&Entry) -> bool,
    ) -> Result<Self, JournalError> {
        let path = state.join("squeezes.json");
        let document = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|source| JournalError::Text { path: path.clone(), source })?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => Document::default(),
            Err(source) => return Err(JournalError::Read { path, source }),
        };
        let mut entries = document.squeezes;
        entries.retain(|entry| entry.boot == boot && is_there(entry));
        let orphans = entries.iter().map(Entry::key).collect();
        Ok(Self { path, boot, entries, orphans })
    }

    /// What is remembered.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What nobody will ask to undo.
    pub(super) fn orphans(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| self.orphans.contains(&entry.key()))
    }

    /// The entry of one file.
    pub(super) fn of(&self, cgroup: CgroupId, file: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is_of(cgroup, file))
    }

    /// Remembers, in place of what it said of the same file.
    pub(super) fn keep(&mut self, entry: Entry) -> Result<(), JournalError> {
        let mut entries = self.entries.clone();
        entries.retain(|old| !old.is_of(entry.cgroup, &entry.file));
        self.orphans.remove(&entry.key());
        entries.push(entry);
        self.put(entries)
    }

    /// What could not be undone when it was asked for is nobody's from then on.
    pub(super) fn orphan(&mut self, entry: &Entry) {
        self.orphans.insert(entry.key());
    }

    /// Forgets one file.
    pub(super) fn drop(&mut self, cgroup: CgroupId, file: &str) -> Result<(), JournalError> {
        let mut entries = self.entries.clone();
        entries.retain(|old| !old.is_of(cgroup, file));
        self.orphans.remove(&(cgroup, file.into()));
        self.put(entries)
    }

    /// What is not on disk is not remembered.
    fn put(&mut self, entries: Vec<Entry>) -> Result<(), JournalError> {
        let document = Document { squeezes: entries };
        let text = serde_json::to_vec_pretty(&document).expect("numbers and strings");
        self.write(&text)
            .map_err(|source| JournalError::Write { path: self.path.clone(), source })?;
        self.entries = document.squeezes;
        Ok(())
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let dir = self.path.parent().expect("it was joined to a directory");
        fs::create_dir_all(dir)?;
        let beside = self.path.with_extension("json.new");
        let mut file = File::create(&beside)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        // The name is in the directory, and the directory is a file of its own.
        File::open(dir)?.sync_all()
    }
}

impl Entry {
    fn key(&self) -> (CgroupId, String) {
        (self.cgroup, self.file.clone())
    }

    fn is_of(&self, cgroup: CgroupId, file: &str) -> bool {
        self.cgroup == cgroup && self.file == file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(boot: &str, cgroup: u64) -> Entry {
        Entry {
            boot: boot.into(),
            cgroup: CgroupId(cgroup),
            path: CgroupPath(format!("/work-{cgroup}")),
            file: "cpu.weight".into(),
            before: "100".into(),
            wrote: "10".into(),
            actions: BTreeSet::from([7]),
        }
    }

    fn open(state: &Path, boot: &str, dead: u64) -> Result<Journal, JournalError> {
        Journal::open(state, boot.into(), |entry| entry.cgroup != CgroupId(dead))
    }

    #[test]
    fn what_was_written_is_known_again_after_a_restart_and_not_after_a_boot() {
        let state = tempfile::tempdir().unwrap();
        let below = state.path().join("not/yet/there");
        let mut journal = open(&below, "a", 0).unwrap();
        for cgroup in [1, 2, 3] {
            journal.keep(entry("a", cgroup)).unwrap();
        }
        journal.drop(CgroupId(3), "cpu.weight").unwrap();
        assert_eq!(journal.orphans().count(), 0, "its own are none");
        #[rustfmt::skip]
        let table = [
            // boot, dead cgroup, left
            ("a", 0, vec![1, 2]),
            ("a", 1, vec![2]),
            ("b", 0, vec![]),
        ];
        for (boot, dead, want) in table {
            let journal = open(&below, boot, dead).unwrap();
            let left: Vec<_> = journal.orphans().map(|entry| entry.cgroup.0).collect();
            assert_eq!(left, want, "boot {boot}, dead {dead}");
        }
    }

    #[test]
    fn one_file_is_remembered_once() {
        let state = tempfile::tempdir().unwrap();
        let mut journal = open(state.path(), "a", 0).unwrap();
        journal.keep(entry("a", 1)).unwrap();
        let again = Entry { actions: BTreeSet::from([7, 8]), ..entry("a", 1) };
        journal.keep(again.clone()).unwrap();
        journal.keep(Entry { file: "memory.high".into(), ..entry("a", 1) }).unwrap();
        assert_eq!(journal.entries().len(), 2);
        assert_eq!(journal.of(CgroupId(1), "cpu.weight"), Some(&again));
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_neither_lost_nor_ignored() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("squeezes.json");
        for text in ["", "{}", "[1]", "{\"squeezes\": [{}]}", "{\"squeezes\": ["] {
            fs::write(&path, text).unwrap();
            let error = open(state.path(), "a", 0).unwrap_err().to_string();
            assert!(error.contains("squeezes.json; move it away"), "{text:?}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn what_cannot_be_written_down_is_not_remembered() {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("file");
        fs::write(&file, "").unwrap();
        let mut journal = open(&state.path().join("dir"), "a", 0).unwrap();
        journal.path = file.join("squeezes.json");
        assert!(matches!(journal.keep(entry("a", 1)), Err(JournalError::Write { .. })));
        assert_eq!(journal.entries(), []);
    }
}
