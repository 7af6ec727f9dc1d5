//! Reads the machine: fake trees kept in git, trees made on the spot, and the kernel's own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "source/fake.rs"]
mod fake;
#[path = "source/kernel_tree.rs"]
mod kernel_tree;
#[path = "source/recorded.rs"]
mod recorded;

use std::path::{Path, PathBuf};

use isobar::source::{Directories, Roots, Sampler};
use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::sample::{Cause, Gap, GapReason, Moment, Sample};
use isobar_core::model::units::Nanos;

/// A file or directory below tests/data.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

/// A sampler of `cgroup` on the node of tests/data.
fn sampler(cgroup: &Path) -> Sampler {
    Sampler::open(&Roots {
        proc: data("proc-node"),
        cgroup: Some(cgroup.into()),
        filesystems: Directories::none(),
    })
    .unwrap()
}

/// The sample of one tick, one tick a second.
fn sample(sampler: &mut Sampler, tick: u64) -> Sample {
    sample_at_ms(sampler, tick, tick * 1_000)
}

fn sample_at_ms(sampler: &mut Sampler, tick: u64, ms: u64) -> Sample {
    let at = Moment { boot: Nanos(ms * 1_000_000), wall: Nanos(0) };
    sampler.sample_at(at, tick, Cause::Timer)
}

fn paths(sample: &Sample) -> Vec<&str> {
    let mut paths: Vec<_> = sample.cgroups.values().map(|cgroup| cgroup.path.0.as_str()).collect();
    paths.sort_unstable();
    paths
}

fn cgroup<'a>(sample: &'a Sample, path: &str) -> &'a Cgroup {
    let found = sample.cgroups.values().find(|cgroup| cgroup.path.0 == path);
    found.unwrap_or_else(|| panic!("no {path} among {:?}", paths(sample)))
}

/// The gaps, their objects as seen from `root`.
fn gaps<'a>(sample: &'a Sample, root: &Path) -> Vec<(GapReason, &'a str, &'a str)> {
    let root = root.to_str().unwrap();
    let short = |gap: &'a Gap| gap.object.strip_prefix(root).unwrap_or(&gap.object);
    sample.gaps.iter().map(|gap| (gap.why, short(gap), gap.detail.as_str())).collect()
}
