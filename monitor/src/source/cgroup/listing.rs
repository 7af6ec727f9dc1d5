//! Lists a cgroup's directory: its children, and which of the files that are read it has.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom, seek, statat};
use rustix::io::Errno;

use super::files::{File, FileSet};

/// The entries of a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Child directories, each with its inode number.
    pub(crate) children: Vec<(CString, u64)>,
    pub(crate) files: FileSet,
    /// Whether there is a `cgroup.pressure`, Linux 6.1+: it explains missing pressure files.
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
            if kind(dir, name, entry.file_type()) != FileType::Directory {
                listing.has_pressure_switch |= name == c"cgroup.pressure";
                File::all().filter(|file| file.c_name() == name).for_each(|f| listing.files.add(f));
            } else if name != c"." && name != c".." {
                listing.children.push((name.into(), entry.ino()));
            }
        }
        Ok(listing)
    }
}

/// An entry's type; some file systems (not kernfs) omit it from their listing.
fn kind(dir: BorrowedFd<'_>, name: &CStr, listed: FileType) -> FileType {
    match listed {
        FileType::Unknown => statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        known => known,
    }
}
