//! The files of incidents in a directory.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::ShelfError;
use crate::record::incident::freeze::line_of;
use crate::record::incident::{Incident, State, is_name};
use crate::state;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

/// No document is longer: its lists are bounded.
pub(super) const DOCUMENT: u64 = 4 << 20;

/// All that have a document or ticks; one whose document is damaged or missing is as `otherwise` says.
pub(super) fn all(
    dir: &Path,
    otherwise: impl Fn(&Path, &str) -> Option<Incident>,
) -> Result<Vec<Incident>, ShelfError> {
    let names = names(dir).map_err(|source| ShelfError::Io { path: dir.into(), source })?;
    let one = |name: &String| match read(dir, name) {
        Err(ShelfError::Format { .. } | ShelfError::Unknown(_)) => otherwise(dir, name),
        // For want of descriptors, say: it may be read the next time.
        read => read.ok(),
    };
    Ok(names.iter().filter_map(one).collect())
}

/// Names of incidents that have a document or ticks.
fn names(dir: &Path) -> io::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(dir) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut all = BTreeSet::new();
    for entry in entries {
        let file = entry?.file_name();
        let of = |name: &str| {
            let name = name.strip_suffix(".json").or_else(|| name.strip_suffix(".isobar"));
            name.map(str::to_owned)
        };
        let name = file.to_str().and_then(of);
        all.extend(name.filter(|name| is_name(name)));
    }
    Ok(all)
}

fn document(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.json"))
}

pub(super) fn recording(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.isobar"))
}

pub(super) fn read(dir: &Path, name: &str) -> Result<Incident, ShelfError> {
    let path = document(dir, name);
    let mut text = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(DOCUMENT).read_to_end(&mut text));
    match read {
        Ok(_) => {}
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            return Err(ShelfError::Unknown(name.into()));
        }
        Err(source) => return Err(ShelfError::Io { path, source }),
    }
    let read = serde_json::from_slice::<Incident>(&text);
    let incident = read.map_err(|source| ShelfError::Format { path, source })?;
    // The file's name is what is asked for; another in it would lead elsewhere.
    Ok(Incident { name: name.into(), ..incident })
}

/// One whose document is damaged or missing: its ticks take their space all the same.
pub(super) fn bare(dir: &Path, name: &str) -> Option<Incident> {
    let found = |path: PathBuf| fs::metadata(path).ok();
    let (ticks, document) = (found(recording(dir, name)), found(document(dir, name)));
    let size = ticks.as_ref().map_or(0, Metadata::len);
    let written = document.or(ticks).map_or(0, |found| found.mtime());
    let wall = Nanos(u64::try_from(written).unwrap_or(0).saturating_mul(Nanos::SECOND.0));
    let begin = Moment { wall, ..Moment::default() };
    let name = name.into();
    Some(Incident { name, state: State::Frozen, begin, size, ..Incident::default() })
}

/// The same from the last line of its ticks, if that can be read.
pub(super) fn rebuilt(dir: &Path, name: &str) -> Option<Incident> {
    let Incident { size, .. } = bare(dir, name)?;
    let told = line_of(&recording(dir, name)).ok()?.incident;
    Some(Incident { name: name.into(), state: State::Frozen, size, ..told })
}

pub(super) fn write(dir: &Path, incident: &Incident) -> Result<(), ShelfError> {
    let path = document(dir, &incident.name);
    let text = serde_json::to_vec_pretty(incident).expect("numbers and texts");
    if text.len() as u64 > DOCUMENT {
        return Err(ShelfError::TooLong { name: incident.name.clone() });
    }
    state::replace_flushed(&path, &text).map_err(|source| ShelfError::Io { path, source })
}

/// False if there was nothing.
pub(super) fn delete(dir: &Path, name: &str) -> Result<bool, ShelfError> {
    let mut was_there = false;
    for path in [recording(dir, name), document(dir, name)] {
        match fs::remove_file(&path) {
            Ok(()) => was_there = true,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(ShelfError::Io { path, source }),
        }
    }
    Ok(was_there)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{Timespec, Timestamps, futimens};

    use super::*;
    use crate::record::incident::shelf::Shelf;

    #[test]
    fn prune_removes_ticks_whose_document_cannot_be_read() {
        for are_boots_lost in [false, true] {
            prune_leaves_the_newest(are_boots_lost);
        }
    }

    fn prune_leaves_the_newest(are_boots_lost: bool) {
        let dir = tempfile::tempdir().unwrap();
        let (boots, elsewhere) = (dir.path().join("boots.json"), dir.path().join("elsewhere"));
        if are_boots_lost {
            // No link is followed.
            symlink(&elsewhere, &boots).unwrap();
        }
        for day in 1..=4 {
            let name = format!("2026-{day}");
            // Longer than it is: no byte of it is written.
            let ticks = File::create(recording(dir.path(), &name)).unwrap();
            ticks.set_len(60 << 20).unwrap();
            let damaged = File::create(document(dir.path(), &name)).unwrap();
            let written = Timespec { tv_sec: 86_400 * day, tv_nsec: 0 };
            let written = Timestamps { last_access: written, last_modification: written };
            futimens(&damaged, &written).unwrap();
        }
        let shelf = Shelf::in_dir(dir.path().into());
        let listed: Vec<_> = shelf.list().unwrap().into_iter().map(|one| one.size >> 20).collect();
        assert_eq!(listed, [60; 4]);
        let wall = Nanos(6 * 86_400 * Nanos::SECOND.0);
        shelf.prune("", Moment { wall, ..Moment::default() }).unwrap();
        // Of those without a kill half is kept, which is 128 MiB.
        let left = [1, 2, 3, 4].map(|day| {
            let name = format!("2026-{day}");
            [recording(dir.path(), &name), document(dir.path(), &name)].map(|path| path.exists())
        });
        assert_eq!(left, [[false; 2], [false; 2], [true; 2], [true; 2]], "{are_boots_lost}");
        assert_eq!(boots.is_symlink(), are_boots_lost, "what cannot be read is left as it is");
    }

    #[test]
    fn prune_goes_on_after_one_that_cannot_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        // A directory is in place of the older one.
        fs::create_dir(recording(dir.path(), "2026-1")).unwrap();
        let damaged = File::create(document(dir.path(), "2026-1")).unwrap();
        let long_ago = Timespec { tv_sec: 1, tv_nsec: 0 };
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        futimens(&damaged, &times).unwrap();
        let newer = recording(dir.path(), "2026-2");
        File::create(&newer).unwrap().set_len(600 << 20).unwrap();
        let shelf = Shelf::in_dir(dir.path().into());
        shelf.prune("", Moment::default()).unwrap_err();
        assert!(!newer.exists());
        assert!(dir.path().join("boots.json").exists(), "incidents age all the same");
    }

    #[test]
    fn remove_drafts_removes_what_was_not_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let all = ["draft-7", "2026-1.json.new-7", "2026-1.json", "2026-1.isobar"];
        all.iter().for_each(|name| fs::write(dir.path().join(name), "").unwrap());
        Shelf::in_dir(dir.path().into()).remove_drafts();
        assert_eq!(all.map(|name| dir.path().join(name).exists()), [false, false, true, true]);
    }
}
