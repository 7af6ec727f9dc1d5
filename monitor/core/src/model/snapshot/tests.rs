//! Samples made by hand, and what two of them must give.

mod counters;
mod properties;
mod unions;

use std::sync::Arc;

use super::*;
use crate::model::sample::Sample;
use crate::model::stall::{CpuStall, GroupStall, KernelStalls};
use crate::model::units::Micros;

const ROOT: CgroupId = CgroupId(1);
const POD: CgroupId = CgroupId(7);
const ALL: Coverage = Coverage::ALL;

const fn ms(n: u64) -> Nanos {
    Nanos(n * 1_000_000)
}

/// A cgroup with a cpu controller.
fn cgroup(path: &str) -> Cgroup {
    let mut cgroup = Cgroup { path: CgroupPath(path.into()), ..Cgroup::default() };
    cgroup.cpu.weight = Some(100);
    cgroup
}

/// A sample `at` a time since boot, with a root, a pod, and a kernel side that saw nothing yet.
fn sample(at: Nanos) -> Sample {
    let cgroups = [(ROOT, "/"), (POD, "/pod")].map(|(id, path)| (id, Arc::new(cgroup(path))));
    Sample {
        tick: at.0 / Nanos::SECOND.0,
        at: Moment { boot: at, wall: at.plus(Nanos(1_700_000_000 * Nanos::SECOND.0)) },
        cgroups: cgroups.into_iter().collect(),
        kernel: Some(KernelStalls {
            clock: at,
            covers: ALL,
            cpus: vec![CpuStall::default(); 2],
            ..KernelStalls::default()
        }),
        ..Sample::default()
    }
}

/// The kernel side of a sample made by [`sample`].
fn kernel(sample: &mut Sample) -> &mut KernelStalls {
    sample.kernel.as_mut().expect("made with one")
}

/// The pod's counters in it.
fn pod(sample: &mut Sample) -> &mut GroupStall {
    Arc::make_mut(kernel(sample).groups.entry(POD).or_default())
}

/// `[contention, nonidle]` of each CPU, in milliseconds.
fn cpus<const N: usize>(each: [[u64; 2]; N]) -> Vec<CpuStall> {
    let cpu = |[contention, nonidle]: [u64; 2]| CpuStall {
        contention: ms(contention),
        nonidle: ms(nonidle),
        switches: 1,
    };
    each.into_iter().map(cpu).collect()
}

/// The snapshot of two samples, with nothing before them.
fn between(prev: &Sample, next: &Sample) -> Snapshot {
    Snapshot::between(Some(prev), next, &mut Averages::new(2))
}

fn micros(n: u64) -> Option<Micros> {
    Some(Micros(n))
}
