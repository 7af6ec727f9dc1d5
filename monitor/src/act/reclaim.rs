//! Has the kernel take back memory that nobody needs, a piece at a time, for as long as there is.

use super::cgroup::Group;
use super::failure::Failure;
use super::size;
use crate::clock;
use isobar_core::model::units::{Bytes, Nanos};
use rustix::io::Errno;

/// Asked for at once: some milliseconds of work, so that the time is looked at often enough.
const PIECE: u64 = 4 << 20;
/// Without a number, this part of what the cgroup holds is asked for.
const PART: u64 = 8;

/// What came of it.
#[derive(Debug)]
pub(super) struct Reclaimed {
    pub(super) freed: Option<Bytes>,
    pub(super) detail: String,
}

/// How much is asked of `group`.
pub(super) fn wanted(group: &Group, want: Option<Bytes>) -> Result<Bytes, Failure> {
    match (want, group.bytes("memory.current")) {
        (Some(want), _) => Ok(want),
        (None, Some(current)) => Ok(Bytes(current / PART)),
        (None, None) => Err(Failure::Lacking { path: group.path.clone(), file: "memory.current" }),
    }
}

/// Reclaims `want` from `group` until the boot clock shows `until`. That less came back than was
/// asked is no failure, but that nothing did is.
pub(super) fn reclaim(group: &Group, want: Bytes, until: Nanos) -> Result<Reclaimed, Failure> {
    const FILE: &str = "memory.reclaim";
    let path = &group.path;
    let before = group.bytes("memory.current");
    let (mut given, mut end) = (0, "");
    while given < want.0 {
        let piece = PIECE.min(want.0 - given);
        match group.write(FILE, &piece.to_string()) {
            Ok(()) => given += piece,
            // Some of the piece may have come back.
            Err(Failure::Write { why: Errno::AGAIN, .. }) => {
                end = "; the kernel found no more";
                break;
            }
            Err(failure) => return Err(failure),
        }
        if clock::now().boot >= until {
            end = "; the time was over";
            break;
        }
    }
    let now = group.bytes("memory.current");
    let freed = before.zip(now).map(|(before, now)| Bytes(before.saturating_sub(now)));
    let measured = freed.map_or("unknown".into(), size);
    let asked = if want.0 > i64::MAX as u64 { "all".into() } else { size(want) };
    if given == 0 && freed.is_none_or(|freed| freed.0 == 0) {
        return Err(Failure::Told(format!("{path}: none of {asked} could be taken back")));
    }
    let detail = format!("{path}: {asked} asked, {measured} came back{end}");
    Ok(Reclaimed { freed, detail })
}
