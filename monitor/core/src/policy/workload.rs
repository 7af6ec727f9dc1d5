//! Cgroups outside pods that count as workloads, by the configuration's rules.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::cgroup::{Cgroup, CgroupId};
use crate::model::pod::Place;
use crate::model::settings::WorkloadRule;
use crate::model::snapshot::{Scope, Snapshot};

/// The cgroup of each party.
pub type Parties<'a> = BTreeMap<CgroupId, &'a Scope>;

/// Most levels that are walked up.
const DEPTH: usize = 64;

/// Workloads, each with the rule that matched.
///
/// If a cgroup and its ancestor both match, the ancestor is the workload, so that nothing counts
/// twice. Pods, their contents and their ancestors up to kubepods match no rule.
#[derive(Debug, Default)]
pub struct Workloads<'a>(BTreeMap<CgroupId, &'a WorkloadRule>);

impl<'a> Workloads<'a> {
    #[must_use]
    pub fn of(rules: &'a [WorkloadRule], snapshot: &Snapshot) -> Self {
        if rules.is_empty() {
            return Self::default();
        }
        let others = snapshot.scopes.iter().filter(|(_, scope)| scope.place == Place::Other);
        let is_among_pods = |id: CgroupId| {
            let mut scopes = above(id, snapshot).filter_map(|id| snapshot.scopes.get(&id));
            scopes.any(|scope| scope.place != Place::Other)
        };
        let fitting = others.filter_map(|(id, scope)| {
            let rule = rules.iter().find(|rule| rule.path.fits(&scope.path))?;
            (!is_among_pods(*id)).then_some((*id, rule))
        });
        let fitting: BTreeMap<CgroupId, &WorkloadRule> = fitting.collect();
        let is_outermost =
            |id: &CgroupId| !above(*id, snapshot).any(|id| fitting.contains_key(&id));
        Self(fitting.iter().filter(|(id, _)| is_outermost(id)).map(|(id, r)| (*id, *r)).collect())
    }

    #[must_use]
    pub fn has(&self, id: CgroupId) -> bool {
        self.0.contains_key(&id)
    }

    /// The parties: pods, workloads, and other cgroups without children. So each counts once. Where such
    /// a cgroup has no memory files, because the controller ends above it, the nearest one that has is
    /// the party in its place.
    #[must_use]
    pub fn parties<'s>(&self, snapshot: &'s Snapshot) -> Parties<'s> {
        let scopes = &snapshot.scopes;
        let parents: BTreeSet<CgroupId> =
            scopes.values().filter_map(|scope| scope.parent).collect();
        let is_pod = |id| scopes.get(&id).is_some_and(|s| matches!(s.place, Place::Pod { .. }));
        let is_party = |(id, scope): &(&CgroupId, &Scope)| match &scope.place {
            Place::Pod { .. } => true,
            _ if self.has(**id) => true,
            // CRI-O's monitor and a container belong to their pod.
            Place::Container { .. } | Place::Kubepods | Place::Qos { .. } => false,
            _ => {
                !parents.contains(id) && !above(**id, snapshot).any(|id| self.has(id) || is_pod(id))
            }
        };
        let is_other_with_memory = |id: &CgroupId| {
            let scope = scopes.get(id).filter(|scope| scope.place == Place::Other);
            let files = scope.and_then(|scope| scope.files.as_ref());
            files.is_some_and(|files| files.memory.current.is_some())
        };
        let holder = |(id, scope): (&CgroupId, &'s Scope)| {
            let has_none = |files: &Cgroup| files.memory.current.is_none() && !files.is_unread();
            let is_elsewhere = scope.place == Place::Other
                && !self.has(*id)
                && scope.files.as_deref().is_some_and(has_none);
            let up = is_elsewhere.then(|| above(*id, snapshot).find(is_other_with_memory));
            let id = up.flatten().unwrap_or(*id);
            Some((id, scopes.get(&id)?))
        };
        scopes.iter().filter(is_party).filter_map(holder).collect()
    }

    /// All workloads with their rules.
    pub fn each(&self) -> impl Iterator<Item = (CgroupId, &'a WorkloadRule)> {
        self.0.iter().map(|(id, rule)| (*id, *rule))
    }
}

/// Ancestors, nearest first; the root has no scope of its own.
pub(crate) fn above(id: CgroupId, snapshot: &Snapshot) -> impl Iterator<Item = CgroupId> {
    let up = |id: &CgroupId| snapshot.scopes.get(id).and_then(|scope| scope.parent);
    std::iter::successors(up(&id), move |id| up(id)).take(DEPTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::pod::QosClass;
    use crate::model::units::{Bytes, Micros};
    use crate::policy::rank::tests::tree;

    #[test]
    fn workloads_outermost_that_fits() {
        let all = [
            "/system.slice",
            "/system.slice/web.service",
            "/system.slice/web.service/worker",
            "/kubepods.slice",
            "/kubepods.slice/kubepods-podu1.slice",
            "/kubepods.slice/kubepods-podu1.slice/crio-conmon",
            "/nested",
            "/nested/kubepods",
            "/nested/kubepods/podu2",
        ];
        type Row<'a> = (&'a [&'a str], &'a [(&'a str, i32)]);
        #[rustfmt::skip]
        let table: [Row<'_>; 6] = [
            // rules, workloads and by which rule
            (&["/system.slice/*.service"],                     &[("/system.slice/web.service", 0)]),
            (&["/system.slice/*.service/*", "/system.slice/**"], &[("/system.slice/web.service", 1)]),
            (&["/system.slice", "/system.slice/*"],            &[("/system.slice", 0)]),
            (&["/system.slice/*", "/system.slice/web*"],       &[("/system.slice/web.service", 0)]),
            (&["/kubepods.slice/**", "/nested/kubepods/**"],   &[]),
            (&["/**"],                                         &[("/nested", 0), ("/system.slice", 0)]),
        ];
        for (patterns, want) in table {
            let rules: Vec<WorkloadRule> = (0..)
                .zip(patterns)
                .map(|(priority, path)| WorkloadRule {
                    path: path.parse().unwrap(),
                    qos_class: QosClass::Burstable,
                    priority,
                    requests: [].into(),
                })
                .collect();
            let snapshot = tree(&all);
            let workloads = Workloads::of(&rules, &snapshot);
            let found = workloads.each();
            let mut got: Vec<_> =
                found.map(|(id, rule)| (&*snapshot.scopes[&id].path.0, rule.priority)).collect();
            got.sort_unstable();
            assert_eq!(got, want, "{patterns:?}");
        }
    }

    #[test]
    fn parties_hold_memory() {
        type Row<'a> = (&'a str, Option<u64>, bool, &'a [&'a str]);
        let service = "/system.slice/vm.service";
        let both = ["/system.slice/vm.service/a", "/system.slice/vm.service/a/b"];
        #[rustfmt::skip]
        let table: [Row<'_>; 4] = [
            // which has memory files, its memory.current, whether those below it were read, parties
            (service,         Some(7), true,  &[service]),
            (service,         Some(7), false, &both[1..]),
            (both[0],         Some(7), true,  &both[..1]),
            ("/system.slice", None,    true,  &both[1..]), // no controller at all
        ];
        for (holder, current, is_read, want) in table {
            let mut snapshot = tree(&["/system.slice", service, both[0], both[1]]);
            for scope in snapshot.scopes.values_mut() {
                let mut files = Cgroup::default();
                files.cpu.usage = is_read.then_some(Micros(1));
                files.memory.current = current.map(Bytes).filter(|_| &*scope.path.0 == holder);
                scope.files = Some(files.into());
            }
            let parties = Workloads::default().parties(&snapshot);
            let got: Vec<&str> = parties.values().map(|scope| &*scope.path.0).collect();
            assert_eq!(got, want, "{holder} {current:?} {is_read}");
        }
    }
}
