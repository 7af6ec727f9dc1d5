//! Lists a cgroup's directory: its children, and which of the files that matter it has.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom, seek, statat};
use rustix::io::Errno;

use super::files::{File, FileSet};

/// What a directory holds.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Child directories, each with its inode number.
    pub(crate) children: Vec<(CString, u64)>,
    /// The files that are there.
    pub(crate) files: FileSet,
    /// Whether there is a `cgroup.pressure`, Linux 6.1+: it says why pressure files are missing.
    pub(crate) has_pressure_switch: bool,
}

impl Listing {
    /// Lists the open directory from its start.
    pub(crate) fn of(dir: BorrowedFd<'_>) -> Result<Self, Errno> {
        seek(dir, SeekFrom::Start(0))?;
        // A cgroup with all controllers has some 80 files: 3 KiB of entries.
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut entries = RawDir::new(dir, &mut buffer);
        let mut listing = Self::default();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            match kind(dir, name, entry.file_type()) {
                FileType::Directory => listing.add_child(name, entry.ino()),
                _ => listing.add_file(name),
            }
        }
        Ok(listing)
    }

    fn add_child(&mut self, name: &CStr, ino: u64) {
        if name != c"." && name != c".." {
            self.children.push((name.into(), ino));
        }
    }

    fn add_file(&mut self, name: &CStr) {
        self.has_pressure_switch |= name == c"cgroup.pressure";
        if let Some(file) = File::all().find(|file| file.c_name() == name) {
            self.files.add(file);
        }
    }
}

/// An entry's type; some filesystems (not kernfs) leave it out of their listing.
fn kind(dir: BorrowedFd<'_>, name: &CStr, listed: FileType) -> FileType {
    match listed {
        FileType::Unknown => statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        known => known,
    }
}
