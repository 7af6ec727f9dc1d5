//! A recording, and its replay.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};

use super::files::same_as_json;
use isobar::record::incident::freeze::import;
use isobar::record::incident::is_name;
use isobar::record::incident::shelf::Shelf;
use isobar::record::reader::Recording;
use isobar::record::replay::{Judged, Replay, Replayed};
use isobar_core::model::units::Nanos;

/// A recording, plain or compressed. Two replays must give the same decisions.
pub(crate) fn recording(bytes: &[u8]) -> bool {
    let memory = memfd_create("recording", MemfdFlags::CLOEXEC).expect("no memory for a file");
    let mut file = File::from(memory);
    file.write_all(bytes).expect("no memory for a file");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let once = judged(Path::new(&path));
    assert!(once == judged(Path::new(&path)), "two replays differ");
    moments(Path::new(&path), &once);
    if let Ok(incident) = import(Path::new(&path), &Shelf::in_memory(), Nanos(0)) {
        assert!(is_name(&incident.name) && !incident.summary.is_empty(), "{incident:?}");
    }
    !once.is_empty()
}

/// Its frames are found by their own lengths, which may lie.
fn moments(path: &Path, once: &[Judged]) {
    let walls = once.iter().map(|judged| judged.at.wall);
    for wall in walls.chain([Nanos(0), Nanos(u64::MAX)]) {
        if let Ok(recording) = Recording::open_at(path, wall) {
            // An error is an answer, too.
            let _ = Replay::new(recording, None).step_before(wall);
        }
    }
}

fn judged(path: &Path) -> Vec<Judged> {
    let Ok(recording) = Recording::open(path) else { return Vec::new() };
    let ticks = Replay::new(recording, None).filter_map(|entry| match entry {
        Ok(Replayed::Tick(judged)) => Some(*judged),
        Ok(Replayed::Notice(_)) | Err(_) => None,
    });
    ticks.inspect(|judged| same_as_json(&judged.step.decision)).collect()
}
