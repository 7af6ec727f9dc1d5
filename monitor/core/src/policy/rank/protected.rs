//! Protected cgroups, and the candidates that are spared because they are one, are inside one, or
//! contain one.
//!
//! Configuration can only add to them: always protected are the agent's own cgroup and its
//! ancestors, the first process, the ancestors of all pods, and the reserved cgroups.

use std::collections::{BTreeMap, BTreeSet};

use super::vital;
use crate::model::cgroup::{CgroupId, CgroupPath, Limit, Preference};
use crate::model::decision::SparedReason;
use crate::model::names;
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::settings::{Settings, WorkloadRule};
use crate::model::snapshot::{Scope, Snapshot};
use crate::model::units::Bytes;
use crate::policy::workload::{above, n_names_of_root};

/// systemd's cgroup of the first process.
const INIT: &str = "/init.scope";
/// The protected cgroups of one snapshot.
#[derive(Debug)]
pub(super) struct Protected<'a> {
    snapshot: &'a Snapshot,
    /// Protected cgroups and their ancestors, each with its reason.
    reasons: BTreeMap<CgroupId, SparedReason>,
    /// Cgroups whose descendants are protected too.
    subtrees: BTreeSet<CgroupId>,
    /// `kubeReservedCgroup` and `systemReservedCgroup`.
    reserved: Vec<CgroupPath>,
}

impl<'a> Protected<'a> {
    pub(super) fn of(settings: &Settings, sample: &Sample, snapshot: &'a Snapshot) -> Self {
        // As the node's cgroups are spelled, whatever the configuration says of the driver.
        let node =
            &names::as_spelled(&settings.node, |path| sample.kubepods.as_ref() == Some(path));
        let names = [&node.kube_reserved_cgroup, &node.system_reserved_cgroup];
        let reserved =
            names.into_iter().filter_map(|name| names::reserved(node.cgroup_driver, name));
        let mut all = Self {
            snapshot,
            reasons: BTreeMap::new(),
            subtrees: BTreeSet::new(),
            reserved: reserved.collect(),
        };
        if let Some(own) = sample.own {
            all.protect(own, SparedReason::Isobar);
        }
        let never = &settings.relief.never_touch;
        for (&id, scope) in &snapshot.scopes {
            let n = || n_names_of_root(id, snapshot);
            let is_subtree = &*scope.path.0 == INIT
                || never.iter().any(|p| p.fits(&scope.path) && p.fits_names(&scope.path, n()));
            if is_subtree {
                all.subtrees.insert(id);
            }
            if is_subtree || scope.place == Place::Kubepods {
                all.protect(id, SparedReason::NeverTouch);
            }
        }
        all
    }

    fn protect(&mut self, id: CgroupId, why: SparedReason) {
        for id in std::iter::once(id).chain(above(id, self.snapshot)) {
            self.reasons.entry(id).or_insert(why);
        }
    }

    /// Why this cgroup is protected.
    fn why(&self, id: CgroupId) -> Option<SparedReason> {
        let is_below = || above(id, self.snapshot).any(|id| self.subtrees.contains(&id));
        let why = self.reasons.get(&id).copied();
        why.or_else(|| {
            (!self.subtrees.is_empty() && is_below()).then_some(SparedReason::NeverTouch)
        })
    }

    /// Those of these cgroups that are protected.
    pub(super) fn among(&self, ids: BTreeSet<CgroupId>) -> BTreeSet<CgroupId> {
        ids.into_iter().filter(|id| self.why(*id).is_some()).collect()
    }

    /// Whether the kernel's OOM killer may be pointed at it, and isobar may squeeze it beside candidates: not at what is protected or opted out, nor
    /// at services that the node could not do without.
    pub(super) fn may_be_marked(&self, id: CgroupId, scope: &Scope) -> bool {
        let is_pod = matches!(scope.place, Place::Pod { .. });
        let is_vital = || vital::is_vital(&scope.path, n_names_of_root(id, self.snapshot));
        let is_omitted =
            scope.files.as_ref().is_some_and(|f| f.preference == Some(Preference::Omit));
        self.why(id).is_none() && !is_omitted && (is_pod || !is_vital())
    }

    /// Page cache in use of services, and of other parties outside pods, that may be taken back. None of
    /// what is protected, reserved or opted out; of what holds others; of what would be swapped out
    /// instead; nor what `memory.low` and `memory.min` keep, which the kernel overrides where a cgroup
    /// itself is reclaimed.
    ///
    /// Source: `mem_cgroup_calculate_protection`, mm/memcontrol.c.
    pub(super) fn caches(
        &self,
        parties: impl Iterator<Item = CgroupId>,
        sample: &Sample,
    ) -> BTreeMap<CgroupId, Bytes> {
        let scopes = &self.snapshot.scopes;
        let parents: BTreeSet<_> = scopes.values().filter_map(|scope| scope.parent).collect();
        let is_swap_full = sample.node.memory.is_some_and(|memory| memory.swap_free == Bytes(0));
        let cache = |id: CgroupId| {
            let scope = scopes.get(&id).filter(|scope| scope.place == Place::Other)?;
            let files = scope.files.as_deref()?;
            let memory = &files.memory;
            let is_open = !parents.contains(&id)
                && (is_swap_full || memory.swap_max == Some(Limit::At(0)))
                && !self.reserved.iter().any(|reserved| scope.path.is_within(reserved))
                && self.may_be_marked(id, scope);
            let kept = [memory.low, memory.min].into_iter().flatten();
            let kept = kept.map(|limit| limit.at().unwrap_or(u64::MAX)).max();
            let spare = memory.current?.0.saturating_sub(kept.unwrap_or_default());
            is_open.then_some((id, Bytes(memory.stat?.active_file.0.min(spare))))
        };
        parties.filter_map(cache).collect()
    }

    /// Protected pods, by uid.
    pub(super) fn pods(&self) -> BTreeMap<&'a str, SparedReason> {
        let spared = |id: CgroupId| {
            let scope = self.snapshot.scopes.get(&id)?;
            let (Place::Pod { uid, .. } | Place::Container { pod: uid, .. }) = &scope.place else {
                return None;
            };
            Some((&**uid, self.why(id)?))
        };
        // `reasons` has every cgroup that contains a protected one, but not those inside one.
        match self.subtrees.is_empty() {
            true => self.reasons.keys().copied().filter_map(spared).collect(),
            false => self.snapshot.scopes.keys().copied().filter_map(spared).collect(),
        }
    }

    /// Why this workload is protected. In or above a reserved cgroup only a rule that names that
    /// cgroup counts: a wildcard may match by accident.
    pub(super) fn why_workload(&self, id: CgroupId, rule: &WorkloadRule) -> Option<SparedReason> {
        let scope = self.snapshot.scopes.get(&id)?;
        let pattern = CgroupPath(rule.path.to_string().into());
        let is_reserved = self.reserved.iter().any(|reserved| {
            let is_in = scope.path.is_within(reserved) && !pattern.is_within(reserved);
            is_in || (reserved.is_within(&scope.path) && scope.path != *reserved)
        });
        self.why(id).or(is_reserved.then_some(SparedReason::NeverTouch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::Cgroup;
    use crate::model::node::Meminfo;
    use crate::model::pod::QosClass;
    use crate::policy::rank::tests::tree;

    const TREE: [&str; 12] = [
        "/init.scope",
        "/kubepods",
        "/kubepods/burstable",
        "/kubepods/burstable/podu1",
        "/kubepods/podu2",
        "/system.slice",
        "/system.slice/isobar.service",
        "/system.slice/web.service",
        "/system.slice/web.service/worker",
        "/kube.slice",
        "/kube.slice/helper.service",
        "/batch",
    ];

    fn id(path: &str) -> CgroupId {
        CgroupId(TREE.iter().position(|p| *p == path).unwrap() as u64 + 1)
    }

    fn settings(never: &[&str]) -> Settings {
        let mut settings = Settings::default();
        settings.relief.never_touch = never.iter().map(|path| path.parse().unwrap()).collect();
        settings.node.kube_reserved_cgroup = "/kube.slice".into();
        settings
    }

    #[test]
    fn may_be_marked_unless_root_named_it_so() {
        const USER: &str = "/user.slice/user@1000.service";
        #[rustfmt::skip]
        let table = [
            // cgroup, cgroups that others own, may be marked
            ("/batch",                             vec![],                  true),
            ("/system.slice/web.service",          vec![],                  true),
            ("/system.slice/docker.service",       vec![],                  false),
            ("/system.slice/docker.service/below", vec![],                  false),
            ("/user.slice/user@1000.service/docker", vec![],                false),
            ("/user.slice/user@1000.service/docker", vec![USER],            true),
            ("/user.slice/user@1000.service/app.slice/kubelet.service", vec![USER], true),
            ("/docker",                            vec![],                  false),
            ("/docker/0123abcd",                   vec![],                  true),
            ("/system.slice/snap.microk8s.daemon-kubelite.service", vec![], false),
            // systemd hands a service its own cgroup, and has named it.
            ("/system.slice/docker.service",       vec!["/system.slice/docker.service"], false),
            ("/system.slice/docker.service/below", vec!["/system.slice/docker.service"], false),
        ];
        for (path, delegated, want) in table {
            let path = CgroupPath(path.into());
            let mut paths = vec![CgroupPath::root()];
            for name in path.segments() {
                paths.push(paths[paths.len() - 1].child(name));
            }
            let paths: Vec<&str> = paths[1..].iter().map(|path| &*path.0).collect();
            let mut snapshot = tree(&paths);
            for scope in snapshot.scopes.values_mut() {
                let is_delegated = delegated.iter().any(|above| scope.path.0.starts_with(above));
                scope.files = Some(Cgroup { is_delegated, ..Cgroup::default() }.into());
            }
            let protected = Protected::of(&Settings::default(), &Sample::default(), &snapshot);
            let id = CgroupId(paths.len() as u64);
            let mut scope = snapshot.scopes[&id].clone();
            assert_eq!(protected.may_be_marked(id, &scope), want, "{path} {delegated:?}");
            let preference = Some(Preference::Omit);
            scope.files = Some(Cgroup { preference, ..Cgroup::default() }.into());
            assert!(!protected.may_be_marked(id, &scope), "{path} is opted out");
        }
    }

    #[test]
    fn caches_are_those_that_no_rule_and_no_limit_keeps() {
        use crate::model::cgroup::{MemoryFiles, MemoryStat};
        const PATH: &str = "/system.slice/web.service";
        const NONE: Option<Limit> = None;
        let omit = Some(Preference::Omit);
        #[rustfmt::skip]
        let table = [
            // cgroups, the last of which is asked for; memory.low, memory.min, memory.swap.max; free swap; attribute; what it may lose
            (vec![PATH],                          [NONE, NONE, NONE],               0, None, Some(70)),
            (vec![PATH],                          [Some(Limit::At(40)), NONE, NONE], 0, None, Some(60)),
            (vec![PATH],                          [Some(Limit::At(10)), Some(Limit::At(95)), NONE], 0, None, Some(5)),
            (vec![PATH],                          [Some(Limit::Max), NONE, NONE],   0, None, Some(0)),
            (vec![PATH],                          [NONE, NONE, NONE],               9, None, None),
            (vec![PATH],                          [NONE, NONE, Some(Limit::Max)],   9, None, None),
            (vec![PATH],                          [NONE, NONE, Some(Limit::At(0))], 9, None, Some(70)),
            (vec![PATH],                          [NONE, NONE, NONE],               0, omit, None),
            (vec!["/system.slice/web.service/worker", PATH], [NONE, NONE, NONE],    0, None, None),
            (vec!["/kube.slice/web.service"],     [NONE, NONE, NONE],               0, None, None),
            (vec!["/system.slice/isobar.service"], [NONE, NONE, NONE],              0, None, None),
        ];
        for (paths, [low, min, swap_max], free, preference, want) in table {
            let mut snapshot = tree(&paths);
            let stat = Some(MemoryStat { active_file: Bytes(70), ..MemoryStat::default() });
            let memory = MemoryFiles {
                current: Some(Bytes(100)),
                low,
                min,
                swap_max,
                stat,
                ..MemoryFiles::default()
            };
            for scope in snapshot.scopes.values_mut() {
                scope.files = Some(Cgroup { memory, preference, ..Cgroup::default() }.into());
            }
            let mut sample = Sample::default();
            let memory = Meminfo { swap_free: Bytes(free), ..Meminfo::default() };
            sample.node.memory = Some(memory);
            let protected = Protected::of(&settings(&[]), &sample, &snapshot);
            let id = CgroupId(paths.len() as u64);
            let got = protected.caches(std::iter::once(id), &sample);
            let want = want.map(|bytes| (id, Bytes(bytes))).into_iter().collect();
            assert_eq!(got, want, "{paths:?} {memory:?}");
        }
    }

    #[test]
    fn of_finds_reserved_cgroups_as_the_node_spells_them() {
        let mut settings = Settings::default();
        settings.node.kube_reserved_cgroup = "/kube-reserved.slice".into();
        #[rustfmt::skip]
        let table = [
            // where all pods are, the reserved cgroup
            (None,                    "/kube-reserved.slice"),
            (Some("/kubepods"),       "/kube-reserved.slice"),
            (Some("/kubepods.slice"), "/kube.slice/kube-reserved.slice"), // the kubelet goes by the runtime
        ];
        for (kubepods, want) in table {
            let kubepods = kubepods.map(|path| CgroupPath(path.into()));
            let sample = Sample { kubepods, ..Sample::default() };
            let snapshot = tree(&TREE);
            let protected = Protected::of(&settings, &sample, &snapshot);
            assert_eq!(protected.reserved, [CgroupPath(want.into())]);
        }
    }

    #[test]
    fn untouchable_pods() {
        use SparedReason::{Isobar, NeverTouch};
        type Row<'a> = (Option<&'a str>, &'a [&'a str], &'a [(&'a str, SparedReason)]);
        #[rustfmt::skip]
        let table: &[Row<'_>] = &[
            // the agent's own cgroup, never touched, pods that are spared
            (None,                                 &[],                           &[]),
            (Some("/system.slice/isobar.service"), &[],                           &[]),
            (Some("/kubepods/podu2"),              &[],                           &[("u2", Isobar)]),
            (None,                                 &["/kubepods/podu2"],          &[("u2", NeverTouch)]),
            (None,                                 &["/kubepods/*/podu*"],        &[("u1", NeverTouch)]),
            (None,                                 &["/kubepods/burstable"],      &[("u1", NeverTouch)]),
            (None,                                 &["/kubepods"],                &[("u1", NeverTouch), ("u2", NeverTouch)]),
            (None,                                 &["/"],                        &[]), // what lies below it is meant by /**
            (None,                                 &["/**"],                      &[("u1", NeverTouch), ("u2", NeverTouch)]),
        ];
        for (own, never, want) in table {
            let snapshot = tree(&TREE);
            let sample = Sample { own: own.map(id), ..Sample::default() };
            let settings = settings(never);
            let got = Protected::of(&settings, &sample, &snapshot).pods();
            let got: Vec<_> = got.into_iter().collect();
            assert_eq!(got, *want, "{own:?} {never:?}");
        }
    }

    #[test]
    fn untouchable_workloads() {
        use SparedReason::{Isobar, NeverTouch};
        #[rustfmt::skip]
        let table = [
            // rule, workload, spared as
            ("/**",                          "/init.scope",                  Some(NeverTouch)),
            ("/init.scope",                  "/init.scope",                  Some(NeverTouch)),
            ("/**",                          "/system.slice",                Some(Isobar)),     // protected the agent
            ("/system.slice/*",              "/system.slice/isobar.service", Some(Isobar)),
            ("/system.slice/*",              "/system.slice/web.service",    Some(NeverTouch)), // its worker is configured
            ("/**",                          "/kube.slice",                  Some(NeverTouch)),
            ("/*/helper.service",            "/kube.slice/helper.service",   Some(NeverTouch)), // asked for by chance
            ("/kube.slice/*",                "/kube.slice/helper.service",   None),             // and by name
            ("/kube.slice",                  "/kube.slice",                  None),
            ("/batch",                       "/batch",                       None),
        ];
        for (pattern, path, want) in table {
            let snapshot = tree(&TREE);
            let own = Some(id("/system.slice/isobar.service"));
            let sample = Sample { own, ..Sample::default() };
            let settings = settings(&["/system.slice/web.service/worker"]);
            let rule = WorkloadRule {
                path: pattern.parse().unwrap(),
                qos_class: QosClass::Burstable,
                priority: 0,
                requests: [].into(),
            };
            let protected = Protected::of(&settings, &sample, &snapshot);
            assert_eq!(protected.why_workload(id(path), &rule), want, "{pattern} {path}");
        }
    }

    #[test]
    fn untouchable_kubepods() {
        let paths = ["/host", "/host/kubepods", "/host/kubepods/podu1"];
        let snapshot = tree(&paths);
        let rule = WorkloadRule {
            path: "/host".parse().unwrap(),
            qos_class: QosClass::Burstable,
            priority: 0,
            requests: [].into(),
        };
        let protected = Protected::of(&Settings::default(), &Sample::default(), &snapshot);
        let got = protected.why_workload(CgroupId(1), &rule);
        assert_eq!(got, Some(SparedReason::NeverTouch));
    }

    #[test]
    fn never_touch_does_not_count_names_of_tenants() {
        let paths = ["/u.slice", "/u.slice/u@1.service", "/u.slice/u@1.service/sshd.service"];
        #[rustfmt::skip]
        let table = [
            // never touched, whether the service is a user's; whether the kernel may be pointed at it
            ("/**/sshd.service",                  false, false),
            ("/**/sshd.service",                  true,  true),
            ("/u.slice/*/*",                      true,  false), // any name would do
            ("/u.slice/u@1.service/sshd.service", true,  false), // meant is this one
            ("/u.slice/u@1.service",              true,  false),
        ];
        for (never, is_delegated, want) in table {
            let mut snapshot = tree(&paths);
            for scope in snapshot.scopes.values_mut() {
                let is_delegated = is_delegated && scope.path.0.contains('@');
                scope.files = Some(Cgroup { is_delegated, ..Cgroup::default() }.into());
            }
            let protected = Protected::of(&settings(&[never]), &Sample::default(), &snapshot);
            let service = &snapshot.scopes[&CgroupId(2)];
            assert_eq!(
                protected.may_be_marked(CgroupId(2), service),
                want,
                "{never} {is_delegated}"
            );
        }
    }
}
