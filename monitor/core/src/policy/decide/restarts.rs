//! What becomes of containers that isobar has ended on the node: the kubelet was not told, and starts
//! them again. In: the pods of each sample. Out: how often it has, and what it will do next.
//! Source: kubelet `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, `doBackOff`; client-go
//! `util/flowcontrol/backoff.go`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::decision::{Restart, RestartFate, StepKind, Target};
use crate::model::sample::Sample;
use crate::model::units::Nanos;
use crate::model::workload::{Container, ContainerKind, Pod, RestartPolicy};

/// `MaxContainerBackOff` is five minutes, the first ten seconds; each is twice the one before.
const FIRST: Nanos = Nanos(10 * Nanos::SECOND.0);
const LONGEST: Nanos = Nanos(300 * Nanos::SECOND.0);
/// A container that runs for so long is started again at once.
const FORGOTTEN: Nanos = Nanos(2 * LONGEST.0);

/// The exit code of who is ended by SIGKILL, as runtimes tell it.
const KILLED: i32 = 128 + 9;

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

    /// What the kubelet does next with containers of this target that are ended by this step; `None`
    /// if the policy of none of its pods is known.
    pub(super) fn expected(
        &self,
        step: StepKind,
        target: &Target,
        sample: &Sample,
    ) -> Option<Restart> {
        let pods = || pods_of(target, sample);
        let policy = pods().filter_map(|pod| pod.restart_policy).max()?;
        let ended = || pods().filter_map(|pod| self.0.get(&pod.uid)).flat_map(BTreeMap::values);
        let containers = || pods().flat_map(|pod| &pod.containers);
        let mut fates = BTreeMap::new();
        if containers().any(|one| one.restart_policy.is_some() || !one.restart_rules.is_empty()) {
            for (name, fate) in pods().flat_map(|pod| fates_of(pod, step)) {
                let known = fates.entry(name).or_insert(fate);
                *known = fate.max(*known);
            }
        }
        Some(Restart {
            policy,
            n_since: ended().map(|one| one.n_since).max().unwrap_or(0),
            wait: ended().map(|one| one.wait(sample.at.boot)).max().unwrap_or_default(),
            has_sidecars: containers().any(|one| one.kind == ContainerKind::Sidecar),
            is_ending: pods().all(|pod| pod.ends_within.is_some()),
            containers: fates,
        })
    }
}

/// What becomes of the containers of a pod that this step ends.
///
/// Source: kubelet `pkg/api/v1/pod/util.go`, `ContainerShouldRestart`;
/// `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, `computePodActions`.
fn fates_of(pod: &Pod, step: StepKind) -> BTreeMap<String, RestartFate> {
    let is_up = |one: &Container| one.kind == ContainerKind::Regular && one.id.is_some();
    // Init containers have ended before regular ones begin.
    let is_initialised = pod.containers.iter().any(is_up);
    let ended = |one: &&Container| one.kind != ContainerKind::Init || !is_initialised;
    let policy = pod.restart_policy.unwrap_or(RestartPolicy::Always);
    // What ends by SIGTERM chooses its code.
    let code = (step == StepKind::KillContainers).then_some(KILLED);
    let ended = pod.containers.iter().filter(ended);
    // One container's rule may bring back all.
    let of_all = ended.clone().map(|one| of_all(one, code)).max().unwrap_or(RestartFate::Stays);
    let named = |one: &Container| {
        let is_for_debugging = one.kind == ContainerKind::Ephemeral;
        let fate =
            if is_for_debugging { RestartFate::Stays } else { fate(one, policy, code).max(of_all) };
        (one.name.clone(), fate)
    };
    let mut fates: BTreeMap<_, _> = ended.clone().map(named).collect();
    // Sidecars are started again as long as another container may be.
    let (sidecars, others): (Vec<_>, Vec<_>) =
        ended.partition(|one| one.kind == ContainerKind::Sidecar);
    if others.iter().all(|one| fates.get(&one.name) == Some(&RestartFate::Stays)) {
        fates.extend(sidecars.iter().map(|one| (one.name.clone(), RestartFate::Stays)));
    }
    fates
}

/// What becomes of a container, by its own policy and rules or by its pod's policy.
fn fate(container: &Container, of_pod: RestartPolicy, code: Option<i32>) -> RestartFate {
    let rules = &container.restart_rules;
    match (container.restart_policy.unwrap_or(of_pod), code) {
        _ if container.kind == ContainerKind::Sidecar => RestartFate::Again,
        (RestartPolicy::Always, _) | (RestartPolicy::OnFailure, Some(_)) => RestartFate::Again,
        (RestartPolicy::Never, None) if rules.is_empty() => RestartFate::Stays,
        (_, None) => RestartFate::ByExitCode,
        (RestartPolicy::Never, Some(code)) => match rules.iter().any(|rule| rule.holds(code)) {
            true => RestartFate::Again,
            false => RestartFate::Stays,
        },
    }
}

/// What becomes of all containers of the pod because this one has ended.
fn of_all(container: &Container, code: Option<i32>) -> RestartFate {
    let rules = &container.restart_rules;
    let first = code.and_then(|code| rules.iter().find(|rule| rule.holds(code)));
    match (code, first) {
        (Some(_), Some(rule)) if rule.is_for_all => RestartFate::Again,
        (None, _) if rules.iter().any(|rule| rule.is_for_all) => RestartFate::ByExitCode,
        _ => RestartFate::Stays,
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
