//! The tightest limits of cgroups that an incident is about, by the names that it has for them.

use std::collections::{BTreeMap, BTreeSet};

use super::Limits;
use isobar_core::model::cgroup::{Cgroup, CpuFiles, Limit};
use isobar_core::model::snapshot::Scope;
use isobar_core::model::units::{Bytes, MilliCpu};

/// Names that are kept.
const NAMES: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Tightest(BTreeMap<String, Limits>);

impl Tightest {
    /// A cgroup of this name as it is at a tick.
    pub(super) fn see(&mut self, name: &str, scope: Option<&Scope>) {
        let Some(files) = scope.and_then(|scope| scope.files.as_deref()) else { return };
        let now = of_files(files);
        if now == Limits::default() {
            return;
        }
        if let Some(known) = self.0.get_mut(name) {
            known.memory_max = tighter(known.memory_max, now.memory_max);
            known.memory_high = tighter(known.memory_high, now.memory_high);
            known.cpu_max = tighter(known.cpu_max, now.cpu_max);
        } else if self.0.len() < NAMES {
            self.0.insert(name.into(), Limits { name: name.into(), ..now });
        }
    }

    /// Those of these names, each once and in this order.
    pub(super) fn of<'a>(&self, names: impl Iterator<Item = &'a String>) -> Vec<Limits> {
        let mut told = BTreeSet::new();
        names
            .filter(|name| told.insert(*name))
            .filter_map(|name| self.0.get(name))
            .cloned()
            .collect()
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
    use isobar_core::model::cgroup::MemoryFiles;
    use isobar_core::model::units::Micros;

    #[test]
    fn limits_are_the_tightest_of_a_name() {
        let scope = |max, high, quota| {
            let memory = MemoryFiles { max: Some(max), high, ..MemoryFiles::default() };
            let period = Some(Micros(100_000));
            let cpu = CpuFiles { quota: Some(quota), period, ..CpuFiles::default() };
            Scope {
                files: Some(Cgroup { memory, cpu, ..Cgroup::default() }.into()),
                ..Scope::default()
            }
        };
        let mut seen = Tightest::default();
        seen.see("free", Some(&scope(Limit::Max, None, Limit::Max)));
        seen.see("gone", None);
        seen.see("web", Some(&scope(Limit::At(512), None, Limit::At(50_000))));
        // Its pod, and a squeeze that ended.
        seen.see("web", Some(&scope(Limit::Max, Some(Limit::At(300)), Limit::At(150_000))));
        seen.see("web", Some(&scope(Limit::At(600), Some(Limit::Max), Limit::Max)));
        let want = Limits {
            name: "web".into(),
            memory_max: Some(Bytes(512)),
            memory_high: Some(Bytes(300)),
            cpu_max: Some(MilliCpu(500)),
        };
        let asked = ["free", "web", "gone", "web"].map(String::from);
        assert_eq!(seen.of(asked.iter()), [want]);
    }
}
