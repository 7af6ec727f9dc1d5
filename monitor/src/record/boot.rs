//! Since when the boot of a node that a tick is of is in a recording.

use super::index;
use super::journal::Ring;
use isobar_core::model::sample::Moment;

/// When its first chapter began: with the agent's start, or where older chapters are gone, with the
/// tick before. Looked for from the time on at which the node was started, by the wall clock as it
/// went at `at`, a tick of it; `at` if it is not found, as in a file that is not compressed.
pub fn begun(ring: &Ring, boot_id: &str, at: Moment) -> Moment {
    let found = ring.segments().and_then(|(segments, _held)| {
        index::first_of_boot(&segments, boot_id, at.wall.since(at.boot))
    });
    // What cannot be read here fails where ticks are read.
    found.ok().flatten().filter(|begun| begun.boot < at.boot).unwrap_or(at)
}
