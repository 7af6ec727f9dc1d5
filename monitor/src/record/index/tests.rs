use std::io::Write as _;
use std::path::Path;

use super::*;
use crate::record::journal::{Bounds, Journal, Start};
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use isobar_core::model::sample::Sample;
use isobar_core::policy::engine::Engine;

fn heads() -> Heads {
    Heads::new().unwrap()
}

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

/// The chapter, and the mark in it, of those that begin with these frames.
fn one_by_one(file: &File, all: &[u64], wall: Nanos) -> (u64, Option<u64>) {
    let mut mark = None;
    let chapter = heads().chapter_in(file, all, wall, &mut mark).unwrap();
    chapter.map_or((0, None), |chapter| (chapter, mark))
}

/// In so many bytes of the file, of which `all` are the frames.
fn assert_found_as_one_by_one(file: &File, all: &[u64], wall: Nanos, len: u64) {
    let one_by_one = one_by_one(file, all, wall);
    let Place { chapter, mark, .. } = heads().within(file.try_clone().unwrap(), wall, len).unwrap();
    assert_eq!((chapter, mark), one_by_one, "{wall:?}, {len} bytes, {} frames", all.len());
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
        assert!(heads().last_before(&file, Nanos(0), len).unwrap().is_some());
        for half in 0..=2 * n_ticks + 3 {
            let wall = Nanos(half * Nanos::SECOND.0 / 2);
            assert_found_as_one_by_one(&file, &all, wall, len);
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
    let one_by_one = one_by_one(&file, &walked(&file, 0, len).unwrap(), wall);
    file.write_all(&MAGIC.repeat(1 << 18)).unwrap();
    let whole = std::fs::read(&path).unwrap();
    file.write_all(&whole[..usize::try_from(len).unwrap()]).unwrap();
    let end = file.metadata().unwrap().len();
    assert_eq!(heads().next_frame(&file, len, end).unwrap(), None, "there is one far behind");
    assert!(heads().next_frame(&file, end - len - 8, end).unwrap().is_some());
    let place = heads().within(file, wall, end).unwrap();
    assert_eq!((place.chapter, place.mark), one_by_one);
}

#[test]
fn within_finds_in_a_torn_segment_what_is_found_frame_by_frame() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    record(&path, 340, 3);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let whole = file.metadata().unwrap().len();
    let all = walked(&file, 0, whole).unwrap();
    let from = all[all.len() - 4];
    let first = from..from + 40;
    let later = (from + 40..whole).step_by(usize::try_from((whole - from) / 40).unwrap());
    for len in first.chain(later).collect::<Vec<_>>().into_iter().rev() {
        file.set_len(len).unwrap();
        let all = walked(&file, 0, len).unwrap();
        for wall in [14, 302, 316, 332, 400].map(|at| Nanos(at * Nanos::SECOND.0)) {
            assert_found_as_one_by_one(&file, &all, wall, len);
        }
    }
}

#[test]
fn within_passes_damage_and_never_begins_too_late() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    record(&path, 640, 3);
    let sound = File::open(&path).unwrap();
    let len = sound.metadata().unwrap().len();
    let all = walked(&sound, 0, len).unwrap();
    let chapters: Vec<_> = all
        .iter()
        .copied()
        .filter(|at| matches!(heads().begun_at(&sound, *at).unwrap(), Begun::At(_)))
        .collect();
    assert!(chapters.len() > 2, "{chapters:?}");
    let damaged = dir.path().join("damaged");
    for hit in all.windows(2).step_by(5).map(|frames| frames[0].midpoint(frames[1])) {
        std::fs::copy(&path, &damaged).unwrap();
        let file = File::options().read(true).write(true).open(&damaged).unwrap();
        file.write_all_at(&[0; 16], hit).unwrap();
        let mut n_alike = 0;
        for tick in (1..=640).step_by(16) {
            let wall = Nanos(tick * Nanos::SECOND.0);
            let want = heads().within(sound.try_clone().unwrap(), wall, len).unwrap();
            let got = heads().within(file.try_clone().unwrap(), wall, len).unwrap();
            n_alike += u64::from((got.chapter, got.mark) == (want.chapter, want.mark));
            assert!(got.chapter <= want.chapter, "{tick}, hit at {hit}");
            assert!(chapters.contains(&got.chapter), "{tick}, hit at {hit}");
        }
        assert!(n_alike >= 20, "{n_alike} of 40, hit at {hit} of {len}: {chapters:?}");
    }
}

#[test]
fn frames_are_found_whose_first_bytes_lie_in_two_windows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    record(&path, 20, 0);
    let recording = std::fs::read(&path).unwrap();
    let frame = &recording
        [..usize::try_from(frame_end(&File::open(&path).unwrap(), 0).unwrap().unwrap()).unwrap()];
    for apart in 0..=MAGIC.len() + 1 {
        let before = vec![0; WINDOW - apart];
        std::fs::write(&path, [&before, frame].concat()).unwrap();
        let file = File::open(&path).unwrap();
        let end = file.metadata().unwrap().len();
        let found = heads().next_frame(&file, 0, end).unwrap();
        assert_eq!(found.map(|(at, _)| at), Some(before.len() as u64), "{apart} bytes before");
        // Looked for from the end, the first window begins so many bytes before or after it.
        for behind in [WINDOW - OVERLAP - apart, WINDOW + apart] {
            let after = vec![0; behind];
            std::fs::write(&path, [frame, frame, &after].concat()).unwrap();
            let file = File::open(&path).unwrap();
            let end = file.metadata().unwrap().len();
            assert!(heads().last_frame(&file, end).unwrap().is_some(), "{apart}, {behind}");
        }
    }
}
