//! Which parties isobar has squeezed for a CPU or a disk: what they wait is no harm that others do.

use std::collections::BTreeSet;

use super::Party;
use crate::model::sample::Sample;
use crate::model::threshold::Resource;

/// Uids of pods, and paths.
pub(super) struct Squeezed<'a>(BTreeSet<&'a str>);

impl<'a> Squeezed<'a> {
    pub(super) fn of(sample: &'a Sample) -> Self {
        let actions = sample.squeezes().map(|entry| &entry.action).filter(|action| {
            let resource = action.reason.threshold.resource();
            action.is_enforced && matches!(resource, Resource::Cpu | Resource::Io)
        });
        Self(actions.flat_map(|action| action.target.uids()).map(String::as_str).collect())
    }

    pub(super) fn has(&self, party: &Party<'_>) -> bool {
        match party {
            Party::Pod(uid) => self.0.contains(&**uid),
            Party::Outside(path) => self.0.contains(&*path.0),
        }
    }
}
