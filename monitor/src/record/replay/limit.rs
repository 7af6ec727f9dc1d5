//! The limit of all pods under other settings, in the place of the recorded one: so thresholds and
//! forecasts of the pods tell when it would have been reached, and the ranking who would have paid.

use std::sync::Arc;

use isobar_core::model::cgroup::{Cgroup, Limit};
use isobar_core::model::pod::Place;
use isobar_core::model::quantity::Quantity;
use isobar_core::model::sample::Sample;
use isobar_core::model::settings::Settings;
use isobar_core::model::units::Bytes;
use isobar_kubelet::allocatable::{CPU, MEMORY};
use isobar_kubelet::enforce::memory_of_pods;

pub(super) struct PodsLimit {
    recorded: Settings,
    other: Settings,
    n_cpus: u32,
    has_told: bool,
}

impl PodsLimit {
    /// For the next chapter of a recording, after that of `before`.
    pub(super) fn new(
        before: Option<&Self>,
        recorded: Settings,
        other: Settings,
        n_cpus: u32,
    ) -> Self {
        let has_told = before.is_some_and(|before| before.has_told);
        Self { recorded, other, n_cpus, has_told }
    }

    /// Sets `memory.max` of kubepods if the two settings differ in it. What the pods use stays as it was
    /// recorded, also above the limit. The first time it says so: the settings of a file may lack what
    /// the kubelet of the node told.
    pub(super) fn put_in(&mut self, sample: &mut Sample) -> Option<String> {
        let memory = sample.node.memory.as_ref()?;
        let capacity = [
            (CPU.to_owned(), Quantity::count(self.n_cpus.into())),
            (MEMORY.to_owned(), Quantity::bytes(memory.total.0)),
        ]
        .into();
        let [then, otherwise] =
            [&self.recorded, &self.other].map(|settings| memory_of_pods(settings, &capacity));
        let limit = otherwise.filter(|_| then != otherwise)?;
        let places = sample.places();
        let is_kubepods = |cgroup: &Cgroup| places.place(&cgroup.path) == Place::Kubepods;
        let id = sample.cgroups.iter().find(|(_, cgroup)| is_kubepods(cgroup)).map(|(id, _)| *id);
        let max = &mut Arc::make_mut(sample.cgroups.get_mut(&id?)?).memory.max;
        let told = |limit| match limit {
            Some(Limit::At(bytes)) => Bytes(bytes).to_string(),
            Some(Limit::Max) => "no limit".into(),
            None => "not known".into(),
        };
        let recorded = told(max.replace(limit));
        let is_first = !std::mem::replace(&mut self.has_told, true);
        is_first.then(|| {
            format!(
                "memory.max of all pods is {} here, as the other settings have it; recorded: {recorded}",
                told(Some(limit))
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::model::cgroup::{CgroupId, CgroupPath};
    use isobar_core::model::node::Meminfo;

    use super::*;

    const TOTAL: u64 = 4 << 30;

    #[test]
    fn put_in_gives_what_the_other_settings_do() {
        let reserving = |memory: &str| {
            let mut settings = Settings::default();
            settings.node.system_reserved.insert(MEMORY.into(), memory.parse().unwrap());
            settings
        };
        let reserved = reserving("1Gi");
        let mut without = Settings::default();
        without.node.cgroups_per_qos = false;
        without.node.enforce.clear();
        #[rustfmt::skip]
        let table = [
            // recorded settings, other ones, memory.max of all pods that was 7 bytes
            (Settings::default(), reserved.clone(), Limit::At(TOTAL - (1 << 30))),
            (reserved.clone(),    reserved.clone(), Limit::At(7)),
            (reserved.clone(),    without.clone(),  Limit::Max),
            (without,             reserved.clone(), Limit::At(TOTAL - (1 << 30))),
            (reserved,            reserving("8Gi"), Limit::At(7)), // the kubelet does not start
        ];
        for (row, (recorded, other, want)) in table.into_iter().enumerate() {
            let mut kubepods = Cgroup { path: CgroupPath("/kubepods".into()), ..Cgroup::default() };
            kubepods.memory.max = Some(Limit::At(7));
            let mut sample = Sample::default();
            sample.cgroups.insert(CgroupId(2), Arc::new(kubepods));
            sample.node.memory = Some(Meminfo { total: Bytes(TOTAL), ..Meminfo::default() });
            let told = PodsLimit::new(None, recorded, other, 4).put_in(&mut sample);
            assert_eq!(sample.cgroups[&CgroupId(2)].memory.max, Some(want), "row {row}");
            assert_eq!(told.is_some(), want != Limit::At(7), "row {row}");
        }
    }
}
