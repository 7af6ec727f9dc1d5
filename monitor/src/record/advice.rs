//! What to reserve for daemons and what limits would have met, from a recording.

use super::journal::Ring;
use super::reader::{Entry, ReadError, Recording};
use super::replay::{Other, Replay};
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
use isobar_core::model::threshold::Signal;
use isobar_core::model::units::Moment;
use isobar_core::policy::rank::Purpose;
use isobar_kubelet::advice::{Advice, Record};

/// Reads on while `goes_on` says so of the next sample, and tells `notice` of what is missing. Previews
/// what `other` makes of the recorded settings, else those. `None` if there was no sample.
///
/// # Errors
/// If the recording cannot be read on.
pub fn advise(
    recording: impl Iterator<Item = Result<Entry, ReadError>>,
    other: Option<&Other>,
    mut notice: impl FnMut(String),
    mut goes_on: impl FnMut(&Sample) -> bool,
) -> Result<Option<Advice>, ReadError> {
    let mut record: Option<Record> = None;
    let settings = |recorded: Settings| match other {
        Some(other) => other(&recorded),
        None => recorded,
    };
    for entry in recording {
        match (entry?, &mut record) {
            (Entry::Frame(recorded), _) if !goes_on(&recorded.sample) => break,
            (Entry::Frame(recorded), Some(record)) => record.add(&recorded.sample),
            (Entry::Header(header), None) => {
                let n_cpus = Some(header.facts.n_cpus);
                record = Some(Record::new(settings(header.settings), n_cpus));
            }
            (Entry::Header(header), Some(record)) => {
                // A node may come back with more.
                record.has_cpus(Some(header.facts.n_cpus));
                record.later(&settings(header.settings));
            }
            (Entry::Lost(why) | Entry::Notice(why), _) => notice(why),
            (Entry::Frame(_) | Entry::Other(_), _) => {}
        }
    }
    Ok(record.and_then(Record::advice))
}

/// Names who would have been evicted first at each limit of the pods' memory that the advice on this
/// recording tells of: by the recorded settings at the one in force, by `other` ones at theirs. Those are
/// not named for which `goes_on`, asked before each tick, is false.
///
/// # Errors
/// If the recording cannot be read.
pub fn name_evicted(
    advice: &mut Advice,
    ring: &Ring,
    mut other: Option<Box<Other>>,
    mut goes_on: impl FnMut() -> bool,
) -> Result<(), ReadError> {
    for reached in &mut advice.pods {
        let Some(at) = reached.at_limit() else { continue };
        let other = other.take_if(|_| reached.limit == "configured");
        reached.evicted_first = evicted_first(ring, at, other, &mut goes_on)?;
    }
    Ok(())
}

/// The first candidate of the tick at that moment.
fn evicted_first(
    ring: &Ring,
    at: Moment,
    other: Option<Box<Other>>,
    goes_on: &mut impl FnMut() -> bool,
) -> Result<Option<String>, ReadError> {
    let (recording, _held) = Recording::open_ring(ring, at.wall)?;
    let mut replay = match other {
        Some(other) => Replay::changed_at(recording, at.wall, other),
        None => Replay::new(recording, None),
    };
    let mut last = None;
    while goes_on()
        && let Some(step) = replay.step_before(at.wall)?
    {
        last = Some(step.snapshot);
    }
    // What precedes it may be missing.
    let Some(snapshot) = last.filter(|last| last.at == at) else { return Ok(None) };
    let purpose = Purpose::of_signal(Signal::AllocatableMemoryAvailable);
    let ranking = replay.engine().and_then(|engine| engine.rank(&snapshot, purpose));
    Ok(ranking.and_then(|ranking| Some(ranking.candidates.first()?.full_name())))
}
