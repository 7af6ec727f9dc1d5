//! The segments of one recording, oldest first, bounded by size and age: files `FILE`, `FILE.1`,
//! `FILE.2` .., or memory where nothing may be written. For want of room old ones are thinned, or
//! deleted.

mod bounds;
mod names;
mod old;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{MemfdFlags, memfd_create, statvfs};

use self::bounds::Disk;
pub use self::bounds::{Bounds, TooSmall};
pub(super) use self::names::existing;
use self::names::{dir_of, paths, segment, thinner};
use self::old::{Found, Old, Since, aged};
use super::index::{self, Begun};
use super::thin::thin;
use crate::lock::lock;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::{Bytes, Nanos};

/// Where the segments of a recording are. A clone names the same ones.
#[derive(Debug, Clone)]
pub enum Ring {
    Files(PathBuf),
    Memory {
        /// The files of the same recording that were written before.
        before: Option<PathBuf>,
        /// By number. Each is a file of this process that has no name.
        files: Arc<Mutex<BTreeMap<u64, File>>>,
    },
    /// A single segment, whatever its size.
    One(Arc<File>),
}

impl Ring {
    fn in_memory(before: Option<&Path>) -> Self {
        Self::Memory { before: before.map(Path::to_owned), files: Arc::default() }
    }

    /// Paths under which the segments can be read now, oldest first. Those in memory last as long as
    /// the second part is held.
    pub fn segments(&self) -> io::Result<(Vec<PathBuf>, Vec<File>)> {
        match self {
            Self::Memory { before: Some(path), .. } => {
                // They are on the disk that failed.
                let mut all = paths(path).unwrap_or_default();
                let (own, held) = self.own()?;
                all.extend(own);
                Ok((all, held))
            }
            Self::Files(_) | Self::Memory { .. } | Self::One(_) => self.own(),
        }
    }

    /// The same without those that were written before.
    fn own(&self) -> io::Result<(Vec<PathBuf>, Vec<File>)> {
        match self {
            Self::Files(path) => Ok((paths(path)?, Vec::new())),
            Self::Memory { files, .. } => {
                let files = lock(files);
                let held = files.values().map(File::try_clone).collect::<io::Result<Vec<_>>>()?;
                Ok((held.iter().map(path_of).collect(), held))
            }
            Self::One(file) => Ok((vec![path_of(file)], Vec::new())),
        }
    }

    fn make(&self, n: u64) -> io::Result<File> {
        match self {
            Self::Files(path) => create(&segment(path, n)),
            Self::Memory { files, .. } => {
                let file = File::from(memfd_create("recording", MemfdFlags::CLOEXEC)?);
                lock(files).insert(n, file.try_clone()?);
                Ok(file)
            }
            Self::One(file) => file.try_clone(),
        }
    }

    /// The disk that it is on; `None` in memory.
    fn disk(&self) -> Option<Disk> {
        let Self::Files(path) = self else { return None };
        let disk = statvfs(dir_of(path)).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Some(Disk { left: bytes(disk.f_bavail), capacity: bytes(disk.f_blocks) })
    }

    /// Leaves of a segment what [`thin`] keeps, and tells its size; an error leaves it whole.
    fn thin(&self, n: u64) -> io::Result<u64> {
        let Self::Files(path) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let (segment, thinner) = (segment(path, n), thinner(path));
        let mut to = create(&thinner)?;
        // What it replaces may have been on the disk for hours.
        let thinned = thin(&mut File::open(&segment)?, &mut to)
            .and_then(|size| to.sync_data().map(|()| size));
        let renamed = thinned.and_then(|size| fs::rename(&thinner, &segment).map(|()| size));
        renamed.inspect_err(|_| drop(fs::remove_file(&thinner)))
    }

    fn remove(&self, n: u64) -> io::Result<()> {
        match self {
            Self::Files(path) => fs::remove_file(segment(path, n)),
            Self::Memory { files, .. } => {
                lock(files).remove(&n);
                Ok(())
            }
            Self::One(_) => Ok(()),
        }
    }
}

/// Names, labels and annotations of pods are confidential.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// A file without a name, as a path of this process.
pub(super) fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[derive(Debug)]
pub(super) struct Segments {
    ring: Ring,
    bounds: Bounds,
    /// Maximum size of all, since the last segment began.
    most: u64,
    old: BTreeMap<u64, Old>,
    /// Files with a segment's name that no recording begins in.
    damaged: Vec<PathBuf>,
    next: u64,
    /// When the last one began, by the time since the boot.
    begun: Nanos,
    /// When the first one began, until room was made for it.
    owes: Option<Moment>,
    /// One was thinned or deleted.
    has_lost: bool,
}

/// The segment that is being written, and how much was written.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    pub(super) n: u64,
    pub(super) size: u64,
    pub(super) begun: Moment,
}

impl Write for Segment {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.size += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Which segment is deleted where the oldest one that is whole cannot be thinned. On a disk that is
/// full it is the `first` of all: it leaves room for what is kept of that one.
fn instead_of_thin(why: &io::Error, first: u64, whole: u64) -> u64 {
    match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => first,
        _ => whole,
    }
}

impl Segments {
    /// Continues after the existing segments, in the boot `boot_id`. The inner error is the path of a file
    /// with a segment's name that is no recording, where no other one is a segment: beside segments it is
    /// one that is damaged. It is not touched, nor counted.
    pub(super) fn open(
        path: &Path,
        boot_id: &str,
        bounds: Bounds,
    ) -> io::Result<Result<Self, PathBuf>> {
        // An agent that was killed may have left it. A file of another kind stays, and nothing is thinned.
        let left = File::open(thinner(path)).and_then(|left| index::begun(&left));
        if matches!(left, Ok(Begun::At(_) | Begun::Unknown)) {
            fs::remove_file(thinner(path))?;
        }
        let (mut found, mut foreign, mut is_known) = (Vec::new(), Vec::new(), false);
        let mut next = 0;
        for (n, file) in existing(path)? {
            next = n.saturating_add(1);
            if !fs::metadata(&file)?.is_file() {
                foreign.push(file);
                continue;
            }
            let open = File::open(&file)?;
            // Where its first block cannot be read, the disk has lost it.
            match index::begun(&open).unwrap_or(Begun::Foreign) {
                Begun::Mark(_) | Begun::Foreign => foreign.push(file),
                begun => {
                    is_known |= matches!(begun, Begun::At(_));
                    found.push(Found::new(n, &open, begun)?);
                }
            }
        }
        if !is_known && let Some(foreign) = foreign.pop() {
            return Ok(Err(foreign));
        }
        let (ring, most) = (Ring::Files(path.into()), bounds.size.0);
        let old = aged(found, boot_id);
        let (damaged, begun, owes, has_lost) = (foreign, Nanos(0), None, false);
        Ok(Ok(Self { ring, bounds, most, old, damaged, next, begun, owes, has_lost }))
    }

    /// Warns of files that have a segment's name and are damaged.
    pub(super) fn tell_damaged(&self) {
        for file in &self.damaged {
            tracing::warn!(
                "{} is no segment of a recording, or damaged: it is left alone, and neither read nor \
                 deleted",
                file.display()
            );
        }
    }

    /// None yet, in memory, after the files at `before`.
    pub(super) fn in_memory(before: Option<&Path>, bounds: Bounds) -> Self {
        let (ring, most) = (Ring::in_memory(before), bounds.size.0);
        let (old, damaged, next, begun, owes, has_lost) = Default::default();
        Self { ring, bounds, most, old, damaged, next, begun, owes, has_lost }
    }

    /// Copies the segments of another recording behind those that exist.
    pub(super) fn copy(&mut self, other: &Self) -> io::Result<()> {
        self.has_lost |= other.has_lost;
        let (paths, _held) = other.ring.own()?;
        for path in paths {
            let mut from = File::open(path)?;
            let Begun::At(begun) = index::begun(&from)? else { continue };
            io::Seek::rewind(&mut from)?;
            let (n, mut to) = (self.next, self.ring.make(self.next)?);
            self.next = n.saturating_add(1);
            let size = io::copy(&mut from, &mut to)?;
            // What it was copied from is freed, and a power loss may be what it tells of.
            to.sync_data()?;
            self.old.insert(n, Old::new(size, Since::Boot(begun.boot)));
        }
        Ok(())
    }

    /// The only one is `file`, which is empty.
    pub(super) fn one(file: File) -> Self {
        let unbounded = Bounds { size: Bytes(u64::MAX), age: Nanos(u64::MAX) };
        let ring = Ring::One(Arc::new(file));
        let most = u64::MAX;
        let (old, damaged, next, begun, owes, has_lost) = Default::default();
        Self { ring, bounds: unbounded, most, old, damaged, next, begun, owes, has_lost }
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Begins a segment after `before`, and makes room for all of it. For the first one
    /// [`Self::make_room`] does: an agent that starts waits for no slow disk.
    pub(super) fn begin(&mut self, before: Option<Segment>, at: Moment) -> io::Result<Segment> {
        (self.begun, self.owes) = (at.boot, Some(at));
        let n = self.next;
        let file = self.ring.make(n)?;
        self.next = n.saturating_add(1);
        if let Some(Segment { n, size, begun, .. }) = before {
            self.old.insert(n, Old::new(size, Since::Boot(begun.boot)));
            self.make_room();
        }
        Ok(Segment { file, n, size: 0, begun: at })
    }

    /// Thins or deletes old segments, if that was not done since the last one began.
    pub(super) fn make_room(&mut self) {
        if let Some(at) = self.owes.take() {
            self.prune(at);
        }
    }

    fn prune(&mut self, now: Moment) {
        let held = |old: &BTreeMap<u64, Old>| old.values().map(|old| old.size).sum::<u64>();
        self.most = self.bounds.most(held(&self.old), self.ring.disk());
        let room = self.most - self.most / Bounds::SEGMENTS;
        while let Some((first, old)) = self.old.first_key_value() {
            let is_young = old.begun.until(now) <= self.bounds.age;
            if held(&self.old) <= room && is_young {
                break;
            }
            self.has_lost = true;
            let first = *first;
            let mut n = first;
            let newest = self.old.last_key_value().map(|(n, _)| *n);
            let thinned = self.old.values().filter(|old| old.is_thin).map(|old| old.size);
            let may_thin = is_young && thinned.sum::<u64>() < room / Bounds::THINNED;
            let mut whole = self.old.iter_mut().filter(|(_, old)| !old.is_thin);
            if let Some((whole, old)) =
                whole.next().filter(|(n, _)| may_thin && newest != Some(**n))
            {
                n = match self.ring.thin(*whole) {
                    Ok(size) => {
                        (old.size, old.is_thin) = (size, true);
                        continue;
                    }
                    Err(why) => instead_of_thin(&why, first, *whole),
                };
            }
            // It is found again by the next agent; until then the recording goes on beside it.
            if let Err(error) = self.ring.remove(n)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, segment = n, "cannot delete an old segment of the recording");
            }
            self.old.remove(&n);
        }
    }

    /// Since when the recording has every tick, by the time since the boot; `None` if it has lost no tick
    /// that was recorded in this boot.
    pub(super) fn whole_since(&self) -> Option<Nanos> {
        let whole = self.old.values().find(|old| !old.is_thin);
        match whole.map_or(Since::Boot(self.begun), |old| old.begun) {
            Since::Boot(begun) if self.has_lost => Some(begun),
            Since::Boot(_) | Since::Before(_) => None,
        }
    }

    /// True if the next segment should begin.
    pub(super) fn is_full(&self, segment: &Segment, now: Moment) -> bool {
        segment.size >= self.most / Bounds::SEGMENTS
            || now.boot.since(segment.begun.boot) >= self.bounds.segment_age()
    }

    /// The number of the segment that is made next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Deletes the segments that were made since this number was the next.
    pub(super) fn discard_from(&mut self, first: u64) {
        // Writing failed too; there is nothing more to do if this does.
        (first..self.next).for_each(|n| drop(self.ring.remove(n)));
        self.old.split_off(&first);
    }
}

#[cfg(test)]
mod tests;
