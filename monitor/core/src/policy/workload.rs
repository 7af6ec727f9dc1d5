//! Cgroups outside pods that count as workloads, by the configuration's rules.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::cgroup::{Cgroup, CgroupId, MemoryFiles};
use crate::model::pattern::PathPattern;
use crate::model::pod::Place;
use crate::model::settings::WorkloadRule;
use crate::model::snapshot::{Scope, Snapshot};

/// The cgroup of each party.
pub type Parties<'a> = BTreeMap<CgroupId, &'a Scope>;

/// Most levels that are walked up.
const DEPTH: usize = 64;
/// Levels that a path of 8 KiB has at most: a user may nest cgroups as deep as that.
const NESTED: usize = 4_096;

/// Workloads, each with the rule that matched.
///
/// If a cgroup and its ancestor both match, the ancestor is the workload, so that nothing counts
/// twice. Pods, their contents and their ancestors up to kubepods match no rule.
#[derive(Debug, Default)]
pub struct Workloads<'a>(BTreeMap<CgroupId, &'a WorkloadRule>);

impl<'a> Workloads<'a> {
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
            let path = &scope.path;
            let n = || n_names_of_root(*id, snapshot);
            let fits = |one: &PathPattern| one.fits(path) && one.fits_names(path, n());
            let rule = rules.iter().find(|rule| fits(&rule.path))?;
            (!is_among_pods(*id)).then_some((*id, rule))
        });
        let fitting: BTreeMap<CgroupId, &WorkloadRule> = fitting.collect();
        let is_outermost =
            |id: &CgroupId| !above(*id, snapshot).any(|id| fitting.contains_key(&id));
        Self(fitting.iter().filter(|(id, _)| is_outermost(id)).map(|(id, r)| (*id, *r)).collect())
    }

    pub fn has(&self, id: CgroupId) -> bool {
        self.0.contains_key(&id)
    }

    /// The parties: pods, workloads, and other cgroups without children. So each counts once. Where such
    /// a cgroup has no memory files, because the controller ends above it, the nearest one that has is
    /// the party in its place.
    pub fn parties<'s>(&self, snapshot: &'s Snapshot) -> Parties<'s> {
        let scopes = &snapshot.scopes;
        let parents: BTreeSet<CgroupId> =
            scopes.values().filter_map(|scope| scope.parent).collect();
        let scope_of = |id: CgroupId| Some((id, scopes.get(&id)?));
        let up = |id: CgroupId| above(id, snapshot).map_while(scope_of);
        let is_pod = |scope: &Scope| matches!(scope.place, Place::Pod { .. });
        let is_party = |(id, scope): &(&CgroupId, &Scope)| match &scope.place {
            Place::Pod { .. } => true,
            _ if self.has(**id) => true,
            // CRI-O's monitor and a container belong to their pod.
            Place::Container { .. } | Place::Kubepods | Place::Qos { .. } => false,
            _ => {
                !parents.contains(id) && !up(**id).any(|(id, scope)| self.has(id) || is_pod(scope))
            }
        };
        // A reading may have failed; limits are still known then.
        let has_none = |files: &Cgroup| {
            files.memory.current.is_none()
                && files.memory == MemoryFiles::default()
                && !files.is_unread()
        };
        let has_none = |scope: &Scope| scope.files.as_deref().is_some_and(has_none);
        let is_other = |scope: &Scope| scope.place == Place::Other;
        let holder = |(id, scope): (&CgroupId, &'s Scope)| {
            let is_elsewhere = is_other(scope) && !self.has(*id) && has_none(scope);
            let others = || up(*id).take_while(|(_, scope)| is_other(scope));
            let held = || others().find(|(_, scope)| !has_none(scope));
            is_elsewhere.then(held).flatten().unwrap_or((*id, scope))
        };
        scopes.iter().filter(is_party).map(holder).collect()
    }

    /// All workloads with their rules.
    pub fn each(&self) -> impl Iterator<Item = (CgroupId, &'a WorkloadRule)> {
        self.0.iter().map(|(id, rule)| (*id, *rule))
    }
}

/// How many names of the path count, from the root: who owns a cgroup names those in it.
pub(crate) fn n_names_of_root(id: CgroupId, snapshot: &Snapshot) -> usize {
    let scope = |id: &CgroupId| snapshot.scopes.get(id);
    let up = |at: &&Scope| scope(&at.parent?);
    let is_delegated = |scope: &&Scope| scope.files.as_ref().is_some_and(|f| f.is_delegated);
    // What lies below a cgroup that was handed over was, too.
    let all = std::iter::successors(scope(&id), up).take(NESTED).take_while(is_delegated);
    all.last().map_or(usize::MAX, |first| first.path.segments().count())
}

/// Ancestors, nearest first; the root has no scope of its own.
pub(crate) fn above(id: CgroupId, snapshot: &Snapshot) -> impl Iterator<Item = CgroupId> {
    let up = |id: &CgroupId| snapshot.scopes.get(id).and_then(|scope| scope.parent);
    std::iter::successors(up(&id), move |id| up(id)).take(DEPTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::Limit;
    use crate::model::pod::QosClass;
    use crate::model::units::Micros;
    use crate::policy::rank::tests::tree;

    /// A user nests cgroups deeper than other walks go.
    #[test]
    fn names_of_tenants_make_no_workload() {
        let mut paths = vec!["/u.slice".to_owned(), "/u.slice/u@1.service".to_owned()];
        (0..80).for_each(|n| paths.push(format!("{}/{n}", paths[paths.len() - 1])));
        paths.push(format!("{}/batch", paths[paths.len() - 1]));
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let rule = WorkloadRule {
            path: "/**/batch".parse().unwrap(),
            qos_class: QosClass::Guaranteed,
            priority: 0,
            requests: [].into(),
        };
        for (is_handed_over, n, want) in [(true, 2, false), (false, usize::MAX, true)] {
            let mut snapshot = tree(&paths);
            for scope in snapshot.scopes.values_mut() {
                let is_delegated = is_handed_over && scope.path.0.contains('@');
                scope.files = Some(Cgroup { is_delegated, ..Cgroup::default() }.into());
            }
            let deepest = CgroupId(paths.len() as u64);
            assert_eq!(n_names_of_root(deepest, &snapshot), n);
            assert_eq!(Workloads::of(std::slice::from_ref(&rule), &snapshot).has(deepest), want);
        }
    }

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
        type Row<'a> = (&'a [&'a str], &'a str, &'a [&'a str]);
        let (slice, service) = ("/system.slice", "/system.slice/vm.service");
        let (a, b) = ("/system.slice/vm.service/a", "/system.slice/vm.service/a/b");
        let other = "/system.slice/web.service";
        #[rustfmt::skip]
        let table: [Row<'_>; 6] = [
            // which have memory files, which one could not be read, parties
            (&[slice, service, other],       "",      &[service, other]),
            (&[slice, service, a, other],    "",      &[a, other]),
            (&[slice, service, a, b, other], "",      &[b, other]),
            (&[slice, service, other],       service, &[service, other]),
            (&[slice, service, other],       b,       &[b, other]),
            (&[],                            "",      &[b, other]), // no controller at all
        ];
        for (with_memory, unread, want) in table {
            let mut snapshot = tree(&[slice, service, a, b, other]);
            for scope in snapshot.scopes.values_mut() {
                let mut files = Cgroup::default();
                let path = &*scope.path.0;
                files.cpu.usage = (path != unread).then_some(Micros(1));
                // Its current use could not be read, and its limit is known.
                files.memory.max = with_memory.contains(&path).then_some(Limit::Max);
                scope.files = Some(files.into());
            }
            let parties = Workloads::default().parties(&snapshot);
            let mut got: Vec<&str> = parties.values().map(|scope| &*scope.path.0).collect();
            got.sort_unstable();
            assert_eq!(got, want, "{with_memory:?}, without {unread}");
        }
    }
}
