//! What the thread knows of the cluster, for the ticks to read, and the log lines of what changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;

use super::{evict, pods};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::disk::PodDisks;
use isobar_core::model::quantity::ResourceList;
use isobar_core::model::settings::Settings;
use isobar_core::model::workload::{Pod, Pods};

/// `terminationGracePeriodSeconds` of a pod that asks for none.
const USUAL_GRACE: i64 = 30;

/// What is known of the cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// `None` before they were listed. Kept while the API server does not answer.
    pub(super) pods: Option<Pods>,
    /// Of these, those that the kubelet's events tell that it evicts: their uids.
    pub(super) evicted: BTreeSet<String>,
    /// Who told of them.
    pub(super) named_by: Namer,
    /// The API server has listed the pods, and tells of what changes.
    pub(super) is_followed: bool,
    /// `None` while the kubelet does not tell.
    pub(super) disks: Option<PodDisks>,
    /// What the kubelet runs with, as it told last.
    pub(super) configz: Option<Arc<Configz>>,
    /// Of the node's object; `None` before it was read.
    pub(super) allocatable: Option<Arc<ResourceList>>,
    /// Of the node's object, for the events about it.
    pub(super) node_uid: Option<String>,
    pub(super) capabilities: BTreeMap<&'static str, Capability>,
}

/// The configuration that the kubelet runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configz {
    /// As it answered.
    pub answer: String,
    pub settings: Settings,
}

/// Who names the pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Namer {
    #[default]
    ApiServer,
    Kubelet,
}

impl Namer {
    fn words(self) -> &'static str {
        match self {
            Self::ApiServer => "the API server",
            Self::Kubelet => "the kubelet",
        }
    }
}

impl Known {
    /// Has the pods say which of them the kubelet evicts. Of one that is over its status says it.
    fn mark(&mut self) {
        let Self { pods: Some(pods), evicted, .. } = self else { return };
        if evicted.is_empty() {
            return;
        }
        let pods = Arc::make_mut(pods);
        let is_marked = |(uid, pod): &(&String, &mut Pod)| evicted.contains(*uid) && !pod.is_over;
        for (_, pod) in pods.iter_mut().filter(is_marked) {
            pod.is_evicted = true;
            pod.ends_within = pod.ends_within.or(pod.termination_grace).or(Some(USUAL_GRACE));
        }
    }

    /// Whether it is known which pods there are, and whether they may be evicted.
    pub(super) fn is_complete(&self) -> bool {
        self.pods.is_some() && self.capabilities.contains_key(evict::NAME)
    }

    /// What works and what does not. While the API server does not tell of pods, who does.
    pub(super) fn capabilities(&self) -> Vec<Capability> {
        let mut all: Vec<_> = self.capabilities.values().cloned().collect();
        let pods = all.iter_mut().find(|one| one.name == pods::NAME);
        let pods = pods.filter(|one| one.state == CapabilityState::Absent);
        if let (Some(capability), Some(pods)) = (pods, &self.pods) {
            let n = pods.len();
            // What it said last is better than nothing: cgroups that it did not know of are still
            // pods by their names.
            let words = match self.named_by {
                Namer::ApiServer => format!("; the last known {n} pods are used"),
                Namer::Kubelet => format!("; {n} pods by the kubelet's /pods"),
            };
            capability.detail.push_str(&words);
        }
        all
    }
}

/// What one part of this module has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    Works(String),
    /// Why it does not, and what the operator can do.
    Fails(String, Option<&'static str>),
    /// The configuration switches it off, or leaves it to another writer.
    Off(String),
}

#[derive(Debug)]
pub(super) struct Board(watch::Sender<Known>);

impl Board {
    pub(super) fn new(to: watch::Sender<Known>) -> Self {
        Self(to)
    }

    pub(super) fn set_pods(&self, pods: Pods, named_by: Namer) {
        if self.0.borrow().named_by != named_by {
            tracing::info!("pods are named by {}", named_by.words());
        }
        self.0.send_modify(|known| {
            known.evicted.retain(|uid| pods.contains_key(uid));
            (known.pods, known.named_by) = (Some(pods), named_by);
            known.mark();
        });
    }

    /// Namespace and name of a pod; `None` if none has this uid.
    pub(super) fn name_of(&self, uid: &str) -> Option<(String, String)> {
        let known = self.0.borrow();
        let pod = known.pods.as_ref()?.get(uid)?;
        Some((pod.namespace.clone(), pod.name.clone()))
    }

    /// The kubelet has begun to evict this pod.
    pub(super) fn set_evicted(&self, uid: &str, namespace: &str, name: &str) {
        let is_news = self.0.send_if_modified(|known| {
            let pod = known.pods.as_ref().and_then(|pods| pods.get(uid));
            let is_this = pod.is_some_and(|pod| pod.namespace == namespace && pod.name == name);
            let is_news = is_this && known.evicted.insert(uid.into());
            known.mark();
            is_news
        });
        if is_news {
            tracing::info!(
                pod = format!("{namespace}/{name}"),
                "the kubelet evicts {namespace}/{name}"
            );
        }
    }

    pub(super) fn set_is_followed(&self, is_followed: bool) {
        self.0.send_modify(|known| known.is_followed = is_followed);
    }

    pub(super) fn is_followed(&self) -> bool {
        self.0.borrow().is_followed
    }

    /// Whether the API server was asked for the pods and does not tell.
    pub(super) fn lacks_pods(&self) -> bool {
        let known = self.0.borrow();
        let pods = known.capabilities.get(pods::NAME);
        pods.is_some_and(|pods| pods.state == CapabilityState::Absent)
    }

    pub(super) fn set_disks(&self, disks: Option<PodDisks>) {
        self.0.send_modify(|known| known.disks = disks);
    }

    pub(super) fn set_configz(&self, configz: Configz) {
        self.0.send_if_modified(|known| {
            let is_new = known.configz.as_deref() != Some(&configz);
            if is_new {
                known.configz = Some(Arc::new(configz));
            }
            is_new
        });
    }

    pub(super) fn set_node_uid(&self, uid: Option<String>) {
        self.0.send_if_modified(|known| {
            std::mem::replace(&mut known.node_uid, uid) != known.node_uid
        });
    }

    pub(super) fn set_allocatable(&self, allocatable: ResourceList) {
        self.0.send_if_modified(|known| {
            let is_new = known.allocatable.as_deref() != Some(&allocatable);
            if is_new {
                known.allocatable = Some(Arc::new(allocatable));
            }
            is_new
        });
    }

    pub(super) fn node_uid(&self) -> Option<String> {
        self.0.borrow().node_uid.clone()
    }

    /// The thread ends: nothing more is heard or told.
    pub(super) fn end(&self) {
        self.0.send_modify(|known| {
            (known.disks, known.is_followed) = (None, false);
            for one in known.capabilities.values_mut() {
                one.state = CapabilityState::Absent;
                one.detail = "the thread that talks to the API server has ended".into();
                one.remedy = Some("restart the agent".into());
            }
        });
    }

    /// Reports how `name` works; a change is a line in the log.
    pub(super) fn report(&self, name: &'static str, report: Report) {
        let (state, detail, remedy) = match report {
            Report::Works(detail) => (CapabilityState::Attached, detail, None),
            Report::Fails(detail, remedy) => (CapabilityState::Absent, detail, remedy),
            Report::Off(detail) => (CapabilityState::Off, detail, None),
        };
        let before = self.0.borrow().capabilities.get(name).map(|before| before.state);
        if before != Some(state) {
            match state {
                CapabilityState::Absent => tracing::warn!(remedy, "{name}: {detail}"),
                _ => tracing::info!("{name}: {detail}"),
            }
        }
        let remedy = remedy.map(str::to_owned);
        let capability = Capability { name: name.into(), state, detail, remedy };
        self.0.send_if_modified(|known| {
            known.capabilities.insert(name, capability.clone()) != Some(capability)
        });
    }
}
