//! Keeps the node's object as it should be: isobar's conditions and taints.
//! Written on a change and as a heartbeat, never more than once a second; what others write is left
//! alone.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::board::{Board, Report};
use super::client::{Failure, answered};
use super::jitter::about;
use super::managed::{MANAGER, foreign, own};
use super::node::Node;
use super::{Wanted, conditions, node, taints};
use crate::clock;
use crate::config::kubernetes::{Access, AtExit, Publish};
use isobar_core::model::decision::Taint;
use isobar_core::model::units::Nanos;

/// How often an unchanged condition is written: as the kubelet does, `nodeStatusReportFrequency`.
const HEARTBEAT: Duration = Duration::from_secs(300);
/// A condition of another writer whose heartbeat is older than this has been given up.
const GIVEN_UP: i64 = 900;
/// Between two writes.
const APART: Duration = Duration::from_secs(1);
/// After a write that failed, at first and at most.
const RETRIED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A list of taints that others change at the same time is read and written again so often.
const CONFLICTS: usize = 3;

/// The names of these parts in capabilities.
const CONDITIONS: &str = "node conditions";
const TAINTS: &str = "node taints";

/// Writes until the agent leaves.
pub(super) async fn keep(
    client: Client,
    access: &Access,
    mut wanted: watch::Receiver<Wanted>,
    board: &Board,
) {
    let (to_live, mut live) = watch::channel(None);
    let mut writer = Writer::new(node::api(client.clone()), &access.node, board);
    let writing = async {
        loop {
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                changed = live.changed() => {
                    if changed.is_err() { return }
                    writer.live = live.borrow_and_update().clone();
                }
            }
            let wanted = wanted.borrow_and_update().clone();
            if wanted.is_last {
                return writer.last_word(&wanted).await;
            }
            writer.write(&wanted).await;
        }
    };
    tokio::select! {
        () = node::watch(client, &access.node, &to_live, board) => {}
        () = writing => {}
    }
}

struct Writer<'a> {
    api: Api<Node>,
    name: &'a str,
    board: &'a Board,
    /// The node's object as it was last seen.
    live: Option<Node>,
    /// Types that this agent wrote: if another writer takes one over, it keeps writing it.
    written: BTreeSet<String>,
    /// This agent has set taints.
    has_tainted: bool,
    /// When conditions are written although they have not changed.
    heartbeat: Nanos,
    /// Nothing is written before.
    not_before: Nanos,
    n_failures: u32,
}

impl<'a> Writer<'a> {
    fn new(api: Api<Node>, name: &'a str, board: &'a Board) -> Self {
        let (live, written, has_tainted, n_failures) = Default::default();
        let (heartbeat, not_before) = (Nanos(0), Nanos(0));
        Self { api, name, board, live, written, has_tainted, heartbeat, not_before, n_failures }
    }

    async fn write(&mut self, wanted: &Wanted) {
        let (Some(publish), Some(live)) = (wanted.publish, self.live.clone()) else { return };
        if clock::now().boot < self.not_before {
            return;
        }
        let mut done = self.write_conditions(publish, wanted, &live).await;
        if done.is_ok() {
            done = self.write_taints(publish, wanted).await;
        }
        self.n_failures = if done.is_ok() { 0 } else { self.n_failures.saturating_add(1) };
        let wait = match self.n_failures {
            0 => APART,
            n => about(RETRIED.1.min(RETRIED.0 * 2_u32.saturating_pow(n - 1))),
        };
        self.not_before = after(wait);
    }

    async fn write_conditions(
        &mut self,
        publish: Publish,
        wanted: &Wanted,
        live: &Node,
    ) -> Result<(), ()> {
        if !publish.conditions {
            self.board.report(CONDITIONS, Report::Off("kubernetes.conditions is false".into()));
            return Ok(());
        }
        let now = now();
        let others = self.others(wanted, live, now);
        let is_due = clock::now().boot >= self.heartbeat;
        let stale = stale(wanted, live);
        let patch =
            conditions::patch(&wanted.conditions, there(live), (&others, &stale), now, is_due);
        let Some(patch) = patch else { return Ok(()) };
        if let Err(why) = self.patch_status(&patch).await {
            self.board.report(CONDITIONS, why.report("allow it to patch nodes/status"));
            return Err(());
        }
        self.heartbeat = after(about(HEARTBEAT));
        let own = wanted.conditions.iter().map(|condition| condition.kind.clone());
        self.written = own.filter(|kind| !others.contains(kind)).collect();
        let n = self.written.len();
        self.board.report(
            CONDITIONS,
            match others.len() {
                0 => Report::Works(format!("{n} are published")),
                _ => {
                    let others: Vec<_> = others.into_iter().collect();
                    Report::Off(format!(
                        "{n} are published; left to another writer: {}",
                        others.join(", ")
                    ))
                }
            },
        );
        Ok(())
    }

    /// Conditions that another writer keeps.
    fn others(&self, wanted: &Wanted, live: &Node, now: Timestamp) -> BTreeSet<String> {
        let foreign = foreign(live);
        let is_alive = |kind: &str| {
            let beats = there(live).iter().filter(|one| one.type_ == kind);
            let mut beats = beats.filter_map(|one| one.last_heartbeat_time.as_ref());
            beats.any(|beat| now.as_second() - beat.0.as_second() < GIVEN_UP)
        };
        let kinds = wanted.conditions.iter().map(|condition| &condition.kind);
        let others = kinds.filter(|kind| {
            foreign.contains(*kind) && (is_alive(kind) || self.written.contains(*kind))
        });
        others.cloned().collect()
    }

    async fn write_taints(&mut self, publish: Publish, wanted: &Wanted) -> Result<(), ()> {
        if !publish.taints && !self.has_tainted {
            self.board.report(TAINTS, Report::Off("kubernetes.taints is false".into()));
            return Ok(());
        }
        let wanted_taints = if publish.taints { &wanted.taints[..] } else { &[] };
        if let Err(why) = self.set_taints(wanted_taints, &wanted.taint_keys).await {
            self.board.report(TAINTS, why.report("allow it to get and patch nodes"));
            return Err(());
        }
        self.has_tainted = publish.taints;
        let n = wanted_taints.len();
        self.board.report(TAINTS, Report::Works(format!("{n} are set")));
        Ok(())
    }

    /// Sets isobar's taints, over what others write meanwhile.
    async fn set_taints(&mut self, wanted: &[Taint], own: &[String]) -> Result<(), Failure> {
        let mut conflicts = 0;
        loop {
            let Some(live) = &self.live else { return Ok(()) };
            let there = live.spec.taints.iter().flatten();
            let there: Vec<_> = there.cloned().collect();
            let Some(list) = taints::merged(&there, own, wanted) else { return Ok(()) };
            let version = &live.metadata.resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": list}});
            let patch = Patch::Merge(patch);
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
            let patched = self.api.patch(self.name, &params, &patch);
            match answered(patched).await {
                Ok(node) => {
                    self.live = Some(node);
                    return Ok(());
                }
                Err(why) if why.code == Some(409) && conflicts < CONFLICTS => {
                    conflicts += 1;
                    self.live = Some(answered(self.api.get(self.name)).await?);
                }
                Err(why) => return Err(why),
            }
        }
    }

    async fn patch_status(&mut self, patch: &Value) -> Result<(), Failure> {
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
        let patch = Patch::Strategic(patch);
        let patched = answered(self.api.patch_status(self.name, &params, &patch)).await?;
        self.live = Some(patched);
        Ok(())
    }

    /// What is said when the agent exits. Taints go in any case: nothing would take them back.
    async fn last_word(&mut self, wanted: &Wanted) {
        let (Some(publish), Some(live)) = (wanted.publish, self.live.clone()) else { return };
        let own = wanted.conditions.iter().filter(|one| self.written.contains(&one.kind));
        let own: Vec<_> = own.cloned().collect();
        let patch = match publish.at_exit {
            _ if own.is_empty() => None,
            AtExit::Keep => None,
            AtExit::Unknown => Some(conditions::unknown(&own, there(&live), now())),
            AtExit::Remove => Some(conditions::removal(own.iter().map(|one| &*one.kind))),
        };
        if let Some(patch) = patch
            && let Err(why) = self.patch_status(&patch).await
        {
            tracing::warn!("the node's conditions stay as they are: {}", why.words);
        }
        if self.has_tainted
            && let Err(why) = self.set_taints(&[], &wanted.taint_keys).await
        {
            tracing::warn!("the node's taints stay: {}", why.words);
        }
    }
}

fn there(node: &Node) -> &[NodeCondition] {
    let status = node.status.as_ref();
    status.and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// Conditions that isobar wrote and that have no rule any more.
fn stale(wanted: &Wanted, live: &Node) -> BTreeSet<String> {
    let is_wanted = |kind: &String| wanted.conditions.iter().any(|one| one.kind == *kind);
    let is_there = |kind: &String| there(live).iter().any(|one| one.type_ == *kind);
    own(live).into_iter().filter(|kind| is_there(kind) && !is_wanted(kind)).collect()
}

/// The wall clock: the node's object is for people, and for other nodes.
pub(super) fn now() -> Timestamp {
    let seconds = i64::try_from(clock::now().wall.0 / Nanos::SECOND.0).unwrap_or_default();
    Timestamp::from_second(seconds).unwrap_or_default()
}

fn after(wait: Duration) -> Nanos {
    clock::now().boot.plus(Nanos(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
}
