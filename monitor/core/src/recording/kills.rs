//! The OOM kills of a tick, each with the name of its cgroup, which the kernel may have removed by then.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parts::Parts;
use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use crate::model::places::Places;
use crate::model::sample::Sample;
use crate::model::stall::OomRecord;
use crate::model::workload::{Pods, by_cgroup_uid, name_at};

/// The cgroups of a tick, and what their names follow from.
#[derive(Debug, Clone, Copy)]
pub struct Cgroups<'a> {
    cgroups: &'a BTreeMap<CgroupId, Arc<Cgroup>>,
    rest: &'a Sample,
    pods: Option<&'a Pods>,
}

impl<'a> From<&'a Sample> for Cgroups<'a> {
    fn from(sample: &'a Sample) -> Self {
        Self { cgroups: &sample.cgroups, rest: sample, pods: sample.pods.as_ref() }
    }
}

impl<'a> From<&'a Parts> for Cgroups<'a> {
    fn from(parts: &'a Parts) -> Self {
        Self { cgroups: &parts.cgroups, rest: &parts.rest, pods: Some(&parts.pods) }
    }
}

impl Cgroups<'_> {
    fn path(&self, id: CgroupId) -> Option<&CgroupPath> {
        self.cgroups.get(&id).map(|cgroup| &cgroup.path).filter(|path| !path.is_root())
    }

    fn name(&self, id: CgroupId) -> Option<String> {
        let places = Places::of(self.cgroups, self.rest.kubepods.as_ref());
        name_at(&places.place(self.path(id)?), &by_cgroup_uid(self.pods?))
    }
}

/// The kills that the tick `now` tells of; the tick before may have cgroups that are gone.
pub fn kills<'a>(
    before: Option<Cgroups<'a>>,
    now: Cgroups<'a>,
) -> impl Iterator<Item = OomRecord> + use<'a> {
    let ticks = move || std::iter::once(now).chain(before);
    now.rest.kernel.iter().flat_map(|kernel| &kernel.oom_kills).map(move |kill| {
        let path = |id| ticks().find_map(|tick| tick.path(id).cloned());
        let victim = ticks().find_map(|tick| tick.name(kill.victim));
        OomRecord::of(kill, now.rest.at, victim, path)
    })
}
