//! A recording, and its replay.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};

use super::files::same_as_json;
use isobar::record::reader::Recording;
use isobar::record::replay::{Judged, Replay, Replayed};

/// A recording, plain or compressed. Two replays must give the same decisions.
pub(crate) fn recording(bytes: &[u8]) -> bool {
    let memory = memfd_create("recording", MemfdFlags::CLOEXEC).expect("no memory for a file");
    let mut file = File::from(memory);
    file.write_all(bytes).expect("no memory for a file");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let once = judged(Path::new(&path));
    assert!(once == judged(Path::new(&path)), "two replays differ");
    !once.is_empty()
}

fn judged(path: &Path) -> Vec<Judged> {
    let Ok(recording) = Recording::open(path) else { return Vec::new() };
    let ticks = Replay::new(recording, None).filter_map(|entry| match entry {
        Ok(Replayed::Tick(judged)) => Some(*judged),
        Ok(Replayed::Notice(_)) | Err(_) => None,
    });
    ticks.inspect(|judged| same_as_json(&judged.step.decision)).collect()
}
