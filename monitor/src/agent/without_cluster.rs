//! An agent that was built without the feature `kubernetes`: there is no cluster to talk to.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::act::evict::Way;
use crate::config::KubeletSource;
use crate::config::kubernetes::{Access, Publish};
use crate::record::incident::watch::Seen;
use isobar_core::model::capability::Capability;
use isobar_core::model::disk::PodDisks;
use isobar_core::model::limit::NodeResources;
use isobar_core::model::settings::{Relief, Settings};
use isobar_core::model::workload::Pods;

/// There is none.
#[derive(Debug)]
pub(super) enum Cluster {}

/// What a kubelet answers of its configuration; there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Configz {
    pub(super) answer: String,
}

impl Cluster {
    /// Fails.
    pub(super) fn begin(_: Access, _: &Relief) -> io::Result<Self> {
        let why =
            "this isobar was built without the feature kubernetes: run it with --no-kubernetes";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    pub(super) async fn first_answers(&self, _: Duration) {
        match *self {}
    }

    pub(super) fn pods(&self) -> Option<Pods> {
        match *self {}
    }

    pub(super) fn pod_disks(&self) -> Option<PodDisks> {
        match *self {}
    }

    pub(super) fn way(&self) -> Way {
        match *self {}
    }

    pub(super) fn configz(&self) -> Option<Arc<Configz>> {
        match *self {}
    }

    pub(super) fn has_news(&self) -> bool {
        match *self {}
    }

    pub(super) fn took(&mut self, _: Option<Arc<Configz>>, _: Result<KubeletSource, String>) {
        match *self {}
    }

    pub(super) fn did_without(&mut self, _: Option<Arc<Configz>>, _: String) {
        match *self {}
    }

    pub(super) fn used_configz(&self) -> Option<Arc<Configz>> {
        match *self {}
    }

    pub(super) fn knows_kubelet(&self) -> bool {
        match *self {}
    }

    pub(super) fn capabilities(&self, _: Option<&NodeResources>) -> Vec<Capability> {
        match *self {}
    }

    pub(super) fn tell(&mut self, _: &Settings, _: Publish, _: Seen<'_>) {
        match *self {}
    }

    pub(super) fn leave(self, _: Duration) {
        match self {}
    }
}
