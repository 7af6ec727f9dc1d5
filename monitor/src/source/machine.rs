//! Reads what a machine has, and the limits of single cgroups: once, for an operator who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::cgroup::files::File;
use super::cgroup::parse;
use super::gap::{self, Gaps, ReadError};
use super::lines::value;
use super::mounts::Root;
use super::proc::Node;
use super::{Directories, OpenError, filesystems};
use isobar_core::model::cgroup::{Cgroup, CgroupPath};
use isobar_core::model::cpuset::CpuSet;
use isobar_core::model::machine::{Found, Machine};
use isobar_core::model::sample::{Gap, GapReason};
use isobar_core::model::snapshot::working_set;
use isobar_core::model::topology::{CpuPlace, Topology};
use isobar_core::model::units::Bytes;

/// Reads the machine whose procfs and sysfs are mounted at `proc` and `sys`, and the file system
/// that holds `kubelet_root`, or will hold it: before the kubelet's first start it is missing.
pub fn read(proc: &Path, sys: &Path, kubelet_root: &Path) -> Machine {
    let mut gaps = Gaps::default();
    let node = Node::new(proc);
    Machine {
        cpus: gaps.ok(topology(&sys.join("devices/system/cpu"))).unwrap_or_default(),
        memory: gaps.ok(node.meminfo()).map(|memory| memory.total),
        huge_pages: gaps.ok(huge_pages(&sys.join("kernel/mm/hugepages"))).unwrap_or_default(),
        nodefs: gaps.ok(filesystems::first(kubelet_root.ancestors())).flatten(),
        imagefs: gaps
            .ok(filesystems::first(Directories::of_kubelet(kubelet_root).imagefs))
            .flatten(),
        max_threads: gaps.ok(node.max_threads()),
        page: Bytes(procfs::page_size()),
        gaps: gaps.finish(),
    }
}

/// Which CPUs are online, and their cores, sockets and NUMA nodes. `dir` is
/// `/sys/devices/system/cpu`.
fn topology(dir: &Path) -> Result<Topology, ReadError> {
    let mut places = BTreeMap::new();
    for cpu in gap::read(&dir.join("online"), cpu_set)?.0 {
        let dir = dir.join(format!("cpu{cpu}"));
        let siblings = dir.join("topology/thread_siblings_list");
        let siblings = siblings.exists().then(|| gap::read(&siblings, cpu_set)).transpose()?;
        // -1 where firmware reports no socket, and no file at all in some virtual machines.
        let socket = gap::read(&dir.join("topology/physical_package_id"), value).ok();
        let node = names(&dir)?.iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
        let place = CpuPlace {
            core: siblings.and_then(|cpus| cpus.0.first().copied()).unwrap_or(cpu),
            socket: socket.and_then(|id| u32::try_from(id).ok()).unwrap_or(0),
            node: node.unwrap_or(0),
        };
        places.insert(cpu, place);
    }
    Ok(Topology::of(&places))
}

/// `0-3,8`: `cpumap_print_to_pagebuf`, include/linux/cpumask.h.
pub(super) fn cpu_set(text: &[u8]) -> Result<CpuSet, String> {
    let text = str::from_utf8(text).map_err(|error| error.to_string())?;
    text.trim_end()
        .parse()
        .map_err(|error: isobar_core::model::cpuset::CpuSetError| error.to_string())
}

/// Memory in huge pages, by page size. A kernel without huge pages has no such directory.
fn huge_pages(dir: &Path) -> Result<BTreeMap<Bytes, Bytes>, ReadError> {
    let mut sizes = BTreeMap::new();
    for name in names(dir)? {
        let kib = name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB"));
        let Some(kib) = kib.and_then(|kib| kib.parse::<u64>().ok()) else { continue };
        let n = gap::read(&dir.join(&name).join("nr_hugepages"), value)?;
        let size = kib.saturating_mul(1 << 10);
        sizes.insert(Bytes(size), Bytes(n.saturating_mul(size)));
    }
    Ok(sizes)
}

/// The names in a directory; none if it does not exist.
fn names(dir: &Path) -> Result<Vec<String>, ReadError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ReadError::io(dir, error)),
    };
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// The cgroup v2 tree, of which single cgroups are read.
#[derive(Debug)]
pub struct Groups {
    root: Root,
}

impl Groups {
    /// Opens the tree at `cgroup`, or the one among the mounts that `proc` lists.
    ///
    /// # Errors
    /// If there is no cgroup v2 tree.
    pub fn open(proc: &Path, cgroup: Option<&Path>) -> Result<Self, OpenError> {
        Ok(Self { root: Root::locate(proc, cgroup)? })
    }

    /// The mount point.
    pub fn mount(&self) -> &Path {
        &self.root.path
    }

    /// The root's `cgroup.controllers`; empty if it cannot be read.
    pub fn controllers(&self) -> BTreeSet<String> {
        self.controllers_of(&CgroupPath::root())
    }

    fn controllers_of(&self, path: &CgroupPath) -> BTreeSet<String> {
        let file = self.root.path_of(path, "cgroup.controllers");
        let text = fs::read_to_string(file).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Whether the cgroup at `path` is there.
    pub fn exists(&self, path: &CgroupPath) -> bool {
        self.root.path_of(path, "").is_dir()
    }

    /// Whether the cgroup at `path` is there and has a process, in it or below it.
    pub fn is_populated(&self, path: &CgroupPath) -> bool {
        let events = fs::read_to_string(self.root.path_of(path, "cgroup.events"));
        events.is_ok_and(|events| events.lines().any(|line| line == "populated 1"))
    }

    /// The limits and the usage of the cgroup at `path`. A file that is missing because its
    /// controller is off is `None` without a gap.
    pub fn look(&self, path: &CgroupPath, gaps: &mut Vec<Gap>) -> Found {
        let dir: PathBuf = self.root.path_of(path, "");
        let mut found = Found { path: path.clone(), exists: self.exists(path), ..Found::default() };
        if !found.exists {
            return found;
        }
        let mut cgroup = Cgroup::default();
        let read = [
            File::MemoryMax,
            File::PidsMax,
            File::CpuWeight,
            File::CpuStat,
            File::MemoryCurrent,
            File::MemoryStat,
        ];
        for file in read {
            let path = dir.join(file.name());
            if_present(gap::read(&path, |text| file.fill(text, &mut cgroup)), gaps);
        }
        found.controllers = self.controllers_of(path);
        found.memory_max = cgroup.memory.max;
        found.pids_max = cgroup.pids_max;
        found.cpu_weight = cgroup.cpu.weight;
        found.cpu_usage = cgroup.cpu.usage;
        found.working_set = working_set(&cgroup);
        for name in if_present(names(&dir), gaps).unwrap_or_default() {
            let size = name.strip_prefix("hugetlb.").and_then(|name| name.strip_suffix(".max"));
            // `hugetlb.2MB.rsvd.max` is another limit.
            let Some(size) = size.filter(|size| !size.contains('.')) else { continue };
            if let Some(limit) = if_present(gap::read(&dir.join(&name), parse::limit), gaps) {
                found.hugetlb_max.insert(size.into(), limit);
            }
        }
        found
    }
}

/// The reading of a file that may be missing.
fn if_present<T>(read: Result<T, ReadError>, gaps: &mut Vec<Gap>) -> Option<T> {
    let failed = |error: ReadError| {
        let is_missing = error.reason() == GapReason::Unsupported;
        gaps.extend((!is_missing).then(|| error.gap()));
    };
    read.map_err(failed).ok()
}
