//! Gives the history of an agent what its recording has of the same boot: after a restart the last
//! hour is there within minutes, the last day within the hour.
//! A thread of its own, behind all other work; ticks meanwhile are kept, and put in after it.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::setpriority_process;

use super::reel::Reel;
use super::runs::note;
use crate::clock;
use crate::clock::pace::NICE;
use crate::record::reader::ReadError;
use crate::serve::history::{History, Room, WeakHistory};
use crate::serve::publish::{Publisher, channel};
use isobar_core::model::node::NodeFacts;
use isobar_core::model::sample::Moment;
use isobar_core::model::units::Nanos;

const HOUR: Nanos = Nanos(3_600 * Nanos::SECOND.0);
const DAY: Nanos = Nanos(24 * HOUR.0);
/// So many ticks are read, and then nothing for ten times as long as this thread ran for that: in a pod
/// with a quota it takes from the tick's own. While it only waited for a CPU it took nothing, and where
/// CPUs are short the history is needed most.
const BATCH: usize = 4;
const REST: u32 = 10;

/// Begins to read the recording `file`, which goes on since `started`.
pub(in crate::serve) fn begin(history: &History, facts: NodeFacts, started: Moment, file: PathBuf) {
    let history = history.begin_refill();
    let run = move || {
        // Without it the thread is no less right.
        let _ = setpriority_process(None, NICE);
        for length in [HOUR, DAY] {
            let Some(older) = read(&file, &facts, started, length, &history) else { break };
            let Some(history) = history.upgrade() else { return };
            history.put_before(&older);
        }
        if let Some(history) = history.upgrade() {
            history.end_refill();
        }
    };
    if let Err(why) = thread::Builder::new().name("history".into()).spawn(run) {
        tracing::warn!(
            "the history begins with this agent: no thread to read the recording: {why}"
        );
    }
}

/// What the recording has of this boot, from `length` before the start; `None` if there is nothing
/// more to be had.
fn read(
    file: &Path,
    facts: &NodeFacts,
    started: Moment,
    length: Nanos,
    of: &WeakHistory,
) -> Option<History> {
    let mut own = Publisher::with_room(facts.clone(), started, channel().0, Room::OF_AGENT);
    match follow(&mut own, file, started, length, || of.is_wanted()) {
        Ok(0) => None,
        Ok(_) => Some(own.history()),
        Err(why) => {
            tracing::info!("the history begins with this agent: {why}");
            None
        }
    }
}

/// How many ticks were read.
fn follow(
    own: &mut Publisher,
    file: &Path,
    started: Moment,
    length: Nanos,
    is_wanted: impl Fn() -> bool,
) -> Result<u64, ReadError> {
    let mut reel = Reel::open_at(file, started.wall.since(length))?;
    let (mut n, mut last, mut began) = (0, Nanos(0), clock::used_by_this_thread());
    while is_wanted() {
        for _ in 0..BATCH {
            let Some(at) = reel.step(Nanos(u64::MAX))?.map(|step| step.snapshot.at) else {
                return Ok(n);
            };
            let Some(mut step) = reel.take() else { continue };
            let is_of_this_boot = reel.facts().boot_id == own.facts().boot_id;
            if is_of_this_boot && at.boot >= started.boot {
                return Ok(n);
            }
            if is_of_this_boot && at.boot > last {
                (last, n) = (at.boot, n + 1);
                note(own, &reel, &mut step);
            }
        }
        let took = clock::used_by_this_thread().since(began);
        thread::sleep(Duration::from_nanos(took.0) * REST);
        began = clock::used_by_this_thread();
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn follow_rests_for_what_it_used_and_not_for_what_it_waited() {
        const WAIT: Duration = Duration::from_millis(400);
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/recordings");
        let file = data.join("judged-leak-6.12.isobar");
        let wall = Nanos(1_795_342_440_000_000_000);
        let started = Moment { boot: Nanos(u64::MAX), wall };
        let mut own = Publisher::new(NodeFacts::default(), started, channel().0);
        let (n_asked, began) = (Cell::new(0), clock::now().boot);
        let ran = clock::used_by_this_thread();
        let waits = || {
            thread::sleep(WAIT);
            n_asked.replace(n_asked.get() + 1) < 5
        };
        follow(&mut own, &file, started, HOUR, waits).unwrap();
        let [took, ran] = [clock::now().boot.since(began), clock::used_by_this_thread().since(ran)];
        let [took, ran] = [took, ran].map(|time| Duration::from_nanos(time.0));
        let rested = took.saturating_sub(WAIT * 6);
        assert!(rested > ran * (REST / 3), "rested for {rested:?} after it ran for {ran:?}");
        // For the waits alone it would be 20 s. The machine may be busy.
        let most = ran * (REST + 1) + Duration::from_secs(8);
        assert!(rested < most, "rested for {rested:?} after it ran for {ran:?}");
    }
}
