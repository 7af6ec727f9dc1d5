//! A directory and all below it, as `du -x` counts them: symbolic links are not followed, mounts not
//! entered, an inode with many names counts once. What vanishes meanwhile is not counted.

use std::ffi::CStr;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use rustix::io::Errno;

use super::super::mounts::DIRECTORY;
use super::{Budget, Seen};
use isobar_core::model::disk::DiskUse;
use isobar_core::model::units::Bytes;

/// Directories within each other, each with an open descriptor.
const DEEPEST: usize = 64;
/// `st_blocks` counts these, whatever the file system's own are (stat(2)).
const BLOCK: u64 = 512;

/// Why not all of it was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Left {
    Deep,
    Refused,
    Budget,
}

/// A directory, open.
#[derive(Debug)]
pub(super) struct Tree {
    dir: OwnedFd,
    stat: Stat,
}

impl Tree {
    /// `None` if it is gone, or is no directory.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, Errno> {
        let dir = match openat(CWD, path, DIRECTORY, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(why) => return Err(why),
        };
        let stat = fstat(&dir)?;
        Ok(Some(Self { dir, stat }))
    }

    pub(super) fn device(&self) -> u64 {
        self.stat.st_dev
    }

    /// What it takes, itself included, and what kept the walk from its end.
    pub(super) fn measure(self, budget: &mut Budget) -> (DiskUse, Option<Left>) {
        let mut walk = Walk { device: self.device(), ..Walk::default() };
        walk.count(&self.stat);
        walk.enter(self.dir);
        while let Some(mut dir) = walk.open.pop() {
            match dir.read() {
                None => {}
                Some(Err(_)) => walk.leave_out(Left::Refused),
                Some(Ok(_)) if !budget.take() => {
                    walk.leave_out(Left::Budget);
                    break;
                }
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    let below = walk.look(&dir, name);
                    walk.open.push(dir);
                    below.into_iter().for_each(|below| walk.enter(below));
                }
            }
        }
        let used = DiskUse { bytes: Some(Bytes(walk.bytes)), inodes: Some(walk.inodes) };
        (used, walk.left)
    }
}

#[derive(Default)]
struct Walk {
    device: u64,
    /// Each lies in the one before.
    open: Vec<Dir>,
    seen: Seen,
    bytes: u64,
    inodes: u64,
    left: Option<Left>,
}

impl Walk {
    fn leave_out(&mut self, why: Left) {
        self.left = self.left.max(Some(why));
    }

    fn enter(&mut self, dir: OwnedFd) {
        if self.open.len() >= DEEPEST {
            return self.leave_out(Left::Deep);
        }
        match Dir::new(dir) {
            Ok(dir) => self.open.push(dir),
            Err(_) => self.leave_out(Left::Refused),
        }
    }

    /// Counts an entry; a directory is returned open.
    fn look(&mut self, dir: &Dir, name: &CStr) -> Option<OwnedFd> {
        if matches!(name.to_bytes(), b"." | b"..") {
            return None;
        }
        let dir = dir.fd().ok()?;
        let stat = self.kept(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))?;
        if stat.st_dev != self.device {
            return None;
        }
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            self.count(&stat);
            return None;
        }
        // A mount of the same file system has the same device.
        let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        let below = self.kept(openat2(dir, name, DIRECTORY, Mode::empty(), within))?;
        self.count(&stat);
        Some(below)
    }

    /// What was removed or replaced meanwhile is no gap, and neither is a mount.
    fn kept<T>(&mut self, result: Result<T, Errno>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::STALE) => {}
            Err(_) => self.leave_out(Left::Refused),
        }
        None
    }

    fn count(&mut self, stat: &Stat) {
        let has_others =
            stat.st_nlink > 1 && FileType::from_raw_mode(stat.st_mode) != FileType::Directory;
        if has_others && !self.seen.insert(stat.st_ino) {
            return;
        }
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
        self.bytes = self.bytes.saturating_add(blocks.saturating_mul(BLOCK));
        self.inodes += 1;
    }
}
