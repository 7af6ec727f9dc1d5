//! Where incidents are kept: `NAME.json`, what is known of one, and `NAME.isobar`, its ticks as a
//! recording; in a directory for root alone, or in memory where that cannot be written.

mod files;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use rustix::fs::{MemfdFlags, memfd_create};

use self::files::{DOCUMENT, delete, read, recording, write};
use super::boots::Boots;
use super::retention::{Ages, Retention};
use super::{Incident, State, is_name};
use crate::causes::chain;
use crate::lock::lock;
use crate::record::segments::path_of;
use crate::state;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Bytes;

const DRAFT: &[u8] = b"draft-";

/// Why an incident cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    #[error("there is no incident {0:?}; `isobar incidents ls` lists them")]
    Unknown(String),
    #[error("{0:?} exists already")]
    Exists(String),
    #[error(
        "{n} incidents of {} are kept, and the oldest would be removed for this one: remove some \
         with `isobar incidents rm`, or import it into another directory with --dir",
        Quantity::bytes(*.size)
    )]
    Full { n: usize, size: u64 },
    #[error("what is told of incident {name:?} takes more than {} MiB", DOCUMENT >> 20)]
    TooLong { name: String },
    #[error("{path} is no incident's document")]
    Format { path: PathBuf, source: serde_json::Error },
    #[error("cannot use {path}")]
    Io { path: PathBuf, source: io::Error },
}

/// Incidents in a directory; in memory if there is none, or those that could not be written to it.
#[derive(Debug, Default)]
pub struct Shelf {
    dir: OnceLock<PathBuf>,
    kept: Mutex<Kept>,
}

impl Shelf {
    pub fn in_dir(dir: PathBuf) -> Self {
        Self { dir: dir.into(), ..Self::default() }
    }

    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Moves what is in memory to this directory, or to the one that the shelf has already.
    ///
    /// # Errors
    /// If one cannot be written; it stays in memory, and so do those after it.
    pub fn settle(&self, dir: &Path) -> Result<(), ShelfError> {
        self.dir.get_or_init(|| dir.into());
        self.settle_again().map(drop)
    }

    /// Moves what is in memory to the directory, if there is one; whether there was any.
    ///
    /// # Errors
    /// As those of [`Shelf::settle`]. All others are moved.
    pub fn settle_again(&self) -> Result<bool, ShelfError> {
        let names: Vec<_> = lock(&self.kept).keys().cloned().collect();
        let Some(dir) = self.dir.get().filter(|_| !names.is_empty()) else { return Ok(false) };
        let moved: Vec<_> = names.iter().map(|name| self.move_to(dir, name)).collect();
        moved.into_iter().collect::<Result<(), _>>().map(|()| true)
    }

    fn move_to(&self, dir: &Path, name: &str) -> Result<(), ShelfError> {
        // It is not removed while it is opened.
        let kept = |(incident, file): &(Incident, Option<File>)| {
            (incident.clone(), file.as_ref().map(|file| File::open(path_of(file))))
        };
        let Some((incident, ticks)) = lock(&self.kept).get(name).map(kept) else { return Ok(()) };
        match ticks {
            None => write(dir, &incident)?,
            Some(ticks) => {
                let draft = self.draft()?;
                let copied = ticks
                    .and_then(|mut ticks| io::copy(&mut ticks, &mut &draft.file))
                    .map_err(|source| ShelfError::Io { path: draft.path.clone(), source });
                if let Err(why) = copied {
                    self.discard(&draft);
                    return Err(why);
                }
                self.put(dir, incident, draft)?;
            }
        }
        // One that an operator has removed meanwhile stays removed.
        if lock(&self.kept).remove(name).is_none() {
            delete(dir, name)?;
        }
        Ok(())
    }

    /// All incidents, oldest first. Of one whose document cannot be read, only the name and the size are
    /// known; [`Shelf::find`] reads the rest from its ticks.
    ///
    /// # Errors
    /// If the directory cannot be listed, and nothing is in memory; one that is missing holds none.
    pub fn list(&self) -> Result<Vec<Incident>, ShelfError> {
        let found = self.in_files();
        let kept = lock(&self.kept);
        let mut all = match found {
            Err(why) if kept.is_empty() => return Err(why),
            found => found.unwrap_or_default(),
        };
        all.retain(|one| !kept.contains_key(&one.name));
        all.extend(kept.values().map(|(one, _)| one.clone()));
        sort(&mut all);
        Ok(all)
    }

    /// Those in the directory.
    fn in_files(&self) -> Result<Vec<Incident>, ShelfError> {
        let Some(dir) = self.dir.get() else { return Ok(Vec::new()) };
        files::all(dir, |dir, name| files::bare(dir, name).filter(|one| one.size > 0))
    }

    /// # Errors
    /// If there is none of this name, or neither its document nor the file of its ticks can be read.
    pub fn find(&self, name: &str) -> Result<Incident, ShelfError> {
        if let Some((incident, _)) = lock(&self.kept).get(name) {
            return Ok(incident.clone());
        }
        match self.dir.get() {
            Some(dir) if is_name(name) => {
                read(dir, name).or_else(|why| files::rebuilt(dir, name).ok_or(why))
            }
            _ => Err(ShelfError::Unknown(name.into())),
        }
    }

    /// Keeps what is known of an incident.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&self, incident: &Incident) -> Result<(), ShelfError> {
        let Some(dir) = self.dir.get() else {
            self.note_in_memory(incident);
            return Ok(());
        };
        write(dir, incident)?;
        lock(&self.kept).remove(&incident.name);
        Ok(())
    }

    /// The same where it cannot be written.
    pub fn note_in_memory(&self, incident: &Incident) {
        lock(&self.kept).entry(incident.name.clone()).or_default().0 = incident.clone();
    }

    /// An empty file for the ticks of an incident; [`Shelf::keep`] puts it in its place.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn draft(&self) -> Result<Draft, ShelfError> {
        let Some(dir) = self.dir.get() else { return Draft::in_memory() };
        let path = dir.join(format!("draft-{}", std::process::id()));
        // One that a killed agent of the same id has left.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        match state::make(dir).and_then(|()| options.open(&path)) {
            Ok(file) => Ok(Draft { path, file, is_in_memory: false }),
            Err(source) => Err(ShelfError::Io { path, source }),
        }
    }

    /// Removes a draft that is not kept.
    pub fn discard(&self, draft: &Draft) {
        if !draft.is_in_memory {
            // One that cannot be removed takes its space until the next agent begins.
            let _ = fs::remove_file(&draft.path);
        }
    }

    /// Removes drafts that killed agents have left: of ticks, and of documents.
    pub fn remove_drafts(&self) {
        let Some(dir) = self.dir.get() else { return };
        let is_draft = |name: &OsStr| {
            let is_document = || name.to_str().is_some_and(|name| name.contains(".json.new-"));
            name.as_encoded_bytes().starts_with(DRAFT) || is_document()
        };
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        for entry in entries.filter(|one| is_draft(&one.file_name())) {
            // One that cannot be removed takes its space, and no more.
            let _ = fs::remove_file(entry.path());
        }
    }

    /// Keeps an incident with its ticks.
    ///
    /// # Errors
    /// If it cannot be written; then nothing of it is kept.
    pub fn keep(&self, mut incident: Incident, draft: Draft) -> Result<Incident, ShelfError> {
        let name = incident.name.clone();
        let Some(dir) = self.dir.get().filter(|_| !draft.is_in_memory) else {
            incident.size = draft.size()?;
            lock(&self.kept).insert(name, (incident.clone(), Some(draft.file)));
            return Ok(incident);
        };
        let kept = self.put(dir, incident, draft)?;
        lock(&self.kept).remove(&name);
        Ok(kept)
    }

    /// Puts an incident with its ticks into the directory.
    fn put(
        &self,
        dir: &Path,
        mut incident: Incident,
        draft: Draft,
    ) -> Result<Incident, ShelfError> {
        incident.size = draft.size()?;
        let path = recording(dir, &incident.name);
        // A node that is reset may be what it tells of.
        let synced = draft.file.sync_all();
        let kept = synced
            .and_then(|()| fs::rename(&draft.path, &path))
            .map_err(|source| ShelfError::Io { path: path.clone(), source })
            .and_then(|()| write(dir, &incident));
        if kept.is_err() {
            // Without its document nothing would ever remove it.
            let _ = fs::remove_file(&path);
            self.discard(&draft);
        }
        kept.map(|()| incident)
    }

    /// The ticks of a frozen incident, to be read.
    ///
    /// # Errors
    /// If there is none of this name, or it is not frozen.
    pub fn open(&self, name: &str) -> Result<File, ShelfError> {
        let incident = self.find(name)?;
        let open =
            |path: PathBuf| File::open(&path).map_err(|source| ShelfError::Io { path, source });
        // It is not removed while it is opened.
        let kept = lock(&self.kept);
        if let Some((_, Some(file))) = kept.get(name) {
            return open(path_of(file));
        }
        drop(kept);
        match self.dir.get().filter(|_| incident.state == State::Frozen) {
            Some(dir) => open(recording(dir, name)),
            None => Err(ShelfError::Unknown(name.into())),
        }
    }

    /// # Errors
    /// If there is none of this name, or a file of it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), ShelfError> {
        let was_kept = lock(&self.kept).remove(name).is_some();
        let was_there = match self.dir.get() {
            Some(dir) if is_name(name) => delete(dir, name)?,
            _ => false,
        };
        if was_kept || was_there { Ok(()) } else { Err(ShelfError::Unknown(name.into())) }
    }

    /// # Errors
    /// If older incidents would be removed once this one is kept.
    pub fn has_room(&self, incident: &Incident, draft: &Draft) -> Result<(), ShelfError> {
        let mut all = self.list()?;
        let (n, size) = (all.len(), all.iter().map(|one| one.size).sum());
        all.push(Incident { size: draft.size()?, ..incident.clone() });
        // None is too old.
        match draft.retention().beyond(all, &Ages::default()).is_empty() {
            true => Ok(()),
            false => Err(ShelfError::Full { n, size }),
        }
    }

    /// Removes what is too much, too old or too many, `now` in the boot `boot_id`; open incidents stay.
    /// Notes in the directory how long the node was up: by that incidents age. Where that cannot be read,
    /// it is left as it is, and the time of earlier boots does not count.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn prune(&self, boot_id: &str, now: Moment) -> Result<(), ShelfError> {
        let ages = |boots: Boots| Ages { boots: boots.at(boot_id, now.boot), wall: now.wall };
        let kept = lock(&self.kept).values().map(|(one, _)| one.clone()).collect();
        for one in Retention::IN_MEMORY.beyond(kept, &ages(Boots::default())) {
            lock(&self.kept).remove(&one.name);
        }
        let Some(dir) = self.dir.get().filter(|dir| dir.is_dir()) else { return Ok(()) };
        let noted = Boots::read(dir).inspect_err(|why| {
            tracing::warn!(
                "cannot read how long the node was up, by which incidents age: {}",
                chain(why)
            );
        });
        let is_read = noted.is_ok();
        let ages = ages(noted.unwrap_or_default());
        // One that cannot be removed keeps no other one.
        let beyond = Retention::USUAL.beyond(files::all(dir, files::bare)?, &ages);
        let removed: Vec<_> = beyond.iter().map(|one| delete(dir, &one.name)).collect();
        if is_read && let Err(why) = ages.boots.write(dir) {
            tracing::warn!(
                "cannot note how long the node was up, by which incidents age: {}",
                chain(&why)
            );
        }
        removed.into_iter().try_for_each(|removed| removed.map(drop))
    }
}

/// Oldest first, by the wall clock as it stood at the last incident of each boot: a program may have set
/// it between two of them.
fn sort(all: &mut [Incident]) {
    let mut last = BTreeMap::<String, Moment>::new();
    for one in all.iter().filter(|one| !one.boot_id.is_empty()) {
        let last = last.entry(one.boot_id.clone()).or_default();
        *last = if one.begin.boot >= last.boot { one.begin } else { *last };
    }
    all.sort_by_cached_key(|Incident { boot_id, begin, name, .. }| {
        let by_last = |last: &Moment| last.wall.since(last.boot.since(begin.boot));
        (last.get(boot_id).map_or(begin.wall, by_last), name.clone())
    });
}

/// The ticks of an incident before it has its place.
#[derive(Debug)]
pub struct Draft {
    pub path: PathBuf,
    pub file: File,
    pub(super) is_in_memory: bool,
}

impl Draft {
    /// Bytes that it may have.
    pub(super) fn most(&self) -> Bytes {
        self.retention().one
    }

    fn size(&self) -> Result<u64, ShelfError> {
        let io = |source| ShelfError::Io { path: self.path.clone(), source };
        Ok(self.file.metadata().map_err(io)?.len())
    }

    fn retention(&self) -> Retention {
        if self.is_in_memory { Retention::IN_MEMORY } else { Retention::USUAL }
    }

    /// One that takes no space on a disk.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn in_memory() -> Result<Self, ShelfError> {
        let path = PathBuf::from("memory");
        match memfd_create("incident", MemfdFlags::CLOEXEC) {
            Ok(file) => Ok(Self { path, file: file.into(), is_in_memory: true }),
            Err(why) => Err(ShelfError::Io { path, source: why.into() }),
        }
    }
}

/// With the file of its ticks, once it is frozen.
type Kept = BTreeMap<String, (Incident, Option<File>)>;
