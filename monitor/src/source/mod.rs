//! Everything that reads the machine. Uses the model and the clock, and nothing else of the agent.
//!
//! The agent calls [`Sampler::sample`] once a second and gets a [`Sample`] that lacks only
//! `kernel`, which comes from [`kernel`]. The contract:
//!
//! - It never fails. What cannot be read is `None`, and the sample's gaps give object and reason,
//!   in every sample again, so that each sample can be judged alone. A cgroup that was removed
//!   meanwhile is left out as a whole, with a gap of reason `Gone`.
//! - Pressure, counters and the set of cgroups are of this tick. Settings (`cpu.max`,
//!   `cpu.weight`, `memory.max`, `.high`, `.low`, `.min`, `memory.swap.max`,
//!   `pids.max`) and the number of processes
//!   are at most ten ticks old; those of a new cgroup are fresh.
//! - The node's memory is read last: what a party gives back while the tree is read is then never
//!   missing in it.
//! - File systems are read once in ten seconds; `Filesystems::at` holds the time.
//! - Pressure, `io.stat` and `memory.events` of an idle cgroup are carried over for at most ten
//!   ticks, and all of its files for at most thirty if the kernel side saw that it slept; see
//!   `cgroup::idle`.
//! - Pressure files are read at most once in 900 ms (see `pressure::LastRead`); a sample that comes
//!   sooner repeats the last reading. So the caller must skip late ticks instead of catching up.
//! - The root's pressure is the node's: the kernel keeps one set of counters for both.
//! - It blocks for as long as the kernel takes to answer: 8 ms for 500 busy cgroups without
//!   controllers, 4 ms for idle ones, more with controllers.

mod awake;
mod cgroup;
mod filesystems;
pub mod fuzzing;
mod gap;
pub mod interrupts;
pub mod kernel;
mod lines;
pub mod machine;
mod mounts;
pub mod pod_disks;
mod pressure;
mod proc;
pub mod processes;
pub mod runners;
pub mod sightings;
pub mod triggers;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

pub use self::awake::Awake;
use self::cgroup::{Budget, Tick, Tree};
pub use self::filesystems::Directories;
use self::filesystems::Disks;
use self::gap::Gaps;
pub use self::gap::ReadError;
use self::mounts::{Extent, Root};
use self::proc::Node;
use crate::clock;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::{Cause, Moment, Sample};
use isobar_core::model::units::Bytes;

/// Where the machine is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// The mount point of procfs.
    pub proc: PathBuf,
    /// The root of the cgroup v2 tree; `None` to find it among the mounts.
    pub cgroup: Option<PathBuf>,
    /// The file systems of the eviction signals.
    pub filesystems: Directories,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), cgroup: None, filesystems: Directories::default() }
    }
}

/// `MemTotal` of `/proc/meminfo`, with procfs mounted at `proc`.
///
/// # Errors
/// If the file cannot be read or parsed.
pub fn memory_total(proc: &Path) -> Result<Bytes, ReadError> {
    Ok(Node::new(proc).meminfo()?.total)
}

/// Why the machine cannot be read at all: the agent cannot run. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot read {path}")]
    Mounts { path: PathBuf, source: io::Error },
    #[error("no cgroup2 is mounted: mount it with `mount -t cgroup2 none /sys/fs/cgroup`")]
    NoCgroup2,
    #[error("{0} is not a cgroup v2 directory: give the mount point of cgroup2")]
    NotCgroup2(PathBuf),
    #[error("cannot open the cgroup tree at {path}")]
    Root { path: PathBuf, source: io::Error },
    #[error("cannot read the node's name, kernel release, boot id or CPUs")]
    Facts(#[from] ReadError),
}

/// Reads the machine, tick by tick. Keeps descriptors open between ticks.
#[derive(Debug)]
pub struct Sampler {
    facts: NodeFacts,
    node: Node,
    disks: Disks,
    tree: Tree,
    /// The tree from the root of this process's cgroup namespace on; `None` if it is not mounted, or
    /// the tree that is read is made of ordinary directories.
    namespace: Option<Root>,
    /// Pages that the node had looked at for reclaim by the last tick.
    scanned: Option<u64>,
}

impl Sampler {
    /// Opens every source, and raises the process's soft limit of open files to the hard limit.
    ///
    /// # Errors
    /// If there is no cgroup v2 tree, or `/proc` is not that of a Linux node.
    pub fn open(roots: &Roots) -> Result<Self, OpenError> {
        let node = Node::new(&roots.proc);
        let facts = node.facts()?;
        let root = Root::locate(&roots.proc, roots.cgroup.as_deref())?;
        let is_real = root.extent != Extent::Plain;
        let namespace = is_real.then(|| Root::of_namespace(&roots.proc)).flatten();
        let disks = Disks::new(roots.filesystems.clone());
        let tree = Tree::new(root, Budget::of_process());
        Ok(Self { facts, node, disks, tree, namespace, scanned: None })
    }

    /// Calls the node by another name than its host name.
    pub fn rename(&mut self, node: &str) {
        self.facts.name = node.into();
    }

    /// Reads the machine now. `kernel` stays empty.
    pub fn sample(&mut self, tick: u64, cause: Cause, awake: &Awake) -> Sample {
        self.sample_at(clock::now(), tick, cause, awake)
    }

    /// As [`Sampler::sample`], at a moment that the caller read from the clock.
    pub fn sample_at(&mut self, at: Moment, tick: u64, cause: Cause, awake: &Awake) -> Sample {
        let mut gaps = Gaps::default();
        let mut node = self.node.read(at.boot, &mut gaps);
        node.filesystems = self.disks.read(at.boot, &mut gaps);
        let (pressure, is_pressure_new) = (node.pressure, node.pressure_read.is_none());
        let scanned = node.reclaim.map(|reclaim| reclaim.scanned);
        let is_reclaimed = scanned.is_none() || scanned != self.scanned;
        self.scanned = scanned;
        let tick_now = Tick { number: tick, now: at.boot, pressure, is_pressure_new, is_reclaimed };
        let cgroups = self.tree.read(&tick_now, awake, &mut gaps);
        node.memory = self.node.memory(&mut gaps);
        let own = self.own_cgroup();
        let gaps = gaps.finish();
        let keeps_recursively = self.tree.root.keeps_recursively;
        let read = Sample { tick, at, cause, node, cgroups, own, gaps, ..Sample::default() };
        Sample { keeps_recursively, ..read }
    }

    /// What does not change until the next boot.
    pub fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// The root directory of the cgroup v2 tree.
    pub fn cgroup_root(&self) -> &Path {
        &self.tree.root.path
    }

    /// Refuses a tree that is an ordinary directory, as tests make them. On a node the path is then
    /// wrong, and the node would look as if it had no cgroups.
    ///
    /// # Errors
    /// [`OpenError::NotCgroup2`].
    pub fn check_is_cgroup2(&self) -> Result<(), OpenError> {
        match self.tree.root.extent {
            Extent::Whole | Extent::Part => Ok(()),
            Extent::Plain => Err(OpenError::NotCgroup2(self.cgroup_root().into())),
        }
    }

    /// What the kernel side must know of this host before it is attached.
    pub fn host(&self) -> kernel::Host {
        let root = &self.tree.root;
        let controllers = fs::read_to_string(root.path.join("cgroup.controllers"));
        kernel::Host {
            cpu_on_v2: controllers
                .is_ok_and(|line| line.split_whitespace().any(|name| name == "cpu")),
            memory_on_v1: fs::read_to_string("/proc/self/cgroup")
                .is_ok_and(|lines| is_on_v1(&lines, "memory")),
            psi: fs::read("/proc/pressure/memory").is_ok(),
            own_cgroup: self.own_cgroup().map(|id| id.0),
        }
    }

    /// The id of this process's own cgroup. In a cgroup namespace of its own, as containers have it,
    /// the path in `/proc/self/cgroup` begins at the root of the namespace, whatever the tree that
    /// is read shows.
    fn own_cgroup(&self) -> Option<CgroupId> {
        let namespace = self.namespace.as_ref()?;
        let lines = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = lines.lines().find_map(|line| line.strip_prefix("0::"))?;
        let stat = fs::metadata(namespace.path.join(path.trim_start_matches('/'))).ok()?;
        Some(CgroupId(stat.ino()))
    }

    /// Descriptors kept open between ticks.
    pub fn n_kept(&self) -> usize {
        self.tree.n_kept()
    }
}

/// Whether a controller is on a hierarchy of cgroup v1, by `/proc/self/cgroup`: `4:cpu,cpuacct:/path`.
fn is_on_v1(lines: &str, controller: &str) -> bool {
    let lists = lines.lines().filter_map(|line| line.split(':').nth(1));
    lists.flat_map(|list| list.split(',')).any(|name| name == controller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_on_v1_finds_the_controller_in_its_hierarchy() {
        #[rustfmt::skip]
        let table = [
            // /proc/self/cgroup, memory is on v1
            ("0::/system.slice/isobar.service\n",               false),
            ("5:memory:/\n4:cpu,cpuacct:/\n0::/\n",             true),
            ("5:blkio,memory:/a\n0::/\n",                       true),
            ("5:name=memory:/\n4:cpu:/memory\n0::/x:memory\n",  false),
            ("",                                                false),
        ];
        for (lines, want) in table {
            assert_eq!(is_on_v1(lines, "memory"), want, "{lines:?}");
        }
    }
}
