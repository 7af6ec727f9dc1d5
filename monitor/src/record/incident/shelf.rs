//! Where incidents are kept: `NAME.json`, what is known of one, and `NAME.isobar`, its ticks as a
//! recording; in a directory for root alone, or in memory where nothing may be written.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, memfd_create};

use super::{Incident, State, is_name};
use crate::record::segments::path_of;
use crate::state;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::units::{Bytes, Nanos};

const DAY: u64 = 86_400 * Nanos::SECOND.0;
/// No document is longer: its lists are bounded.
const DOCUMENT: u64 = 4 << 20;
const DRAFT: &[u8] = b"draft-";

/// How much is kept. The oldest incidents are removed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub size: Bytes,
    pub age: Nanos,
    pub n: usize,
}

impl Retention {
    pub const USUAL: Self = Self { size: Bytes(256 << 20), age: Nanos(30 * DAY), n: 200 };
    pub const IN_MEMORY: Self = Self { size: Bytes(8 << 20), age: Nanos(DAY), n: 20 };
}

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

#[derive(Debug)]
pub enum Shelf {
    Dir(PathBuf),
    Memory(Mutex<BTreeMap<String, (Incident, Option<File>)>>),
}

impl Shelf {
    #[must_use]
    pub fn in_memory() -> Self {
        Self::Memory(Mutex::default())
    }

    #[must_use]
    pub fn retention(&self) -> Retention {
        match self {
            Self::Dir(_) => Retention::USUAL,
            Self::Memory(_) => Retention::IN_MEMORY,
        }
    }

    /// All incidents, oldest first. Documents that cannot be read are left out.
    ///
    /// # Errors
    /// If the directory cannot be listed; one that is missing holds none.
    pub fn list(&self) -> Result<Vec<Incident>, ShelfError> {
        let mut all: Vec<_> = match self {
            Self::Memory(kept) => lock(kept).values().map(|(one, _)| one.clone()).collect(),
            Self::Dir(dir) => {
                let names =
                    names(dir).map_err(|source| ShelfError::Io { path: dir.clone(), source })?;
                names.iter().filter_map(|name| self.find(name).ok()).collect()
            }
        };
        all.sort_by(|a, b| (a.begin.wall, &a.name).cmp(&(b.begin.wall, &b.name)));
        Ok(all)
    }

    /// # Errors
    /// If there is none of this name, or its document is damaged.
    pub fn find(&self, name: &str) -> Result<Incident, ShelfError> {
        let unknown = || ShelfError::Unknown(name.into());
        if !is_name(name) {
            return Err(unknown());
        }
        let path = match self {
            Self::Memory(kept) => {
                return lock(kept).get(name).map(|(one, _)| one.clone()).ok_or_else(unknown);
            }
            Self::Dir(dir) => document(dir, name),
        };
        let text = match File::open(&path).and_then(read) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Err(unknown()),
            Err(source) => return Err(ShelfError::Io { path, source }),
        };
        let read = serde_json::from_slice::<Incident>(&text);
        let incident = read.map_err(|source| ShelfError::Format { path, source })?;
        // The file's name is what is asked for; another in it would lead elsewhere.
        Ok(Incident { name: name.into(), ..incident })
    }

    /// Keeps what is known of an incident.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&self, incident: &Incident) -> Result<(), ShelfError> {
        match self {
            Self::Memory(kept) => {
                lock(kept).entry(incident.name.clone()).or_default().0 = incident.clone();
                Ok(())
            }
            Self::Dir(dir) => {
                let path = document(dir, &incident.name);
                let text = serde_json::to_vec_pretty(incident).expect("numbers and texts");
                if text.len() as u64 > DOCUMENT {
                    return Err(ShelfError::TooLong { name: incident.name.clone() });
                }
                state::replace(&path, &text).map_err(|source| ShelfError::Io { path, source })
            }
        }
    }

    /// An empty file for the ticks of an incident; [`Shelf::keep`] puts it in its place.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn draft(&self) -> Result<Draft, ShelfError> {
        let (path, made) = match self {
            Self::Memory(_) => {
                let made = memfd_create("incident", MemfdFlags::CLOEXEC);
                (PathBuf::from("memory"), made.map(File::from).map_err(io::Error::from))
            }
            Self::Dir(dir) => {
                let path = dir.join(format!("draft-{}", std::process::id()));
                // One that a killed agent of the same id has left.
                let _ = fs::remove_file(&path);
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true).mode(0o600);
                let made = state::make(dir).and_then(|()| options.open(&path));
                (path, made)
            }
        };
        match made {
            Ok(file) => Ok(Draft { path, file }),
            Err(source) => Err(ShelfError::Io { path, source }),
        }
    }

    /// Removes a draft that is not kept.
    pub fn discard(&self, draft: &Draft) {
        if let Self::Dir(_) = self {
            // One that cannot be removed takes its space until the next agent sweeps.
            let _ = fs::remove_file(&draft.path);
        }
    }

    /// Removes drafts that killed agents have left.
    pub fn sweep(&self) {
        let Self::Dir(dir) = self else { return };
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        for entry in entries.filter(|one| one.file_name().as_encoded_bytes().starts_with(DRAFT)) {
            // One that cannot be removed takes its space, and no more.
            let _ = fs::remove_file(entry.path());
        }
    }

    /// Keeps an incident with its ticks.
    ///
    /// # Errors
    /// If it cannot be written; then nothing of it is kept.
    pub fn keep(&self, mut incident: Incident, draft: Draft) -> Result<Incident, ShelfError> {
        let io = |source| ShelfError::Io { path: draft.path.clone(), source };
        incident.size = draft.file.metadata().map_err(io)?.len();
        match self {
            Self::Memory(kept) => {
                let name = incident.name.clone();
                lock(kept).insert(name, (incident.clone(), Some(draft.file)));
            }
            Self::Dir(dir) => {
                let path = recording(dir, &incident.name);
                let moved = fs::rename(&draft.path, &path);
                moved.map_err(|source| ShelfError::Io { path: path.clone(), source })?;
                self.note(&incident).inspect_err(|_| {
                    // Without its document nothing would ever remove it.
                    let _ = fs::remove_file(&path);
                })?;
            }
        }
        Ok(incident)
    }

    /// The ticks of a frozen incident, to be read.
    ///
    /// # Errors
    /// If there is none of this name, or it is not frozen.
    pub fn open(&self, name: &str) -> Result<File, ShelfError> {
        let incident = self.find(name)?;
        let unknown = || ShelfError::Unknown(name.into());
        match self {
            Self::Memory(kept) => {
                let kept = lock(kept);
                let file =
                    kept.get(name).and_then(|(_, file)| file.as_ref()).ok_or_else(unknown)?;
                let path = path_of(file);
                File::open(&path).map_err(|source| ShelfError::Io { path, source })
            }
            Self::Dir(dir) if incident.state == State::Frozen => {
                let path = recording(dir, name);
                File::open(&path).map_err(|source| ShelfError::Io { path, source })
            }
            Self::Dir(_) => Err(unknown()),
        }
    }

    /// # Errors
    /// If there is none of this name, or a file of it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), ShelfError> {
        let unknown = || ShelfError::Unknown(name.into());
        if !is_name(name) {
            return Err(unknown());
        }
        let dir = match self {
            Self::Memory(kept) => return lock(kept).remove(name).map(|_| ()).ok_or_else(unknown),
            Self::Dir(dir) => dir,
        };
        let mut n = 0;
        for path in [recording(dir, name), document(dir, name)] {
            match fs::remove_file(&path) {
                Ok(()) => n += 1,
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(ShelfError::Io { path, source }),
            }
        }
        if n == 0 { Err(unknown()) } else { Ok(()) }
    }

    /// # Errors
    /// If older incidents would be removed once this one is kept.
    pub fn has_room(&self, draft: &Draft) -> Result<(), ShelfError> {
        let io = |source| ShelfError::Io { path: draft.path.clone(), source };
        let (all, most) = (self.list()?, self.retention());
        let size: u64 = all.iter().map(|one| one.size).sum();
        let with_it = size.saturating_add(draft.file.metadata().map_err(io)?.len());
        if all.len() >= most.n || with_it > most.size.0 {
            return Err(ShelfError::Full { n: all.len(), size });
        }
        Ok(())
    }

    /// Removes what is too much, too old or too many; open incidents stay.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn prune(&self, now: Nanos) -> Result<(), ShelfError> {
        let Retention { size, age, n } = self.retention();
        let mut left: Vec<_> =
            self.list()?.into_iter().filter(|one| one.state == State::Frozen).collect();
        let mut bytes: u64 = left.iter().map(|one| one.size).sum();
        let since = |one: &Incident| one.imported.unwrap_or(one.begin.wall);
        left.sort_by_key(|one| Reverse(since(one)));
        while let Some(oldest) = left.last() {
            if left.len() <= n && bytes <= size.0 && now.since(since(oldest)) <= age {
                break;
            }
            self.remove(&oldest.name)?;
            bytes = bytes.saturating_sub(oldest.size);
            left.pop();
        }
        Ok(())
    }
}

/// The ticks of an incident before it has its place.
#[derive(Debug)]
pub struct Draft {
    pub path: PathBuf,
    pub file: File,
}

/// Names of incidents that have a document.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let file = entry?.file_name();
        let name = file.to_str().and_then(|name| name.strip_suffix(".json"));
        all.extend(name.filter(|name| is_name(name)).map(str::to_owned));
    }
    Ok(all)
}

fn document(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.json"))
}

fn recording(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.isobar"))
}

fn read(file: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(DOCUMENT).read_to_end(&mut text)?;
    Ok(text)
}

type Kept = BTreeMap<String, (Incident, Option<File>)>;

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
