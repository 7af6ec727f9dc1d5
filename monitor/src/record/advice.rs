//! What to reserve for daemons, from a recording.

use super::reader::{Entry, ReadError, Recording};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Node;
use isobar_kubelet::advice::{Advice, Record};

/// Reads on while `goes_on` says so of the next sample, and tells `notice` of what is missing; `None`
/// if there was no sample.
///
/// # Errors
/// If the recording cannot be read on.
pub fn advise(
    recording: Recording,
    node: &Node,
    mut notice: impl FnMut(String),
    mut goes_on: impl FnMut(&Sample) -> bool,
) -> Result<Option<Advice>, ReadError> {
    let kube = Some(&node.kube_reserved_cgroup).filter(|path| !path.is_empty());
    let mut record = Record::new(kube.map(|path| CgroupPath(path.as_str().into())));
    for entry in recording {
        match entry? {
            Entry::Frame(recorded) if !goes_on(&recorded.sample) => break,
            Entry::Frame(recorded) => record.add(&recorded.sample),
            Entry::Lost(why) | Entry::Notice(why) => notice(why),
            Entry::Header(_) | Entry::Other(_) => {}
        }
    }
    Ok(record.advice(&node.kube_reserved, &node.system_reserved))
}
