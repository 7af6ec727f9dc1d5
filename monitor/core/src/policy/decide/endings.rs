//! Pods that end anyway: the kubelet has evicted them, or their deletion was ordered. Their memory
//! and their files go, and a second victim would die for the same bytes. So do dead containers and
//! unused images, which the kubelet deletes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::steps::Kind;
use super::target::uid;
use super::{Question, WORTH, grace, wanted};
use crate::model::cgroup::Cgroup;
use crate::model::decision::{Met, Target, Trigger};
use crate::model::disk::DiskSource;
use crate::model::node::DiskLayout;
use crate::model::sample::Sample;
use crate::model::snapshot::working_set;
use crate::model::threshold::{Resource, Signal};
use crate::model::units::{Bytes, Nanos};
use crate::model::workload::{Pod, by_cgroup_uid};

/// How long after its grace a pod's memory may take to come back.
const SETTLE: Nanos = Nanos(5 * Nanos::SECOND.0);
/// The same of its files. Source: kubelet `pkg/kubelet/eviction/eviction_manager.go`,
/// `podCleanupTimeout`: the kubelet itself waits so long before it looks for another victim.
pub(super) const CLEANED_UP: Nanos = Nanos(30 * Nanos::SECOND.0);
/// No shortage waits longer for a pod's grace: that of `evict`, by default.
const LONGEST: Nanos = Nanos(30 * Nanos::SECOND.0);
/// With memory for less no shortage waits for it: another pod that is asked to end takes its time, too.
const LEAST_LEFT: Nanos = Nanos(10 * Nanos::SECOND.0);
/// What has to come back where it is not known how much is missing.
const ENOUGH: Bytes = Bytes(64 << 20);

/// Two of the kubelet's rounds, ten seconds apart, and as much again for deleting.
const PATIENCE: Nanos = Nanos(30 * Nanos::SECOND.0);

/// Since when pods end that have a cgroup, by the uid of the cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Endings(BTreeMap<String, Nanos>);

impl Endings {
    /// Takes note of pods that end. Those that the kubelet has evicted, and for want of what, if it says so.
    pub(super) fn hear(&mut self, question: &Question<'_>) -> Vec<(String, Option<Resource>)> {
        let Question { sample, snapshot, .. } = question;
        let pods = sample.pods.as_ref().map(by_cgroup_uid).unwrap_or_default();
        if !pods.values().any(|pod| pod.ends_within.is_some()) {
            self.0.clear();
            return Vec::new();
        }
        let there = snapshot.scopes.values().filter_map(uid);
        let ending: BTreeMap<&str, &Pod> = there
            .filter_map(|uid| Some((uid, *pods.get(uid)?)))
            .filter(|(_, pod)| pod.ends_within.is_some())
            .collect();
        self.0.retain(|uid, _| ending.contains_key(uid.as_str()));
        for uid in ending.keys() {
            self.0.entry((*uid).into()).or_insert(sample.at.boot);
        }
        // That it was begun an event says, which others than the kubelet may write, too.
        let evicted = ending.into_iter().filter(|(_, pod)| pod.is_evicted && pod.is_over);
        evicted.map(|(uid, pod)| (uid.into(), pod.evicted_for)).collect()
    }

    /// The pod that is waited for, and until when; `None` if what comes back does not suffice, or
    /// there is no time to wait: memory is about to run out before.
    pub(super) fn awaited(&self, question: &Question<'_>, first: &Met) -> Option<(String, Nanos)> {
        if Kind::of(first).is_emergency() {
            return None;
        }
        // Some pod or other may end all the time: only those of the kubelet are waited for again and again.
        let is_early = |since: Nanos| since.since(first.due_since()) < LONGEST;
        let (pod, until) =
            self.largest(question, first, |pod, since| pod.is_evicted || is_early(since))?;
        let left = until.since(question.sample.at.boot).min(LEAST_LEFT);
        let is_late = question.lasts(first).is_some_and(|lasts| lasts < left);
        (!is_late).then(|| (pod.full_name(), until))
    }

    /// The kubelet's victim that is killed at once where there is no time to wait: it ends
    /// anyway, and holds what is missing.
    pub(super) fn hurried<'a>(&self, question: &Question<'a>, first: &Met) -> Option<&'a Pod> {
        if !Kind::of(first).is_emergency() {
            return None;
        }
        self.largest(question, first, |pod, _| pod.is_evicted).map(|(pod, _)| pod)
    }

    /// Of the pods that end, that count, and that together hold enough, the one that holds most, and
    /// until when it is given time.
    fn largest<'a>(
        &self,
        question: &Question<'a>,
        first: &Met,
        counts: impl Fn(&Pod, Nanos) -> bool,
    ) -> Option<(&'a Pod, Nanos)> {
        let short = Short::of(first).filter(|_| !self.0.is_empty())?;
        let Question { sample, snapshot, .. } = *question;
        let pods = by_cgroup_uid(sample.pods.as_ref()?);
        let due = |uid: &str| {
            let since = *self.0.get(uid)?;
            let pod = pods.get(uid).filter(|pod| counts(pod, since))?;
            let seconds = u64::try_from(pod.ends_within?).unwrap_or(0);
            let asked = Nanos(seconds.saturating_mul(Nanos::SECOND.0)).min(LONGEST);
            let grace = match pod.is_evicted && !pod.is_over {
                true => asked.min(kubelets_grace(question, first, pod)),
                false => asked,
            };
            Some(since.plus(grace).plus(short.settle()))
        };
        let awaited = snapshot.scopes.values().filter_map(|scope| {
            let uid = uid(scope)?;
            let until = due(uid).filter(|until| sample.at.boot < *until)?;
            let held = short.held(sample, scope.files.as_ref()?, uid, pods.get(uid).copied())?;
            Some((held, until, uid))
        });
        let awaited: Vec<_> = awaited.collect();
        let comes_back = awaited.iter().map(|(held, ..)| *held).fold(0, u64::saturating_add);
        let (_, until, uid) = awaited.iter().max()?;
        let pod = *pods.get(uid)?;
        (comes_back >= short.enough(question, first)).then_some((pod, *until))
    }
}

/// What the kubelet gives a pod that it evicts: no field says it.
fn kubelets_grace(question: &Question<'_>, first: &Met, pod: &Pod) -> Nanos {
    let target = Target { uid: pod.uid.clone(), ..Target::default() };
    grace(&first.threshold, question.eviction, &target, question.sample)
}

/// What is short, if the end of a pod gives it back.
#[derive(Debug, Clone, Copy)]
enum Short {
    Memory,
    Disk(Signal),
    Threads,
}

impl Short {
    fn of(first: &Met) -> Option<Self> {
        match (first.threshold, first.threshold.resource()) {
            (_, Resource::Memory) => Some(Self::Memory),
            (Trigger::Eviction(on), Resource::Storage | Resource::Inodes) => {
                Some(Self::Disk(on.signal))
            }
            (_, Resource::Pids) => Some(Self::Threads),
            _ => None,
        }
    }

    fn settle(self) -> Nanos {
        match self {
            Self::Memory | Self::Threads => SETTLE,
            Self::Disk(_) => CLEANED_UP,
        }
    }

    /// What a pod holds of it, in bytes, inodes or threads; `None` where that is not known.
    fn held(self, sample: &Sample, group: &Cgroup, uid: &str, pod: Option<&Pod>) -> Option<u64> {
        let signal = match self {
            Self::Disk(signal) => signal,
            Self::Threads => return group.pids_current,
            // Cache that was not lately used counts as available already.
            Self::Memory => {
                return working_set(group).or(group.memory.current).map(|Bytes(n)| n);
            }
        };
        let disk = sample.pod_disks.as_ref()?.pods.get(uid)?;
        let used = disk.counted(signal, sample.node.filesystems.layout(), pod);
        match signal.resource() {
            Resource::Inodes => used.inodes,
            _ => used.bytes.map(|Bytes(n)| n),
        }
    }

    fn enough(self, question: &Question<'_>, first: &Met) -> u64 {
        match self {
            Self::Memory => {
                wanted(first)
                    .unwrap_or_else(|| {
                        let growth = question.growth(first).unwrap_or_default();
                        ENOUGH.max(Bytes(growth.0.saturating_mul(WORTH)))
                    })
                    .0
            }
            Self::Disk(_) | Self::Threads => first.missing.unwrap_or(ENOUGH.0),
        }
    }
}

/// Until when the kubelet is left to clean up; `None` if there is no kubelet, or nothing that it
/// deletes is on the file system that is short. It deletes dead containers and unused images before it
/// ends a pod for a disk.
///
/// Source: kubelet `pkg/kubelet/eviction/helpers.go`, `buildSignalToNodeReclaimFuncs`.
pub(super) fn clean_up(question: &Question<'_>, first: &Met) -> Option<Nanos> {
    // A kubelet that tells of disks is at work.
    question.sample.pod_disks.as_ref().filter(|disks| disks.source == DiskSource::Kubelet)?;
    let Trigger::Eviction(threshold) = first.threshold else { return None };
    let signal = threshold.signal;
    let is_disk = matches!(signal.resource(), Resource::Storage | Resource::Inodes);
    let is_nodefs = matches!(signal, Signal::NodefsAvailable | Signal::NodefsInodesFree);
    let layout = question.sample.node.filesystems.layout();
    let deletes = is_disk && (layout != DiskLayout::WithLayers || !is_nodefs);
    let until = first.due_since().plus(PATIENCE);
    (deletes && question.sample.at.boot < until).then_some(until)
}
