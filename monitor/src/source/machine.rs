//! Reads what a machine has, and the limits of single cgroups: once, for a person who asks.

mod cpus;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::cgroup::parse;
use super::gap::ReadError;
use super::lines::{Torn, value};
use super::mounts::Root;
use super::proc::Node;
use super::{Directories, OpenError, filesystems};
use isobar_core::model::cgroup::{CgroupPath, CpuFiles};
use isobar_core::model::machine::{Found, Machine};
use isobar_core::model::node::Filesystem;
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::units::Bytes;

/// Reads the machine whose `/proc` and `/sys` are at `proc` and `sys`, and the file system that
/// holds `kubelet_root`, or would hold it.
#[must_use]
pub fn read(proc: &Path, sys: &Path, kubelet_root: &Path) -> Machine {
    let mut gaps = Vec::new();
    let node = Node::new(proc);
    Machine {
        cpus: note(cpus::topology(&sys.join("devices/system/cpu")), &mut gaps).unwrap_or_default(),
        memory: note(node.meminfo(), &mut gaps).map(|memory| memory.total),
        huge_pages: note(huge_pages(&sys.join("kernel/mm/hugepages")), &mut gaps)
            .unwrap_or_default(),
        nodefs: note(holder(kubelet_root), &mut gaps).flatten(),
        imagefs: note(first(&Directories::default().imagefs), &mut gaps).flatten(),
        max_threads: note(node.max_threads(), &mut gaps),
        page: Bytes(procfs::page_size()),
        gaps,
    }
}

fn note<T>(read: Result<T, ReadError>, gaps: &mut Vec<Gap>) -> Option<T> {
    read.map_err(|error| gaps.push(error.gap())).ok()
}

/// Memory in huge pages of each size. A kernel without them has no directory, and so none.
fn huge_pages(dir: &Path) -> Result<BTreeMap<Bytes, Bytes>, ReadError> {
    let mut sizes = BTreeMap::new();
    for name in names(dir)? {
        let kib = name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB"));
        let Some(kib) = kib.and_then(|kib| kib.parse::<u64>().ok()) else { continue };
        let file = dir.join(&name).join("nr_hugepages");
        let n = parsed(&file, value)?;
        let size = kib.saturating_mul(1 << 10);
        sizes.insert(Bytes(size), Bytes(n.saturating_mul(size)));
    }
    Ok(sizes)
}

/// The names in a directory; none if it is not there.
fn names(dir: &Path) -> Result<Vec<String>, ReadError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ReadError::io(dir, error)),
    };
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// The file system of `path`, or of the nearest directory above it that is there: before the
/// kubelet's first start its directory is missing.
fn holder(path: &Path) -> Result<Option<Filesystem>, ReadError> {
    let above = path.ancestors().map(filesystems::read);
    above.filter_map(Result::transpose).next().transpose()
}

/// The first of `paths` that is there.
fn first(paths: &[PathBuf]) -> Result<Option<Filesystem>, ReadError> {
    paths.iter().find_map(|path| filesystems::read(path).transpose()).transpose()
}

/// Reads a file that `parse` understands.
fn parsed<T>(path: &Path, parse: impl Fn(&[u8]) -> Result<T, Torn>) -> Result<T, ReadError> {
    let text = fs::read(path).map_err(|error| ReadError::io(path, error))?;
    parse(&text).map_err(|torn| ReadError::torn(path, torn))
}

/// The cgroup v2 tree, of which single cgroups are looked at.
#[derive(Debug)]
pub struct Groups {
    root: Root,
}

impl Groups {
    /// Finds the tree: at `cgroup`, or among the mounts that `proc` lists.
    ///
    /// # Errors
    /// If there is no cgroup v2 tree.
    pub fn open(proc: &Path, cgroup: Option<&Path>) -> Result<Self, OpenError> {
        let root = match cgroup {
            Some(path) => Root::open(path)?,
            None => Root::find(&proc.join("self/mountinfo"))?,
        };
        Ok(Self { root })
    }

    /// Where the tree is mounted.
    #[must_use]
    pub fn mount(&self) -> &Path {
        self.root.path()
    }

    /// The controllers that the root of the tree offers; none if it does not tell.
    #[must_use]
    pub fn controllers(&self) -> BTreeSet<String> {
        let file = self.root.path_of(&CgroupPath::root(), "cgroup.controllers");
        let text = fs::read_to_string(file).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// What the cgroup at `path` is limited to, and what it uses. A file that is missing, because
    /// its controller is off, is `None` without a gap.
    pub fn look(&self, path: &CgroupPath, gaps: &mut Vec<Gap>) -> Found {
        let dir: PathBuf = self.root.path_of(path, "");
        let mut found = Found { path: path.clone(), exists: dir.is_dir(), ..Found::default() };
        if !found.exists {
            return found;
        }
        found.memory_max = present(&dir.join("memory.max"), parse::limit, gaps);
        found.pids_max = present(&dir.join("pids.max"), parse::limit, gaps);
        found.cpu_weight = present(&dir.join("cpu.weight"), value, gaps);
        let usage = |text: &[u8]| {
            let mut cpu = CpuFiles::default();
            parse::cpu_stat(text, &mut cpu)?;
            Ok(cpu.usage)
        };
        found.cpu_usage = present(&dir.join("cpu.stat"), usage, gaps).flatten();
        let current = present(&dir.join("memory.current"), value, gaps);
        let stat = present(&dir.join("memory.stat"), parse::memory_stat, gaps);
        found.working_set = current
            .zip(stat)
            .map(|(current, stat)| Bytes(current.saturating_sub(stat.inactive_file.0)));
        let names = note(names(&dir), gaps).unwrap_or_default();
        for name in names {
            let size = name.strip_prefix("hugetlb.").and_then(|name| name.strip_suffix(".max"));
            // `hugetlb.2MB.rsvd.max` is another limit.
            let Some(size) = size.filter(|size| !size.contains('.')) else { continue };
            if let Some(limit) = present(&dir.join(&name), parse::limit, gaps) {
                found.hugetlb_max.insert(size.into(), limit);
            }
        }
        found
    }
}

/// Reads a file that may be missing.
fn present<T>(
    path: &Path,
    parse: impl Fn(&[u8]) -> Result<T, Torn>,
    gaps: &mut Vec<Gap>,
) -> Option<T> {
    match parsed(path, parse) {
        Err(error) if error.reason() == GapReason::Unsupported => None,
        read => note(read, gaps),
    }
}
