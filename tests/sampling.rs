//! Samples of a tree, one tick a second, and what is looked for in them.

use std::path::{Path, PathBuf};

use isobar::source::{Awake, Directories, Roots, Sampler};
use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::sample::{Cause, Gap, GapReason, Moment, Sample};
use isobar_core::model::units::Nanos;

/// A file or directory below tests/data.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

/// A sampler of `cgroup` on the node of tests/data.
pub(crate) fn sampler(cgroup: &Path) -> Sampler {
    Sampler::open(&Roots {
        proc: data("proc-node"),
        cgroup: Some(cgroup.into()),
        filesystems: Directories::none(),
    })
    .unwrap()
}

/// The sample of one tick, one tick a second.
pub(crate) fn sample(sampler: &mut Sampler, tick: u64) -> Sample {
    sampler.sample_at(moment(tick * 1_000), tick, Cause::Timer, &Awake::Unknown)
}

/// That many milliseconds after the boot.
pub(crate) fn moment(ms: u64) -> Moment {
    Moment { boot: Nanos(ms * 1_000_000), wall: Nanos(0) }
}

pub(crate) fn paths(sample: &Sample) -> Vec<&str> {
    let mut paths: Vec<_> = sample.cgroups.values().map(|cgroup| &*cgroup.path.0).collect();
    paths.sort_unstable();
    paths
}

pub(crate) fn cgroup<'a>(sample: &'a Sample, path: &str) -> &'a Cgroup {
    let found = sample.cgroups.values().find(|cgroup| &*cgroup.path.0 == path);
    found.unwrap_or_else(|| panic!("no {path} among {:?}", paths(sample)))
}

/// The gaps, their objects as seen from `root`.
pub(crate) fn gaps<'a>(sample: &'a Sample, root: &Path) -> Vec<(GapReason, &'a str, &'a str)> {
    let root = root.to_str().unwrap();
    let short = |gap: &'a Gap| gap.object.strip_prefix(root).unwrap_or(&gap.object);
    sample.gaps.iter().map(|gap| (gap.why, short(gap), gap.detail.as_str())).collect()
}
