//! The names that the API has for pods and their containers.

use crate::model::cgroup::CgroupPath;
use crate::model::decision::Decision;
use crate::model::sample::Sample;
use crate::model::snapshot::Snapshot;
use crate::model::workload::{by_cgroup_uid, name_at, of_cgroup_uid};

/// Names the scopes of pods and containers that the snapshot's pods tell of.
pub fn name_scopes(snapshot: &mut Snapshot) {
    let Some(pods) = snapshot.pods.clone() else { return };
    let pods = by_cgroup_uid(&pods);
    for scope in snapshot.scopes.values_mut() {
        scope.name = name_at(&scope.place, &pods);
    }
}

/// Sets the namespaces of the pods that a decision spares, which are not recorded.
pub fn name_spared(decision: &mut Decision, snapshot: &Snapshot) {
    let spared = decision.ranking.iter_mut().flat_map(|ranking| &mut ranking.spared);
    for one in spared {
        if let Some(pod) = snapshot.pods.as_ref().and_then(|pods| of_cgroup_uid(pods, &one.uid)) {
            one.namespace.clone_from(&pod.namespace);
        }
    }
}

/// What the API calls the cgroup at `path`.
pub fn name_of(path: &CgroupPath, sample: &Sample) -> Option<String> {
    name_at(&sample.places().place(path), &by_cgroup_uid(sample.pods.as_ref()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::model::cgroup::CgroupId;
    use crate::model::decision::{Ranking, Spared, SparedReason};
    use crate::model::pod::{Place, QosClass, Runtime};
    use crate::model::snapshot::Scope;
    use crate::model::workload::{Container, MIRROR, Pod};

    #[test]
    fn name_scopes_by_uid_hash_and_container_id() {
        let id = "0123456789abcdef";
        let container = |name: &str, id: &str| Container {
            name: name.into(),
            id: Some(id.into()),
            ..Container::default()
        };
        let pod = |uid: &str, name: &str| Pod {
            uid: uid.into(),
            namespace: "shop".into(),
            name: name.into(),
            containers: vec![container("app", id)],
            ..Pod::default()
        };
        let hash = "3f1a9c0e8b7d6a5f4e3d2c1b0a998877";
        let mirror_of = |of: &str, pod: Pod| Pod {
            annotations: [(MIRROR.to_owned(), of.to_owned())].into(),
            ..pod
        };
        let mirror = mirror_of(hash, pod("u2", "etcd"));
        let forged = mirror_of("u9", pod("u4", "forged"));
        let begun = Container { name: "app".into(), ..Container::default() };
        let begun = Pod { containers: vec![begun], ..pod("u3", "cart") };
        let pods = [pod("u1", "web"), mirror, begun, forged].map(|pod| (pod.uid.clone(), pod));
        let class = QosClass::Burstable;
        let of_pod = |uid: &str| Place::Pod { uid: uid.into(), class };
        let of_container = |pod: &str, id: &str| {
            let (pod, id) = (pod.into(), id.into());
            Place::Container { pod, class, id, runtime: Runtime::Containerd }
        };
        #[rustfmt::skip]
        let table = [
            // place, name
            (of_pod("u1"),                             Some("shop/web")),
            (of_pod(hash),                             Some("shop/etcd")), // a static pod
            (of_pod("u9"),                             None), // whatever a mirror says
            (of_container("u1", id),                   Some("container app of shop/web")),
            (of_container("u1", "fedcba9876543210"),   Some("a container of shop/web (id fedcba987654)")),
            (of_container("u3", "fedcba9876543210"),   Some("shop/cart")), // the only one, of no id yet
            (of_container("u9", id),                   None),
            (Place::Other,                             None),
        ];
        for (place, want) in table {
            let scope = Scope { place: place.clone(), ..Scope::default() };
            let mut snapshot = Snapshot {
                scopes: [(CgroupId(1), scope)].into(),
                pods: Some(Arc::new(pods.clone().into())),
                ..Snapshot::default()
            };
            name_scopes(&mut snapshot);
            assert_eq!(snapshot.scopes[&CgroupId(1)].name.as_deref(), want, "{place:?}");
        }
    }
    #[test]
    fn name_spared_knows_the_pods_by_uid() {
        let pod = Pod { uid: "u1".into(), namespace: "shop".into(), ..Pod::default() };
        let pods: BTreeMap<_, _> = [(pod.uid.clone(), pod)].into();
        let snapshot = Snapshot { pods: Some(Arc::new(pods)), ..Snapshot::default() };
        let spared = ["u1", "u2"].map(|uid| Spared {
            name: "web".into(),
            namespace: String::new(),
            uid: uid.into(),
            why: SparedReason::Critical,
        });
        let ranking = Ranking { spared: spared.into(), ..Ranking::default() };
        let mut decision = Decision { ranking: Some(ranking), ..Decision::default() };
        name_spared(&mut decision, &snapshot);
        let named: Vec<_> =
            decision.ranking.unwrap().spared.iter().map(Spared::full_name).collect();
        assert_eq!(named, ["shop/web", "web"]);
    }
}
