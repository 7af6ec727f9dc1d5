//! A workload outside pods as a contender: class and priority from its rule, the request from the
//! rule or its cgroup files, usage and harm as for pods.

use super::{cpu_usage, part};
use crate::model::cgroup::{Cgroup, Limit};
use crate::model::decision::Order;
use crate::model::pod::QosClass;
use crate::model::quantity::Quantity;
use crate::model::settings::WorkloadRule;
use crate::model::shares::shares_of_weight;
use crate::model::snapshot::{Scope, working_set};
use crate::model::threshold::Resource;
use crate::policy::rank::contender::Contender;
use crate::policy::rank::harm::HarmByParty;

/// The kernel's own `cpu.weight`.
const DEFAULT_WEIGHT: u64 = 100;

/// A service is identified by its path and named by the path's last part.
pub(super) fn contender(
    scope: &Scope,
    rule: &WorkloadRule,
    by_party: Option<&HarmByParty>,
    (resource, order): (Resource, Order),
) -> Contender {
    let files = scope.files.as_deref();
    let entry =
        by_party.map(|by_party| by_party.outside.get(&scope.path).copied().unwrap_or_default());
    let name = scope.path.segments().next_back().unwrap_or_default();
    Contender {
        name: name.into(),
        priority: rule.priority,
        request: files.and_then(|files| request(files, rule, resource)),
        usage: match resource {
            Resource::Memory => files.and_then(working_set).map(|bytes| Quantity::bytes(bytes.0)),
            Resource::Cpu => {
                cpu_usage(scope.cpu_usage.map(|cpu| Quantity::milli(cpu.0)), entry, order)
            }
            // `pids.current` counts descendants; `cgroup.procs` does not.
            Resource::Pids => files.and_then(|files| files.pids_current).map(Quantity::count),
            Resource::Io => entry.map(|entry| Quantity::bytes(entry.taken)),
            Resource::Storage | Resource::Inodes => None,
        },
        harm: entry.map(|entry| entry.harm_of(resource)),
        part: part(entry, resource),
        ..Contender::unknown(&scope.path.0, rule.qos_class)
    }
    .preferred(files.and_then(|files| files.preference))
}

/// The rule's request, else what systemd wrote for `MemoryLow=` and `CPUWeight=`. BestEffort
/// requests nothing, as for pods.
fn request(files: &Cgroup, rule: &WorkloadRule, resource: Resource) -> Option<Quantity> {
    let of_files = || match resource {
        _ if rule.qos_class == QosClass::BestEffort => Some(Quantity::ZERO),
        Resource::Memory => match files.memory.low? {
            Limit::At(bytes) => Some(Quantity::bytes(bytes)),
            // Everything it uses is protected.
            Limit::Max => files.memory.current.map(|bytes| Quantity::bytes(bytes.0)),
        },
        _ => {
            // Every cgroup has this one that was given none.
            let given = files.cpu.weight.filter(|weight| *weight != DEFAULT_WEIGHT)?;
            let shares = shares_of_weight(given);
            Some(Quantity::milli(shares.saturating_mul(1_000) / 1_024))
        }
    };
    let name = match resource {
        Resource::Memory => "memory",
        Resource::Cpu => "cpu",
        Resource::Storage | Resource::Inodes | Resource::Pids | Resource::Io => return None,
    };
    rule.requests.get(name).copied().or_else(of_files)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::cgroup::{CpuFiles, MemoryFiles, MemoryStat, Preference};
    use crate::model::decision::{Key, KeyValue, Order, SparedReason};
    use crate::model::sample::Sample;
    use crate::model::settings::Settings;
    use crate::model::snapshot::Snapshot;
    use crate::model::units::{Bytes, Nanos};
    use crate::policy::rank::contenders::outsiders;
    use crate::policy::rank::harm::{Entry, HarmStanding};
    use crate::policy::rank::tests::{contenders_of, tree};
    use crate::policy::rank::{Harm, Purpose, rank_all};

    fn rule(path: &str, qos_class: QosClass, requests: &[(&str, &str)]) -> WorkloadRule {
        let requests = requests.iter().map(|(name, q)| ((*name).into(), q.parse().unwrap()));
        let path = path.parse().unwrap();
        WorkloadRule { path, qos_class, priority: 0, requests: requests.collect() }
    }

    #[test]
    fn service_request() {
        use QosClass::{BestEffort, Burstable};
        let low = |low| MemoryFiles { low, ..MemoryFiles::default() };
        #[rustfmt::skip]
        let table = [
            // class, rule's requests, memory.low, cpu.weight, resource, request
            (Burstable,  &[("memory", "1Gi")][..], Some(Limit::At(5)), None,      Resource::Memory,  Some("1Gi")),
            (Burstable,  &[],                      Some(Limit::At(5 << 20)), None, Resource::Memory, Some("5Mi")),
            (Burstable,  &[],                      Some(Limit::At(0)), None,      Resource::Memory,  Some("0")),
            (Burstable,  &[],                      Some(Limit::Max),   None,      Resource::Memory,  Some("7Mi")),
            (Burstable,  &[],                      None,               None,      Resource::Memory,  None),
            (BestEffort, &[],                      None,               None,      Resource::Memory,  Some("0")),
            (Burstable,  &[("cpu", "500m")],       None,               Some(100), Resource::Cpu,     Some("500m")),
            (Burstable,  &[],                      None,               Some(200), Resource::Cpu,     Some("5096m")),
            (Burstable,  &[],                      None,               Some(100), Resource::Cpu,     None), // none was given
            (Burstable,  &[],                      None,               None,      Resource::Cpu,     None),
            (Burstable,  &[("cpu", "500m")],       None,               None,      Resource::Pids,    None),
            (Burstable,  &[("cpu", "500m")],       None,               None,      Resource::Storage, None),
        ];
        for (class, requests, memory_low, weight, resource, want) in table {
            let current = Some(Bytes(7 << 20));
            let files = Cgroup {
                memory: MemoryFiles { current, ..low(memory_low) },
                cpu: CpuFiles { weight, ..CpuFiles::default() },
                ..Cgroup::default()
            };
            let got = request(&files, &rule("/a", class, requests), resource);
            let want = want.map(|text| text.parse().unwrap());
            assert_eq!(got, want, "{class:?} {requests:?} {memory_low:?} {weight:?} {resource:?}");
        }
    }

    /// Services and a pod, each with 100 MiB in use, and what their attributes say.
    fn node(said: &[(&str, Option<Preference>)]) -> (Snapshot, Settings) {
        let paths: Vec<&str> = said.iter().map(|(path, _)| *path).collect();
        let mut snapshot = tree(&paths);
        for (scope, (_, preference)) in snapshot.scopes.values_mut().zip(said) {
            let stat = Some(MemoryStat::default());
            let current = Some(Bytes(100 << 20));
            let memory = MemoryFiles { current, stat, ..MemoryFiles::default() };
            let path = scope.path.clone();
            let preference = *preference;
            let files = Cgroup { path, memory, preference, ..Cgroup::default() };
            scope.files = Some(files.into());
        }
        let workloads = vec![rule("/system.slice/*", QosClass::Guaranteed, &[])];
        (snapshot, Settings { workloads, ..Settings::default() })
    }

    #[test]
    fn service_ranked_among_pods() {
        use Preference::{Avoid, Omit, Prefer};
        let pod = "/kubepods/besteffort/podu1";
        let (web, db) = ("/system.slice/web.service", "/system.slice/db.service");
        type Row<'a> = (&'a [(&'a str, Option<Preference>)], &'a [&'a str], &'a [&'a str]);
        #[rustfmt::skip]
        let table: &[Row<'_>] = &[
            // what attributes say, order, spared
            (&[(pod, None), (web, None), (db, None)],               &["u1", "db.service", "web.service"], &[]),
            (&[(pod, None), (web, Some(Prefer)), (db, None)],       &["web.service", "u1", "db.service"], &[]),
            (&[(pod, Some(Avoid)), (web, None), (db, None)],        &["db.service", "web.service", "u1"], &[]),
            (&[(pod, Some(Omit)), (web, None), (db, Some(Avoid))],  &["web.service", "db.service"],       &["u1"]),
        ];
        for (said, want, want_spared) in table {
            let (snapshot, mut settings) = node(said);
            let purpose = Purpose::named("memory.available").unwrap();
            for order in [Order::Qos, Order::Kubelet] {
                let (sample, harm) = (Sample::default(), HarmStanding::default());
                settings.ranking.order = order;
                let all = contenders_of(&sample, &snapshot, &harm, purpose, &settings);
                let got = rank_all(&all, purpose, order, &settings.ranking);
                let names: Vec<_> = got.candidates.iter().map(|one| one.name.as_str()).collect();
                let spared: Vec<_> = got.spared.iter().map(|one| one.name.as_str()).collect();
                // The kubelet knows no classes, but attributes.
                if order == Order::Qos {
                    assert_eq!(names, *want, "{said:?}");
                } else {
                    let first = said.iter().find(|(_, said)| *said == Some(Prefer));
                    assert!(first.is_none_or(|(path, _)| path.ends_with(names[0])), "{said:?}");
                }
                assert_eq!(spared, *want_spared, "{said:?}");
                assert!(got.spared.iter().all(|one| one.why == SparedReason::OptedOut));
                let has_key = got.candidates[0].keys[0].key == Key::Preference;
                let says = said.iter().any(|(_, said)| matches!(said, Some(Prefer | Avoid)));
                assert_eq!(has_key, says, "{said:?}");
                let is_text = |value: &KeyValue| matches!(value, KeyValue::Text(_));
                assert!(!has_key || is_text(&got.candidates[0].keys[0].value));
            }
        }
    }

    #[test]
    fn service_harm() {
        let web = "/system.slice/web.service";
        let (snapshot, settings) = node(&[("/system.slice", None), (web, None), ("/other", None)]);
        let entry = Entry {
            harm: Harm { others: Nanos(300_000_000), own: Nanos(0) },
            taken: 1 << 20,
            ..Entry::default()
        };
        let mut harm = HarmStanding::default();
        harm.memory.is_measured = true;
        let paths = snapshot.scopes.values().map(|scope| scope.path.clone());
        harm.memory.outside = paths.map(|path| (path, entry)).collect::<BTreeMap<_, _>>();
        let purpose = Purpose::named("system.memory.pressure").unwrap();
        let all = contenders_of(&Sample::default(), &snapshot, &harm, purpose, &settings);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].name.as_str(), all[0].harm), ("web.service", Some(entry.harm)));
        let named = outsiders(&harm, purpose, &all);
        let named: Vec<_> = named.iter().map(|one| &*one.path.0).collect();
        assert_eq!(named, ["/other", "/system.slice"]);
    }
}
