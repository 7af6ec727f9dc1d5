//! The kubelet's eviction signals, from one sample.
//! In: the sample, and kubepods. Out: observations, or why a signal has none.
//! Sources: kubelet `pkg/kubelet/eviction/helpers.go`, `makeSignalObservations`; cAdvisor's
//! working set; opencontainers/cgroups on the root of cgroup v2. Deviations: docs/kubelet.md.

use crate::model::cgroup::{Cgroup, Limit};
use crate::model::decision::Observation;
use crate::model::node::Filesystem;
use crate::model::sample::Sample;
use crate::model::snapshot::working_set;
use crate::model::threshold::Signal;
use crate::policy::scope;

/// cAdvisor takes a larger limit for none: `maxMemorySize`, 2^62.
const LARGEST_LIMIT: u64 = 1 << 62;

/// Available amount and capacity.
type Left = (u64, u64);

/// Observes one signal.
///
/// # Errors
/// The reading that is missing.
pub fn observe(
    signal: Signal,
    sample: &Sample,
    kubepods: Option<&Cgroup>,
) -> Result<Observation, String> {
    let files = &sample.node.filesystems;
    let disk = |file: Option<Filesystem>, name: &str, read: fn(Filesystem) -> Option<Left>| {
        let file =
            file.ok_or_else(|| format!("the file system of {name} was not found or not read"))?;
        read(file).ok_or_else(|| "the file system has no fixed number of inodes".to_owned())
    };
    let left = match signal {
        Signal::MemoryAvailable => memory(sample),
        Signal::AllocatableMemoryAvailable => allocatable(kubepods),
        Signal::NodefsAvailable => disk(files.nodefs, "the kubelet", bytes),
        Signal::NodefsInodesFree => disk(files.nodefs, "the kubelet", inodes),
        Signal::ImagefsAvailable => disk(files.imagefs, "images", bytes),
        Signal::ImagefsInodesFree => disk(files.imagefs, "images", inodes),
        Signal::ContainerfsAvailable => disk(files.containerfs, "containers", bytes),
        Signal::ContainerfsInodesFree => disk(files.containerfs, "containers", inodes),
        Signal::PidAvailable => pids(sample),
    };
    let at = match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => {
            sample.at.boot
        }
        _ => files.at,
    };
    left.map(|(available, capacity)| Observation { signal, available, capacity, at })
}

/// `MemTotal` less the working set of the root cgroup. The root has no `memory.current`, so usage
/// is `anon` plus `file`, as in opencontainers/cgroups and cAdvisor. It leaves out the kernel's
/// own memory.
fn memory(sample: &Sample) -> Result<Left, String> {
    let total = sample.node.memory.ok_or("/proc/meminfo was not read")?.total.0;
    let stat = scope::root(sample).and_then(|root| root.memory.stat);
    let stat = stat.ok_or("the root of cgroup v2 has no memory.stat: is the controller on v1?")?;
    let usage = stat.anon.0.saturating_add(stat.file.0);
    let used = usage.saturating_sub(stat.inactive_file.0);
    Ok(below(total, used))
}

/// The limit of kubepods less its working set.
fn allocatable(kubepods: Option<&Cgroup>) -> Result<Left, String> {
    let kubepods = kubepods.ok_or(scope::NO_KUBEPODS)?;
    let unread = |file: &str| format!("{file} of {} was not read", kubepods.path);
    let limit = match kubepods.memory.max.ok_or_else(|| unread("memory.max"))? {
        Limit::At(limit) if limit <= LARGEST_LIMIT => limit,
        _ => return Err(format!("{} has no memory limit", kubepods.path)),
    };
    let used = working_set(kubepods).ok_or_else(|| unread("memory.current or memory.stat"))?;
    Ok(below(limit, used.0))
}

/// The kubelet's capacity is available plus used, so if more is used than `limit`, it is `used`.
fn below(limit: u64, used: u64) -> Left {
    (limit.saturating_sub(used), limit.max(used))
}

fn bytes(file: Filesystem) -> Option<Left> {
    Some((file.available.0, file.capacity.0))
}

/// btrfs, which allocates inodes as needed, reports 0 of 0. The kubelet takes that for an endless
/// shortage.
fn inodes(file: Filesystem) -> Option<Left> {
    (file.inodes > 0).then_some((file.inodes_free, file.inodes))
}

fn pids(sample: &Sample) -> Result<Left, String> {
    let max = sample.node.max_threads.ok_or("pid_max and threads-max were not read")?;
    let running = sample.node.n_threads.ok_or("/proc/loadavg was not read")?;
    Ok((max.saturating_sub(running), max))
}

#[cfg(test)]
mod tests;
