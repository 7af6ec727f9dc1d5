//! The limit of all pods under other settings, in the place of the recorded one: so thresholds and
//! forecasts of the pods tell when it would have been reached, and the ranking who would have paid.

use std::sync::Arc;

use isobar_core::model::cgroup::{Cgroup, Limit};
use isobar_core::model::pod::Place;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
use isobar_kubelet::allocatable::{CPU, MEMORY};
use isobar_kubelet::enforce::memory_of_pods;

pub(super) struct PodsLimit {
    recorded: Settings,
    other: Settings,
    n_cpus: u32,
}

impl PodsLimit {
    pub(super) fn new(recorded: Settings, other: Settings, n_cpus: u32) -> Self {
        Self { recorded, other, n_cpus }
    }

    /// Sets `memory.max` of kubepods if the two settings differ in it. What the pods use stays as it was
    /// recorded, also above the limit.
    pub(super) fn put_in(&self, sample: &mut Sample) {
        let Some(memory) = &sample.node.memory else { return };
        let capacity = [
            (CPU.to_owned(), Quantity::count(self.n_cpus.into())),
            (MEMORY.to_owned(), Quantity::bytes(memory.total.0)),
        ]
        .into();
        let [then, otherwise] =
            [&self.recorded, &self.other].map(|settings| memory_of_pods(settings, &capacity));
        let Some(limit) = otherwise.filter(|_| then != otherwise) else { return };
        let places = sample.places();
        let is_kubepods = |cgroup: &Cgroup| places.place(&cgroup.path) == Place::Kubepods;
        let id = sample.cgroups.iter().find(|(_, cgroup)| is_kubepods(cgroup)).map(|(id, _)| *id);
        if let Some(cgroup) = id.and_then(|id| sample.cgroups.get_mut(&id)) {
            Arc::make_mut(cgroup).memory.max = Some(Limit::At(limit));
        }
    }
}
