//! Cgroups that nothing is done to, and who is spared because of them: whoever is one, lies in one
//! or has one inside.
//!
//! Configuration adds to them and takes none away: the agent's own cgroup and those above it, the
//! first process's, the cgroups above all pods, and those that are reserved for daemons.

use std::collections::{BTreeMap, BTreeSet};

use super::workload::above;
use crate::model::cgroup::{CgroupId, CgroupPath};
use crate::model::decision::SparedReason;
use crate::model::names;
use crate::model::pod::Place;
use crate::model::sample::Sample;
use crate::model::settings::{Settings, WorkloadRule};
use crate::model::snapshot::Snapshot;

/// Where systemd keeps the first process.
const INIT: &str = "/init.scope";

/// What is not touched in one snapshot.
#[derive(Debug)]
pub(super) struct Untouchable<'a> {
    snapshot: &'a Snapshot,
    /// Cgroups that are, or have inside, one that is not touched.
    holds: BTreeMap<CgroupId, SparedReason>,
    /// Cgroups below which nothing is touched either.
    roofs: BTreeSet<CgroupId>,
    /// `kubeReservedCgroup` and `systemReservedCgroup`.
    reserved: Vec<CgroupPath>,
}

impl<'a> Untouchable<'a> {
    pub(super) fn of(settings: &Settings, sample: &Sample, snapshot: &'a Snapshot) -> Self {
        let node = &settings.node;
        let names = [&node.kube_reserved_cgroup, &node.system_reserved_cgroup];
        let reserved =
            names.into_iter().filter_map(|name| names::reserved(node.cgroup_driver, name));
        let mut all = Self {
            snapshot,
            holds: BTreeMap::new(),
            roofs: BTreeSet::new(),
            reserved: reserved.collect(),
        };
        if let Some(own) = sample.own {
            all.hold(own, SparedReason::Isobar);
        }
        let never = &settings.relief.never_touch;
        for (&id, scope) in &snapshot.scopes {
            let is_roof = scope.path.0 == INIT || never.iter().any(|p| p.fits(&scope.path));
            if is_roof {
                all.roofs.insert(id);
            }
            if is_roof || scope.place == Place::Kubepods {
                all.hold(id, SparedReason::NeverTouch);
            }
        }
        all
    }

    fn hold(&mut self, id: CgroupId, why: SparedReason) {
        for id in std::iter::once(id).chain(above(id, self.snapshot)) {
            self.holds.entry(id).or_insert(why);
        }
    }

    /// Why nothing is done to this cgroup.
    fn why(&self, id: CgroupId) -> Option<SparedReason> {
        let is_below = || above(id, self.snapshot).any(|id| self.roofs.contains(&id));
        let held = self.holds.get(&id).copied();
        held.or_else(|| (!self.roofs.is_empty() && is_below()).then_some(SparedReason::NeverTouch))
    }

    /// Pods that are spared, by uid.
    pub(super) fn pods(&self) -> BTreeMap<&'a str, SparedReason> {
        let spared = |id: CgroupId| {
            let scope = self.snapshot.scopes.get(&id)?;
            let (Place::Pod { uid, .. } | Place::Container { pod: uid, .. }) = &scope.place else {
                return None;
            };
            Some((uid.as_str(), self.why(id)?))
        };
        // Whoever has one inside is among those that are held; who lies below one is not.
        match self.roofs.is_empty() {
            true => self.holds.keys().copied().filter_map(spared).collect(),
            false => self.snapshot.scopes.keys().copied().filter_map(spared).collect(),
        }
    }

    /// Why nothing is done to this workload. One of the reserved cgroups, or in one, is meant only
    /// by a rule that names that cgroup: a wildcard that happens to fit asks for nothing.
    pub(super) fn why_workload(&self, id: CgroupId, rule: &WorkloadRule) -> Option<SparedReason> {
        let scope = self.snapshot.scopes.get(&id)?;
        let pattern = CgroupPath(rule.path.to_string());
        let is_reserved = self.reserved.iter().any(|reserved| {
            let is_in = is_within(&scope.path, reserved) && !is_within(&pattern, reserved);
            is_in || (is_within(reserved, &scope.path) && scope.path != *reserved)
        });
        self.why(id).or(is_reserved.then_some(SparedReason::NeverTouch))
    }
}

/// True if `path` is `of` or lies below it.
fn is_within(path: &CgroupPath, of: &CgroupPath) -> bool {
    let rest = path.0.strip_prefix(of.0.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let got = Untouchable::of(&settings, &sample, &snapshot).pods();
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
            ("/**",                          "/system.slice",                Some(Isobar)),     // holds the agent
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
            let untouchable = Untouchable::of(&settings, &sample, &snapshot);
            assert_eq!(untouchable.why_workload(id(path), &rule), want, "{pattern} {path}");
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
        let untouchable = Untouchable::of(&Settings::default(), &Sample::default(), &snapshot);
        let got = untouchable.why_workload(CgroupId(1), &rule);
        assert_eq!(got, Some(SparedReason::NeverTouch));
    }
}
