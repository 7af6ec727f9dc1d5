//! What each cgroup of one tree is. Decided here alone: a path is no proof, because a user who may
//! create cgroups can name them like a pod's.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cgroup::{Cgroup, CgroupId, CgroupPath};
use super::names;
use super::pod::Place;
use super::settings::Node;

/// Where the kubelet makes the cgroup of all pods, unless it is configured otherwise: by the systemd
/// driver, and by cgroupfs.
const USUAL: [&str; 2] = ["/kubepods.slice", "/kubepods"];

/// Where the configuration puts the cgroup of all pods, in the spelling of the driver that made one. Of
/// both, the one without a pod that has tasks is left from before the driver was changed.
pub fn kubepods(node: &Node, cgroups: &BTreeMap<CgroupId, Arc<Cgroup>>) -> CgroupPath {
    let is_there = |path: &CgroupPath| cgroups.values().any(|cgroup| cgroup.path == *path);
    let is_pod = |group: &Cgroup| {
        group.pids_current != Some(0) && matches!(Place::of(&group.path), Place::Pod { .. })
    };
    let has_pods = |path: &CgroupPath| {
        cgroups.values().any(|group| group.path.is_within(path) && is_pod(group))
    };
    names::kubepods(&names::as_spelled(&names::as_spelled(node, has_pods), is_there))
}

/// Where pods are in one tree.
#[derive(Debug, Clone, Default)]
pub struct Places<'a> {
    /// The cgroup of all pods: it lies where the configuration says, and root owns it all the way up.
    pods: Option<&'a CgroupPath>,
    /// Where it may be.
    may_be: Vec<CgroupPath>,
    /// Cgroups that other users own, without those below them.
    delegated: Vec<&'a CgroupPath>,
}

impl<'a> Places<'a> {
    /// `kubepods` is where the configuration puts the cgroup of all pods; `None` is where it usually
    /// is. Another one of that name is an ordinary cgroup: of a node in a container, or of no kubelet.
    pub fn of(cgroups: &'a BTreeMap<CgroupId, Arc<Cgroup>>, kubepods: Option<&CgroupPath>) -> Self {
        let may_be = match kubepods {
            Some(path) => vec![path.clone()],
            None => USUAL.map(|path| CgroupPath(path.into())).to_vec(),
        };
        let mut places = Self { may_be, ..Self::default() };
        let mut delegated = Vec::new();
        for cgroup in cgroups.values() {
            let path = &cgroup.path;
            if cgroup.is_delegated {
                delegated.push(path);
            } else if places.may_be.contains(path) && places.pods.is_none_or(|known| known < path) {
                places.pods = Some(path);
            }
        }
        delegated.sort_unstable();
        for path in delegated {
            if !places.delegated.iter().any(|above| path.is_within(above)) {
                places.delegated.push(path);
            }
        }
        places
    }

    /// True of the cgroup of all pods, and of those of all pods of a class.
    pub fn is_shared(&self, path: &CgroupPath) -> bool {
        self.pods.is_some_and(|pods| {
            let is_next = || path.segments().count() == pods.segments().count() + 1;
            let is_class = || matches!(Place::of(path), Place::Qos { .. });
            path == pods || path.is_within(pods) && is_next() && is_class()
        })
    }

    /// What the cgroup at `path` is.
    pub fn place(&self, path: &CgroupPath) -> Place {
        if self.is_trusted(path) { Place::of(path) } else { Place::Other }
    }

    /// True if the cgroup at `path` is what its path says. Where the cgroup of all pods was not read,
    /// pods may be below its path, but not below what other users own.
    pub(super) fn is_trusted(&self, path: &CgroupPath) -> bool {
        let may_be = || self.may_be.iter().any(|pods| path.is_within(pods));
        let is_below = match self.pods {
            Some(pods) => path.is_within(pods),
            None => may_be() && !self.delegated.iter().any(|above| path.is_within(above)),
        };
        is_below || path.is_root()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::settings::CgroupDriver;

    #[test]
    fn kubepods_is_where_pods_are() {
        let (own, other) = ("/kubepods", "/kubepods.slice");
        let (own_pod, other_pod) = ("/kubepods/podu1", "/kubepods.slice/kubepods-podu1.slice");
        #[rustfmt::skip]
        let table: [(&[&str], &str); 8] = [
            // cgroups, the cgroup of all pods where the configuration says cgroupfs
            (&[],                            own),
            (&[own],                         own),
            (&[other],                       other),
            (&[own, other],                  own),
            (&[own, own_pod, other],         own),
            (&[own, other, other_pod],       other),
            (&[own, "/kubepods/podempty", other, other_pod], other),
            (&[own, own_pod, other, other_pod], own),
        ];
        for (paths, want) in table {
            let groups = paths.iter().map(|path| {
                let pids_current = Some(u64::from(!path.ends_with("empty")));
                let path = CgroupPath((*path).into());
                Arc::new(Cgroup { path, pids_current, ..Cgroup::default() })
            });
            let cgroups = (1..).map(CgroupId).zip(groups).collect();
            let node = Node { cgroup_driver: CgroupDriver::Cgroupfs, ..Node::default() };
            assert_eq!(&*kubepods(&node, &cgroups).0, want, "{paths:?}");
        }
    }

    #[test]
    fn place_of_a_pod_needs_root_above() {
        let user = "/user.slice/user-1000.slice/user@1000.service";
        let (real, fake) =
            ("/kubepods.slice", "/user.slice/user-1000.slice/user@1000.service/kubepods");
        let pod = "/kubepods.slice/kubepods-podu1.slice";
        let nested = "/kubelet.slice/kubelet-kubepods.slice";
        let nested_pod = "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podu1.slice";
        let fake_pod = format!("{fake}/podu1");
        type Row<'a> = (&'a [(&'a str, bool)], Option<&'a str>, &'a str, bool);
        #[rustfmt::skip]
        let table: [Row<'_>; 16] = [
            // cgroups, each delegated or not; the configured path; a path; it is what it is called
            (&[(real, false), (pod, false)],            None, pod,       true),
            (&[(real, false), (pod, true)],             None, pod,       true),  // a pod in a user namespace
            (&[(real, false), (user, true), (fake, true)], None, &fake_pod, false),
            (&[(user, true), (fake, true)],             None, &fake_pod, false),
            (&[(user, true), (fake, true)],             None, fake,      false),
            (&[(user, false), (fake, false)],           None, &fake_pod, false), // root's, and not the kubelet's
            (&[(real, false), ("/x/kubepods", false)],  None, "/x/kubepods/podu1", false),
            (&[],                                       None, pod,       true),
            (&[],                                       None, &fake_pod, false),
            (&[(real, true)],                           None, pod,       false),
            (&[(real, false)],                          None, real,      true),
            (&[(real, false)],                          None, "/kubepods.slice/kubepods-burstable.slice", true),
            (&[(real, false), (pod, false)],            None, "/kubepods.slice/kubepods-podu1.slice/kubepods", true),
            (&[(nested, false), (real, false)],         Some(nested), nested_pod, true),
            (&[(nested, false), (real, false)],         Some(nested), pod, false),
            (&[("/kubepods", false), (real, false)],    Some(real), "/kubepods/podu1", false), // left by another driver
        ];
        for (cgroups, kubepods, path, want) in table {
            let cgroup = |(path, is_delegated): &(&str, bool)| {
                let (path, is_delegated) = (CgroupPath((*path).into()), *is_delegated);
                Arc::new(Cgroup { path, is_delegated, ..Cgroup::default() })
            };
            let cgroups = (1..).map(CgroupId).zip(cgroups.iter().map(cgroup)).collect();
            let path = CgroupPath(path.into());
            let kubepods = kubepods.map(|path| CgroupPath(path.into()));
            let places = Places::of(&cgroups, kubepods.as_ref());
            let got = places.place(&path);
            let want = if want { Place::of(&path) } else { Place::Other };
            assert_eq!(got, want, "{cgroups:?} {kubepods:?} {path}");
            let is_shared = matches!(got, Place::Kubepods | Place::Qos { .. });
            assert_eq!(places.is_shared(&path), is_shared, "{cgroups:?} {path}");
        }
    }
}
