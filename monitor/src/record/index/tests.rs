use std::io::Write as _;

use super::*;
use crate::record::journal::{Bounds, Journal, Start};
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::sample::Sample;
use isobar_core::policy::engine::Engine;

/// Ticks of a node of which each is as long as `n_groups` names.
fn record(path: &Path, n_ticks: u64, n_groups: u64) {
    let mut engine = Engine::default();
    let mut journal = Journal::create(path, Start::default(), Bounds::default()).unwrap();
    for tick in 1..=n_ticks {
        let wall = Nanos(tick * Nanos::SECOND.0);
        let group = |n: u64| {
            // Names that do not compress.
            let name = format!(
                "/{:x}",
                (n + 1).wrapping_mul(tick.wrapping_mul(0x9E37_79B9_7F4A_7C15)).rotate_left(31)
            );
            let path = CgroupPath(name.into());
            (CgroupId(n * n_ticks + tick), Cgroup { path, ..Cgroup::default() }.into())
        };
        let cgroups = (0..n_groups).map(group).collect();
        let at = Moment { boot: wall, wall };
        let sample = Sample { tick, at, cgroups, ..Sample::default() };
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
}

#[test]
fn within_finds_by_halves_what_is_found_frame_by_frame() {
    for (n_ticks, n_groups) in [(1, 0), (14, 0), (700, 2), (330, 400)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        record(&path, n_ticks, n_groups);
        let file = File::open(&path).unwrap();
        let len = file.metadata().unwrap().len();
        let all = walked(&file, 0, len).unwrap();
        assert!(last_before(&file, Nanos(0), len).unwrap().is_some());
        for half in 0..=2 * n_ticks + 3 {
            let wall = Nanos(half * Nanos::SECOND.0 / 2);
            let one_by_one = chapter_in(&file, &all, wall).unwrap().unwrap_or_default();
            let Place { chapter, mark, .. } = within(file.try_clone().unwrap(), wall, len).unwrap();
            assert_eq!((chapter, mark), one_by_one, "{half} of {n_ticks}, {len} bytes");
        }
    }
}

#[test]
fn within_gives_up_where_all_looks_like_frames() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    record(&path, 40, 2);
    let mut file = File::options().read(true).append(true).open(&path).unwrap();
    let (wall, len) = (Nanos(20 * Nanos::SECOND.0), file.metadata().unwrap().len());
    let one_by_one = chapter_in(&file, &walked(&file, 0, len).unwrap(), wall).unwrap();
    file.write_all(&MAGIC.repeat(1 << 18)).unwrap();
    let whole = std::fs::read(&path).unwrap();
    file.write_all(&whole[..usize::try_from(len).unwrap()]).unwrap();
    let end = file.metadata().unwrap().len();
    assert_eq!(next_frame(&file, len, end).unwrap(), None, "there is one far behind");
    assert!(next_frame(&file, end - len - 8, end).unwrap().is_some());
    let place = within(file, wall, end).unwrap();
    assert_eq!(Some((place.chapter, place.mark)), one_by_one);
}
