//! Reads the free space of the file systems that eviction signals are about.
//!
//! A `statfs` of a network file system can hang. Only the directories named here are read, which
//! lie on local disks on every node known, and on the sampler's thread: if one hangs, `/livez`
//! reports it.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat, fstatvfs, open};
use rustix::io::Errno;

use super::gap::{Gaps, ReadError};
use isobar_core::model::node::{Filesystem, Filesystems};
use isobar_core::model::sample::Gap;
use isobar_core::model::units::{Bytes, Nanos};

/// Where the file systems are found. The first directory of each list that exists counts; where
/// none exists there is no reading and no gap, because the node has no such file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    /// The kubelet's directory.
    pub nodefs: Vec<PathBuf>,
    /// The container runtime's images.
    pub imagefs: Vec<PathBuf>,
    /// The container runtime's writable layers.
    pub containerfs: Vec<PathBuf>,
}

/// Where kubelet and container runtimes keep their files, unless they are told otherwise.
const USUAL: &str = "/var/lib";

impl Default for Directories {
    fn default() -> Self {
        Self::of_kubelet(&Path::new(USUAL).join("kubelet"))
    }
}

impl Directories {
    /// Those of a kubelet that keeps its files in `root`. Images lie beside it, as in a container
    /// that has the node's directories below one of its own, or at the usual place. containerd,
    /// CRI-O and docker keep images and writable layers together.
    pub fn of_kubelet(root: &Path) -> Self {
        let beside = root.parent().filter(|parent| *parent != Path::new(USUAL));
        let parents = beside.into_iter().chain([Path::new(USUAL)]);
        let names = ["containerd", "containers/storage", "containers", "docker"];
        let images: Vec<_> =
            parents.flat_map(|parent| names.map(|name| parent.join(name))).collect();
        Self { nodefs: vec![root.into()], imagefs: images.clone(), containerfs: images }
    }

    /// No file system is read.
    pub fn none() -> Self {
        Self { nodefs: Vec::new(), imagefs: Vec::new(), containerfs: Vec::new() }
    }

    fn read(&self, at: Nanos) -> (Filesystems, Vec<Gap>) {
        let mut gaps = Gaps::default();
        let nodefs = gaps.ok(first(&self.nodefs)).flatten();
        let imagefs = gaps.ok(first(&self.imagefs)).flatten();
        let is_shared = self.containerfs == self.imagefs;
        let containerfs =
            if is_shared { imagefs } else { gaps.ok(first(&self.containerfs)).flatten() };
        (Filesystems { at, nodefs, imagefs, containerfs }, gaps.finish())
    }
}

/// The file systems, read once in ten seconds.
#[derive(Debug)]
pub(crate) struct Disks {
    directories: Directories,
    last: Option<(Filesystems, Vec<Gap>)>,
}

impl Disks {
    /// Disks fill slowly; the kubelet reads them as often.
    const READ_EVERY: Nanos = Nanos(10 * Nanos::SECOND.0);

    pub(crate) fn new(directories: Directories) -> Self {
        Self { directories, last: None }
    }

    /// The last reading, or a new one if it is old.
    pub(crate) fn read(&mut self, now: Nanos, gaps: &mut Gaps) -> Filesystems {
        let is_new = |read: &Filesystems| read.at <= now && now.since(read.at) < Self::READ_EVERY;
        let last = self.last.take().filter(|(read, _)| is_new(read));
        let (read, failed) = self.last.insert(last.unwrap_or_else(|| self.directories.read(now)));
        failed.iter().cloned().for_each(|gap| gaps.add(gap));
        *read
    }
}

/// The file system of the first directory that exists; `None` if none does.
pub(crate) fn first(
    directories: impl IntoIterator<Item = impl AsRef<Path>>,
) -> Result<Option<Filesystem>, ReadError> {
    directories.into_iter().find_map(|dir| read(dir.as_ref()).transpose()).transpose()
}

fn read(path: &Path) -> Result<Option<Filesystem>, ReadError> {
    let failed = |errno: Errno| ReadError::io(path, errno);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = match open(path, flags, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    // Both from one descriptor: a mount that comes in between would mix two file systems.
    let device = fstat(&dir).map_err(failed)?.st_dev;
    let stat = fstatvfs(&dir).map_err(failed)?;
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(stat.f_frsize));
    Ok(Some(Filesystem {
        device,
        available: bytes(stat.f_bavail),
        free: Some(bytes(stat.f_bfree)),
        capacity: bytes(stat.f_blocks),
        inodes_free: stat.f_ffree,
        inodes: stat.f_files,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Nanos {
        Nanos(n * Nanos::SECOND.0)
    }

    #[test]
    fn directories_read_the_first_that_exists() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (dir, missing) = (here.path().to_owned(), here.path().join("missing"));
        #[rustfmt::skip]
        let table = [
            // directories, is read, gaps
            (vec![],                                false, 0),
            (vec![missing.clone()],                 false, 0),
            (vec![missing.clone(), dir.clone()],    true,  0),
            (vec![dir.clone(), missing.clone()],    true,  0),
            (vec![file.clone(), dir.clone()],       false, 1), // there, and cannot be used
        ];
        for (directories, is_read, n_gaps) in table {
            let text = format!("{directories:?}");
            let directories = Directories { nodefs: directories, ..Directories::none() };
            let (read, gaps) = directories.read(Nanos(5));
            assert_eq!(read.nodefs.is_some(), is_read, "{text}");
            assert_eq!(gaps.len(), n_gaps, "{text}: {gaps:?}");
            assert_eq!((read.imagefs, read.at), (None, Nanos(5)), "{text}");
        }
    }

    #[test]
    fn directories_of_kubelet_look_for_images_beside_it() {
        #[rustfmt::skip]
        let table = [
            // kubelet's root, where images are looked for at first and at last
            ("/var/lib/kubelet",      "/var/lib/containerd",      "/var/lib/docker"),
            ("/host/var/lib/kubelet", "/host/var/lib/containerd", "/var/lib/docker"),
            ("/",                     "/var/lib/containerd",      "/var/lib/docker"),
        ];
        for (root, first, last) in table {
            let found = Directories::of_kubelet(Path::new(root));
            assert_eq!(found.nodefs, [Path::new(root)], "{root}");
            let ends = (found.imagefs.first().unwrap(), found.imagefs.last().unwrap());
            assert_eq!(ends, (&first.into(), &last.into()), "{root}");
        }
        assert_eq!(Directories::of_kubelet(Path::new("/var/lib/kubelet")), Directories::default());
    }

    #[test]
    fn directories_read_size_and_inodes() {
        let here = tempfile::tempdir().unwrap();
        let all = vec![here.path().to_owned()];
        let directories =
            Directories { nodefs: all.clone(), imagefs: all.clone(), containerfs: all };
        let (read, gaps) = directories.read(Nanos(0));
        assert_eq!(gaps, []);
        let nodefs = read.nodefs.unwrap();
        assert!(nodefs.capacity >= nodefs.available && nodefs.capacity > Bytes(0), "{nodefs:?}");
        assert!(nodefs.inodes >= nodefs.inodes_free, "{nodefs:?}");
        assert_eq!(read.imagefs, read.containerfs);
        assert_eq!(read.imagefs.map(|f| f.device), Some(nodefs.device));
    }

    #[test]
    fn disks_read_once_in_ten_seconds() {
        let here = tempfile::tempdir().unwrap();
        let nodefs = vec![here.path().to_owned()];
        let mut disks = Disks::new(Directories { nodefs, ..Directories::none() });
        #[rustfmt::skip]
        let table = [
            // second, read at second
            (5,  5),
            (6,  5),
            (14, 5),
            (15, 15),
            (3,  3), // a clock that ran backwards
        ];
        for (now, at) in table {
            let read = disks.read(seconds(now), &mut Gaps::default());
            assert_eq!(read.at, seconds(at), "second {now}");
        }
    }

    #[test]
    fn disks_repeat_gaps_every_tick() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut disks =
            Disks::new(Directories { imagefs: vec![file.clone()], ..Directories::none() });
        for second in [1, 2] {
            let mut gaps = Gaps::default();
            assert_eq!(disks.read(seconds(second), &mut gaps).imagefs, None);
            let gaps = gaps.finish();
            assert_eq!(gaps.len(), 1, "{gaps:?}");
            assert_eq!(gaps[0].object, file.display().to_string());
        }
    }
}
