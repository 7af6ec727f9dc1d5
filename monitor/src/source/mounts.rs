//! Finds the cgroup v2 hierarchy among this process's mounts.
//! A hybrid node mounts it below the v1 hierarchies (`/sys/fs/cgroup/unified`); a container may
//! see a part of it, or several mounts of it.

use std::ffi::{CStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, fstatfs, openat, statat};
use rustix::io::Errno;

use super::OpenError;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};

/// `CGROUP2_SUPER_MAGIC`, include/uapi/linux/magic.h.
const CGROUP2_MAGIC: u64 = 0x6367_7270;

/// How a cgroup's directory is opened.
pub(crate) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The root directory of a cgroup tree, kept open.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) dir: OwnedFd,
    pub(crate) id: CgroupId,
    pub(crate) extent: Extent,
    /// What `memory.min` of a cgroup keeps and those below it do not claim is theirs all the same
    /// (`memory_recursiveprot`, as systemd mounts the tree).
    pub(crate) keeps_recursively: bool,
}

/// How much of the hierarchy a tree shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// What lies below this process's cgroup namespace.
    Part,
    /// Nothing: an ordinary directory, as tests make them.
    Plain,
}

impl Root {
    /// The tree at `cgroup` if the operator names it, else the one in `self/mountinfo` of `proc`.
    ///
    /// # Errors
    /// If there is no cgroup v2 tree.
    pub(crate) fn locate(proc: &Path, cgroup: Option<&Path>) -> Result<Self, OpenError> {
        let mountinfo = proc.join("self/mountinfo");
        let root = cgroup.map_or_else(|| Self::find(&mountinfo), Self::open)?;
        // Who names the tree may do without mountinfo.
        let has_option = || keeps_recursively(&fs::read(&mountinfo).unwrap_or_default());
        let keeps_recursively = root.extent != Extent::Plain && has_option();
        Ok(Self { keeps_recursively, ..root })
    }

    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |errno: Errno| OpenError::Root { path: path.into(), source: errno.into() };
        let dir = openat(CWD, path, DIRECTORY, Mode::empty()).map_err(failed)?;
        let id = CgroupId(fstat(&dir).map_err(failed)?.st_ino);
        let magic = u64::try_from(fstatfs(&dir).map_err(failed)?.f_type).unwrap_or(0);
        let extent = match (magic, id) {
            // `cgroup_ino() == 1` is how the kernel itself recognises the root.
            (CGROUP2_MAGIC, CgroupId(1)) => Extent::Whole,
            (CGROUP2_MAGIC, _) => Extent::Part,
            _ => Extent::Plain,
        };
        Ok(Self { path: path.into(), dir, id, extent, keeps_recursively: false })
    }

    /// Of several mounts, takes one that shows the whole hierarchy.
    fn find(mountinfo: &Path) -> Result<Self, OpenError> {
        let text = fs::read(mountinfo)
            .map_err(|source| OpenError::Mounts { path: mountinfo.into(), source })?;
        let (mut part, mut failed) = (None, None);
        for path in cgroup2_mounts(&text) {
            match Self::open(&path) {
                Ok(root) if root.extent == Extent::Whole => return Ok(root),
                Ok(root) if root.extent == Extent::Part => part = part.or(Some(root)),
                // Another file system is mounted over it.
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        part.ok_or_else(|| failed.unwrap_or(OpenError::NoCgroup2))
    }

    /// The mount that shows the tree from the root of this process's cgroup namespace on.
    pub(crate) fn of_namespace(proc: &Path) -> Option<Self> {
        let text = fs::read(proc.join("self/mountinfo")).ok()?;
        let opened = namespace_mounts(&text).into_iter().filter_map(|path| Self::open(&path).ok());
        opened.into_iter().find(|root| root.extent != Extent::Plain)
    }

    /// The full path of `file` in `cgroup`; of the directory itself if `file` is empty.
    pub(crate) fn path_of(&self, cgroup: &CgroupPath, file: &str) -> PathBuf {
        self.path.join(cgroup.0.trim_start_matches('/')).join(file)
    }

    /// Whether the directory at `path`, below the root, still is the cgroup `id`.
    pub(crate) fn holds(&self, path: &CStr, id: CgroupId) -> bool {
        statat(&self.dir, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_ino == id.0)
    }
}

/// The mount points of cgroup2, the topmost last. Lines of other mounts are skipped, whatever they
/// hold. A path is bytes: its name need not be UTF-8.
// Not procfs's `MountInfo`: it needs UTF-8 and leaves the kernel's escapes in the path.
pub(super) fn cgroup2_mounts(mountinfo: &[u8]) -> Vec<PathBuf> {
    mounts(mountinfo).map(|mount| unescape(mount.point)).collect()
}

/// Those of them that begin at the root of the reader's cgroup namespace: what lies above it is
/// `/..` there (`cgroup_show_path`, kernel/cgroup/cgroup.c).
fn namespace_mounts(mountinfo: &[u8]) -> Vec<PathBuf> {
    let at_root = mounts(mountinfo).filter(|mount| mount.root == b"/");
    at_root.map(|mount| unescape(mount.point)).collect()
}

/// Whether the tree is mounted with `memory_recursiveprot`: the kernel has one such setting for it, which
/// each mount shows (`cgroup_show_options`, kernel/cgroup/cgroup.c).
fn keeps_recursively(mountinfo: &[u8]) -> bool {
    let has_it = |options: &[u8]| {
        options.split(|byte| *byte == b',').any(|option| option == b"memory_recursiveprot")
    };
    mounts(mountinfo).any(|mount| has_it(mount.options))
}

/// A cgroup2 mount.
struct Mount<'a> {
    root: &'a [u8],
    point: &'a [u8],
    /// Of the tree, as the kernel shows them.
    options: &'a [u8],
}

fn mounts(mountinfo: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(cgroup2_mount)
}

/// `id parent major:minor root mount-point options [optional..] - type source options`:
/// `show_mountinfo`, fs/proc_namespace.c.
fn cgroup2_mount(line: &[u8]) -> Option<Mount<'_>> {
    let mut fields = line.split(|byte| *byte == b' ');
    let root = fields.nth(3)?;
    let point = fields.next().filter(|point| point.starts_with(b"/"))?;
    fields.next()?;
    fields.find(|field| *field == b"-")?;
    let is_cgroup2 = fields.next() == Some(b"cgroup2");
    let options = fields.nth(1).unwrap_or_default();
    is_cgroup2.then_some(Mount { root, point, options })
}

/// Replaces the kernel's octal escapes (`\040` for a space): `mangle`, fs/proc_namespace.c.
pub(super) fn unescape(path: &[u8]) -> PathBuf {
    let octal = |digits: &[u8; 3]| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok();
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, after)) = rest.split_first() {
        let escaped = after.first_chunk().filter(|_| *byte == b'\\').and_then(octal);
        plain.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn cgroup2_mounts_finds_every_mount() {
        #[rustfmt::skip]
        let table: [(&[u8], &[&[u8]]); 7] = [
            // all v2
            (b"31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", &[b"/sys/fs/cgroup"]),
            // hybrid: below the v1 mounts
            (b"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
               32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
               41 31 0:38 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw\n", &[b"/sys/fs/cgroup/unified"]),
            // a container with the host's tree mounted in
            (b"900 23 0:28 /../.. /sys/fs/cgroup ro master:9 - cgroup2 cgroup rw\n\
               901 23 0:28 / /host/cgroup ro - cgroup2 cgroup rw\n", &[b"/sys/fs/cgroup", b"/host/cgroup"]),
            (b"31 23 0:28 / /mnt/a\\040b\\134c rw - cgroup2 none rw\n", &[b"/mnt/a b\\c"]),
            // a name of another encoding
            (b"31 23 0:28 / /mnt/gr\xfc\\337e rw - cgroup2 none rw\n", &[b"/mnt/gr\xfc\xdfe"]),
            // others' lines, however odd, hide nothing
            (b"\xff\xfe\nx - cgroup2 \n31 23 0:28 / /a rw - cgroup2 cgroup2 rw\n", &[b"/a"]),
            (b"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", &[]),
        ];
        for (text, want) in table {
            let found = cgroup2_mounts(text);
            let found: Vec<&[u8]> = found.iter().map(|path| path.as_os_str().as_bytes()).collect();
            assert_eq!(found, want, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn namespace_mounts_begin_at_its_root() {
        #[rustfmt::skip]
        let table: [(&[u8], &[&str]); 4] = [
            // on the node, or in a privileged container of containerd
            (b"31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n", &["/sys/fs/cgroup"]),
            // in a container with a namespace of its own, and the node's tree beside it
            (b"900 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n\
               901 23 0:28 /../../.. /host/sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", &["/sys/fs/cgroup"]),
            // the node's tree alone
            (b"901 23 0:28 /../../.. /host/sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", &[]),
            (b"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n", &[]),
        ];
        for (text, want) in table {
            let want: Vec<PathBuf> = want.iter().map(PathBuf::from).collect();
            assert_eq!(namespace_mounts(text), want, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn keeps_recursively_where_the_tree_is_mounted_so() {
        #[rustfmt::skip]
        let table: [(&[u8], bool); 5] = [
            // as systemd mounts it
            (b"31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n", true),
            (b"31 23 0:28 / /a rw - cgroup2 cgroup2 rw,memory_recursiveprot,nsdelegate\n", true),
            (b"31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", false),
            (b"31 23 0:28 / /a rw - tmpfs none rw,memory_recursiveprot\n31 23 0:28 / /b rw - cgroup2\n", false),
            (b"", false),
        ];
        for (text, want) in table {
            assert_eq!(keeps_recursively(text), want, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn root_find_reports_a_missing_cgroup2() {
        let dir = tempfile::tempdir().unwrap();
        let mountinfo = dir.path().join("mountinfo");
        fs::write(&mountinfo, "23 1 8:1 / / rw - ext4 /dev/vda rw\n").unwrap();
        assert!(matches!(Root::find(&mountinfo), Err(OpenError::NoCgroup2)));
        let absent = dir.path().join("absent");
        assert!(matches!(Root::find(&absent), Err(OpenError::Mounts { .. })));
    }

    #[test]
    fn root_open_recognises_a_plain_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Root::open(dir.path()).unwrap().extent, Extent::Plain);
        let absent = Root::open(&dir.path().join("absent"));
        assert!(matches!(absent, Err(OpenError::Root { .. })), "{absent:?}");
    }
}
