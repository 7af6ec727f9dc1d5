//! Taints of a contended node.
//! Source: KEP-4205 and KEP-5394: one key per resource, for both scopes.

use std::collections::BTreeSet;

use crate::model::condition::{Condition, Resource, Status};
use crate::model::decision::Taint;
use crate::model::settings::Conditions;

/// The domain of the taint keys, unless the prefix has one.
const DOMAIN: &str = "node.kubernetes.io/";
const RESOURCES: [Resource; 3] = [Resource::Cpu, Resource::Memory, Resource::Disk];

/// One taint for each resource with a condition that is True. Unknown sets no taint.
pub fn taints(settings: &Conditions, conditions: &[Condition]) -> Vec<Taint> {
    let of = |resource| {
        let holds = |c: &&Condition| c.name.resource == resource && c.status == Status::True;
        let because: Vec<_> = conditions.iter().filter(holds).map(|c| c.name).collect();
        let key = key(&settings.prefix, resource);
        (!because.is_empty()).then_some(Taint { key, effect: settings.taint_effect, because })
    };
    RESOURCES.into_iter().filter_map(of).collect()
}

/// The keys of all taints that may be set with this prefix.
pub fn keys(prefix: &str) -> BTreeSet<String> {
    RESOURCES.into_iter().map(|resource| key(prefix, resource)).collect()
}

/// A prefix with a domain (`isobar.example/`) replaces Kubernetes' domain; another is put before
/// the name.
fn key(prefix: &str, resource: Resource) -> String {
    let domain = if prefix.contains('/') { "" } else { DOMAIN };
    let name = match resource {
        Resource::Cpu => "cpu-contention-pressure",
        Resource::Memory => "memory-contention-pressure",
        Resource::Disk => "disk-contention-pressure",
    };
    format!("{domain}{prefix}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::condition::{ConditionName, ScopeName};
    use crate::model::settings::TaintEffect;

    fn condition(scope: ScopeName, resource: Resource, status: Status) -> Condition {
        Condition::unmeasured(ConditionName { scope, resource }, status)
    }

    #[test]
    fn taint_shared_by_scopes() {
        use Resource::{Cpu, Disk, Memory};
        use ScopeName::{Kubepods, System};
        let settings = Conditions::default();
        type Row<'a> = (&'a [(ScopeName, Resource, Status)], &'a [(&'a str, usize)]);
        #[rustfmt::skip]
        let table: &[Row<'_>] = &[
            // conditions, keys and of how many conditions
            (&[], &[]),
            (&[(System, Cpu, Status::False), (Kubepods, Cpu, Status::Unknown)], &[]),
            (&[(System, Memory, Status::True)], &[("node.kubernetes.io/memory-contention-pressure", 1)]),
            (&[(System, Memory, Status::True), (Kubepods, Memory, Status::True)],
                &[("node.kubernetes.io/memory-contention-pressure", 2)]),
            (&[(System, Disk, Status::True), (System, Memory, Status::False), (Kubepods, Cpu, Status::True)],
                &[("node.kubernetes.io/cpu-contention-pressure", 1), ("node.kubernetes.io/disk-contention-pressure", 1)]),
        ];
        for (given, want) in table {
            let conditions: Vec<_> = given.iter().map(|&(s, r, st)| condition(s, r, st)).collect();
            let got = taints(&settings, &conditions);
            let got: Vec<_> = got.iter().map(|t| (t.key.as_str(), t.because.len())).collect();
            assert_eq!(got, *want, "{given:?}");
        }
    }

    #[test]
    fn taint_prefix() {
        let conditions = [condition(ScopeName::System, Resource::Cpu, Status::True)];
        #[rustfmt::skip]
        let table = [
            // prefix, key
            ("",                "node.kubernetes.io/cpu-contention-pressure"),
            ("isobar-",         "node.kubernetes.io/isobar-cpu-contention-pressure"),
            ("isobar.example/", "isobar.example/cpu-contention-pressure"),
        ];
        for (prefix, want) in table {
            let taint_effect = TaintEffect::PreferNoSchedule;
            let settings =
                Conditions { prefix: prefix.into(), taint_effect, ..Conditions::default() };
            let got = taints(&settings, &conditions);
            assert_eq!(got[0].key, want, "{prefix:?}");
            assert_eq!(got[0].effect, TaintEffect::PreferNoSchedule, "{prefix:?}");
        }
    }
}
