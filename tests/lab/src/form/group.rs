//! What a scenario is made of: cgroups, pods, services, the loads in them, swap, files.

use std::collections::BTreeMap;

use isobar_core::model::pod::QosClass;
use serde::Deserialize;
use toml::Spanned;

use crate::amount::{Cpu, Memory, Seconds};

/// One process of known work in a cgroup, pod or service.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    /// The arguments of `cargo xtask load`.
    pub(crate) run: String,
    /// So long after the onset.
    #[serde(default)]
    pub(crate) after: Seconds,
    /// Runs before the idle time already, and is no part of the onset.
    #[serde(default)]
    pub(crate) steady: bool,
    /// May end before it is asked to.
    #[serde(default)]
    pub(crate) ends: bool,
    /// May be killed for want of memory, and is then no victim.
    #[serde(default)]
    pub(crate) killed: bool,
}

/// A cgroup anywhere; its parents are made if they are not there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cgroup {
    /// Below the mount, with a leading `/`.
    pub(crate) path: Spanned<String>,
    /// The id of the user who owns it; without one, root does.
    pub(crate) owner: Option<u32>,
    /// What is written to its files.
    #[serde(default)]
    pub(crate) write: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) load: Vec<Load>,
}

/// A pod of the scenario, in the cgroups that a kubelet would make for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pod {
    pub(crate) name: Spanned<String>,
    /// `BestEffort`, `Burstable` or `Guaranteed`; must be what requests and limits make of it.
    pub(crate) class: Spanned<QosClass>,
    /// So many alike, called NAME-1 and so on.
    pub(crate) count: Option<usize>,
    /// So many containers: the loads run in the first, and nothing in the others.
    #[serde(default = "one")]
    pub(crate) containers: usize,
    pub(crate) memory_request: Option<Memory>,
    pub(crate) memory_limit: Option<Memory>,
    pub(crate) cpu_request: Option<Cpu>,
    pub(crate) cpu_limit: Option<Cpu>,
    #[serde(default)]
    pub(crate) priority: i32,
    /// Names of its emptyDir volumes.
    #[serde(default)]
    pub(crate) volumes: Vec<String>,
    /// More of what is written to the files of the container's cgroup.
    #[serde(default)]
    pub(crate) write: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) load: Vec<Load>,
}

fn one() -> usize {
    1
}

/// A service of the system: /system.slice/NAME.service.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) name: Spanned<String>,
    #[serde(default)]
    pub(crate) load: Vec<Load>,
}

/// Pods that come and go.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Churn {
    pub(crate) per_second: u32,
}

/// One thing that is done to the agent.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// Since the onset, or the first kill; negative is before the onset.
    pub(crate) after: Seconds,
    /// It counts from the first death of a victim, whenever that is.
    #[serde(default)]
    pub(crate) since_kill: bool,
    #[serde(rename = "do")]
    pub(crate) what: What,
}

/// See [`Order`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Cont,
    /// SIGKILL.
    Kill,
    /// SIGTERM, until it has left.
    Leave,
    /// Started again, as it was the first time.
    Restart,
}

/// A file that is made before anything else, outside of all cgroups.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prepared {
    /// Below /disk.
    pub(crate) path: Spanned<String>,
    pub(crate) size: Memory,
}

/// Where memory can be swapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Swap {
    /// Compressed memory of this size.
    Zram(Memory),
    /// The second disk, this much of it.
    Disk(Memory),
}

impl TryFrom<String> for Swap {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?}: expected `zram SIZE` or `disk SIZE`");
        let (kind, size) = text.split_once(' ').ok_or_else(wrong)?;
        let size = Memory::try_from(size.to_owned())?;
        match kind {
            "zram" => Ok(Self::Zram(size)),
            "disk" => Ok(Self::Disk(size)),
            _ => Err(wrong()),
        }
    }
}

/// The API server of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Api {
    /// Pods that a disruption budget keeps from being evicted.
    pub(crate) budgets: Vec<Spanned<String>>,
    /// It speaks TLS, its pods are as large as a cluster's, and at its address there is a kubelet.
    pub(crate) full: bool,
}
