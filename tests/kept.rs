//! An incident on a shelf, made of a recording.

use std::path::Path;

use isobar::record::incident::Incident;
use isobar::record::incident::freeze::freeze;
use isobar::record::incident::shelf::Shelf;
use isobar::record::incident::watch::{Seen, Turn, Watch};
use isobar::record::journal::Ring;
use isobar::record::reader::Recording;
use isobar::record::replay::Replay;
use isobar_core::model::units::Nanos;

/// Keeps the first incident in a recording, as the agent would have.
pub(crate) fn keep(recording: &Path, dir: &Path) -> Incident {
    let mut replay = Replay::new(Recording::open(recording).unwrap(), None);
    let (mut watch, mut open) = (Watch::new("worker-1".into(), String::new()), None);
    while let Some(step) = replay.step_before(Nanos(u64::MAX)).unwrap() {
        let sample = replay.engine().unwrap().standing().before.as_ref().unwrap();
        let seen = Seen { sample, decision: &step.decision, kills: &[], limits: &[] };
        match watch.tick(seen) {
            Some(Turn::Open(incident)) => open = Some(incident),
            Some(Turn::Over(incident)) => {
                open = Some(incident);
                break;
            }
            None => {}
        }
    }
    let shelf = Shelf::in_dir(dir.join("incidents"));
    freeze(&Ring::Files(recording.into()), &shelf, *open.unwrap(), shelf.draft().unwrap(), || ())
        .unwrap()
}
