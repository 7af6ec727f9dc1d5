//! This node as a [`Sampler`]: the sources, joined.

use std::fs;
use std::path::PathBuf;

use rustix::system::uname;

use super::{AgentError, Reading, Sampler};
use crate::clock;
use crate::model::cost::KernelCost;
use crate::model::node::NodeFacts;
use crate::model::sample::{Gap, GapReason};
use crate::model::snapshot::Snapshot;
use crate::source::kernel;

/// What to read, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOptions {
    /// Which kernel programs to attach, and how large.
    pub kernel: kernel::Options,
    /// Where cgroup v2 is mounted; `None` finds it.
    pub cgroup_root: Option<PathBuf>,
}

/// Why the sources could not be opened at all. Whatever can be done without is a capability that
/// is absent, not an error.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel offers nothing to read.
    #[error(
        "this kernel has neither /proc/pressure nor BTF: nothing can be measured (needs Linux 4.20 with PSI, or 6.1)"
    )]
    Unsupported,
    /// The agent around the sources failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// The node that this process runs on.
#[derive(Debug)]
pub struct Live {
    facts: NodeFacts,
    tick: u64,
}

impl Live {
    /// Opens every source.
    ///
    /// # Errors
    /// Only if nothing at all can be measured.
    pub fn open(_options: &SourceOptions) -> Result<Self, OpenError> {
        let any = ["/proc/pressure", "/sys/kernel/btf/vmlinux"]
            .into_iter()
            .any(|p| fs::exists(p).unwrap_or(false));
        if !any {
            return Err(OpenError::Unsupported);
        }
        Ok(Self { facts: facts(), tick: 0 })
    }
}

impl Sampler for Live {
    fn facts(&self) -> NodeFacts {
        self.facts.clone()
    }

    fn sample(&mut self) -> Reading {
        self.tick += 1;
        let gap = Gap {
            object: "sources".into(),
            why: GapReason::Unsupported,
            detail: "this build joins no source yet".into(),
        };
        let snapshot =
            Snapshot { tick: self.tick, at: clock::now(), gaps: vec![gap], ..Snapshot::default() };
        Reading { snapshot, capabilities: Vec::new(), kernel: KernelCost::default() }
    }
}

/// What is true of this node for as long as it is up. What cannot be read stays empty: it names
/// things, and nothing is judged by it.
fn facts() -> NodeFacts {
    let uname = uname();
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    NodeFacts {
        name: uname.nodename().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        boot_id: boot_id.trim().into(),
        n_cpus: cpus_online(),
    }
}

/// `/proc/stat` has a line `cpu<n>` for each CPU that is online; this process's own affinity and
/// quota, which the standard library heeds, do not matter here.
fn cpus_online() -> u32 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    u32::try_from(stat.lines().filter(is_cpu).count()).unwrap_or(u32::MAX)
}
