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
    let places: Vec<_> =
        ticks.iter().map(|tick| Places::of(tick.cgroups, tick.rest.kubepods.as_ref())).collect();
    let pods: Vec<_> = ticks.iter().filter_map(|tick| tick.pods.map(by_cgroup_uid)).collect();
    let path = |id| ticks.iter().find_map(|tick| tick.path(id).cloned());
    // A pod may be named in the tick in which its cgroup is gone.
    let victim = |id| {
        ticks.iter().zip(&places).find_map(|(tick, places)| {
            let place = places.place(tick.path(id)?);
            pods.iter().find_map(|pods| name_at(&place, pods))
        })
    };
    let record = |kill: &OomKill| OomRecord::of(kill, now.rest.at, victim(kill.victim), path);
    kernel.oom_kills.iter().map(record).collect()
}
