//! What each signal says of readings that are known.

use super::*;
use crate::model::cgroup::{CgroupId, CgroupPath, MemoryFiles, MemoryStat};
use crate::model::node::{Filesystems, Meminfo};
use crate::model::units::{Bytes, Nanos};

const GIB: u64 = 1 << 30;

fn stat(anon: u64, file: u64, inactive_file: u64) -> Option<MemoryStat> {
    let (anon, file, inactive_file) = (Bytes(anon), Bytes(file), Bytes(inactive_file));
    Some(MemoryStat { anon, file, inactive_file, ..MemoryStat::default() })
}

fn cgroup(path: &str, memory: MemoryFiles) -> Cgroup {
    Cgroup { path: CgroupPath(path.into()), memory, ..Cgroup::default() }
}

/// The numbers of a signal, or that there are none.
fn numbers(signal: Signal, sample: &Sample, kubepods: Option<&Cgroup>) -> Option<(u64, u64)> {
    observe(signal, sample, kubepods).ok().map(|seen| (seen.available, seen.capacity))
}

fn node_with(total: Option<u64>, root: Option<MemoryStat>) -> Sample {
    let mut sample = Sample::default();
    sample.node.memory = total.map(|total| Meminfo { total: Bytes(total), ..Meminfo::default() });
    let memory = MemoryFiles { stat: root, ..MemoryFiles::default() };
    sample.cgroups.insert(CgroupId(1), cgroup("/", memory).into());
    sample
}

#[test]
fn signals_memory_available() {
    #[rustfmt::skip]
    let table = [
        // MemTotal, memory.stat of the root, available and capacity
        (Some(2 * GIB), stat(GIB, 0, 0),               Some((GIB, 2 * GIB))), // as the kubelet's own test
        (Some(4 * GIB), stat(GIB, 2 * GIB, 2 * GIB),   Some((3 * GIB, 4 * GIB))), // cache that can go is no use
        (Some(4 * GIB), stat(GIB, 2 * GIB, GIB),       Some((2 * GIB, 4 * GIB))),
        (Some(4 * GIB), stat(0, GIB, 2 * GIB),         Some((4 * GIB, 4 * GIB))), // never below nothing used
        (Some(GIB),     stat(2 * GIB, 0, 0),           Some((0, 2 * GIB))), // the kubelet's would wrap round
        (None,          stat(GIB, 0, 0),               None),
        (Some(2 * GIB), None,                          None), // memory controller on cgroup v1
    ];
    for (total, root, want) in table {
        let got = numbers(Signal::MemoryAvailable, &node_with(total, root), None);
        assert_eq!(got, want, "{total:?} {root:?}");
    }
}

#[test]
fn signals_allocatable_memory() {
    let at = |n| Some(Limit::At(n));
    #[rustfmt::skip]
    let table = [
        // memory.max, memory.current, inactive_file, available and capacity
        (at(2 * GIB),       Some(GIB),           Some(0),       Some((GIB, 2 * GIB))), // as the kubelet's own test
        (at(2 * GIB),       Some(2 * GIB),       Some(GIB),     Some((GIB, 2 * GIB))),
        (at(2 * GIB),       Some(GIB),           Some(2 * GIB), Some((2 * GIB, 2 * GIB))),
        (at(GIB),           Some(2 * GIB),       Some(0),       Some((0, 2 * GIB))),
        (at(1 << 62),       Some(0),             Some(0),       Some((1 << 62, 1 << 62))),
        (at((1 << 62) + 1), Some(GIB),           Some(0),       None), // as good as none
        (Some(Limit::Max),  Some(GIB),           Some(0),       None),
        (None,              Some(GIB),           Some(0),       None),
        (at(GIB),           None,                Some(0),       None),
        (at(GIB),           Some(GIB),           None,          None),
    ];
    for (max, current, inactive, want) in table {
        let stat = inactive.and_then(|inactive| stat(0, 0, inactive));
        let memory = MemoryFiles { max, stat, current: current.map(Bytes), ..Default::default() };
        let kubepods = cgroup("/kubepods.slice", memory);
        let signal = Signal::AllocatableMemoryAvailable;
        let got = numbers(signal, &Sample::default(), Some(&kubepods));
        assert_eq!(got, want, "{max:?} {current:?} {inactive:?}");
    }
}

#[test]
fn signals_pids_and_disks() {
    let disk = |device, available, inodes| {
        let (inodes_free, capacity) = (inodes / 2, Bytes(100));
        let available = Bytes(available);
        let free = Some(available);
        Some(Filesystem { device, available, free, capacity, inodes_free, inodes })
    };
    let mut sample = Sample::default();
    sample.at.boot = Nanos(9);
    sample.node.max_threads = Some(255_816);
    sample.node.n_threads = Some(1_000);
    let (nodefs, imagefs, containerfs) = (disk(1, 10, 40), disk(2, 20, 0), disk(3, 30, 60));
    sample.node.filesystems = Filesystems { at: Nanos(7), nodefs, imagefs, containerfs };
    #[rustfmt::skip]
    let table = [
        // signal, available, capacity and when, or the reason
        (Signal::PidAvailable,          Ok((254_816, 255_816, 9))),
        (Signal::NodefsAvailable,       Ok((10, 100, 7))),
        (Signal::NodefsInodesFree,      Ok((20, 40, 7))),
        (Signal::ImagefsAvailable,      Ok((20, 100, 7))),
        (Signal::ImagefsInodesFree,     Err("the file system has no fixed number of inodes")), // btrfs
        (Signal::ContainerfsAvailable,  Ok((30, 100, 7))),
        (Signal::ContainerfsInodesFree, Ok((30, 60, 7))),
    ];
    for (signal, want) in table {
        let got = observe(signal, &sample, None);
        let got = got.map(|seen| (seen.available, seen.capacity, seen.at.0));
        assert_eq!(got, want.map_err(str::to_owned), "{signal}");
    }
}

#[test]
fn signals_name_what_is_missing() {
    let reasons: Vec<_> = Signal::ALL
        .into_iter()
        .map(|s| observe(s, &Sample::default(), None).unwrap_err())
        .collect();
    let disk = |name| format!("the file system of {name} was not found or not read");
    let want = [
        "/proc/meminfo was not read".to_owned(),
        scope::NO_KUBEPODS.to_owned(),
        disk("the kubelet"),
        disk("the kubelet"),
        disk("images"),
        disk("images"),
        disk("containers"),
        disk("containers"),
        "pid_max and threads-max were not read".to_owned(),
    ];
    assert_eq!(reasons, want);
}
