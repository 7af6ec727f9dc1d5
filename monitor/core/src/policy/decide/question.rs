//! What a decision is made from.

use std::collections::BTreeSet;

use crate::model::cgroup::CgroupId;
use crate::model::decision::{Met, Observation, Outlook, Ranking, Trigger};
use crate::model::sample::Sample;
use crate::model::settings::{self, Eviction};
use crate::model::snapshot::Snapshot;
use crate::model::threshold::Resource;
use crate::model::units::{Bytes, Nanos};
use crate::policy::rank::harm::HarmStanding;
use crate::policy::rank::{Field, Purpose};

/// What a decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub relief: &'a settings::Relief,
    pub eviction: &'a Eviction,
    pub sample: &'a Sample,
    /// The sample before it.
    pub before: Option<&'a Sample>,
    /// What was made of it.
    pub snapshot: &'a Snapshot,
    /// Of the time since the sample before, the part in which the agent saw nothing: the node was
    /// suspended, or the agent got no CPU.
    pub unseen: Nanos,
    /// All thresholds that are met.
    pub met: &'a [Met],
    /// Thresholds that this tick could not measure: neither met nor calm.
    pub unmeasured: &'a [Trigger],
    /// The threshold to relieve first; `None` if none is due.
    pub first: Option<Met>,
    /// A forecast that memory runs out, met and in its grace; `None` if something is due, and in
    /// other orders than `cause`.
    pub foretold: Option<Met>,
    /// The reading behind `first` is not newer than the last action, or it is an average of what is
    /// over.
    pub is_stale: bool,
    /// The head of the ranking; `None` if nothing is due or foretold.
    pub ranking: Option<&'a Ranking>,
    /// All candidates; the ranking holds the first of them.
    pub field: Option<&'a Field<'a>>,
    /// Cgroups with something in force or pending that the settings protect now.
    pub protected: &'a BTreeSet<CgroupId>,
    /// What each party makes others wait.
    pub harm: &'a HarmStanding,
    /// Harm to others was measured before on this node, and is not measured now.
    pub is_harm_paused: bool,
    pub observations: &'a [Observation],
    pub outlooks: &'a [Outlook],
}

impl Question<'_> {
    /// How long the memory lasts that a threshold of exhaustion is about.
    pub(super) fn outlook(&self, met: &Met) -> Option<&Outlook> {
        self.outlook_where(met).filter(|_| met.threshold.is_forecast())
    }

    /// What is known of the memory where a threshold looks, whatever the threshold is about.
    pub(super) fn outlook_where(&self, met: &Met) -> Option<&Outlook> {
        let scope = Purpose::of(&met.threshold).scope;
        self.outlooks.iter().find(|outlook| outlook.scope == scope)
    }

    /// How long memory lasts there, at the rate of late; `None` if it does not grow, or is not known, or
    /// something else is short.
    pub(super) fn lasts(&self, met: &Met) -> Option<Nanos> {
        let is_memory = met.threshold.resource() == Resource::Memory;
        self.outlook_where(met).filter(|_| is_memory)?.lasts
    }

    /// How fast memory is lost there, in a second.
    pub(super) fn growth(&self, met: &Met) -> Option<Bytes> {
        self.outlook_where(met)?.growth
    }

    pub(super) fn is_measured(&self, name: &str) -> bool {
        self.unmeasured.iter().all(|trigger| trigger.name() != name)
    }
}
