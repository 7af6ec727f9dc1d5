//! The node's own object, by a watch: the parts that isobar reads. What else it says, such as the
//! images on the node, may be of any shape.

use std::collections::BTreeMap;
use std::pin::pin;

use k8s_openapi::api::core::v1::{self, NodeCondition, Taint};
use kube::api::{ApiResource, Object};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Event, watcher};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;

use tokio_stream::StreamExt as _;

use super::board::{Board, Report};
use super::client::{Failure, PROBED, Trouble, answers, is_too_old, watch_of};
use super::jitter::about;
use isobar_core::model::quantity::ResourceList;

pub(super) type Node = Object<Spec, Status>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Spec {
    #[serde(default)]
    pub(super) taints: Option<Vec<Taint>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) conditions: Option<Vec<NodeCondition>>,
    #[serde(default)]
    pub(super) allocatable: Option<BTreeMap<String, String>>,
}

pub(super) fn api(client: Client) -> Api<Node> {
    Api::all_with(client, &ApiResource::erase::<v1::Node>(&()))
}

/// The name of this part in capabilities.
pub const NAME: &str = "node object";

/// Source: kubernetes.io/docs/reference/labels-annotations-taints.
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Watches until the agent leaves. An object that cannot be had stays as it was last seen.
pub(super) async fn watch(
    client: Client,
    name: &str,
    to: &watch::Sender<Option<Node>>,
    board: &Board,
) {
    let config = watch_of(&format!("metadata.name={name}"));
    let begin = || watcher(api(client.clone()), config.clone()).default_backoff();
    let mut events = pin!(begin());
    // Whether the cluster has the node; `None` until that was told.
    let mut is_there = None;
    let mut machine = String::new();
    let mut trouble: Option<Trouble> = None;
    let mut wait = PROBED.0;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = sleep(about(wait)), if is_there.is_some() && trouble.is_some() => {
                let ends = trouble.is_some_and(|trouble| trouble.ends_within(wait));
                wait = PROBED.1.min(wait * 2);
                if ends && answers(&client).await {
                    (trouble, wait) = (None, PROBED.0);
                    board.report(NAME, told(name, is_there == Some(true), &machine));
                }
                continue;
            }
        };
        let Some(event) = event else { return };
        match event {
            Ok(Event::Init) => is_there = None,
            Ok(Event::InitApply(node) | Event::Apply(node)) => {
                if node.metadata.name.as_deref() != Some(name) {
                    continue;
                }
                is_there = Some(true);
                board.set_node_uid(node.metadata.uid.clone());
                board.set_allocatable(allocatable(&node));
                (trouble, wait) = (None, PROBED.0);
                machine = machine_of(&node);
                board.report(NAME, told(name, true, &machine));
                to.send_replace(Some(node));
            }
            Ok(Event::InitDone) if is_there.is_some() => {}
            Ok(Event::InitDone | Event::Delete(_)) => {
                is_there = Some(false);
                (trouble, wait) = (None, PROBED.0);
                to.send_replace(None);
                board.report(NAME, told(name, false, &machine));
            }
            Err(why) => {
                trouble = Some(Trouble::of(&why));
                let failure = Failure::from(&why);
                board.report(NAME, failure.report("allow it to get, list and watch nodes"));
                if is_too_old(&why) {
                    sleep(about(PROBED.0)).await;
                    events.set(begin());
                }
            }
        }
    }
}

/// What the node has for pods; what cannot be read is left out.
fn allocatable(node: &Node) -> ResourceList {
    let all = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let all = all.into_iter().flatten();
    all.filter_map(|(name, text)| Some((name.clone(), text.parse().ok()?))).collect()
}

/// What the well-known labels say of the machine: `, of type m5.large, in eu-west-1a`.
fn machine_of(node: &Node) -> String {
    let label = |name| node.metadata.labels.as_ref()?.get(name);
    let kind = label(INSTANCE_TYPE).map(|kind| format!(", of type {kind}"));
    let zone = label(ZONE).map(|zone| format!(", in {zone}"));
    kind.into_iter().chain(zone).collect()
}

/// What the watch has told, where it works.
fn told(name: &str, is_there: bool, machine: &str) -> Report {
    let remedy = "name the node as the cluster does, with --node-name or NODE_NAME";
    match is_there {
        true => Report::Works(format!("watches node {name}{machine}")),
        false => Report::Fails(format!("the cluster has no node {name}"), Some(remedy)),
    }
}
