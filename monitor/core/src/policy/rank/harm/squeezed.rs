//! Which parties isobar has squeezed: what they wait for that is no harm that others do.

use std::collections::BTreeSet;

use super::Party;
use crate::model::sample::Sample;
use crate::model::threshold::Resource;

/// Uids of pods, and paths.
pub(super) struct Squeezed<'a>(BTreeSet<&'a str>);

impl<'a> Squeezed<'a> {
    /// By the squeezes that lengthen waits for `resource`. One for a disk cuts the weight of the CPU, too.
    pub(super) fn of(sample: &'a Sample, resource: Resource) -> Self {
        let actions = sample.squeezes().map(|entry| &entry.action).filter(|action| {
            let because = action.reason.threshold.resource();
            let is_both = (because, resource) == (Resource::Io, Resource::Cpu);
            action.is_enforced && (because == resource || is_both)
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
