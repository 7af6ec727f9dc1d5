//! What each cgroup of one tree is. Decided here alone: a path is no proof, because a user who may
//! create cgroups can name them like a pod's.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cgroup::{Cgroup, CgroupId, CgroupPath};
use super::pod::Place;

/// Where pods are in one tree.
#[derive(Debug, Clone, Default)]
pub struct Places<'a> {
    /// The cgroup of all pods: root owns it all the way up. Of several, as on a host of nodes in
    /// containers, the nearest to the root of the tree, then the first by name.
    pods: Option<&'a CgroupPath>,
    /// Cgroups that other users own, without those below them.
    delegated: Vec<&'a CgroupPath>,
}

impl<'a> Places<'a> {
    #[must_use]
    pub fn of(cgroups: &'a BTreeMap<CgroupId, Arc<Cgroup>>) -> Self {
        let mut places = Self::default();
        let mut delegated = Vec::new();
        for cgroup in cgroups.values() {
            let path = &cgroup.path;
            let depth = |path: &CgroupPath| path.segments().count();
            let is_nearer = |known: &CgroupPath| (depth(path), path) < (depth(known), known);
            // What lies in the nearest one known is no nearer: of most cgroups no more is asked.
            let is_known = || places.pods.is_some_and(|pods| path.is_within(pods));
            if cgroup.is_delegated {
                delegated.push(path);
            } else if !is_known() && Place::is_kubepods(path) && places.pods.is_none_or(is_nearer) {
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
    #[must_use]
    pub fn is_shared(&self, path: &CgroupPath) -> bool {
        self.pods.is_some_and(|pods| {
            let is_next = || path.segments().count() == pods.segments().count() + 1;
            let is_class = || matches!(Place::of(path), Place::Qos { .. });
            path == pods || path.is_within(pods) && is_next() && is_class()
        })
    }

    /// What the cgroup at `path` is. Without a cgroup of all pods, pods may be anywhere but below
    /// what other users own.
    #[must_use]
    pub fn place(&self, path: &CgroupPath) -> Place {
        let is_trusted = match self.pods {
            Some(pods) => path.is_root() || path.is_within(pods),
            None => !self.delegated.iter().any(|above| path.is_within(above)),
        };
        if is_trusted { Place::of(path) } else { Place::Other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_of_a_pod_needs_root_above() {
        let user = "/user.slice/user-1000.slice/user@1000.service";
        let (real, fake) =
            ("/kubepods.slice", "/user.slice/user-1000.slice/user@1000.service/kubepods");
        let pod = "/kubepods.slice/kubepods-podu1.slice";
        let fake_pod = format!("{fake}/podu1");
        type Row<'a> = (&'a [(&'a str, bool)], &'a str, bool);
        #[rustfmt::skip]
        let table: [Row<'_>; 11] = [
            // cgroups, each delegated or not; a path; it is what it is called
            (&[(real, false), (pod, false)],            pod,       true),
            (&[(real, false), (pod, true)],             pod,       true),  // a pod in a user namespace
            (&[(real, false), (user, true), (fake, true)], &fake_pod, false),
            (&[(user, true), (fake, true)],             &fake_pod, false),
            (&[(user, true), (fake, true)],             fake,      false),
            (&[(user, false), (fake, false)],           &fake_pod, true),  // a node in a container
            (&[(real, false), ("/x/kubepods", false)],  "/x/kubepods/podu1", false),
            (&[],                                       pod,       true),
            (&[(real, false)],                          real,      true),
            (&[(real, false)],                          "/kubepods.slice/kubepods-burstable.slice", true),
            (&[(real, false), (pod, false)],            "/kubepods.slice/kubepods-podu1.slice/kubepods", true),
        ];
        for (cgroups, path, want) in table {
            let cgroup = |(path, is_delegated): &(&str, bool)| {
                let (path, is_delegated) = (CgroupPath((*path).into()), *is_delegated);
                Arc::new(Cgroup { path, is_delegated, ..Cgroup::default() })
            };
            let cgroups = (1..).map(CgroupId).zip(cgroups.iter().map(cgroup)).collect();
            let path = CgroupPath(path.into());
            let places = Places::of(&cgroups);
            let got = places.place(&path);
            let want = if want { Place::of(&path) } else { Place::Other };
            assert_eq!(got, want, "{cgroups:?} {path}");
            let is_shared = matches!(got, Place::Kubepods | Place::Qos { .. });
            assert_eq!(places.is_shared(&path), is_shared, "{cgroups:?} {path}");
        }
    }
}
