//! What to reserve for daemons and what limits would have met, from a recording.

use super::reader::{Entry, ReadError};
use super::replay::Other;
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
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
