//! The documents of one view: all of it, or a part under a path of its own.

use std::collections::BTreeMap;

use axum::body::Bytes;
use serde::Serialize;

use super::summary;
use isobar_core::model::capability::Capability;
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::condition::Condition;
use isobar_core::model::decision::{
    Assessment, Decision, NodePressure, Observation, Outlook, Taint, Unobserved,
};
use isobar_core::model::disk::DiskReading;
use isobar_core::model::limit::{LimitState, NodeResources};
use isobar_core::model::pod::QosClass;
use isobar_core::model::sample::{Gap, Moment};
use isobar_core::model::settings::Settings;
use isobar_core::model::snapshot::{Blame, Scope, Snapshot};
use isobar_core::model::stall::{Coverage, Lost};
use isobar_core::model::units::Nanos;
use isobar_core::model::workload::by_cgroup_uid;
use isobar_core::policy::explain::Explanation;
use isobar_core::view::{Document, View};
use isobar_kubelet::cpus::Pool;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Snapshot,
    Cgroups,
    Matrix,
    Conditions,
    Decisions,
    Allocatable,
    Capabilities,
    /// In the kubelet's shape.
    Summary,
}

// Its description in openapi.json is that of its content.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OfTick<T> {
    /// Number of the sample, from 1.
    tick: u64,
    at: Moment,
    #[serde(flatten)]
    content: T,
}

impl<T: Serialize> OfTick<T> {
    /// A document about one tick.
    pub(super) fn json(kind: &'static str, tick: u64, at: Moment, content: T) -> Vec<u8> {
        Document::new(kind, Self { tick, at, content }).to_json()
    }
}

/// The cgroups of a snapshot.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Cgroups<'a> {
    /// Every cgroup except the root, by its id.
    scopes: &'a BTreeMap<CgroupId, Scope>,
}

/// Which cgroup made which other one wait for a CPU.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Matrix<'a> {
    /// Since the sample before.
    interval: Nanos,
    /// Longest first.
    aggressions: &'a [Blame],
}

/// The conditions of a snapshot's decision.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Conditions<'a> {
    /// KEP-4205's six, or those that have a rule.
    conditions: &'a [Condition],
    /// The taints that follow from the conditions.
    taints: &'a [Taint],
    /// The kubelet's conditions that hold.
    node_pressure: &'a [NodePressure],
    /// QoS classes whose ordinary pods the kubelet refuses under these conditions.
    refused: &'a [QosClass],
}

/// The decision of a tick, and the same in sentences.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Decisions<'a> {
    decision: &'a Decision,
    explanation: &'a Explanation,
}

/// What the CPU manager leaves to whom.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Cpus<'a> {
    #[serde(flatten)]
    pool: &'a Pool,
    /// The pods in `assignments` that the API names, by their uids.
    names: BTreeMap<&'a str, String>,
}

impl<'a> Cpus<'a> {
    fn of(pool: &'a Pool, snapshot: &'a Snapshot) -> Self {
        let pods = snapshot.pods.as_ref().map(by_cgroup_uid).unwrap_or_default();
        let names = pool.assignments.iter().filter_map(|one| {
            let (uid, pod) = pods.get_key_value(one.pod.as_str())?;
            Some((*uid, pod.full_name()))
        });
        Self { pool, names: names.collect() }
    }
}

/// What documents tell beside the view.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    pub(super) settings: Option<&'a Settings>,
    pub(super) disks: Option<&'a DiskReading>,
    pub(super) cpus: Option<&'a Pool>,
}

/// Limits, and what is left below them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Allocatable<'a> {
    resources: &'a Option<NodeResources>,
    /// The sets of the CPU manager; `None` without the static policy, of a recording, before the first
    /// look, and where no limit is compared.
    cpus: Option<Cpus<'a>>,
    /// The limits that the agent writes, or would write.
    limits: &'a [LimitState],
    /// The readings of the eviction signals.
    observations: &'a [Observation],
    /// Signals that a threshold watches and that could not be read.
    unobserved: &'a [Unobserved],
    /// How long memory lasts, node first.
    outlooks: &'a [Outlook],
}

/// What the agent can measure and do, and what it cannot.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Capabilities<'a> {
    capabilities: &'a [Capability],
    /// What the eBPF programs measure.
    covers: Coverage,
    /// What could not be read, and why.
    gaps: &'a [Gap],
    /// What the eBPF programs could not count, since they were attached.
    lost: Lost,
}

impl Part {
    pub(super) const ALL: [Self; 8] = [
        Self::Snapshot,
        Self::Cgroups,
        Self::Matrix,
        Self::Conditions,
        Self::Decisions,
        Self::Allocatable,
        Self::Capabilities,
        Self::Summary,
    ];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Snapshot => "/api/v1/snapshot",
            Self::Cgroups => "/api/v1/cgroups",
            Self::Matrix => "/api/v1/matrix",
            Self::Conditions => "/api/v1/conditions",
            Self::Decisions => "/api/v1/decisions",
            Self::Allocatable => "/api/v1/allocatable",
            Self::Capabilities => "/api/v1/capabilities",
            Self::Summary => "/stats/summary",
        }
    }

    /// One line of JSON.
    pub(super) fn render(self, view: &View, beside: Beside<'_>) -> Bytes {
        let View { snapshot, decision, explanation, resources, limits, capabilities, .. } = view;
        let Assessment { conditions, taints, node_pressure, refused, .. } = &decision.assessment;
        let Assessment { observations, unobserved, outlooks, .. } = &decision.assessment;
        let Snapshot { tick, at, interval, scopes, aggressions, covers, gaps, lost, .. } = snapshot;
        let (tick, at, interval, covers, lost) = (*tick, *at, *interval, *covers, *lost);
        let json = match self {
            Self::Snapshot => view.to_json(snapshot),
            Self::Summary => summary::render(view, beside),
            Self::Cgroups => OfTick::json("Cgroups", tick, at, Cgroups { scopes }),
            Self::Matrix => OfTick::json("Matrix", tick, at, Matrix { interval, aggressions }),
            Self::Conditions => {
                let content = Conditions { conditions, taints, node_pressure, refused };
                OfTick::json("Conditions", tick, at, content)
            }
            Self::Decisions => {
                OfTick::json("Decisions", tick, at, Decisions { decision, explanation })
            }
            Self::Allocatable => {
                let cpus = beside.cpus.map(|pool| Cpus::of(pool, snapshot));
                let content =
                    Allocatable { resources, cpus, limits, observations, unobserved, outlooks };
                OfTick::json("Allocatable", tick, at, content)
            }
            Self::Capabilities => {
                let content = Capabilities { capabilities, covers, gaps, lost };
                OfTick::json("Capabilities", tick, at, content)
            }
        };
        json.into()
    }
}
