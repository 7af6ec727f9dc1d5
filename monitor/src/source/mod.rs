//! Everything that reads the machine. Sees the model and the clock, nobody else.
//!
//! [`Sampler::sample`] is called once a second and returns a [`Sample`] that is whole but for
//! `kernel`, which the caller adds from [`kernel`]. The contract:
//!
//! - It never fails. What could not be read is `None`, and the sample's gaps say what and why,
//!   anew in each sample, so that a sample can be judged alone. A cgroup that ended meanwhile is
//!   left out whole, with a gap of reason `Gone`.
//! - Pressure, counters and the set of cgroups are of this tick. Settings (`cpu.max`,
//!   `cpu.weight`, `memory.max`, `.high`, `.low`, `.min`, `pids.max`) and the count of processes
//!   are at most ten ticks old, those of a new cgroup are fresh.
//! - File systems are read once in ten seconds; `Filesystems::at` says when.
//! - Pressure, `io.stat` and `memory.events` of a cgroup that neither runs nor waits are carried
//!   over, for ten ticks at most; see `cgroup::quiet`.
//! - Pressure files are read at most once in 900 ms (see `pressure::LastRead`); a sample that comes
//!   sooner repeats the former reading. So whoever calls must space late ticks, not catch up.
//! - The root's pressure is the node's: the kernel keeps them in one place.
//! - It blocks for as long as the kernel takes to answer: 8 ms for 500 busy cgroups without
//!   controllers, 4 ms for quiet ones, more with them.

mod cgroup;
mod filesystems;
pub mod fuzzing;
mod gap;
pub mod kernel;
mod lines;
pub mod machine;
mod mounts;
mod pressure;
mod proc;
pub mod processes;
pub mod triggers;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use self::cgroup::{Budget, Tree, Turn};
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
    /// Where procfs is mounted.
    pub proc: PathBuf,
    /// The top of the cgroup v2 tree; `None` to look for it among the mounts.
    pub cgroup: Option<PathBuf>,
    /// Whose file systems eviction signals are about.
    pub filesystems: Directories,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), cgroup: None, filesystems: Directories::default() }
    }
}

/// Memory that the node has: `MemTotal` in `/proc/meminfo`, where procfs is mounted at `proc`.
///
/// # Errors
/// If the file cannot be read or understood.
pub fn memory_total(proc: &Path) -> Result<Bytes, ReadError> {
    Ok(Node::new(proc).meminfo()?.total)
}

/// This process's own cgroup, if the tree shows it: in a cgroup namespace of its own, beside a
/// tree that shows the whole node, the path in `/proc/self/cgroup` is another's.
fn own_cgroup(root: &Root) -> Option<u64> {
    let lines = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = lines.lines().find_map(|line| line.strip_prefix("0::"))?;
    let shown = match root.extent() {
        Extent::Whole => path != "/" || is_init_namespace(),
        // The path counts from the top of a namespace, which is what such a tree shows.
        Extent::Part => !is_init_namespace(),
        Extent::Plain => false,
    };
    let path = root.path().join(path.trim_start_matches('/'));
    shown.then(|| fs::metadata(path).ok().map(|stat| stat.ino())).flatten()
}

/// True in the node's own cgroup namespace, whose number is fixed: `PROC_CGROUP_INIT_INO`,
/// include/linux/proc_ns.h.
fn is_init_namespace() -> bool {
    fs::read_link("/proc/self/ns/cgroup")
        .is_ok_and(|name| name.as_os_str() == "cgroup:[4026531835]")
}

/// Why the machine cannot be read at all. Nothing can be done without; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The list of mounts cannot be read.
    #[error("cannot read {path}")]
    Mounts {
        /// `/proc/self/mountinfo`.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no cgroup v2 hierarchy.
    #[error("no cgroup2 is mounted: mount it with `mount -t cgroup2 none /sys/fs/cgroup`")]
    NoCgroup2,
    /// The directory is there, and is none of cgroup v2's.
    #[error("{0} is no cgroup v2 directory: give the one where cgroup2 is mounted")]
    NotCgroup2(PathBuf),
    /// The top of the hierarchy cannot be opened.
    #[error("cannot open the cgroup tree at {path}")]
    Root {
        /// Where it should be.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// What the node is cannot be read.
    #[error("cannot tell what node this is")]
    Facts(#[from] ReadError),
}

/// Reads the machine, tick by tick. Keeps descriptors open between ticks.
#[derive(Debug)]
pub struct Sampler {
    facts: NodeFacts,
    node: Node,
    disks: Disks,
    tree: Tree,
}

impl Sampler {
    /// Finds everything, and raises the process's soft limit of open files to the hard one.
    ///
    /// # Errors
    /// If there is no cgroup v2 tree, or `/proc` is not that of a Linux node.
    pub fn open(roots: &Roots) -> Result<Self, OpenError> {
        let node = Node::new(&roots.proc);
        let facts = node.facts()?;
        let root = match &roots.cgroup {
            Some(path) => Root::open(path)?,
            None => Root::find(&roots.proc.join("self/mountinfo"))?,
        };
        let disks = Disks::new(roots.filesystems.clone());
        Ok(Self { facts, node, disks, tree: Tree::new(root, Budget::of_process()) })
    }

    /// Reads the machine now. `kernel` is left out.
    pub fn sample(&mut self, tick: u64, cause: Cause) -> Sample {
        self.sample_at(clock::now(), tick, cause)
    }

    /// As [`Sampler::sample`], at a moment that the caller read from the clock.
    pub fn sample_at(&mut self, at: Moment, tick: u64, cause: Cause) -> Sample {
        let mut gaps = Gaps::default();
        let mut node = self.node.read(at.boot, &mut gaps);
        node.filesystems = self.disks.read(at.boot, &mut gaps);
        let turn = Turn { tick, now: at.boot, node: node.pressure };
        let cgroups = self.tree.read(&turn, &mut gaps);
        let own = own_cgroup(self.tree.root()).map(CgroupId);
        let gaps = gaps.finish();
        Sample { tick, at, cause, node, cgroups, own, gaps, ..Sample::default() }
    }

    /// What stays true of the node.
    #[must_use]
    pub fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// The top of the cgroup v2 tree.
    #[must_use]
    pub fn cgroup_root(&self) -> &Path {
        self.tree.root().path()
    }

    /// Refuses a tree that is an ordinary directory, as tests make them: on a node it is a mistake
    /// in the path, and would show for ever as a node without cgroups.
    ///
    /// # Errors
    /// [`OpenError::NotCgroup2`].
    pub fn check_is_cgroup2(&self) -> Result<(), OpenError> {
        match self.tree.root().extent() {
            Extent::Whole | Extent::Part => Ok(()),
            Extent::Plain => Err(OpenError::NotCgroup2(self.cgroup_root().into())),
        }
    }

    /// What the kernel side must know of this host before it is attached.
    #[must_use]
    pub fn host(&self) -> kernel::Host {
        let root = self.tree.root();
        let controllers = fs::read_to_string(root.path().join("cgroup.controllers"));
        kernel::Host {
            cpu_on_v2: controllers
                .is_ok_and(|line| line.split_whitespace().any(|name| name == "cpu")),
            psi: fs::read("/proc/pressure/memory").is_ok(),
            own_cgroup: own_cgroup(root),
        }
    }

    /// Descriptors kept open between ticks.
    #[must_use]
    pub fn n_kept(&self) -> usize {
        self.tree.n_kept()
    }
}
