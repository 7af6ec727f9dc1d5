//! What to reserve for daemons and what limits would have met, from a recording.

use super::reader::{Entry, ReadError};
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
use isobar_kubelet::advice::{Advice, Record};

/// Reads on while `goes_on` says so of the next sample, and tells `notice` of what is missing. Previews
/// `settings`, or those that the recording begins with. `None` if there was no sample.
///
/// # Errors
/// If the recording cannot be read on.
pub fn advise(
    recording: impl Iterator<Item = Result<Entry, ReadError>>,
    settings: Option<&Settings>,
    mut notice: impl FnMut(String),
    mut goes_on: impl FnMut(&Sample) -> bool,
) -> Result<Option<Advice>, ReadError> {
    let mut record: Option<Record> = None;
    for entry in recording {
        match (entry?, &mut record) {
            (Entry::Frame(recorded), _) if !goes_on(&recorded.sample) => break,
            (Entry::Frame(recorded), Some(record)) => record.add(&recorded.sample),
            (Entry::Header(header), None) => {
                let settings = settings.cloned().unwrap_or(header.settings);
                record = Some(Record::new(settings, Some(header.facts.n_cpus)));
            }
            (Entry::Header(header), Some(record)) => {
                // A node may come back with more.
                record.has_cpus(Some(header.facts.n_cpus));
                if settings.is_none() {
                    record.later(&header.settings);
                }
            }
            (Entry::Lost(why) | Entry::Notice(why), _) => notice(why),
            (Entry::Frame(_) | Entry::Other(_), _) => {}
        }
    }
    Ok(record.and_then(Record::advice))
}
