//! The tightest limits of cgroups that an incident is about, by the names that it has for them.

use std::collections::{BTreeMap, BTreeSet};

use super::Limits;
use crate::record::known::pod_of;
use isobar_core::model::cgroup::{Cgroup, CpuFiles, Limit};
use isobar_core::model::snapshot::{Scope, Snapshot};
use isobar_core::model::units::{Bytes, MilliCpu};
use isobar_core::view::waiting::short_name;

/// Names that are kept.
const NAMES: usize = 512;
/// Rows of one of them: a pod and its containers.
const OF_A_NAME: usize = 16;

/// By the name of the pod or service: its own, and those of containers.
#[derive(Debug, Default)]
pub(super) struct Tightest(BTreeMap<String, Vec<Limits>>);

impl Tightest {
    /// A cgroup of a named snapshot, for which the incident has this name, and the pod that it is of.
    pub(super) fn see(&mut self, name: &str, scope: Option<&Scope>, named: &Snapshot) {
        for scope in [scope.and_then(|scope| pod_of(scope, named)), scope].into_iter().flatten() {
            let now = scope.files.as_deref().map(of_files).unwrap_or_default();
            if now == Limits::default() || self.0.len() >= NAMES && !self.0.contains_key(name) {
                continue;
            }
            let all = self.0.entry(name.into()).or_default();
            let of = short_name(scope);
            if let Some(known) = all.iter_mut().find(|known| known.name == of) {
                known.memory_max = tighter(known.memory_max, now.memory_max);
                known.memory_high = tighter(known.memory_high, now.memory_high);
                known.cpu_max = tighter(known.cpu_max, now.cpu_max);
            } else if all.len() < OF_A_NAME {
                all.push(Limits { name: of, ..now });
            }
        }
    }

    /// Those of these names, each once and in this order.
    pub(super) fn of<'a>(&self, names: impl Iterator<Item = &'a String>) -> Vec<Limits> {
        let mut told = BTreeSet::new();
        let names = names.filter(|name| told.insert(*name));
        names.filter_map(|name| self.0.get(name)).flatten().cloned().collect()
    }
}

fn of_files(files: &Cgroup) -> Limits {
    let bytes = |limit: Option<Limit>| match limit {
        Some(Limit::At(bytes)) => Some(Bytes(bytes)),
        Some(Limit::Max) | None => None,
    };
    let (memory_max, memory_high) = (bytes(files.memory.max), bytes(files.memory.high));
    Limits { name: String::new(), memory_max, memory_high, cpu_max: cpus(&files.cpu) }
}

fn cpus(files: &CpuFiles) -> Option<MilliCpu> {
    match (files.quota, files.period) {
        (Some(Limit::At(quota)), Some(period)) => {
            Some(MilliCpu(quota.saturating_mul(1_000).checked_div(period.0)?))
        }
        _ => None,
    }
}

fn tighter<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::model::cgroup::{CgroupId, MemoryFiles};
    use isobar_core::model::pod::{Place, QosClass, Runtime};
    use isobar_core::model::units::Micros;

    #[test]
    fn limits_are_the_tightest_of_a_pod_and_of_each_container() {
        let scope = |name: &str, max, high, quota| {
            let memory = MemoryFiles { max: Some(max), high, ..MemoryFiles::default() };
            let period = Some(Micros(100_000));
            let cpu = CpuFiles { quota: Some(quota), period, ..CpuFiles::default() };
            let files = Some(Cgroup { memory, cpu, ..Cgroup::default() }.into());
            Scope { name: Some(name.into()), files, ..Scope::default() }
        };
        let mut named = Snapshot::default();
        let mut seen = Tightest::default();
        seen.see("free", Some(&scope("free", Limit::Max, None, Limit::Max)), &named);
        seen.see("gone", None, &named);
        // A container with its pod, whose squeeze ends.
        let pod = scope("shop/web", Limit::At(900), Some(Limit::At(300)), Limit::Max);
        named.scopes.insert(CgroupId(7), pod);
        let (class, runtime) = (QosClass::Burstable, Runtime::Containerd);
        let place = Place::Container { pod: "u".into(), class, id: "c".into(), runtime };
        let parent = Some(CgroupId(7));
        let app = |max, quota| {
            let app = scope("container app of shop/web", max, None, quota);
            Scope { place: place.clone(), parent, ..app }
        };
        seen.see("shop/web", Some(&app(Limit::At(512), Limit::At(50_000))), &named);
        let pod = scope("shop/web", Limit::At(900), Some(Limit::Max), Limit::Max);
        named.scopes.insert(CgroupId(7), pod);
        seen.see("shop/web", Some(&app(Limit::At(600), Limit::At(150_000))), &named);
        let row = |name: &str, memory_max, memory_high, cpu_max| Limits {
            name: name.into(),
            memory_max: Some(Bytes(memory_max)),
            memory_high,
            cpu_max,
        };
        let want = [
            row("shop/web", 900, Some(Bytes(300)), None),
            row("container app of shop/web", 512, None, Some(MilliCpu(500))),
        ];
        let asked = ["free", "shop/web", "gone", "shop/web"].map(String::from);
        assert_eq!(seen.of(asked.iter()), want);
    }
}
