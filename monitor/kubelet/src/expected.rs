//! Which OOM scores a container's processes may have. Its cgroup path tells the pod's QoS class;
//! if the pod is known, its request tells the score.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use serde::Serialize;

use super::oom;
use isobar_core::model::pod::QosClass;
use isobar_core::model::workload::Pod;

/// A range of correct scores, ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scores {
    pub from: i32,
    pub to: i32,
    pub of: Whose,
}

/// What a score belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Whose {
    Container,
    /// A sandbox: its path does not differ from a container's.
    Sandbox,
    /// A container of a node-critical pod: its path does not tell.
    NodeCritical,
}

impl Scores {
    fn one(score: i32, of: Whose) -> Self {
        Self { from: score, to: score, of }
    }

    /// True if `score` is in the range.
    pub fn has(&self, score: i32) -> bool {
        (self.from..=self.to).contains(&score)
    }
}

/// A node's pods, by the uid in their cgroups' names.
#[derive(Debug, Clone, Default)]
pub struct Pods<'a>(BTreeMap<&'a str, &'a Pod>);

impl<'a> Pods<'a> {
    /// Pods without a uid have no cgroup.
    pub fn new(pods: &'a [Pod]) -> Self {
        let mirrors = pods.iter().filter_map(|pod| Some((pod.mirrored()?, pod)));
        // A pod's own uid wins over what another says of it.
        let all = mirrors.chain(pods.iter().map(|pod| (pod.uid.as_str(), pod)));
        Self(all.filter(|(uid, _)| !uid.is_empty()).collect())
    }

    /// The pod whose cgroup has `uid` in its name.
    pub fn of(&self, uid: &str) -> Option<&'a Pod> {
        self.0.get(uid).copied()
    }
}

/// The score of a daemon that pods depend on, by its process's name: the kubelet and kube-proxy set
/// it themselves, runtimes have it from their units. In a pod, kube-proxy's container has the pod's.
/// Source: kubernetes `pkg/kubelet/qos/policy.go`, `KubeletOOMScoreAdj` and `KubeProxyOOMScoreAdj`.
pub fn of_daemon(process: &str) -> Option<i32> {
    ["kubelet", "kube-proxy", "containerd", "crio"].contains(&process).then_some(oom::DAEMON)
}

/// For a container of which only the pod's QoS class is known.
pub fn of_class(class: QosClass) -> Vec<Scores> {
    let (from, to) = match class {
        QosClass::Guaranteed => (oom::GUARANTEED, oom::GUARANTEED),
        QosClass::Burstable => (*oom::BURSTABLE.start(), *oom::BURSTABLE.end()),
        QosClass::BestEffort => (oom::BEST_EFFORT, oom::BEST_EFFORT),
    };
    let mut all = vec![Scores { from, to, of: Whose::Container }];
    if class != QosClass::Guaranteed {
        all.push(Scores::one(oom::GUARANTEED, Whose::NodeCritical));
    }
    all.push(Scores::one(oom::SANDBOX, Whose::Sandbox));
    all
}

/// For the container `id` in `pod`, on a node with `capacity` bytes of memory. An id that the
/// pod's status lacks is the sandbox or a container started after the status was written.
pub fn of_container(pod: &Pod, id: &str, capacity: NonZeroU64) -> Vec<Scores> {
    let of = |container| Scores::one(oom::score(pod, container, capacity), Whose::Container);
    if let Some(container) = pod.container(id) {
        return vec![of(container)];
    }
    let mut all: Vec<_> = pod.containers.iter().map(of).collect();
    all.push(Scores::one(oom::SANDBOX, Whose::Sandbox));
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_notation;
    use isobar_core::model::workload::{HASH, MIRROR};

    #[test]
    fn expected_of_daemons() {
        for (process, want) in [
            ("kubelet", Some(-999)),
            ("kube-proxy", Some(-999)),
            ("containerd", Some(-999)),
            ("containerd-shim", None),
            ("Kubelet", None),
        ] {
            assert_eq!(of_daemon(process), want, "{process}");
        }
    }

    const CAPACITY: NonZeroU64 = NonZeroU64::new(8_000_000_000).unwrap();

    #[test]
    fn expected_by_class() {
        #[rustfmt::skip]
        let table: [(QosClass, &[i32], &[i32]); 3] = [
            // class, right, wrong
            (QosClass::Guaranteed, &[-997, -998],              &[-1_000, -999, -996, 0, 3, 1_000]),
            (QosClass::Burstable,  &[3, 500, 999, -997, -998], &[-999, -996, 0, 2, 1_000]),
            (QosClass::BestEffort, &[1_000, -997, -998],       &[-999, 0, 999]),
        ];
        for (class, right, wrong) in table {
            let expected = of_class(class);
            let allows = |score: i32| expected.iter().any(|scores| scores.has(score));
            assert!(right.iter().all(|score| allows(*score)), "{class:?} {expected:?}");
            assert!(!wrong.iter().any(|score| allows(*score)), "{class:?} {expected:?}");
        }
    }

    #[test]
    fn expected_by_container() {
        let mut pod = pod_notation::pod("init r -/1G; main r -/4G");
        pod.containers[1].id = Some("aa".into());
        let one = |score| Scores::one(score, Whose::Container);
        assert_eq!(of_container(&pod, "aa", CAPACITY), [one(500)]);
        let sandbox = Scores::one(-998, Whose::Sandbox);
        assert_eq!(of_container(&pod, "bb", CAPACITY), [sandbox, one(500), one(875)]);
    }

    #[test]
    fn expected_finds_pods() {
        let of = |uid: &str, key: &str, hash: &str| {
            let annotations = BTreeMap::from([(key.to_owned(), hash.to_owned())]);
            Pod { uid: uid.into(), annotations, ..Pod::default() }
        };
        let hash = |n: char| n.to_string().repeat(32);
        let (h0, h2, h3) = (&*hash('0'), &*hash('2'), &*hash('3'));
        let pods = [
            of("u-1", "other", h0),
            of("u-2", MIRROR, h2),
            of(h3, HASH, h3),
            // Whose owner writes there what he likes.
            of("u-4", HASH, "u-1"),
            of("u-5", MIRROR, "u-2"),
            of("u-6", MIRROR, h3),
            of("", "other", ""),
        ];
        let pods = Pods::new(&pods);
        #[rustfmt::skip]
        let table = [
            ("u-1", Some("u-1")),
            (h2,    Some("u-2")),
            ("u-2", Some("u-2")),
            (h3,    Some(h3)),
            (h0,    None),
            ("",    None),
        ];
        for (uid, want) in table {
            assert_eq!(pods.of(uid).map(|pod| pod.uid.as_str()), want, "{uid:?}");
        }
    }
}
