//! What becomes of containers that isobar has ended on the node: the kubelet was not told, and starts
//! them again. In: the pods of each sample. Out: how often it has, and what it will do next.
//! Source: kubelet `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, `doBackOff`; client-go
//! `util/flowcontrol/backoff.go`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::decision::{Restart, Target};
use crate::model::sample::Sample;
use crate::model::units::Nanos;
use crate::model::workload::{Container, ContainerKind, Pod};

/// `MaxContainerBackOff` is five minutes, the first ten seconds; each is twice the one before.
const FIRST: Nanos = Nanos(10 * Nanos::SECOND.0);
const LONGEST: Nanos = Nanos(300 * Nanos::SECOND.0);
/// A container that runs for so long is started again at once.
const FORGOTTEN: Nanos = Nanos(2 * LONGEST.0);

/// Containers of pods that were ended on the node and are still there: by uid and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Restarts(BTreeMap<String, BTreeMap<String, Ended>>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    /// As it was last seen.
    id: Option<String>,
    n_restarts: Option<u32>,
    /// How often it was started again since it was first ended.
    n_since: u32,
    /// Of these, how many the kubelet's back-off counts, and when the last was seen.
    n_in_row: u32,
    last: Nanos,
}

impl Restarts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The containers of this target are ended on the node.
    pub(super) fn end(&mut self, target: &Target, sample: &Sample) {
        for pod in pods_of(target, sample) {
            let containers = self.0.entry(pod.uid.clone()).or_default();
            for container in &pod.containers {
                containers.entry(container.name.clone()).or_insert_with(|| Ended::new(container));
            }
        }
    }

    /// Takes note of containers that were started again. Pods that are gone are forgotten; while no
    /// pods are known, none is.
    pub(super) fn hear(&mut self, sample: &Sample) {
        let Some(pods) = &sample.pods else { return };
        self.0.retain(|uid, _| pods.contains_key(uid));
        for (uid, containers) in &mut self.0 {
            for container in pods.get(uid).iter().flat_map(|pod| &pod.containers) {
                if let Some(ended) = containers.get_mut(&container.name) {
                    ended.hear(container, sample.at.boot);
                }
            }
        }
    }

    /// What the kubelet does next with containers of this target that are ended; `None` if the policy
    /// of none of its pods is known.
    pub(super) fn expected(&self, target: &Target, sample: &Sample) -> Option<Restart> {
        let policy = pods_of(target, sample).filter_map(|pod| pod.restart_policy).max()?;
        let ended = || pods_of(target, sample).filter_map(|pod| self.0.get(&pod.uid));
        let ended = || ended().flat_map(BTreeMap::values);
        let n_since = ended().map(|one| one.n_since).max().unwrap_or(0);
        let wait = ended().map(|one| one.wait(sample.at.boot)).max().unwrap_or_default();
        let has_sidecars = pods_of(target, sample)
            .any(|pod| pod.containers.iter().any(|one| one.kind == ContainerKind::Sidecar));
        Some(Restart { policy, n_since, wait, has_sidecars })
    }
}

fn pods_of<'a>(target: &'a Target, sample: &'a Sample) -> impl Iterator<Item = &'a Pod> {
    target.uids().filter_map(|uid| sample.pods.as_ref()?.get(uid))
}

impl Ended {
    fn new(Container { id, n_restarts, .. }: &Container) -> Self {
        let (id, n_restarts) = (id.clone(), *n_restarts);
        Self { id, n_restarts, n_since: 0, n_in_row: 0, last: Nanos(0) }
    }

    fn hear(&mut self, Container { id, n_restarts, .. }: &Container, now: Nanos) {
        let n_new = match (self.n_restarts, *n_restarts) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            // Not every source of pods counts them; each start has an id of its own.
            _ => u32::from(self.id.is_some() && id.is_some() && self.id != *id),
        };
        self.id = id.clone().or(self.id.take());
        self.n_restarts = n_restarts.or(self.n_restarts);
        if n_new == 0 {
            return;
        }
        if self.is_forgotten(now) {
            self.n_in_row = 0;
        }
        self.n_since = self.n_since.saturating_add(n_new);
        self.n_in_row = self.n_in_row.saturating_add(n_new);
        self.last = now;
    }

    fn is_forgotten(&self, now: Nanos) -> bool {
        now.since(self.last) > FORGOTTEN
    }

    /// How long the kubelet would wait now.
    fn wait(&self, now: Nanos) -> Nanos {
        match self.n_in_row {
            0 => Nanos(0),
            _ if self.is_forgotten(now) => Nanos(0),
            n => Nanos(FIRST.0 << (n - 1).min(5)).min(LONGEST),
        }
    }
}
