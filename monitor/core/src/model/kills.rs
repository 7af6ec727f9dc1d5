//! The OOM kills of a tick, each with the name of its cgroup, which the kernel may have removed by then.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::cgroup::{Cgroup, CgroupId, CgroupPath};
use crate::model::places::Places;
use crate::model::sample::Sample;
use crate::model::stall::{OomKill, OomRecord};
use crate::model::workload::{Pods, by_cgroup_uid, name_at};

/// The cgroups of a tick, and what their names follow from.
#[derive(Debug, Clone, Copy)]
pub struct Cgroups<'a> {
    pub(crate) cgroups: &'a BTreeMap<CgroupId, Arc<Cgroup>>,
    /// The sample, its cgroups and pods perhaps taken out.
    pub(crate) rest: &'a Sample,
    pub(crate) pods: Option<&'a Pods>,
}

impl<'a> From<&'a Sample> for Cgroups<'a> {
    fn from(sample: &'a Sample) -> Self {
        Self { cgroups: &sample.cgroups, rest: sample, pods: sample.pods.as_ref() }
    }
}

impl Cgroups<'_> {
    fn path(&self, id: CgroupId) -> Option<&CgroupPath> {
        self.cgroups.get(&id).map(|cgroup| &cgroup.path).filter(|path| !path.is_root())
    }
}

/// The kills that the tick `now` tells of; the tick before may have cgroups that are gone.
pub fn kills<'a>(before: Option<Cgroups<'a>>, now: Cgroups<'a>) -> Vec<OomRecord> {
    let Some(kernel) = now.rest.kernel.as_ref().filter(|kernel| !kernel.oom_kills.is_empty())
    else {
        return Vec::new();
    };
    let ticks: Vec<_> = std::iter::once(now).chain(before).collect();
    let name = |tick: &Cgroups<'a>| {
        let places = Places::of(tick.cgroups, tick.rest.kubepods.as_ref());
        let (pods, tick) = (tick.pods.map(by_cgroup_uid), *tick);
        move |id| name_at(&places.place(tick.path(id)?), pods.as_ref()?)
    };
    let names: Vec<_> = ticks.iter().map(name).collect();
    let path = |id| ticks.iter().find_map(|tick| tick.path(id).cloned());
    let victim = |id| names.iter().find_map(|name| name(id));
    let record = |kill: &OomKill| OomRecord::of(kill, now.rest.at, victim(kill.victim), path);
    kernel.oom_kills.iter().map(record).collect()
}
